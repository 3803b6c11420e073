//! Any bytes of several clients of one server, cut at any place, must cause no panic and no hang.
//! The `assert`s below state the other properties. Commands come from the emulator's own table,
//! including subscriptions, transactions, tracking, MONITOR and blocking commands. The clock moves
//! as well.
//!
//! An input is its mode (one byte) and where to cut (see `Cuts`). Then come the bytes of one
//! client, steps of several clients, or lines of a transcript.

mod front_ends;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use emulator::command::Flag;
use emulator::resp::Decoder;
use emulator::{Access, Connection, Emulator, Resource};

use crate::commands::{Command, PRELUDE, encode};
use crate::cuts::Cuts;
use crate::lua::BUDGET;
use crate::served::Served;
use crate::session::{CLIENTS, Seen, Session, Step, lines, same, steps};
use crate::sockets::FrontEnd;
use crate::{replies, sockets};

thread_local! {
    /// Two emulators for all inputs, because creating one takes longer than an input. Reusing them
    /// also checks that a reset leaves no trace. Clients of the second one may send `EMULATOR`.
    static EMULATORS: [Emulator; 2] = [emulator(), emulator()];
}

/// An emulator whose values are small enough to be copied and printed many times.
fn emulator() -> Emulator {
    let emulator = Emulator::new();
    emulator.start_with("proto-max-bulk-len", "1mb").expect("a setting of Redis");
    emulator
}

pub fn check(data: &[u8]) {
    let Some((mode, mut data)) = data.split_first() else { return };
    let cuts = Cuts::take_from(&mut data);
    EMULATORS.with(|emulators @ [without_control, with_control]| {
        emulators.iter().for_each(|emulator| emulator.script_budget(BUDGET));
        with_control.allow_control();
        let emulator = if *mode < 192 { without_control } else { with_control };
        let is_busy = *mode % 32 >= 16;
        match mode % 16 {
            0 => check_bytes(emulator, data, &cuts),
            8 => check_served(emulator, &lines(data), &cuts),
            1 if is_busy => check_while_busy(data, &cuts),
            1 => check_at_socket(front_end(*mode), data, &cuts),
            9 => {
                let command = Command { name: "", flags: &[], bytes: data.to_vec() };
                check_served(emulator, &[Step::Command { client: 0, command }], &cuts);
            }
            2 => {
                let stream: Vec<u8> = steps(data).iter().flat_map(Step::bytes).copied().collect();
                if is_busy {
                    check_while_busy(&stream, &cuts);
                } else {
                    check_at_socket(front_end(*mode), &stream, &cuts);
                }
            }
            10 => check_served(emulator, &steps(data), &cuts),
            3 => check_stream(emulator, &steps(data), &cuts),
            11 => check_direct(emulator, &steps(data)),
            // The number of cuts decides which command goes to which front end.
            12 => front_ends::check(emulator, &lines(data), cuts.lengths().len()),
            _ => check_commands(emulator, &steps(data), &cuts),
        }
    });
}

/// Any bytes: cuts must make no difference, and every reply must be complete. Only QUIT, CLIENT
/// KILL or a protocol error may close the connection.
fn check_bytes(emulator: &Emulator, stream: &[u8], cuts: &Cuts<'_>) {
    let mut whole = Session::open(emulator);
    whole.send(0, stream);
    let output = &whole.outputs[0];
    let replies = replies::split(output);
    // `CLIENT REPLY` in a transaction leaves out replies that the transaction has counted.
    assert!(replies.is_some() || says(stream, b"reply"), "not whole replies: {}", output.escape_ascii());
    if let Some(replies) = replies
        && whole.clients[0].is_closing()
    {
        let says_why = |last: &[u8]| {
            // The last two are replies of CLIENT KILL.
            let starts = [&b"-ERR Protocol error: "[..], b"+OK\r\n", b":", b"*"];
            starts.iter().any(|start| last.starts_with(start))
        };
        // After CLIENT REPLY OFF there are no replies at all.
        let last = replies.last();
        assert!(last.is_none_or(|last| says_why(last)), "closed after {}", output.escape_ascii());
    }
    let whole = whole.end();

    let mut in_pieces = Session::open(emulator);
    for piece in cuts.pieces(stream) {
        in_pieces.send(0, piece);
    }
    if !says(stream, b"info") && !says(stream, b"client") {
        in_pieces.end().must_be(&whole);
    }
}

