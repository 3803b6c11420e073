//! `lockstep serve`: the emulator on a port, for any language.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use emulator::{Clock, DATABASES, Emulator};
use tokio::signal::unix::{SignalKind, signal};

/// Serve the emulator on a port until SIGINT or SIGTERM
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:6379")]
    addr: String,
    /// How many databases there are
    #[arg(long, default_value_t = NonZeroUsize::new(DATABASES).expect("not zero"))]
    databases: NonZeroUsize,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let emulator = Emulator::with_databases(Clock::system(), args.databases.get());
    let server = emulator.listen(&args.addr).await.with_context(|| {
        format!("cannot listen on {}: choose another address with --addr, port 0 for a free one", args.addr)
    })?;
    _ = writeln!(std::io::stdout(), "listening on {}", server.url());
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}
