//! Several clients of one server, and what happens to them one after the other.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use emulator::resp::Decoder;
use emulator::{Clock, Connection, DATABASES, Emulator, Stream, Timestamp};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::commands::{Command, KEYS, PRELUDE, encode, take};

/// Connections; a stream is one more.
pub const CLIENTS: usize = 5;
/// Enough for a transaction of one client against one of another.
const STEPS_MAX: usize = 32;
/// Enough for a section of a transcript.
const LINES_MAX: usize = 128;
/// The databases in which changes are looked for; a client is seldom in another.
const DATABASES_WATCHED: usize = 2;
/// By how much the clock moves, in milliseconds.
const CLOCK_STEPS_MS: [i64; 8] = [1, 9, 10, 1_000, 10_000, 3_600_000, -1, -10_000];
/// How much the client of a stream reads at once, in bytes.
const READ_BYTES: usize = 7;

pub enum Step {
    Command {
        client: usize,
        command: Command,
    },
    Clock(i64),
    /// The client is sent what the server has to say by itself.
    Poll(usize),
}

impl Step {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Step::Command { command, .. } => &command.bytes,
            Step::Clock(_) | Step::Poll(_) => &[],
        }
    }
}

/// One byte says what comes: mostly a command of the first client, sometimes of another, seldom the clock or a poll.
pub fn steps(mut choices: &[u8]) -> Vec<Step> {
    let mut step = || {
        Some(match take(&mut choices)? {
            kind @ 0..16 => Step::Clock(CLOCK_STEPS_MS[usize::from(kind) % CLOCK_STEPS_MS.len()]),
            kind @ 16..32 => Step::Poll(usize::from(kind) % CLIENTS),
            kind => {
                let client = usize::from(kind >= 160) + usize::from(kind >= 224);
                Step::Command { client, command: Command::take_from(&mut choices)? }
            }
        })
    };
    std::iter::from_fn(&mut step).take(STEPS_MAX).collect()
}

/// The lines of a transcript: `b> GET k` is a command of a client, `raw> "..."` are its bytes, `advance 5ms` moves the clock. Other
/// lines stand for nothing.
pub fn lines(text: &[u8]) -> Vec<Step> {
    let step = |line: &[u8]| {
        if let Some(span) = line.strip_prefix(b"advance ") {
            let digits = std::str::from_utf8(span.strip_suffix(b"ms")?).ok()?;
            return Some(Step::Clock(digits.parse::<u32>().ok()?.into()));
        }
        let (who, command) = line.split_at(line.windows(2).position(|two| two == b"> ")?);
        let mut bytes = [&command[2..], b"\r\n"].concat();
        let client = match who {
            b"raw" => {
                bytes = argv_of(&bytes)?.swap_remove(0).into();
                0
            }
            [client @ b'a'..=b'd'] | [client @ b'a'..=b'd', b'?'] => usize::from(client - b'a') + 1,
            _ => 0,
        };
        Some(Step::Command { client, command: Command { name: "", flags: &[], bytes } })
    };
    text.split(|&byte| byte == b'\n').filter_map(step).take(LINES_MAX).collect()
}

/// The arguments of a request, if it is one that is whole and not empty.
pub fn argv_of(request: &[u8]) -> Option<Vec<Bytes>> {
    let argv = Decoder::default().decode(&mut BytesMut::from(request)).ok()??;
    (!argv.is_empty()).then(|| argv.to_vec())
}

/// A key of a database, and what it is.
pub type Seen = (usize, &'static [u8], Option<String>);

/// Clients of an empty server whose clock stands at its epoch.
pub struct Session<'a> {
    pub emulator: &'a Emulator,
    clock: Clock,
    pub clients: Vec<Connection>,
    /// One more client, if there is one.
    pub stream: Option<Stream>,
    pub outputs: Vec<BytesMut>,
    /// Each command has had one reply so far, and runs when it comes.
    pub is_plain: bool,
}