fn front_end(mode: u8) -> FrontEnd {
    match mode / 32 % 4 {
        1 => FrontEnd::Tcp,
        2 => FrontEnd::Url,
        _ => FrontEnd::Unix,
    }
}

/// Any bytes at a socket.
fn check_at_socket(front_end: FrontEnd, stream: &[u8], cuts: &Cuts<'_>) {
    // The replies of these commands depend on addresses, on cuts, or on other connections, which
    // the server closes at an unknown time. Loops are left out, because a script has no budget at a
    // socket.
    const TELLING: [&[u8]; 12] = [
        b"client",
        b"info",
        b"monitor",
        b"debug",
        b"memory",
        b"hello",
        b"config",
        b"while",
        b"for",
        b"repeat",
        b"function",
        b"load",
    ];
    if !TELLING.iter().any(|word| says(stream, word)) {
        sockets::check(front_end, stream, cuts.pieces(stream));
    }
}

/// Any bytes while an endless script runs. The number of cuts decides which script.
fn check_while_busy(stream: &[u8], cuts: &Cuts<'_>) {
    // These commands would stop other clients or the function that is to run, or would never end.
    const HARMFUL: [&[u8]; 12] = [
        b"client", b"config", b"debug", b"flush", b"delete", b"restore", b"load", b"eval", b"fcall",
        b"while", b"for", b"repeat",
    ];
    if !HARMFUL.iter().any(|word| says(stream, word)) {
        sockets::check_busy(cuts.lengths().len(), cuts.pieces(stream));
    }
}

/// Clients of `server.rs`, whose sockets follow the cuts, must receive what clients of a connection
/// receive.
fn check_served(emulator: &Emulator, steps: &[Step], cuts: &Cuts<'_>) {
    // The replies of these depend on addresses, cuts or memory, or they close connections before
    // replies are written.
    const TELLING: [&[u8]; 9] = [
        b"client",
        b"info",
        b"monitor",
        b"debug",
        b"memory",
        b"emulator",
        b"collectgarbage",
        b"post",
        b"host:",
    ];
    // The replies to the prelude are written together with those of the first step.
    if steps.is_empty() {
        return;
    }
    let mut session = Session::open_with_data(emulator);
    let (mut is_closed, mut waits) = ([false; CLIENTS], [false; CLIENTS]);
    let mut taken = Vec::new();
    for step in steps {
        // A blocked client sends nothing more. If several clients continue at once, their order is
        // not guaranteed.
        if matches!(step, Step::Command { client, .. } if is_closed[*client] || waits[*client]) {
            continue;
        }
        taken.push(step);
        let before: Vec<usize> = session.outputs.iter().map(BytesMut::len).collect();
        session.take(step);
        while (0..CLIENTS).fold(false, |any, client| session.poll(client) | any) {}
        for client in 0..CLIENTS {
            let has_heard = session.outputs[client].len() > before[client];
            let is_asking = matches!(step, Step::Command { client: asking, .. } if *asking == client);
            waits[client] = (waits[client] || is_asking) && !has_heard;
            if session.clients[client].is_closing() {
                // At a socket, the client is gone at once, with its subscriptions and blocked
                // commands.
                session.clients[client] = Connection::open(emulator);
                is_closed[client] = true;
            }
        }
    }
    let expected = session.end();

    let mut session = Session::open(emulator);
    session.leave();
    let mut served: Vec<_> = (0..CLIENTS).map(|_| Served::open(emulator, cuts.lengths())).collect();
    PRELUDE.iter().for_each(|argv| served[0].send(&encode(argv)));
    for step in &taken {
        match step {
            Step::Command { client, command } => served[*client].send(&command.bytes),
            Step::Clock(_) => session.take(step),
            Step::Poll(_) => {}
        }
        while served.iter_mut().map(Served::proceed).fold(false, |any, one| any | one) {}
    }
    let is_told = taken.iter().any(|step| TELLING.iter().any(|word| says(step.bytes(), word)));
    let may_sleep = taken.iter().any(|step| says(step.bytes(), b"SLEEP"));
    let heard: Vec<_> = served.into_iter().map(|client| client.end(may_sleep)).collect();
    if is_told || heard.iter().any(|(_, _, has_failed)| *has_failed) {
        return;
    }
    for (client, (heard, is_closed_there, _)) in heard.iter().enumerate() {
        same(heard, &expected.outputs[client]);
        assert_eq!(*is_closed_there, is_closed[client], "whether client {client} is closed");
    }
}

