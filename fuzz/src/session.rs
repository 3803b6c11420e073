//! Several clients of one server, and a sequence of steps.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use emulator::resp::Decoder;
use emulator::{Clock, Connection, DATABASES, Emulator, Stream, Timestamp};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::commands::{Command, KEYS, PRELUDE, encode, take};

/// The number of connections. A stream is one more.
pub const CLIENTS: usize = 5;
/// Enough steps for transactions of two clients that affect each other.
const STEPS_MAX: usize = 32;
/// Enough lines for a section of a transcript.
const LINES_MAX: usize = 128;
/// The databases that are checked for changes. Clients rarely use another one.
const DATABASES_WATCHED: usize = 2;
/// The steps by which the clock moves, in milliseconds.
const CLOCK_STEPS_MS: [i64; 8] = [1, 9, 10, 1_000, 10_000, 3_600_000, -1, -10_000];
/// How many bytes the client of a stream reads at once.
const READ_BYTES: usize = 7;

pub enum Step {
    Command {
        client: usize,
        command: Command,
    },
    Clock(i64),
    /// The client receives messages that the server sends without a request.
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

/// One byte decides each step. Most steps are commands of the first client, some of other clients,
/// and a few are a move of the clock or a poll.
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

/// The lines of a transcript: `b> GET k` is a command of a client, `raw> "..."` are its bytes,
/// `advance 5ms` moves the clock. Other lines are ignored.
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

/// The arguments of a request, if it is complete and not empty.
pub fn argv_of(request: &[u8]) -> Option<Vec<Bytes>> {
    let argv = Decoder::default().decode(&mut BytesMut::from(request)).ok()??;
    (!argv.is_empty()).then(|| argv.to_vec())
}

/// A key of a database, and its value as text.
pub type Seen = (usize, &'static [u8], Option<String>);

/// Clients of an empty server whose clock stands at its epoch.
pub struct Session<'a> {
    pub emulator: &'a Emulator,
    clock: Clock,
    pub clients: Vec<Connection>,
    /// A further client, if there is one.
    pub stream: Option<Stream>,
    pub outputs: Vec<BytesMut>,
    /// Every command so far had one reply and ran when it was sent.
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

    /// Drops all clients and empties the server. The next client gets the first ID.
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
                // Keys that expire now do so because of the clock alone. The next command's
                // footprint must not contain that.
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

    /// Receives until the server sends nothing more. Returns whether it sent anything.
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

    /// Every key that a command can name, with its value.
    pub fn look(&self) -> Vec<Seen> {
        let places = (0..DATABASES_WATCHED).flat_map(|db| KEYS.map(|key| (db, key)));
        places.map(|(db, key)| (db, key, self.emulator.describe(db, key))).collect()
    }

    /// The final state. A closed connection must not reply any more.
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

/// Compares the bytes as they are, and only prints them if they differ, because there may be
/// megabytes.
#[track_caller]
pub fn same(got: &[u8], expected: &[u8]) {
    if got != expected {
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
