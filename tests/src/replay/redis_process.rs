//! A `redis-server` that this process starts, and that ends with it.

use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

use redis::{Client, Connection, RedisError};

use crate::render::printable;
use crate::sim::connect;

/// The program. It is looked for in the folders of `PATH`.
const PROGRAM: &str = "redis-server";
/// The most attempts to start a server, if another process takes its port first.
const STARTS_MAX: usize = 5;

/// Runs a server in a folder of its own, where a primary puts the copy for its replicas. The shell
/// keeps only its input open. When that closes, it kills the server and removes the folder.
const SCRIPT: &str = "exec 2>&1; d=$(mktemp -d) && cd \"$d\" || exit; \
                      \"$@\" & exec >/dev/null; cat; kill -9 $!; wait; cd /; rm -r \"$d\"";

/// Why servers of a replay's own do not run, or do not do what they should.
#[derive(Debug, thiserror::Error)]
pub enum RedisServersError {
    /// The program does not start.
    #[error(
        "cannot run `{PROGRAM}`: install Redis 7.0, or add the folder of `{PROGRAM}` to PATH: {}",
        printable(&.0.to_string())
    )]
    Missing(#[source] io::Error),
    /// A server ended before it was ready.
    #[error("`{PROGRAM}` ended at once: {}", printable(last_words))]
    Ended {
        /// The last line that it wrote.
        last_words: String,
    },
    /// A server does not answer, or refuses.
    #[error("server {number} on port {port} fails: {}", printable(&error.to_string()))]
    Fails {
        /// Its number, from 1.
        number: usize,
        /// Its port.
        port: u16,
        /// The error of its client.
        #[source]
        error: RedisError,
    },
    /// A replica does not get what its primary has.
    #[error("the replicas of server {number} do not catch up: {reached} of {wanted} have its last write")]
    Behind {
        /// The number of the primary, from 1.
        number: usize,
        /// How many have its last write.
        reached: usize,
        /// How many should have it.
        wanted: usize,
    },
}

/// A running server. It ends when this is dropped, or when this process ends, however that ends.
#[derive(Debug)]
pub(super) struct RedisProcess {
    shell: Child,
    pub(super) port: u16,
}

impl RedisProcess {
    /// The version of the program, such as `7.0.15`.
    pub(super) fn version() -> Result<String, RedisServersError> {
        let output = Command::new(PROGRAM).arg("--version").output().map_err(RedisServersError::Missing)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
        Ok(version.unwrap_or("of an unknown version").to_owned())
    }

    /// Starts a server without data on any free port.
    pub(super) fn start() -> Result<RedisProcess, RedisServersError> {
        let start = || RedisProcess::start_on(free_port().map_err(RedisServersError::Missing)?);
        let mut started = start();
        for _ in 1..STARTS_MAX {
            if !matches!(started, Err(RedisServersError::Ended { .. })) {
                break;
            }
            started = start();
        }
        started
    }

    /// Starts a server without data on this port.
    pub(super) fn start_on(port: u16) -> Result<RedisProcess, RedisServersError> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", PROGRAM, "--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--daemonize", "no", "--save", "", "--appendonly", "no"]);
        // After a copy without a file, a replica may get nothing more for a second.
        command.args(["--repl-diskless-sync", "no"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C is for the replay, which ends its servers itself.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut shell = command.spawn().map_err(RedisServersError::Missing)?;
        let log = shell.stdout.take().expect("its output is a pipe");
        let process = RedisProcess { shell, port };
        let mut last_words = String::new();
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            if line.contains("Ready to accept connections") {
                return Ok(process);
            }
            if !line.trim().is_empty() {
                last_words = line;
            }
        }
        Err(RedisServersError::Ended { last_words })
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // The shell has waited for its server.
        _ = self.shell.wait();
    }
}

/// A client of the server on this port.
pub(super) fn client_of(port: u16) -> Client {
    Client::open((Ipv4Addr::LOCALHOST.to_string(), port)).expect("the address is valid")
}

/// Connects to a server.
pub(super) fn connection_to(port: u16) -> redis::RedisResult<Connection> {
    connect(&client_of(port))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