/// Commands from the table. Each must have one reply and a correct footprint. Cuts, and the state
/// before a reset, must leave no trace.
fn check_commands(emulator: &Emulator, steps: &[Step], cuts: &Cuts<'_>) {
    let mut one_by_one = Session::open_with_data(emulator);
    let mut seen = one_by_one.look();
    for step in steps {
        match step {
            Step::Command { client, command } => check_command(&mut one_by_one, *client, command, &mut seen),
            step => {
                one_by_one.take(step);
                seen = one_by_one.look();
            }
        }
    }
    let one_by_one = one_by_one.end();

    let mut pipelined = Session::open_with_data(emulator);
    let (mut sender, mut waiting) = (0, Vec::new());
    for step in steps {
        match step {
            Step::Command { client, command } if *client == sender => waiting.extend(&command.bytes),
            step => {
                cuts.pieces(&waiting).for_each(|piece| pipelined.send(sender, piece));
                waiting.clear();
                match step {
                    Step::Command { client, command } => (sender, waiting) = (*client, command.bytes.clone()),
                    step => pipelined.take(step),
                }
            }
        }
    }
    cuts.pieces(&waiting).for_each(|piece| pipelined.send(sender, piece));
    if !asks_for_info(steps) {
        pipelined.end().must_be(&one_by_one);
    }
}

/// The client of a stream, which reads and writes a few bytes at a time, must receive what the
/// client of a connection receives.
fn check_stream(emulator: &Emulator, steps: &[Step], cuts: &Cuts<'_>) {
    let play = |is_streamed: bool| {
        let mut session = Session::open_with_data(emulator);
        session.stream = is_streamed.then(|| emulator.stream());
        if !is_streamed {
            session.clients.push(Connection::open(emulator));
        }
        session.outputs.push(BytesMut::new());
        for step in steps {
            match step {
                Step::Command { client: 0, command } => cuts.pieces(&command.bytes).for_each(|piece| {
                    session.send(CLIENTS, piece);
                    session.poll(CLIENTS);
                }),
                step => session.take(step),
            }
        }
        session.poll(CLIENTS);
        let is_killed = session.clients.get(CLIENTS).is_some_and(Connection::is_closing);
        (session.outputs.swap_remove(CLIENTS), is_killed)
    };
    let [(connection, is_killed), (stream, _)] = [false, true].map(play);
    // If a client is killed, the client of the stream may already have read replies that the other
    // no longer gets.
    if !is_killed && !asks_for_info(steps) {
        same(&stream, &connection);
    }
}

