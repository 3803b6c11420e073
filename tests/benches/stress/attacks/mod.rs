//! Runs known attacks, each on a fresh `redis-server` and on a fresh `lockstep serve`. It prints
//! both outcomes side by side.
//!
//! A line counts as worse if lockstep ends, stops answering, replies differently from Redis, or
//! uses far more memory. The exit status is then 1.

mod data;
mod every_function;
mod lua;
mod sockets;

use std::cmp::Ordering;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use redis::Value;

use crate::client::{Client, Lost, is_error, show};
use crate::server::{Program, Server, wait_for};

/// The address space of a server process. An allocation beyond it fails, so that an attack cannot
/// use up the machine's memory.
const ADDRESS_SPACE_BYTES_MAX: u64 = 2 << 30;
/// The most time for an attack. If it takes longer, its client counts as hanging.
const ATTACK_MAX: Duration = Duration::from_secs(60);
/// The most time for an attack that never ends on Redis.
const ENDLESS_ATTACK_MAX: Duration = Duration::from_secs(2);
/// The most time in which another client may wait or get `BUSY`. After that, it counts as not
/// served.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Parts of the scripts that end on Redis after five seconds or more.
const LONG: &[&str] = &[
    "find(('a'):rep(3e5)",
    "pcall(xpcall, error, function() while",
    "s:upper()",
    "s:gsub('y', '')",
    "table.foreach(t, rawequal)",
    "redis.call('set', 'l', 'x', 'nx')",
    "s=s..s",
    "t={t,t} end return #cmsgpack.pack(t)",
];
/// The memory is worse if it exceeds twice Redis's by more than this.
const MEMORY_MORE_BYTES_MAX: u64 = 128 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only the lines and groups whose text contains this
    filter: Option<String>,
    /// Leave out the attacks that never end on Redis or take it long, because each waits for that
    #[arg(long)]
    short: bool,
}

/// Sends an attack and returns its reply as text.
type Run = dyn Fn(&Server) -> Result<String, Lost> + Sync;

