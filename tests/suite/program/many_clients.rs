//! `lockstep serve` with as many clients at once as Redis allows by default.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::program::cli::Serving;

/// The default of `maxclients`.
const CLIENTS_MAX: usize = 10_000;
/// How many clients connect before the first reply is read. The number is below the server's
/// backlog of connections.
const CLIENTS_AT_ONCE: usize = 100;
/// The files that a process has open beside its connections.
const OTHER_FILES_MAX: u64 = 100;

#[test]
fn ten_thousand_clients_are_served_and_no_more() {
    let limits = getrlimit(Resource::Nofile);
    let needed = CLIENTS_MAX as u64 + OTHER_FILES_MAX;
    if limits.maximum.is_some_and(|maximum| maximum < needed) {
        let message = format!("it did not run: raise the hard limit of open files to {needed} (ulimit -Hn)");
        assert!(std::env::var_os("CI").is_none(), "{message}");
        eprintln!("ten_thousand_clients_are_served_and_no_more: {message}");
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits })
        .expect("the soft limit may be raised");

    // The soft limit starts below the number of clients.
    let child = Command::new("sh")
        .args(["-c", "ulimit -Sn 256; exec \"$0\" serve --addr 127.0.0.1:0", env!("CARGO_BIN_EXE_lockstep")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let mut serving = Serving(child);
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().expect("it is piped"))
        .read_line(&mut line)
        .expect("it says where it listens");
    let addr = line.trim().trim_start_matches("listening on redis://").trim_end_matches('/').to_owned();
    let connect = || TcpStream::connect(&addr).expect("the server listens");

    let mut idle: Vec<TcpStream> = Vec::with_capacity(CLIENTS_MAX);
    while idle.len() < CLIENTS_MAX {
        let before = idle.len();
        idle.extend((0..CLIENTS_AT_ONCE).map(|_| connect()));
        // A client that has a reply is counted. The server's threads decide the order of the
        // replies.
        for client in &mut idle[before..] {
            let mut reply = [0; 7];
            client.write_all(b"PING\r\n").expect("the server reads");
            client.read_exact(&mut reply).expect("the server answers");
            assert_eq!(&reply, b"+PONG\r\n");
        }
    }
    let mut refused = String::new();
    connect().read_to_string(&mut refused).expect("the server says why");
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
}
