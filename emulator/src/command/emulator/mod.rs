//! `EMULATOR`: the clock, the faults, the other servers, restarts, a reset and a wait for other
//! clients. It is for clients that have only a connection.
//!
//! The command exists only if control was allowed, and it is in no list of commands.
//!
//! It controls the test and takes no part in it. So it runs while the clock is frozen or clients
//! are paused, and no fault strikes it.

mod words;
mod restart;
mod servers;
mod slots;

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Flag::{Admin, Loading, NoMulti, NoScript, Stale};
use super::blocking::{Wait, wait_for};
use super::{Argv, Ctx, Outcome, Row, is_word};
use crate::clock::{Clock, DRIFT_PPM, Timestamp};
use crate::engine::Until;
use crate::error::Error;
use crate::fault::{Effect, Fault};
use crate::reply::Reply;
use words::{MILLIS_MAX, number, unknown};

/// It is not in the command table, because it exists only on request.
pub(super) static ROW: Row = Row::container(
    "emulator",
    &[
        Row::new("emulator|clock", -3, &[Admin, NoScript, Loading, Stale, NoMulti], clock),
        Row::new("emulator|failover", -2, &[Admin, NoScript, Loading, Stale, NoMulti], servers::failover),
        Row::new("emulator|fault", -3, &[Admin, NoScript, Loading, Stale, NoMulti], fault),
        Row::new("emulator|heal", 2, &[Admin, NoScript, Loading, Stale, NoMulti], servers::heal),
        Row::new("emulator|help", 2, &[Loading, Stale], help),
        Row::new("emulator|lag", 3, &[Admin, NoScript, Loading, Stale, NoMulti], servers::lag),
        Row::new("emulator|move-slot", -5, &[Admin, NoScript, Loading, Stale, NoMulti], slots::move_slot),
        Row::new("emulator|partition", -3, &[Admin, NoScript, Loading, Stale, NoMulti], servers::partition),
        Row::new("emulator|reset", 2, &[Admin, NoScript, Loading, Stale, NoMulti], reset),
        Row::new("emulator|restart", -2, &[Admin, NoScript, Loading, Stale, NoMulti], restart::restart),
        Row::new("emulator|wait-blocked", -3, &[Admin, NoScript, Loading, Stale, NoMulti], wait_blocked),
    ],
);

const HELP: &[&str] = &[
    "EMULATOR <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CLOCK NOW",
    "    Return the server's time, in milliseconds since the Unix epoch. All CLOCK subcommands return it.",
    "    ADVANCE, FREEZE and RUN hold for all servers that replicate, the others for the clock of this one.",
    "CLOCK SET <unix-time-milliseconds>",
    "    Set the clock.",
    "CLOCK ADVANCE <milliseconds>",
    "    Let time pass: keys expire, and the timeouts of blocked clients end.",
    "CLOCK JUMP <milliseconds>",
    "    Set the clock forwards or backwards by this time.",
    "CLOCK DRIFT <ppm>",
    "    Make the clock too fast by this many millionths, or too slow if the number is negative.",
    "CLOCK WOBBLE <amplitude-milliseconds> <period-milliseconds>",
    "    Make the clock ahead and behind in turn.",
    "CLOCK FREEZE",
    "    Stop the clock until RUN. SET, ADVANCE and JUMP still move it.",
    "CLOCK RUN",
    "    Let the clock run again.",
    "FAILOVER [TO <host> <port>] [WRITABLE]",
    "    Let a replica of this primary take over at once, with what it has, and disconnect the clients of both.",
    "    This server becomes its replica. With WRITABLE it stays a primary, until REPLICAOF or until its Sentinels",
    "    have seen that for 8 seconds. The Sentinels of this primary announce the failover.",
    "    In a cluster, no client is disconnected, and with WRITABLE this server is parted from all others.",
    "FAULT <effect> [COUNT <count>] [COMMAND <name>] [CLIENT <name>]",
    "    Place a fault on the next command, or on the next <count> commands (0: on all until CLEAR).",
    "    COMMAND limits it to one command, and CLIENT to clients with this name (see CLIENT SETNAME).",
    "    Effects are:",
    "    DROP-BEFORE            close the connection, do not run the command",
    "    DROP-AFTER             run the command, close the connection without a reply",
    "    LOSE-REPLY             run the command, and send nothing on this connection from now on",
    "    DELAY <milliseconds>   run the command when this time has passed on the server's clock",
    "    TWICE                  run the command twice, send the second reply",
    "    ERROR <text>           do not run the command, reply with this error; LOADING, OOM, READONLY, BUSY,",
    "                           MASTERDOWN, NOREPLICAS, CLUSTERDOWN or TRYAGAIN alone is Redis's error",
    "FAULT LIST",
    "    List the faults that can still strike.",
    "FAULT UNSTRUCK",
    "    List the faults that have never struck.",
    "FAULT CLEAR",
    "    Remove all faults.",
    "HEAL",
    "    End all partitions, so that all servers reach each other again.",
    "LAG <milliseconds | HOLD | NONE>",
    "    Let this replica get late, by this time, what its primary writes; or get nothing; or get all at once.",
    "MOVE-SLOT <slot> <host> <port> [KEYS [<key> ...]]",
    "    Give a slot of this server, with its keys, to another server of the cluster.",
    "    With KEYS, move only these keys: the slot is on its way, and clients get ASK and TRYAGAIN.",
    "PARTITION <host> <port> [<host> <port> ...]",
    "    Part this server from others until HEAL: replication between them, and what they tell each other in a",
    "    cluster, ends. A Sentinel that is parted from a server loses it.",
    "PARTITION ALL",
    "    Part this server from all others.",
    "RESET",
    "    Remove all data and faults. Restore the clock and the settings with which the server started, on all",
    "    servers that replicate, and the role of each.",
    "    Connections stay open.",
    "RESTART [LOSING <milliseconds | ALL | NONE>]",
    "    Crash this server and start it again: all other connections, scripts and settings end. LOSING says which",
    "    writes are lost: those of the last milliseconds. By default, appendonly and appendfsync decide: all are lost",
    "    without appendonly, none with always, those of the last 1000 ms with everysec, and of 30000 ms with no.",
    "    Replicas copy what is left. A Sentinel loses only its connections.",
    "WAIT-BLOCKED <clients> [<milliseconds>]",
    "    Wait until this many clients wait for the reply to a command, such as BLPOP, and return their number.",
    "    It is an error if that takes longer, by default 10000 milliseconds. CLOCK does not change this time.",
    "HELP",
    "    Print this help.",
];

