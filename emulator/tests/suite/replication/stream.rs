//! What a primary sends to its replicas, compared with the stream of a real primary.
//!
//! `data/replication/stream.txt` has commands, each with the stream that it causes:
//!
//! ```text
//! > SET k v EX 10        a command
//! SELECT 0               what replicas get for it
//! SET k v PXAT (time)    a time that the command does not name
//! b?> BLPOP l 0          a command of another client, which waits
//! advance 50ms           time passes
//! ```
//!
//! `UPDATE_EXPECT=1` writes the stream of the real server into the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use emulator::{Clock, Emulator, resp::Decoder};

use crate::conformance::transcript::wait;
use crate::conformance::wire::{Emulated, Peer, Real, request};
use crate::redis_server;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/replication/stream.txt");
/// A command of the client without a name, whose effect ends the stream of each command.
const MARKING: [&str; 3] = ["publish", "that was", "all"];
/// How long a replica reads before it acknowledges again. A primary waits for the first one.
const ACK_INTERVAL: Duration = Duration::from_millis(20);
/// The most acknowledgements until the end of a stream: only a server that hangs takes longer.
const ACKS_MAX: usize = 1_000;

type Argv = Vec<Vec<u8>>;

struct Step {
    line: String,
    stream: Vec<String>,
    action: Action,
}

enum Action {
    Advance(Duration),
    /// The client without a name gets a reply at once, each other one waits.
    Command {
        client: String,
        argv: Argv,
    },
}

impl Step {
    fn parse(line: &str) -> Option<Step> {
        let action = if let Some(span) = line.strip_prefix("advance ") {
            let millis = span.strip_suffix("ms").and_then(|millis| millis.parse().ok());
            Action::Advance(Duration::from_millis(millis.expect("time is written as 5ms")))
        } else {
            let (client, words) = line.split_once("> ")?;
            let mut input = BytesMut::from(format!("{words}\n").as_bytes());
            let argv = Decoder::default().decode(&mut input).ok().flatten().expect("quotes match");
            let argv = argv.into_iter().map(Vec::from).collect();
            Action::Command { client: client.trim_end_matches('?').into(), argv }
        };
        Some(Step { line: line.into(), stream: Vec::new(), action })
    }

    /// A command of the stream as one line. Times that the step does not name are hidden, and so
    /// are members that were chosen at random.
    fn show(&self, argv: &Argv) -> String {
        let word = |(place, word): (usize, &Vec<u8>)| {
            let word = word.escape_ascii().to_string();
            let is_time = word.len() == 13 && word.bytes().all(|byte| byte.is_ascii_digit());
            match () {
                () if is_time && !self.line.contains(&word) => "(time)".into(),
                () if place == 2 && self.line.contains("SPOP") => "(member)".into(),
                () if word.is_empty() => "\"\"".into(),
                () => word,
            }
        };
        argv.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (Step::parse(line), steps.last_mut()) {
            (None, Some(step)) => step.stream.push(line.into()),
            (step, _) => steps.push(step.expect("the file begins with a command")),
        }
    }
    steps
}

fn emulated(steps: &[Step]) -> Vec<Vec<String>> {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    emulator.start_with("enable-debug-command", "yes").expect("it is a parameter");
    emulator.keep_effects();
    let mut clients: BTreeMap<&str, Emulated> = BTreeMap::from([("", Emulated::open(&emulator))]);
    let stream = || {
        let units = emulator.effects();
        let commands: Vec<_> = units.iter().flat_map(|unit| unit.commands()).collect();
        commands.into_iter().map(|argv| argv.into_iter().map(Vec::from).collect::<Argv>())
    };
    let mut is_queueing = false;
    let mut streams = Vec::new();
    for step in steps {
        match &step.action {
            Action::Advance(span) => {
                clock.advance(*span);
                emulator.tick();
            }
            Action::Command { client, argv } => {
                clients.entry(client).or_insert_with(|| Emulated::open(&emulator)).send(&request(argv));
                is_queueing = is_queueing_after(is_queueing, client, argv);
            }
        }
        let mut sent: Vec<Argv> = stream().collect();
        if !is_queueing {
            clients.entry("").or_insert_with(|| Emulated::open(&emulator)).call(&MARKING);
            sent.extend(stream().take_while(|argv| argv[0] != MARKING[0].as_bytes()));
        }
        streams.push(sent.iter().map(|argv| step.show(argv)).collect());
    }
    streams
}

/// Whether `MULTI` of the client without a name is still open after a command.
fn is_queueing_after(is_queueing: bool, client: &str, argv: &Argv) -> bool {
    if client.is_empty() { argv[0] == b"MULTI" || is_queueing && argv[0] != b"EXEC" } else { is_queueing }
}

