//! Runs the example `leader` on the emulator and on a real server. Meanwhile the server stands
//! still, and dies, and then the leader does.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The most time until something happens that has to.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Process(Child);

impl Process {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The program of an example.
pub(crate) fn example(name: &str) -> Command {
    let mut example: PathBuf = std::env::current_exe().unwrap();
    example.pop();
    example.set_file_name("examples");
    example.push(name);
    let path = example.display();
    assert!(example.exists(), "no {path}: `cargo test` builds it, `cargo test --test suite` does not");
    Command::new(example)
}

/// A line that a member of the service has printed.
type Line = (usize, String);

/// A member of the service, by its number.
fn join(member: usize, port: u16, lines: Sender<Line>) -> Process {
    let mut command = example("leader");
    let started = command.arg(format!("redis://127.0.0.1:{port}/")).stdout(Stdio::piped()).spawn();
    let mut child = started.unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            _ = lines.send((member, line));
        }
    });
    Process(child)
}

/// The lines of all members.
struct Lines {
    lines: Receiver<Line>,
    /// The term of the last leader.
    term: i64,
}

impl Lines {
    /// Reads until a line begins with this, and returns who printed it.
    fn expect(&mut self, start: &str) -> usize {
        loop {
            let (member, line) = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {start:?}"));
            if let Some(term) = line.strip_prefix("leader: term ") {
                let term = term.parse().unwrap();
                assert!(std::mem::replace(&mut self.term, term) < term, "{line}");
            }
            if line.starts_with(start) {
                return member;
            }
        }
    }
}

/// `serve` starts a server on a port.
fn survive(serve: impl Fn(u16) -> Process) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = || {
        let server = serve(port);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        server
    };
    let server = start();
    let (sender, lines) = channel();
    let mut members = [0, 1].map(|member| Some(join(member, port, sender.clone())));
    let mut lines = Lines { lines, term: 0 };
    lines.expect("leader: ");
    lines.expect("report: ");
    lines.expect("report: ");

    server.signal(Signal::STOP);
    lines.expect("lost: ");
    server.signal(Signal::CONT);
    lines.expect("leader: ");
    lines.expect("report: ");

    drop(server);
    lines.expect("no election: ");
    let _server = start();
    lines.expect("leader: ");
    let leader = lines.expect("report: ");

    members[leader] = None;
    while lines.expect("report: ") == leader {}
}

fn spawn(command: &mut Command) -> Process {
    Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn it_survives_on_the_emulator() {
    survive(|port| {
        let addr = format!("127.0.0.1:{port}");
        spawn(Command::new(env!("CARGO_BIN_EXE_lockstep")).args(["serve", "--addr", &addr]))
    });
}

#[test]
fn it_survives_on_a_real_server() {
    if crate::redis_server::start_own(1).is_empty() {
        return;
    }
    survive(|port| {
        spawn(Command::new("redis-server").args([
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]))
    });
}
