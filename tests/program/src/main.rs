//! `lockstep`: the verdict table, counterexamples, and the emulator on a port.

mod output;
mod grid;
mod debates;
mod names;
mod stop;
mod shard;
mod table;
mod pages;
mod progress;
mod check;
mod tables;
mod explorations;
mod merge;
mod list;
mod explain;
mod replay;
mod topology;
mod serve;
mod generate;
mod help;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{CommandFactory as _, Parser, Subcommand};
use locks::registry::ALGORITHMS;
use mimalloc::MiMalloc;

use help::{examples, examples_and_statuses};
use names::find;
use output::{complain, print, print_json};
use table::TableFormat;

/// A server returns the memory of keys that were removed, and gives up their nodes fast. With the
/// allocator of glibc it did neither.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Tests the guarantees of Redis locks, limiters and queues: every order of commands, clock errors
/// and faults, on an emulator in this process.
#[derive(Parser)]
#[command(
    name = "lockstep",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = output::WIDTH,
    after_help = examples_and_statuses(help::MAIN)
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten, next_help_heading = "Without a command, as for check")]
    check: check::Args,
}

#[derive(Subcommand)]
enum Command {
    #[command(after_help = examples(help::CHECK))]
    Check(check::Args),
    #[command(after_help = examples(help::EXPLAIN))]
    Explain(explain::Args),
    #[command(after_help = examples(help::REPLAY))]
    Replay(replay::Args),
    #[command(after_help = examples(help::LIST))]
    List(list::Args),
    #[command(after_help = examples(help::MERGE))]
    Merge(merge::Args),
    #[command(after_help = examples(help::SERVE))]
    Serve(serve::Args),
    #[command(after_help = examples(help::COMPLETIONS))]
    Completions(generate::CompletionsArgs),
    #[command(after_help = examples(help::MAN))]
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        complain(&error.render().to_string());
        std::process::exit(error.exit_code());
    });
    let outcome = match args.command {
        None => expect_algorithms(&args.check).and_then(|()| {
            let format = if args.check.names.is_empty() { TableFormat::Overview } else { TableFormat::Text };
            check::run(&args.check, format)
        }),
        Some(Command::Check(args)) => check::run(&args, TableFormat::Text),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::List(args)) => list::run(&args),
        Some(Command::Merge(args)) => merge::run(&args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Completions(args)) => generate::completions(&args, Args::command()),
        Some(Command::Man(args)) => generate::man(&args, Args::command()),
    };
    outcome.unwrap_or_else(|error| {
        complain(&format!("lockstep: {}\n", output::causes(&error)));
        ExitCode::from(2)
    })
}

/// Checks the words of a call without a command. A word that is no algorithm may be a command with
/// a slip in it.
fn expect_algorithms(args: &check::Args) -> Result<()> {
    let Some(word) = args.names.iter().find(|name| find(name).is_err()) else { return Ok(()) };
    let program = Args::command();
    let commands = program.get_subcommands().map(clap::Command::get_name);
    let hint = names::did_you_mean(word, commands.chain(ALGORITHMS.iter().map(|algorithm| algorithm.name)));
    bail!(
        "there is no command and no algorithm named {word:?}: `lockstep --help` prints all commands, \
         and `lockstep list algorithms` all algorithms{hint}"
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Args, help};

    #[test]
    fn definitions_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn examples_are_right() {
        let pages = [
            help::MAIN,
            help::CHECK,
            help::EXPLAIN,
            help::REPLAY,
            help::LIST,
            help::MERGE,
            help::SERVE,
            help::COMPLETIONS,
            help::MAN,
        ];
        for (_, command) in pages.concat() {
            let words = command.split(['>', '|']).next().unwrap().split_whitespace();
            assert!(Args::try_parse_from(words).is_ok(), "{command}");
        }
        assert!(Args::try_parse_from(["lockstep", "explain"]).is_err());
    }
}