/// A change of the clock.
struct Move {
    word: &'static str,
    takes: &'static [(&'static str, RangeInclusive<i64>)],
    run: fn(&Clock, &[i64]),
    /// It moves time itself, for all servers that replicate, and not only the clock of this one.
    is_time: bool,
}

const MOVES: &[Move] = &[
    Move { word: "NOW", takes: &[], run: |_, _| {}, is_time: false },
    Move {
        word: "SET",
        takes: &[("unix-time-milliseconds", 0..=MILLIS_MAX)],
        run: |clock, args| clock.set(Timestamp::from_millis(args[0])),
        is_time: false,
    },
    Move {
        word: "ADVANCE",
        takes: &[("milliseconds", 0..=MILLIS_MAX)],
        run: |clock, args| clock.jump(args[0]),
        is_time: true,
    },
    Move {
        word: "JUMP",
        takes: &[("milliseconds", -MILLIS_MAX..=MILLIS_MAX)],
        run: |clock, args| clock.jump(args[0]),
        is_time: false,
    },
    Move {
        word: "DRIFT",
        takes: &[("ppm", DRIFT_PPM)],
        run: |clock, args| clock.drift(args[0]),
        is_time: false,
    },
    Move {
        word: "WOBBLE",
        takes: &[("amplitude-milliseconds", 0..=MILLIS_MAX), ("period-milliseconds", 1..=MILLIS_MAX)],
        run: |clock, args| clock.wobble(millis(args[0]), millis(args[1])),
        is_time: false,
    },
    Move { word: "FREEZE", takes: &[], run: |clock, _| clock.freeze(), is_time: true },
    Move { word: "RUN", takes: &[], run: |clock, _| clock.run(), is_time: true },
];

/// `EMULATOR CLOCK <NOW | SET unix-time-milliseconds | ADVANCE milliseconds | JUMP milliseconds |
/// DRIFT ppm | WOBBLE amplitude-milliseconds period-milliseconds | FREEZE | RUN>`
///
/// Everything that is due by the new time has happened before the reply.
fn clock(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let known = MOVES.iter().find(|known| is_word(argv[2], known.word));
    let known = known.ok_or_else(|| {
        let words: Vec<_> = MOVES.iter().map(|known| known.word).collect();
        unknown("EMULATOR CLOCK", argv[2], &words)
    })?;
    let usage = || known.takes.iter().fold(known.word.to_owned(), |line, (name, _)| format!("{line} {name}"));
    if argv.len() - 3 != known.takes.len() {
        return Err(Error::new(format!("ERR wrong number of arguments: write EMULATOR CLOCK {}", usage())));
    }
    let parse = |((name, bounds), arg): (&(&str, RangeInclusive<i64>), &&[u8])| {
        number(arg, bounds.clone(), &format!("EMULATOR CLOCK {}: {name}", known.word))
    };
    let args = known.takes.iter().zip(&argv[3..]).map(parse).collect::<Result<Vec<_>, _>>()?;
    match &ctx.engine.replication.place {
        Some((network, _)) if known.is_time => {
            network.clocks().iter().for_each(|clock| (known.run)(clock, &args));
            network.stir();
        }
        _ => (known.run)(ctx.engine.clock(), &args),
    }
    ctx.engine.begin();
    Ok(Reply::Integer(ctx.engine.now().millis()))
}

const EFFECTS: &[&str] =
    &["DROP-BEFORE", "DROP-AFTER", "LOSE-REPLY", "DELAY", "TWICE", "ERROR", "LIST", "UNSTRUCK", "CLEAR"];