/// A direct client of redis-rs must get what redis-rs parses from the bytes of a connection. No
/// command may block.
fn check_direct(emulator: &Emulator, steps: &[Step]) {
    let commands: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            // The replies of these commands depend on the connection and on the bytes that it has
            // sent, or come as messages.
            Step::Command { command, .. }
                if makes_talk_of_its_own(command)
                    || command.name.starts_with("client|")
                    || matches!(command.name, "info" | "hello") =>
            {
                None
            }
            Step::Command { command, .. } => Some(command),
            Step::Clock(_) | Step::Poll(_) => None,
        })
        .collect();
    let mut session = Session::open_with_data(emulator);
    let heard: Vec<_> = commands
        .iter()
        .map(|command| {
            session.outputs[0].clear();
            session.send(0, &command.bytes);
            (!session.outputs[0].is_empty()).then(|| redis::parse_redis_value(&session.outputs[0]))
        })
        .collect();
    drop(session);

    let session = Session::open_with_data(emulator);
    let direct = emulator.connection();
    for (command, expected) in commands.iter().zip(heard) {
        let mut argv = BytesMut::from(&command.bytes[..]);
        let argv = Decoder::default().decode(&mut argv).expect("a command is encoded").expect("as a whole");
        let mut cmd = redis::Cmd::new();
        argv.iter().for_each(|arg| _ = cmd.arg(&arg[..]));
        let mut exchange = pin!(direct.exchange(&cmd));
        match (exchange.as_mut().poll(&mut Context::from_waker(Waker::noop())), expected) {
            (Poll::Ready(Ok(value)), Some(Ok(expected))) => {
                assert_eq!(value, expected, "{}", command.bytes.escape_ascii());
            }
            (Poll::Ready(Err(_)) | Poll::Pending, None) => {}
            (outcome, expected) => panic!("{}: {outcome:?}, not {expected:?}", command.bytes.escape_ascii()),
        }
    }
    drop(session);
}

fn check_command(session: &mut Session<'_>, client: usize, command: &Command, seen: &mut Vec<Seen>) {
    let was_closing = session.clients[client].is_closing();
    let answered = session.outputs[client].len();
    session.send(client, &command.bytes);
    let after = session.look();
    let before = std::mem::replace(seen, after);
    // A killed client gets nothing more, not even replies that were waiting to be written.
    let Some(reply) = session.outputs[client].get(answered..) else {
        session.is_plain = false;
        return;
    };
    let n_replies = replies::split(reply).map(|replies| replies.len());
    let called = command.bytes.escape_ascii();
    session.is_plain &= !makes_talk_of_its_own(command);
    if was_closing {
        assert_eq!(n_replies, Some(0), "{called} got {} from a closed connection", reply.escape_ascii());
        assert_eq!(*seen, before, "{called} ran on a closed connection");
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
    for ((db, key, old), (_, _, new)) in before.into_iter().zip(&*seen) {
        let is_recorded = || {
            wrote(&|resource| match resource {
                Resource::Key { db: changed_db, key: changed, .. } => (changed_db, changed) == (db, key),
                resource => resource == Resource::Database(db),
            })
        };
        assert!(old == *new || is_recorded(), "{called} changed {old:?} to {new:?} and left {footprint:?}");
    }
    if command.flags.contains(&Flag::ReadOnly) {
        assert!(!wrote(&is_data), "{called} is read-only and left {footprint:?}");
    }
    if reply.starts_with(b"-") && !runs_commands(command) {
        assert!(!wrote(&is_data), "{called} failed and left {footprint:?}");
    }
}

/// A script that fails keeps its earlier writes.
fn runs_commands(command: &Command) -> bool {
    matches!(command.name, "eval" | "evalsha" | "fcall")
}

/// After this command, a client may get output that is not a reply, or no reply. A command of
/// another client may also run with it.
fn makes_talk_of_its_own(command: &Command) -> bool {
    command.flags.contains(&Flag::Blocking)
        || command.name.ends_with("subscribe")
        || matches!(
            command.name,
            "emulator"
                | "debug"
                | "reset"
                | "config|set"
                | "wait"
                | "monitor"
                | "client|reply"
                | "client|tracking"
                | "client|pause"
                | "client|kill"
        )
}

/// INFO counts the pieces, and CLIENT reports how many reply bytes are not yet written.
fn asks_for_info(steps: &[Step]) -> bool {
    let tells = |name| matches!(name, "info" | "client|info" | "client|list");
    steps.iter().any(|step| matches!(step, Step::Command { command, .. } if tells(command.name)))
}

/// Whether the bytes contain the word in any case.
fn says(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|own| own.eq_ignore_ascii_case(word))
}