impl Session<'_> {
    pub fn open(emulator: &Emulator) -> Session<'_> {
        let clock = Clock::manual();
        emulator.reset(clock.clone());
        let clients = (0..CLIENTS).map(|_| Connection::open(emulator)).collect();
        let outputs = vec![BytesMut::new(); CLIENTS];
        Session { emulator, clock, clients, stream: None, outputs, is_plain: true }
    }

    pub fn open_with_data(emulator: &Emulator) -> Session<'_> {
        let mut session = Session::open(emulator);
        for argv in PRELUDE {
            session.send(0, &encode(argv));
        }
        let output = &session.outputs[0];
        assert!(!output.contains(&b'-'), "the prelude failed: {}", output.escape_ascii());
        session
    }

    /// All clients go, and the server is empty again: the next client is the first.
    pub fn leave(&mut self) {
        self.clients.clear();
        self.emulator.reset(self.clock.clone());
    }

    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Command { client, command } => self.send(*client, &command.bytes),
            Step::Poll(client) => _ = self.poll(*client),
            Step::Clock(span_ms) => {
                self.clock.set(Timestamp::from_millis(self.clock.now().millis() + span_ms));
                // What is due by now happens by the clock alone: it is no write of the next command.
                self.emulator.tick();
            }
        }
    }

    pub fn send(&mut self, client: usize, mut bytes: &[u8]) {
        if let Some(connection) = self.clients.get_mut(client) {
            connection.receive(bytes, &mut self.outputs[client]);
            return;
        }
        let stream = self.stream.as_mut().expect("there is one more client");
        let mut cx = Context::from_waker(Waker::noop());
        while !bytes.is_empty()
            && let Poll::Ready(Ok(len)) = Pin::new(&mut *stream).poll_write(&mut cx, bytes)
        {
            bytes = &bytes[len..];
        }
    }

    /// Until the server has nothing more to say; whether it had something.
    pub fn poll(&mut self, client: usize) -> bool {
        let (mut cx, output) = (Context::from_waker(Waker::noop()), &mut self.outputs[client]);
        let at_first = output.len();
        let mut room = [0; READ_BYTES];
        loop {
            let before = output.len();
            let polled = match (self.clients.get_mut(client), &mut self.stream) {
                (Some(connection), _) => connection.poll_messages(&mut cx, output),
                (None, stream) => {
                    let stream = stream.as_mut().expect("there is one more client");
                    let mut room = ReadBuf::new(&mut room);
                    Pin::new(stream).poll_read(&mut cx, &mut room).map(|result| {
                        result.expect("a stream in memory never fails");
                        output.extend_from_slice(room.filled());
                    })
                }
            };
            if polled.is_pending() || output.len() == before {
                return output.len() > at_first;
            }
        }
    }

    /// Each key that a command can name.
    pub fn look(&self) -> Vec<Seen> {
        let places = (0..DATABASES_WATCHED).flat_map(|db| KEYS.map(|key| (db, key)));
        places.map(|(db, key)| (db, key, self.emulator.describe(db, key))).collect()
    }

    /// What is left to see; a closed connection must stay silent first.
    pub fn end(mut self) -> Outcome {
        let is_closing = (0..CLIENTS).map(|client| {
            let (was_closing, answered) = (self.clients[client].is_closing(), self.outputs[client].len());
            if was_closing {
                self.send(client, b"SET a closed\r\n*1\r\n$4\r\nPING\r\n*x\r\n");
                assert!(self.clients[client].is_closing(), "a closed connection opened again");
                assert_eq!(self.outputs[client].len(), answered, "a closed connection answered");
            }
            was_closing
        });
        let is_closing = is_closing.collect();
        (0..CLIENTS).for_each(|client| _ = self.poll(client));
        let databases = (0..DATABASES).map(|db| self.emulator.dump(db)).collect();
        let deadline = self.emulator.next_deadline(self.clock.now());
        Outcome { outputs: self.outputs, is_closing, databases, deadline }
    }
}

pub struct Outcome {
    pub outputs: Vec<BytesMut>,
    is_closing: Vec<bool>,
    databases: Vec<String>,
    deadline: Option<Timestamp>,
}

impl Outcome {
    #[track_caller]
    pub fn must_be(&self, expected: &Outcome) {
        self.outputs.iter().zip(&expected.outputs).for_each(|(got, expected)| same(got, expected));
        assert_eq!(self.is_closing, expected.is_closing);
        assert_eq!(self.databases, expected.databases);
        assert_eq!(self.deadline, expected.deadline);
    }
}

/// Megabytes are compared as they are, and only then made readable.
#[track_caller]
pub fn same(got: &[u8], expected: &[u8]) {
    if got != expected {
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
