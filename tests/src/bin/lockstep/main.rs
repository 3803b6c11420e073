//! `lockstep`: the verdict table, counterexamples, and the emulator on a port.

mod shard;
mod table;
mod check;
mod tables;
mod explorations;
mod merge;
mod explain;
mod replay;
mod serve;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use harness::render::{format_url, printable};
use locks::registry::{ALGORITHMS, Algorithm};

/// Tests the guarantees of Redis locks: every order of commands, clock errors and faults, on an
/// emulator in this process.
#[derive(Parser)]
#[command(name = "lockstep", version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    check: check::Args,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Merge(merge::Args),
    Explain(explain::Args),
    Replay(replay::Args),
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        complain(&error.render().to_string());
        std::process::exit(error.exit_code());
    });
    let outcome = match args.command.unwrap_or(Command::Check(args.check)) {
        Command::Check(args) => check::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Serve(args) => serve::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        complain(&format!("lockstep: {error:#}\n"));
        ExitCode::from(2)
    })
}

/// Writes to standard error. Passwords in URLs of the command line are removed.
fn complain(text: &str) {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let urls = arguments.filter(|argument| argument.contains("://"));
    let text = urls.fold(text.to_owned(), |text, url| text.replace(&url, &format_url(url.as_str())));
    _ = std::io::stderr().write_all(printable(&text).as_bytes());
}

/// The algorithm of this name.
fn find(name: &str) -> Result<&'static Algorithm> {
    match ALGORITHMS.iter().find(|algorithm| algorithm.name == name) {
        Some(algorithm) => Ok(algorithm),
        None => {
            let known: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
            bail!("there is no algorithm named {name:?}; the known ones are {}", known.join(", "))
        }
    }
}

/// Writes a file.
fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The columns of the terminal. Text that goes elsewhere is not wrapped: its width is the largest
/// that can be formatted.
fn width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map_or(u16::MAX, |(terminal_size::Width(columns), _)| columns).into()
}

/// Writes to standard output. If the reader has closed the pipe, that is not an error.
fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
