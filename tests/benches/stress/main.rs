//! What a server process has to stand, on the loopback device only: `soak`, `churn` and `attacks`.
//!
//! Each starts the program `lockstep serve` itself, and a `redis-server` where it compares. Each ends by itself, and with exit
//! status 1 if it found something. Waits have a maximum that only a hanging server reaches; nothing is judged by its speed.

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
    /// What `cargo bench` adds
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Run mixed clients, some of which are killed, and check every reply against a model
    Soak(soak::Args),
    /// Open and close connections in every way, and look for what they leave behind
    Churn(churn::Args),
    /// Send known attacks to lockstep and to redis-server, and compare what becomes of both
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
