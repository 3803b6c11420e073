//! Sends random commands of three clients to the emulator and to the real server. Every reply and
//! the final state must be equal.
//!
//! [`forms`] has the random commands, and [`script`] the random Lua. [`library`] has hostile calls
//! of every function that scripts can reach. [`judge`] has what Redis guarantees of a reply, and
//! [`play`] sends the commands to both.
//!
//! The reference is the real server. It has no model, its state cannot be cloned, and every command
//! is allowed in every state. So a plain `vec` of commands does all that `proptest-state-machine`
//! would do. It needs no preconditions and no model, which would be a third opinion. It also
//! shrinks best, because any command can be left out.
//!
//! [`bytes`] compares both servers below the level of commands: bytes in, bytes out.
//!
//! `cargo test` plays the same sequences each time. `LOCKSTEP_SEQUENCES` is their number, and
//! `LOCKSTEP_SEED` is the first seed:
//!
//! ```sh
//! LOCKSTEP_SEQUENCES=1000000 LOCKSTEP_SEED=1000 cargo test --release -p lockstep-emulator --test suite random_
//! ```
//!
//! One difference hides others. `LOCKSTEP_WITHOUT=zunion,cjson` leaves out every form that contains
//! one of these words.
//!
//! A failure is printed as a transcript. Append it to `data/differences.txt`; `UPDATE_EXPECT=1`
//! then writes the replies.

mod forms;
mod grammar;
mod script;
mod command;
mod values;
mod library;
mod judge;
mod play;
mod bytes;
mod replicas;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};

use command::Step;
use play::{Difference, Pace, Pair};

use super::wire::parse;
use crate::bounds::{LIBRARY_SEQUENCES, SEQUENCES, STREAMS};
use crate::redis_server::{self, OwnServer};

/// The number of sequences, or of streams, per seed.
const SEQUENCES_PER_SEED: u64 = 250;
/// One sequence with waits is played for this many without.
const SEQUENCES_PER_TIMED: u64 = 400;
/// The most sequences with waits.
const TIMED_SEEDS_MAX: u64 = 1_000;
/// How many sequences are played at once, each on a server of its own. While one thread waits for
/// its server, another runs.
const WORKERS: usize = 4;
/// A thread stops after this many failures. Failures about the same command are shown once.
const REPORTS_PER_WORKER_MAX: usize = 16;
/// The most replays to shrink a failure.
const SHRINKS_MAX: u32 = 4096;

#[test]
fn random_commands_have_the_same_replies() {
    let (seed, sequences) = (first_seed(), SEQUENCES.get());
    check(command::sequences, seed..seed + sequences.div_ceil(SEQUENCES_PER_SEED), SEQUENCES_PER_SEED);
}

#[test]
fn random_library_calls_have_the_same_replies() {
    let (seed, sequences) = (first_seed(), LIBRARY_SEQUENCES.get());
    check(library::sequences, seed..seed + sequences.div_ceil(SEQUENCES_PER_SEED), SEQUENCES_PER_SEED);
}

#[test]
fn time_passes_alike() {
    let (seed, sequences) = (first_seed(), SEQUENCES.get());
    let seeds = (sequences / SEQUENCES_PER_TIMED).clamp(1, TIMED_SEEDS_MAX);
    check(command::timed_sequences, seed..seed + seeds, 1);
}

#[test]
fn random_bytes_have_the_same_replies() {
    let (seed, streams) = (first_seed(), STREAMS.get());
    in_workers(seed..seed + streams.div_ceil(SEQUENCES_PER_SEED), |server| {
        let mut peers = bytes::Peers::new(server);
        peers.expect_left_out_are_named();
        move |seed| peers.play(seed, SEQUENCES_PER_SEED)
    });
}

/// Plays the sequences of these seeds, and fails with a report if there is a difference.
fn check(sequences: fn() -> BoxedStrategy<Vec<Step>>, seeds: Range<u64>, per_seed: u64) {
    in_workers(seeds, |server| {
        let (pair, sequences) = (RefCell::new(Pair::new(server)), sequences());
        move |seed| play(&pair, &sequences, seed, per_seed)
    });
}

