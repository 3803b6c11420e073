//! Stress tests of a server process, on the loopback device only: `soak`, `churn` and `attacks`.
//!
//! Each test starts the program `lockstep serve` itself, and a `redis-server` to compare with. Each
//! ends by itself, with exit status 1 if it found something. Only a server that hangs reaches the
//! maximum of a wait. No result depends on speed.

mod client;
mod server;
mod soak;
mod churn;
mod attacks;

use std::process::ExitCode;

use clap::Parser;

/// Stress a server process that this program starts
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// The flag that `cargo bench` adds
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Run mixed clients, some of which are killed, and check every reply against a model
    Soak(soak::Args),
    /// Open and close connections in every way, and check what they leave behind
    Churn(churn::Args),
    /// Send known attacks to lockstep and to redis-server, and compare the outcomes
    Attacks(attacks::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Soak(args) => soak::run(&args),
        Command::Churn(args) => churn::run(&args),
        Command::Attacks(args) => attacks::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}
