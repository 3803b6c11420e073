//! Whatever bytes come, in whatever pieces: no panic, no hang, and what stands in the `assert`s below.
//!
//! An input is its mode (one byte), where to cut (see `Cuts`), and then: if the mode is even, the bytes of one client; if it
//! is odd, steps of two clients and of the clock, each a command out of the table (see `Command`).

#![no_main]

use bytes::BytesMut;
use emulator::command::{Flag, Row};
use emulator::{Access, Clock, Connection, DATABASES, Emulator, Resource, Timestamp};
use libfuzzer_sys::fuzz_target;
use lockstep_fuzz::commands::{Command, KEYS, PRELUDE, SCRIPT_SHA, SCRIPTS, encode, take};
use lockstep_fuzz::cuts::Cuts;
use lockstep_fuzz::replies;

/// Enough for a transaction of one client against one of the other.
const STEPS_MAX: usize = 32;
/// The databases in which changes are looked for; a client is seldom in another.
const DATABASES_WATCHED: usize = 4;
/// By how much the clock moves, in milliseconds.
const CLOCK_STEPS_MS: [i64; 8] = [1, 9, 10, 1_000, 10_000, 3_600_000, -1, -10_000];

fuzz_target!(
    init: {
        let (mut connection, mut output) = (Connection::open(&Emulator::new()), BytesMut::new());
        connection.receive(&encode(&["SCRIPT".as_bytes(), b"LOAD", SCRIPTS[0]]), &mut output);
        let expected = [b"$40\r\n", SCRIPT_SHA, b"\r\n"].concat();
        assert_eq!(output, &expected[..], "SCRIPT_SHA is out of date: EVALSHA would find nothing");
    },
    |data: &[u8]| {
        let Some((mode, mut data)) = data.split_first() else { return };
        let cuts = Cuts::take_from(&mut data);
        if mode % 2 == 0 {
            check_bytes(data, &cuts);
        } else {
            check_commands(&steps(data), &cuts);
        }
    }
);

/// Any bytes: pieces make no difference, every reply is whole, and only QUIT, CLIENT KILL or a protocol error closes.
fn check_bytes(stream: &[u8], cuts: &Cuts<'_>) {
    let emulator = Emulator::new();
    let mut whole = Session::open(&emulator);
    whole.send(0, stream);
    let output = &whole.outputs[0];
    let replies = replies::split(output);
    // `CLIENT REPLY` in a transaction leaves replies out that have been counted.
    let speaks_of_replies = stream.windows(5).any(|word| word.eq_ignore_ascii_case(b"reply"));
    assert!(replies.is_some() || speaks_of_replies, "not whole replies: {}", output.escape_ascii());
    if let Some(replies) = replies
        && whole.clients[0].is_closing()
    {
        let says_why = |last: &[u8]| {
            // The last two are what CLIENT KILL answers.
            let starts = [&b"-ERR Protocol error: "[..], b"+OK\r\n", b":", b"*"];
            starts.iter().any(|start| last.starts_with(start))
        };
        // After CLIENT REPLY OFF nothing is said at all.
        let last = replies.last();
        assert!(last.is_none_or(|last| says_why(last)), "closed after {}", output.escape_ascii());
    }
    let whole = whole.end();

    let mut in_pieces = Session::open(&emulator);
    for piece in cuts.pieces(stream) {
        in_pieces.send(0, piece);
    }
    in_pieces.end().must_be(&whole);
}

/// Real commands: one reply for each, an honest footprint, and no trace of the pieces or of what was before a reset.
fn check_commands(steps: &[Step], cuts: &Cuts<'_>) {
    let emulator = Emulator::new();
    let mut one_by_one = Session::open_with_data(&emulator);
    for step in steps {
        match step {
            Step::Clock(span_ms) => one_by_one.move_clock(*span_ms),
            Step::Command { client, command } => check_command(&mut one_by_one, *client, command),
        }
    }
    let one_by_one = one_by_one.end();

    let mut pipelined = Session::open_with_data(&emulator);
    let mut waiting = (0, Vec::new());
    for step in steps {
        match step {
            Step::Command { client, command } if *client == waiting.0 => waiting.1.extend(&command.bytes),
            _ => {
                cuts.pieces(&waiting.1).for_each(|piece| pipelined.send(waiting.0, piece));
                waiting.1.clear();
                match step {
                    Step::Clock(span_ms) => pipelined.move_clock(*span_ms),
                    Step::Command { client, command } => waiting = (*client, command.bytes.clone()),
                }
            }
        }
    }
    cuts.pieces(&waiting.1).for_each(|piece| pipelined.send(waiting.0, piece));
    pipelined.end().must_be(&one_by_one);
}

