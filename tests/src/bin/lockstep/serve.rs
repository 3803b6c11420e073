//! `lockstep serve`: the emulator on a port, for any language.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use emulator::{Clock, DATABASES, Emulator};

/// Serve the emulator on a port until SIGINT or SIGTERM
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:6379")]
    addr: String,
    /// A Unix socket to listen on, too
    #[cfg(unix)]
    #[arg(long, value_name = "PATH")]
    unix: Option<std::path::PathBuf>,
    /// How many databases there are
    #[arg(long, default_value_t = DATABASES as u32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    databases: u32,
    /// Let clients move the clock and place faults by the command EMULATOR (EMULATOR HELP explains it)
    #[arg(long)]
    control: bool,
}

// One thread is quickest. When a script takes long on it, another takes over, tells clients so and hears `SCRIPT KILL`.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    // On a thread of its own: a signal is heard while a long script runs, too. There is nothing to be saved.
    ctrlc::set_handler(|| std::process::exit(0))?;
    #[cfg(unix)]
    raise_file_limit();
    let emulator = Emulator::with_databases(Clock::system(), args.databases as usize);
    let _log = emulator.on_log(|line| {
        // Whoever does not read it does not want it.
        _ = writeln!(std::io::stderr(), "{}", harness::printable(&line.to_string()));
    });
    if args.control {
        emulator.allow_control();
    }
    let server = emulator.listen(&args.addr).await.with_context(|| {
        format!("cannot listen on {}: choose another address with --addr, port 0 for a free one", args.addr)
    })?;
    super::print(&format!("listening on {}\n", server.url()))?;
    #[cfg(unix)]
    let _unix_server = match &args.unix {
        Some(path) => {
            let server = emulator.listen_unix(path, 0o600).await;
            let server = server.with_context(|| format!("cannot make a socket at {}", path.display()))?;
            super::print(&format!("listening on {}\n", server.url()))?;
            Some(server)
        }
        None => None,
    };
    std::future::pending().await
}

/// Each client takes a file, and many systems begin a process with fewer than the 10,000 that `maxclients` allows.
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limits = getrlimit(Resource::Nofile);
    // If it cannot be raised, there are fewer clients.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}