/// `EMULATOR FAULT <<DROP-BEFORE | DROP-AFTER | LOSE-REPLY | DELAY milliseconds | TWICE | ERROR
/// text> [COUNT count] [COMMAND name] [CLIENT name] | LIST | UNSTRUCK | CLEAR>`
fn fault(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let faults = &mut ctx.engine.faults;
    let (effect, options) = match &argv[2..] {
        [word] if is_word(word, "list") => {
            return Ok(listed(faults.iter()));
        }
        [word] if is_word(word, "unstruck") => return Ok(listed(faults.unstruck())),
        [word] if is_word(word, "clear") => {
            faults.clear();
            return Ok(Reply::OK);
        }
        [word, options @ ..] if is_word(word, "drop-before") => (Effect::DropBefore, options),
        [word, options @ ..] if is_word(word, "drop-after") => (Effect::DropAfter, options),
        [word, options @ ..] if is_word(word, "lose-reply") => (Effect::LoseReply, options),
        [word, options @ ..] if is_word(word, "twice") => (Effect::Twice, options),
        [word, span, options @ ..] if is_word(word, "delay") => {
            let span = number(span, 0..=MILLIS_MAX, "EMULATOR FAULT DELAY: milliseconds")?;
            (Effect::Delay(millis(span)), options)
        }
        [word, text, options @ ..] if is_word(word, "error") && !text.is_empty() => {
            (Effect::error(text.to_vec()), options)
        }
        [word, ..] if is_word(word, "delay") => {
            return Err(Error::from_static(
                "ERR wrong number of arguments: write EMULATOR FAULT DELAY milliseconds",
            ));
        }
        [word, ..] if is_word(word, "error") => {
            return Err(Error::from_static(
                "ERR the text of the error is missing: write EMULATOR FAULT ERROR text",
            ));
        }
        [word, ..] if ["list", "unstruck", "clear"].iter().any(|known| is_word(word, known)) => {
            return Err(Error::from_static(
                "ERR EMULATOR FAULT LIST, UNSTRUCK and CLEAR take no more arguments",
            ));
        }
        words => return Err(unknown("EMULATOR FAULT", words[0], EFFECTS)),
    };
    let mut fault = Fault::new(effect);
    for option in options.chunks(2) {
        fault = match option {
            [word, count] if is_word(word, "count") => {
                match number(count, 0..=i64::MAX, "EMULATOR FAULT … COUNT")?.unsigned_abs() {
                    0 => fault.always(),
                    count => fault.count(count),
                }
            }
            [word, name] if is_word(word, "command") => {
                let name = String::from_utf8_lossy(name);
                ctx.table.expect_known(&name)?;
                fault.command(&name)
            }
            [word, name] if is_word(word, "client") => fault.client(name.to_vec()),
            _ => {
                return Err(unknown(
                    "EMULATOR FAULT …",
                    option[0],
                    &["COUNT n", "COMMAND name", "CLIENT name"],
                ));
            }
        };
    }
    faults.place(fault);
    Ok(Reply::OK)
}

fn listed<'a>(faults: impl Iterator<Item = &'a Fault>) -> Reply {
    Reply::Array(faults.map(|fault| Reply::bulk(fault.to_string())).collect())
}

/// `EMULATOR HELP`
fn help(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Array(HELP.iter().copied().map(Reply::status).collect()))
}

/// `EMULATOR RESET`
fn reset(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.reset_to_start();
    ctx.engine.reset_network();
    Ok(Reply::OK)
}

/// How long `EMULATOR WAIT-BLOCKED` waits by default. A client that never blocks must not stop a
/// test for ever.
const PATIENCE_MS: i64 = 10_000;

/// `EMULATOR WAIT-BLOCKED clients [milliseconds]`
fn wait_blocked(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    const PLACE: &str = "EMULATOR WAIT-BLOCKED";
    let clients = number(argv[2], 0..=u32::MAX.into(), &format!("{PLACE}: clients"))?;
    let patience_ms = match &argv[3..] {
        [] => PATIENCE_MS,
        [patience_ms] => number(patience_ms, 0..=MILLIS_MAX, &format!("{PLACE}: milliseconds"))?,
        _ => return Err(Error::new(format!("ERR {PLACE} takes only clients and milliseconds"))),
    };
    let (blocked_clients, clients) = (ctx.engine.waiting.blocked_clients(), clients as usize);
    if clients <= blocked_clients {
        return Ok(Reply::count(blocked_clients));
    }
    let started = ctx.engine.control.as_ref().map_or_else(|| ctx.engine.now(), Clock::now);
    let until = Until::OthersBlock { clients, patience: started + millis(patience_ms) };
    let on_timeout = Reply::Error(Error::new(format!(
        "ERR fewer than {clients} clients have blocked. CLIENT LIST shows what each client does."
    )));
    ctx.engine.move_wake_up();
    Ok(wait_for(ctx, until, Wait { deadline: None, on_timeout }))
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}