fn check_command(session: &mut Session<'_>, client: usize, command: &Command) {
    let was_closing = session.clients[client].is_closing();
    let (answered, before) = (session.outputs[client].len(), session.snapshot());
    session.send(client, &command.bytes);
    let reply = &session.outputs[client][answered..];
    let n_replies = replies::split(reply).map(|replies| replies.len());
    let called = command.bytes.escape_ascii();
    session.is_plain &= !makes_talk_of_its_own(command.row);
    if was_closing {
        assert_eq!(n_replies, Some(0), "{called} got {} from a closed connection", reply.escape_ascii());
        assert_eq!(session.snapshot(), before, "{called} ran on a closed connection");
        return;
    }
    if !session.is_plain {
        return;
    }
    assert_eq!(n_replies, Some(1), "{called} got {}", reply.escape_ascii());

    let footprint = session.emulator.footprint();
    let wrote = |what: &dyn Fn(Resource<'_>) -> bool| {
        footprint.iter().any(|(resource, access, _)| access == Access::Write && what(resource))
    };
    let is_data = |resource: Resource<'_>| matches!(resource, Resource::Key { .. } | Resource::Database(_));
    for ((db, key, old), (_, _, new)) in before.into_iter().zip(session.snapshot()) {
        let is_recorded = wrote(&|resource| match resource {
            Resource::Key { db: changed_db, key: changed, .. } => (changed_db, changed) == (db, key),
            resource => resource == Resource::Database(db),
        });
        assert!(old == new || is_recorded, "{called} changed {old:?} to {new:?} and left {footprint:?}");
    }
    if command.row.flags.contains(&Flag::ReadOnly) {
        assert!(!wrote(&is_data), "{called} is read-only and left {footprint:?}");
    }
    if reply.starts_with(b"-") && !runs_commands(command.row) {
        assert!(!wrote(&is_data), "{called} failed and left {footprint:?}");
    }
}

/// A script that fails keeps the writes that it made.
fn runs_commands(row: &Row) -> bool {
    matches!(row.name, "eval" | "evalsha" | "fcall")
}

/// From then on a client is sent what is no reply, or is not sent what is one, or something of its own runs with the command of
/// another.
fn makes_talk_of_its_own(row: &Row) -> bool {
    row.flags.contains(&Flag::Blocking)
        || row.name.ends_with("subscribe")
        || matches!(
            row.name,
            "wait" | "monitor" | "client|reply" | "client|tracking" | "client|pause" | "client|kill"
        )
}

enum Step {
    Command { client: usize, command: Command },
    Clock(i64),
}

/// One byte says what comes: mostly a command of the first client, sometimes of the second, seldom the clock or QUIT.
fn steps(mut choices: &[u8]) -> Vec<Step> {
    let mut step = || {
        Some(match take(&mut choices)? {
            kind @ 0..16 => Step::Clock(CLOCK_STEPS_MS[usize::from(kind) % CLOCK_STEPS_MS.len()]),
            kind => {
                Step::Command { client: (kind >= 192).into(), command: Command::take_from(&mut choices)? }
            }
        })
    };
    std::iter::from_fn(&mut step).take(STEPS_MAX).collect()
}

/// Two clients of an empty server whose clock stands at its epoch.
struct Session<'a> {
    emulator: &'a Emulator,
    clock: Clock,
    clients: [Connection; 2],
    outputs: [BytesMut; 2],
    /// Each command has had one reply so far, and runs when it comes.
    is_plain: bool,
}

impl Session<'_> {
    fn open(emulator: &Emulator) -> Session<'_> {
        let clock = Clock::manual();
        emulator.reset(clock.clone());
        let clients = [Connection::open(emulator), Connection::open(emulator)];
        Session { emulator, clock, clients, outputs: Default::default(), is_plain: true }
    }

    fn open_with_data(emulator: &Emulator) -> Session<'_> {
        let mut session = Session::open(emulator);
        for argv in PRELUDE {
            session.send(0, &encode(argv));
        }
        let output = &session.outputs[0];
        assert!(!output.contains(&b'-'), "the prelude failed: {}", output.escape_ascii());
        session
    }

    fn send(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].receive(bytes, &mut self.outputs[client]);
    }

    fn move_clock(&self, span_ms: i64) {
        self.clock.set(Timestamp::from_millis(self.clock.now().millis() + span_ms));
        // What is due by now happens by the clock alone: it is no write of the next command.
        self.emulator.tick();
    }

    /// Each key that a command can name, in each database that a client can be in.
    fn snapshot(&self) -> Vec<(usize, &'static [u8], Option<String>)> {
        let places = (0..DATABASES_WATCHED).flat_map(|db| KEYS.map(|key| (db, key)));
        places.map(|(db, key)| (db, key, self.emulator.describe(db, key))).collect()
    }

    /// What is left to see; a closed connection must stay silent first.
    fn end(mut self) -> Outcome {
        let is_closing = [0, 1].map(|client| {
            let (was_closing, answered) = (self.clients[client].is_closing(), self.outputs[client].len());
            if was_closing {
                self.send(client, b"SET a closed\r\n*1\r\n$4\r\nPING\r\n*x\r\n");
                assert!(self.clients[client].is_closing(), "a closed connection opened again");
                assert_eq!(self.outputs[client].len(), answered, "a closed connection answered");
            }
            was_closing
        });
        let databases = (0..DATABASES).map(|db| self.emulator.dump(db)).collect();
        let deadline = self.emulator.next_deadline(self.clock.now());
        Outcome { outputs: self.outputs, is_closing, databases, deadline }
    }
}

#[derive(PartialEq)]
struct Outcome {
    outputs: [BytesMut; 2],
    is_closing: [bool; 2],
    databases: Vec<String>,
    deadline: Option<Timestamp>,
}

impl Outcome {
    #[track_caller]
    fn must_be(&self, expected: &Outcome) {
        // INFO counts the pieces.
        const PIECES: &[u8] = b"total_reads_processed";
        if expected.outputs.iter().any(|output| output.windows(PIECES.len()).any(|own| own == PIECES)) {
            return;
        }
        for (got, expected) in self.outputs.iter().zip(&expected.outputs) {
            assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
        assert_eq!(self.is_closing, expected.is_closing);
        assert_eq!(self.databases, expected.databases);
        assert_eq!(self.deadline, expected.deadline);
    }
}