/// Starts several threads, each with a server of its own, that play one seed after the other. Fails
/// if any of them returns a report. A report is a subject and the whole text.
fn in_workers<F: FnMut(u64) -> Option<(String, String)>>(
    seeds: Range<u64>,
    begin: impl Fn(OwnServer) -> F + Sync,
) {
    let servers = redis_server::start_own(WORKERS);
    let next = AtomicU64::new(seeds.start);
    let worker = |server| {
        std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)))
            .take_while(|&seed| seed < seeds.end)
            .filter_map(begin(server))
            .take(REPORTS_PER_WORKER_MAX)
            .collect::<Vec<_>>()
    };
    let reports: BTreeMap<String, String> = std::thread::scope(|scope| {
        let workers: Vec<_> = servers.into_iter().map(|server| scope.spawn(|| worker(server))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a lane reports what fails")).collect()
    });
    assert!(reports.is_empty(), "{}", reports.into_values().collect::<String>());
}

/// `LOCKSTEP_SEED`, or zero.
fn first_seed() -> u64 {
    let seed = std::env::var("LOCKSTEP_SEED");
    seed.map_or(0, |seed| seed.parse().unwrap_or_else(|error| panic!("LOCKSTEP_SEED is a number: {error}")))
}

/// Plays the sequences of one seed. Reports the first failure: its subject and the whole text.
fn play(
    pair: &RefCell<Pair>,
    sequences: &BoxedStrategy<Vec<Step>>,
    seed: u64,
    per_seed: u64,
) -> Option<(String, String)> {
    let result = runner(seed, per_seed).run(sequences, |steps| {
        let result = pair.borrow_mut().play(&steps, Pace::InRows);
        result.map_err(|difference| TestCaseError::fail(report(&steps, &difference)))
    });
    let (reason, steps) = failure(result)?;
    let about = match steps.last() {
        Some(Step::Call(_, argv)) => argv[0].to_string(),
        Some(Step::Advance(_)) | None => "time".into(),
    };
    let alone = pair.borrow_mut().play(&steps, Pace::OneByOne);
    let text =
        alone.map_or_else(|difference| report(&steps, &difference), |()| format!("(in one piece)\n{reason}"));
    Some((about, format!("LOCKSTEP_SEED={seed} LOCKSTEP_SEQUENCES=1\n{text}\n")))
}

/// A runner that makes the same cases each time for a seed.
fn runner(seed: u64, cases: u64) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases: cases as u32,
        max_shrink_iters: SHRINKS_MAX,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

/// The reason of the failure and its case, if it failed.
fn failure<T: std::fmt::Debug>(result: Result<(), TestError<T>>) -> Option<(String, T)> {
    match result {
        Ok(()) => None,
        Err(TestError::Fail(reason, case)) => Some((reason.to_string(), case)),
        Err(TestError::Abort(reason)) => panic!("cases cannot be made: {reason}"),
    }
}

/// A transcript up to the first difference, and both servers' replies there.
fn report(steps: &[Step], difference: &Difference) -> String {
    let mut text = String::from("\n## what differs\n");
    for step in &steps[..difference.steps.min(steps.len())] {
        match step {
            Step::Call(client, argv) => {
                let words = argv.iter().map(|word| quote(word)).collect::<Vec<_>>();
                writeln!(text, "{}> {}", ["", "b", "c"][*client], words.join(" "))
                    .expect("a string takes text");
            }
            Step::Advance(span) => {
                writeln!(text, "advance {}ms", span.as_millis()).expect("a string takes text");
            }
        }
    }
    if let Some(look) = &difference.look {
        writeln!(text, "> {look}").expect("a string takes text");
    }
    for (who, replies) in [("server", &difference.real), ("emulator", &difference.emulated)] {
        let shown = replies
            .iter()
            .filter_map(|reply| Some(parse(reply)?.0.to_string().replace('\n', "\n              ")));
        let shown = shown.collect::<Vec<_>>().join("\n              ");
        writeln!(text, "    {who:9} {}", if shown.is_empty() { "(nothing)" } else { &shown })
            .expect("a string takes text");
    }
    text
}

/// A word in the syntax of `redis-cli`.
fn quote(word: &str) -> String {
    let is_plain =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte));
    if is_plain {
        word.to_owned()
    } else {
        format!("\"{}\"", word.escape_default().to_string().replace("\\'", "'"))
    }
}
