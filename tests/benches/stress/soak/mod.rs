//! Many clients at once. Some are killed, and some disconnect in the middle of a command. Every
//! reply is compared with a model, and shared data must add up. After each round, when all clients
//! have disconnected, the server may not use more than it did after earlier rounds.
//!
//! The seed decides what each client sends. The machine decides how the clients' commands
//! interleave.

mod arguments;
mod scripts;
mod draw;
mod expect;
mod keyspace;
mod model;
mod state;
mod worker;
mod others;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use redis::Value;

use self::others::BUSY_THRESHOLD_MS;
use self::state::{Counts, End, Soak, lock};
use crate::client::{Client, bulk, show};
use crate::server::{Program, Server, Usage, grows, judge_growth, now, pause, since};

/// The number of rounds. Each lasts `--seconds` divided by this.
const ROUNDS: u32 = 6;
/// The most time until the server has ended after SIGTERM.
const END_MAX: Duration = Duration::from_secs(10);
/// How long clients run before SIGTERM.
const LOAD_BEFORE_END: Duration = Duration::from_secs(1);
/// The most by which the memory of an empty server may be greater in later rounds than in earlier
/// ones.
const MEMORY_GROWTH_BYTES_MAX: u64 = 8 * 1024 * 1024;

const MOVER: &str = "mover";
const PRODUCERS: usize = 2;
const MOVERS: usize = 2;
const POPPERS: usize = 2;
const LISTENERS: usize = 3;
const KILLERS: usize = 2;
const SLOW_READERS: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long clients run, in all rounds together
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// How many clients have keys of their own; about twenty others share keys
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// The seed from which each client's commands are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server; `redis-server` checks the model
    #[arg(long, value_enum, default_value_t = Program::Lockstep)]
    against: Program,
    /// Bytes of requests that a client writes before it reads the first reply; the replies are
    /// thirty times as large
    #[arg(long, default_value_t = 10 * 1024 * 1024)]
    pipeline_bytes: usize,
    /// Clients that disconnect while an endless script runs
    #[arg(long, default_value_t = 100)]
    leavers: usize,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut server = Server::start(args.against, None)?;
    let mut observer = server.connect()?;
    observer.ask(&["PING"])?;
    let counts = Counts::default();
    println!("soak of {}: seed {}, {} clients and others", args.against, args.seed, args.clients);
    let at_start = server.usage()?;
    println!("  at the start   {at_start}");
    let mut rounds = Vec::new();
    for round in 1..=2 * ROUNDS {
        if round == ROUNDS + 1 {
            if !grows(&rounds, MEMORY_GROWTH_BYTES_MAX) {
                break;
            }
            println!("  memory grows: as many rounds more tell whether it goes on");
        }
        let span = Duration::from_secs(args.seconds.into()) / ROUNDS;
        if let Some(failure) = run_round(args, &server, &counts, round, span)? {
            println!("{failure}\nFAILED in round {round}; the seed is {}", args.seed);
            print!("{}", server.said());
            return Ok(ExitCode::FAILURE);
        }
        let usage = settle(&server, &mut observer, at_start)?;
        println!(
            "  after round {round}  {usage}  {:9} replies checked",
            counts.checked.load(Ordering::Relaxed)
        );
        rounds.push(usage);
    }
    judge_growth(at_start, &rounds[rounds.len() - ROUNDS as usize..], MEMORY_GROWTH_BYTES_MAX)?;
    end_under_load(args, &mut server, &counts)?;
    let [checked, killed, cut, busy] = [&counts.checked, &counts.killed, &counts.cut, &counts.busy]
        .map(|count| count.load(Ordering::Relaxed));
    println!(
        "passed: {checked} replies and messages checked, 0 wrong; {killed} clients killed, {cut} left in the middle of something; \
         {busy} endless scripts killed"
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs one round, and returns its first failure.
fn run_round(
    args: &Args,
    server: &Server,
    counts: &Counts,
    round: u32,
    span: Duration,
) -> Result<Option<String>> {
    let soak = Soak::new(server.addr, counts);
    prepare(server)?;
    let start = now();
    with_clients(args, &soak, round, || {
        while since(start) < span && !soak.is_stopping() {
            pause(Duration::from_millis(20));
        }
    });
    soak.run("the sum", || check_sum(&soak));
    soak.run("the queue", || others::check_queue(&soak, &names(MOVER, MOVERS)));
    Ok(soak.failure())
}

/// The behaviour of one client until the world stops.
type Part = fn(&Soak<'_>, &str, &mut Pcg64Mcg, &Args) -> Result<(), End>;

/// The clients: their names, their numbers and their behaviour.
fn cast(args: &Args) -> [(&'static str, usize, Part); 10] {
    [
        ("worker", args.clients, |soak, name, rng, _| worker::run(soak, name, rng)),
        ("producer", PRODUCERS, |soak, name, rng, _| others::produce(soak, name, rng)),
        (MOVER, MOVERS, |soak, name, _, _| others::consume_by_move(soak, name)),
        ("popper", POPPERS, |soak, name, _, _| others::consume_by_pop(soak, name)),
        ("publisher", 1, |soak, _, rng, _| others::publish(soak, rng)),
        ("listener", LISTENERS, |soak, name, _, _| others::listen(soak, name)),
        ("killer", KILLERS, |soak, _, rng, _| others::kill(soak, rng)),
        ("slow-reader", SLOW_READERS, |soak, name, rng, _| others::read_slowly(soak, name, rng)),
        ("late-reader", 1, |soak, name, _, args| others::read_late(soak, name, args.pipeline_bytes)),
        ("busy", 1, |soak, _, rng, args| others::be_busy(soak, args.leavers, rng)),
    ]
}

/// Runs all clients, and `beside` at the same time, until the clients end.
fn with_clients<T>(args: &Args, soak: &Soak<'_>, round: u32, beside: impl FnOnce() -> T) -> T {
    soak.listeners.store(LISTENERS, Ordering::Relaxed);
    thread::scope(|scope| {
        let mut nth_client = 0;
        for (kind, count, part) in cast(args) {
            for name in names(kind, count) {
                nth_client += 1;
                let stream = u64::from(round) << 32 | nth_client;
                let mut rng = Pcg64Mcg::seed_from_u64(args.seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                scope.spawn(move || soak.run(&name, || part(soak, &name, &mut rng, args)));
            }
        }
        let out = beside();
        soak.is_stopping.store(true, Ordering::Relaxed);
        out
    })
}

fn names(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|nth| format!("{kind}{nth}")).collect()
}

/// Loads the settings and scripts that clients need.
fn prepare(server: &Server) -> Result<()> {
    let mut client = server.connect()?;
    client.ask(&["CONFIG", "SET", "busy-reply-threshold", BUSY_THRESHOLD_MS])?;
    for script in scripts::all() {
        let sha1 = client.ask(&["SCRIPT", "LOAD", script.source])?;
        ensure!(sha1 == bulk(script.sha1()), "SCRIPT LOAD: {}", show(&sha1));
    }
    let library = client.ask(&["FUNCTION", "LOAD", "REPLACE", &scripts::library()])?;
    ensure!(library == bulk("soak"), "FUNCTION LOAD: {}", show(&library));
    Ok(())
}

/// All clients together must have added to the shared key as often as to their own keys.
fn check_sum(soak: &Soak<'_>) -> Result<(), End> {
    let mut member = soak.join()?;
    let added = lock(&soak.ledger).added.to_string();
    soak.expect(&mut member.client, &["GET", draw::EVERYBODYS], &bulk(added))
}

/// Empties the server when all clients have disconnected. Returns its usage.
fn settle(server: &Server, observer: &mut Client, at_start: Usage) -> Result<Usage> {
    for command in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["FUNCTION", "FLUSH"]] {
        let reply = observer.ask(command)?;
        ensure!(reply == Value::Okay, "{command:?}: {}", show(&reply));
    }
    server.usage_alone(observer, at_start)
}

/// Sends SIGTERM while all clients are active.
fn end_under_load(args: &Args, server: &mut Server, counts: &Counts) -> Result<()> {
    let soak = Soak::new(server.addr, counts);
    prepare(server)?;
    let start = now();
    let ended = with_clients(args, &soak, ROUNDS + 1, || {
        while since(start) < LOAD_BEFORE_END && !soak.is_stopping() {
            pause(Duration::from_millis(20));
        }
        soak.is_ending.store(true, Ordering::Relaxed);
        server.terminate(END_MAX)
    })?;
    if let Some(failure) = soak.failure() {
        bail!("{failure}\nFAILED before SIGTERM; the seed is {}", args.seed);
    }
    let status = ended.with_context(|| format!("FAILED: {END_MAX:?} after SIGTERM it still runs"))?;
    let said = server.said();
    ensure!(status.success() && !said.contains("panicked"), "FAILED: SIGTERM under load: {status}\n{said}");
    println!("  SIGTERM under load: {status}, within the bound of {END_MAX:?}");
    Ok(())
}
