//! All front ends without bytes, and the emulator's own methods. They must not panic, and must
//! agree with the replies of commands. A snapshot must restore exactly what was copied.

use std::pin::pin;
use std::task::{Context, Waker};

use emulator::{Emulator, Reply};

use crate::session::{Session, Step, argv_of};

/// How long a command of a direct connection may wait, in milliseconds.
const PATIENCE_MS: i64 = 10_000;

/// The commands go to the front ends in turn, and the first one goes to `first_front_end`.
pub(super) fn check(emulator: &Emulator, steps: &[Step], first_front_end: usize) {
    let mut session = Session::open_with_data(emulator);
    let _hook =
        emulator.on_log(|line| assert!(line.to_string().ends_with(&*String::from_utf8_lossy(&line.text))));
    let mut direct = [emulator.connection(), emulator.connection()];
    let mut cx = Context::from_waker(Waker::noop());
    let mut before = emulator.footprint();
    for (idx, step) in steps.iter().enumerate() {
        let argv = argv_of(step.bytes());
        let Some(argv) = argv.as_ref().filter(|_| !matches!(step, Step::Clock(_))) else {
            session.take(step);
            continue;
        };
        let client = usize::from(matches!(step, Step::Command { client: 1.., .. }));
        let direct = &mut direct[client];
        let mut cmd = redis::Cmd::new();
        argv.iter().for_each(|arg| _ = cmd.arg(&arg[..]));
        match (idx + first_front_end) % 5 {
            0 => {
                let argv: Vec<&[u8]> = argv.iter().map(|arg| &arg[..]).collect();
                direct.execute(&argv);
            }
            1 | 4 => {
                let mut exchange = pin!(direct.exchange(&cmd));
                // A command that waits for a time gets its reply. Any other command that waits is
                // dropped.
                if exchange.as_mut().poll(&mut cx).is_pending() {
                    session.take(&Step::Clock(PATIENCE_MS));
                    _ = exchange.poll(&mut cx);
                }
            }
            2 => _ = redis::ConnectionLike::req_command(direct, &cmd),
            _ => {
                let mut pipeline = redis::pipe();
                pipeline.atomic().add_command(cmd.clone()).add_command(cmd);
                let run = redis::aio::ConnectionLike::req_packed_commands(direct, &pipeline, 3, 1);
                _ = pin!(run).poll(&mut cx);
            }
        }
        let after = emulator.footprint();
        assert_eq!(before.conflicts_with(&after), after.conflicts_with(&before), "{before} and {after}");
        before = after;
        while direct.poll_message(&mut cx).is_ready() && redis::ConnectionLike::is_open(direct) {}
        assert!(!direct.is_hung_up(), "nobody has hung up");
        let (looking, closing) = (direct.looking(), direct.closing());
        // If the connection has subscriptions, closing it ends them.
        assert!(looking.iter().count() == 1 || !closing.is_empty(), "{looking}");
    }
    emulator.clear_faults();
    check_peeks(emulator);
    let dumps = || (0..emulator::DATABASES).map(|db| emulator.dump(db)).collect::<Vec<_>>();
    let (snapshot, before) = (emulator.snapshot(), dumps());
    emulator.connection().execute(&[b"FLUSHALL"]);
    emulator.restore_data(&snapshot);
    assert_eq!(dumps(), before, "the data of a copy are not those that were copied");
    emulator.hang_up();
    emulator.restore(&snapshot);
    assert_eq!(dumps(), before, "a copy is not what was copied");
}

/// The emulator's methods for keys must return what commands return.
fn check_peeks(emulator: &Emulator) {
    let mut client = emulator.connection();
    // There may be a password, or no free memory.
    if client.execute(&[b"PING"]) != Reply::status("PONG") {
        return;
    }
    let Reply::Array(mut keys) = client.execute(&[b"KEYS", b"*"]) else { panic!("KEYS fails") };
    keys.sort_by_key(|key| format!("{key:?}"));
    let mut peeked: Vec<Reply> = emulator.keys("*").iter().map(Reply::bulk).collect();
    peeked.sort_by_key(|key| format!("{key:?}"));
    assert_eq!(peeked, keys);
    for key in emulator.keys("*") {
        let Ok(name) = std::str::from_utf8(&key) else { continue };
        assert!(emulator.exists(name));
        let get = match client.execute(&[b"GET", &key]) {
            Reply::Bulk(text) => Some(text),
            _ => None,
        };
        assert_eq!(emulator.get(name), get);
        let left = emulator.ttl(name).map_or(-1, |left| left.as_millis() as i64);
        assert_eq!(client.execute(&[b"PTTL", &key]), Reply::Integer(left));
        let score = match client.execute(&[b"ZSCORE", &key, b"a"]) {
            Reply::Double(score) => Some(score),
            _ => None,
        };
        assert_eq!(emulator.score(name, "a"), score);
        let field = match client.execute(&[b"HGET", &key, b"a"]) {
            Reply::Bulk(text) => Some(text),
            _ => None,
        };
        assert_eq!(emulator.field(name, "a"), field);
    }
}