/// A replica of a real server that keeps what it gets.
struct Replica {
    socket: TcpStream,
    received: BytesMut,
    decoder: Decoder,
}

impl Replica {
    /// Follows the server behind this connection, and skips the copy of its data.
    fn follow(socket: TcpStream) -> Replica {
        let mut replica = Replica { socket, received: BytesMut::new(), decoder: Decoder::default() };
        replica.send(&["REPLCONF", "capa", "eof", "capa", "psync2"]);
        assert_eq!(replica.line(), "+OK");
        replica.send(&["PSYNC", "?", "-1"]);
        assert!(replica.line().starts_with("+FULLRESYNC"));
        let mark = std::iter::repeat_with(|| replica.line()).find(|line| !line.is_empty());
        let mark = mark.as_deref().and_then(|line| line.strip_prefix("$EOF:").map(ToOwned::to_owned));
        let mark = mark.expect("the server copies its data without a file");
        while !replica.received.ends_with(mark.as_bytes()) {
            replica.read();
        }
        replica.received.clear();
        replica
    }

    fn send(&mut self, argv: &[&str]) {
        self.socket.write_all(&request(argv)).expect("the server reads");
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(len) => self.received.extend_from_slice(&buffer[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("the stream ends: {error}"),
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.received.split_to(end + 2);
                return String::from_utf8_lossy(&line[..end]).trim_start_matches('\n').to_owned();
            }
            self.read();
        }
    }

    /// The commands of the stream up to the mark.
    fn stream(&mut self) -> Vec<Argv> {
        self.socket.set_read_timeout(Some(ACK_INTERVAL)).expect("a socket takes this option");
        let (mut stream, mut acks) = (Vec::new(), 0);
        loop {
            match self.decoder.decode(&mut self.received).expect("a stream is made of requests") {
                Some(argv) if argv[0] == MARKING[0].as_bytes() => return stream,
                // The server looks whether the link lives.
                Some(argv) if argv[0].eq_ignore_ascii_case(b"ping") => {}
                Some(argv) => stream.push(argv.into_iter().map(Vec::from).collect()),
                None => {
                    acks += 1;
                    assert!(acks < ACKS_MAX, "the stream has no end: {stream:?}");
                    self.send(&["REPLCONF", "ACK", "0"]);
                    self.read();
                }
            }
        }
    }
}

/// The streams of a real server. The client without a name marks the end of each, outside of
/// transactions.
fn real(steps: &[Step]) -> Option<Vec<Vec<String>>> {
    let server = redis_server::start_own(1).pop()?;
    let connect = || Real::over(server.connect());
    connect().call(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let mut replica = Replica::follow(server.connect());
    let mut clients: BTreeMap<&str, Real> = BTreeMap::from([("", connect())]);
    let mut is_queueing = false;
    let mut streams = Vec::new();
    for step in steps {
        match &step.action {
            Action::Advance(span) => wait(&mut connect(), *span),
            Action::Command { client, argv } => {
                let peer = clients.entry(client).or_insert_with(connect);
                peer.send(&request(argv));
                // When the server answers, it has read the command.
                if client.is_empty() {
                    peer.receive()
                } else {
                    Some(connect().call(&["PING"]))
                };
                is_queueing = is_queueing_after(is_queueing, client, argv);
            }
        }
        let mut stream = Vec::new();
        if !is_queueing {
            clients.entry("").or_insert_with(connect).call(&MARKING);
            stream = replica.stream();
        }
        streams.push(stream.iter().map(|argv| step.show(argv)).collect());
    }
    Some(streams)
}

#[test]
fn replicas_get_what_they_get_from_a_real_primary() {
    let text = std::fs::read_to_string(FILE).expect("the file is there");
    let steps = steps(&text);
    let (emulated, real) = (emulated(&steps), real(&steps));
    let mut report = String::new();
    for (nth, (step, emulated)) in steps.iter().zip(&emulated).enumerate() {
        let expected = real.as_ref().map_or(&step.stream, |real| &real[nth]);
        if expected != emulated {
            _ = writeln!(report, "{}\n    expected: {expected:?}\n    emulator: {emulated:?}", step.line);
        }
    }
    if let Some(real) = real {
        let blocks = steps.iter().zip(&real).map(|(step, stream)| {
            std::iter::once(&step.line).chain(stream).map(|line| format!("{line}\n")).collect::<String>()
        });
        let rendered: String = blocks.collect();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(FILE, &rendered).expect("the file can be written");
        } else {
            assert_eq!(rendered, text, "the real server sends something else");
        }
    }
    assert!(report.is_empty(), "{report}");
}