/// The bytes or commands of an attack, and how the replies of the two servers are compared.
struct Attack {
    /// The attack as the table shows it.
    sent: String,
    run: Box<Run>,
    judge: Judge,
    /// It never ends on Redis, or after five seconds or more.
    is_long: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Judge {
    /// The reply must equal Redis's.
    Same,
    /// The reply must be an error if Redis replies with an error, and a value otherwise.
    Kind,
    /// Any reply is correct if the server continues to serve other clients.
    Lives,
    /// Only this reply is harmless, whatever Redis replies.
    Only(&'static str),
}

impl Attack {
    fn new(
        sent: impl Into<String>,
        judge: Judge,
        run: impl Fn(&Server) -> Result<String, Lost> + Sync + 'static,
    ) -> Attack {
        let sent = sent.into();
        let is_long = LONG.iter().any(|part| sent.contains(part));
        Attack { sent, run: Box::new(run), judge, is_long }
    }

    /// Commands of one client. The reply to the last one counts.
    fn commands(sent: impl Into<String>, judge: Judge, commands: Vec<Vec<Vec<u8>>>) -> Attack {
        Attack::patient(sent, judge, ATTACK_MAX, commands)
    }

    /// Commands that never end on Redis.
    fn endless(sent: impl Into<String>, commands: Vec<Vec<Vec<u8>>>) -> Attack {
        let attack = Attack::patient(sent, Judge::Lives, ENDLESS_ATTACK_MAX, commands);
        Attack { is_long: true, ..attack }
    }

    fn patient(
        sent: impl Into<String>,
        judge: Judge,
        patience: Duration,
        commands: Vec<Vec<Vec<u8>>>,
    ) -> Attack {
        Attack::new(sent, judge, move |server| {
            let mut client = connect(server)?;
            client.be_patient(patience)?;
            let mut reply = Value::Nil;
            for argv in &commands {
                reply = client.ask(argv)?;
            }
            Ok(show(&reply))
        })
    }
}

/// The outcome of an attack on one server.
struct Outcome {
    fate: Fate,
    resident_bytes_max: u64,
}

/// In order: each variant is worse than the one before.
enum Fate {
    /// The server serves others, and sent this reply.
    Answers(String),
    /// The server serves others, but the attacker still waits.
    Hangs,
    /// The server does not serve others.
    Deaf(String),
    Ended(String),
}

impl Fate {
    fn rank(&self) -> usize {
        match self {
            Fate::Answers(_) => 0,
            Fate::Hangs => 1,
            Fate::Deaf(_) => 2,
            Fate::Ended(_) => 3,
        }
    }
}

impl Outcome {
    fn shown(&self) -> String {
        let fate = match &self.fate {
            Fate::Answers(reply) => reply.clone(),
            Fate::Hangs => "HANGS".into(),
            Fate::Deaf(why) => format!("DEAF: {why}"),
            Fate::Ended(how) => format!("ENDED: {how}"),
        };
        // This text is the same in all script errors.
        let fate = fate.replace("user_script:1: ", "");
        match self.resident_bytes_max >> 20 {
            mib @ 100.. => format!("{mib} MiB, {fate}"),
            _ => fate,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut judgements = Vec::new();
    let mut details = Vec::new();
    println!("{}", row("sent", "redis-server", "lockstep", "result"));
    println!("{}", "-".repeat(WIDTHS.iter().sum::<usize>() + WIDTHS.len() - 1));
    for (group, attacks) in [
        ("Lua: libraries", lua::libraries()),
        ("Lua: parser and stack", lua::parser()),
        ("Lua: sandbox", lua::sandbox()),
        ("Lua: time and memory", lua::endless()),
        ("Lua: every function", every_function::attacks()),
        ("commands", data::attacks()),
        ("sockets", sockets::attacks()),
    ] {
        let is_chosen = |attack: &Attack| {
            !(args.short && attack.is_long)
                && args
                    .filter
                    .as_deref()
                    .is_none_or(|filter| group.contains(filter) || attack.sent.contains(filter))
        };
        let attacks: Vec<_> = attacks.into_iter().filter(is_chosen).collect();
        if !attacks.is_empty() {
            println!("{group}");
        }
        for attack in attacks {
            let [theirs, ours] = &attack_both(&attack)?;
            let judgement = judge(attack.judge, theirs, ours);
            judgements.push(judgement);
            let word = match judgement {
                Ordering::Less => "better",
                Ordering::Equal => "same",
                Ordering::Greater => "worse",
            };
            let (theirs, ours) = (theirs.shown(), ours.shown());
            println!("{}", row(&format!("  {}", attack.sent), &theirs, &ours, word));
            if judgement == Ordering::Greater {
                let [theirs, ours] =
                    [theirs, ours].map(|text| text.chars().take(DETAIL_CHARS_MAX).collect::<String>());
                details.push(format!("{}\n  redis-server  {theirs}\n  lockstep      {ours}", attack.sent));
            }
        }
    }
    if !details.is_empty() {
        println!("\nworse:\n{}", details.join("\n"));
    }
    let count = |judgement| judgements.iter().filter(|&&made| made == judgement).count();
    let [same, better, worse] = [Ordering::Equal, Ordering::Less, Ordering::Greater].map(count);
    println!("\n{} attacks: {same} same, {better} better, {worse} worse than redis-server", judgements.len());
    Ok(if worse == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The outcomes on Redis and on lockstep.
fn attack_both(attack: &Attack) -> Result<[Outcome; 2]> {
    let start = |program| Server::start(program, Some(ADDRESS_SPACE_BYTES_MAX));
    let mut servers = [start(Program::RedisServer)?, start(Program::Lockstep)?];
    let outcomes = thread::scope(|scope| {
        let threads = servers.each_mut().map(|server| scope.spawn(|| attack_one(attack, server)));
        threads.map(|thread| thread.join().expect("an attack does not panic"))
    });
    let [theirs, ours] = outcomes;
    Ok([theirs?, ours?])
}

fn attack_one(attack: &Attack, server: &mut Server) -> Result<Outcome> {
    // Another client, which takes no part in the attack.
    let mut other = connect(server)?;
    other.be_patient(BUSY_MAX)?;
    let reply = (attack.run)(server);
    let is_served = is_served(&mut other);
    let resident_bytes_max = server.usage().map_or(0, |usage| usage.resident_bytes_max);
    // If a process has closed its sockets, it may need a moment to end.
    let patience = if is_served.is_ok() { Duration::ZERO } else { Duration::from_secs(10) };
    let fate = match (wait_for(patience, || server.exited()), is_served, reply) {
        (Some(status), ..) => Fate::Ended(status.to_string()),
        (None, Err(why), _) => Fate::Deaf(why),
        (None, Ok(()), Err(Lost::Silent)) => Fate::Hangs,
        (None, Ok(()), Err(lost)) => Fate::Answers(lost.to_string()),
        (None, Ok(()), Ok(reply)) => Fate::Answers(masked(&reply)),
    };
    Ok(Outcome { fate, resident_bytes_max })
}

fn is_served(other: &mut Client) -> Result<(), String> {
    let mut last = String::from("no reply");
    let pong = wait_for(BUSY_MAX, || match other.ask(&["PING"]) {
        Ok(reply) if is_error(&reply, "BUSY") => {
            last = "BUSY".into();
            None
        }
        Ok(reply) if reply == Value::SimpleString("PONG".into()) => Some(Ok(())),
        Ok(reply) => Some(Err(show(&reply))),
        Err(lost) => Some(Err(lost.to_string())),
    });
    pong.unwrap_or(Err(last))
}

/// Compares lockstep's outcome with Redis's: `Greater` is worse.
fn judge(judge: Judge, theirs: &Outcome, ours: &Outcome) -> Ordering {
    let is_alive = !matches!(theirs.fate, Fate::Ended(_));
    if is_alive && ours.resident_bytes_max > 2 * theirs.resident_bytes_max + MEMORY_MORE_BYTES_MAX {
        return Ordering::Greater;
    }
    let (Fate::Answers(their_reply), Fate::Answers(our_reply)) = (&theirs.fate, &ours.fate) else {
        return ours.fate.rank().cmp(&theirs.fate.rank());
    };
    let is_right = match judge {
        Judge::Same => our_reply == their_reply,
        Judge::Kind => is_error_text(our_reply) == is_error_text(their_reply),
        Judge::Lives => true,
        Judge::Only(harmless) => return (our_reply != harmless).cmp(&(their_reply != harmless)),
    };
    if is_right { Ordering::Equal } else { Ordering::Greater }
}

/// Whether the reply begins with an error code.
fn is_error_text(reply: &str) -> bool {
    let code = reply.split(' ').next().unwrap_or_default();
    code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn connect(server: &Server) -> Result<Client, Lost> {
    let client = server.connect()?;
    client.be_patient(ATTACK_MAX)?;
    Ok(client)
}

/// The reply without addresses, which differ from run to run.
fn masked(reply: &str) -> String {
    let mut parts = reply.split("0x");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked += "0x…";
        masked += part.trim_start_matches(|char: char| char.is_ascii_hexdigit());
    }
    masked
}

/// How many characters of a reply are shown below the table.
const DETAIL_CHARS_MAX: usize = 300;
/// The columns of the table: 120 characters in all.
const WIDTHS: [usize; 4] = [57, 27, 27, 6];

fn row(sent: &str, theirs: &str, ours: &str, judgement: &str) -> String {
    let cells = [sent, theirs, ours, judgement].into_iter().zip(WIDTHS);
    let cell = |(text, width): (&str, usize)| {
        let text = if text.chars().count() > width {
            text.chars().take(width - 1).chain(['…']).collect()
        } else {
            text.to_owned()
        };
        format!("{text:<width$}")
    };
    cells.map(cell).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

fn argv<const N: usize>(args: [&str; N]) -> Vec<Vec<u8>> {
    args.map(|arg| arg.as_bytes().to_vec()).to_vec()
}
