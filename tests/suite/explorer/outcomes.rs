//! The outcomes of a reduced exploration equal those of brute force. An outcome is everything that
//! clients, servers and oracles see. This judge does not use the dependency relation of the
//! explorer, so it notices a dependency that the relation lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use harness::actor::ACTORS_MAX;
use harness::execution::{Learning, Runner};
use harness::explore::{DepthFirst, Dpor, probe_timers};
use harness::oracle::{
    ExclusiveBelief, ExclusiveFact, Fenced, NoLeak, NoLostWakeUp, OwnerSafe, Progress, Rate, Recovers,
    Success, Unbroken,
};
use harness::schedule::Step;
use harness::sim::Recording;
use harness::trace::{EventKind, History};
use harness::{Faults, Scenario, Schedule, exhaustive, replay};
use redis::Commands as _;

use super::traces::commands::{of, sends};
use super::traces::kinds::kinds;
use super::traces::known_counts::count;
use crate::bounds;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// If brute force needs more schedules than this, the program is left out. A test counts them.
const SCHEDULES_MAX: usize = 20_000;

const LIBRARY: &str = "#!lua name=counter
local calls = 0
redis.register_function('count', function(keys) calls = calls + 1 return redis.call('SET', keys[1], calls) end)
redis.register_function('peek', function() return redis.call('SET', 'peeked', calls) end)";

/// Adds servers, a library, probes, and all oracles but `Fenced`.
pub(super) fn judged(scenario: Scenario) -> Scenario {
    let ms = Duration::from_millis;
    let prepared = scenario.servers(3).before(|client| async move {
        let load = redis::cmd("FUNCTION").arg("LOAD").arg(LIBRARY).to_owned();
        Ok(load.exec_async(&mut client.connection()).await?)
    });
    probed(prepared)
        .always(ExclusiveFact::of("cs"))
        .always(ExclusiveBelief::of("cs", 1))
        .always(OwnerSafe)
        .always(Unbroken::of("cs"))
        .always(NoLostWakeUp::of("cs", ms(4)))
        .always(NoLeak)
        .always(Recovers)
        .always(Progress::of(&["cs"]))
}

/// Adds clients at the end. One says what it sees; the other would get a lock.
pub(super) fn probed(scenario: Scenario) -> Scenario {
    let judged = scenario.finally("nothing to see", |client, ended| async move {
        let seen = redis::cmd("MGET").arg(&["a", "b", "k"]).to_owned();
        let seen: Vec<Option<String>> = seen.query_async(&mut client.connection()).await?;
        Err(format!("{seen:?} {ended:?}").into())
    });
    judged.probe(1, |client| async move {
        let set = redis::cmd("SET").arg(&["k", "probe", "NX"]).to_owned();
        Ok(set.query_async(&mut client.connection()).await?)
    })
}

/// Adds an invariant. What it reads second depends on what it has read first.
pub(super) fn watched(scenario: Scenario) -> Scenario {
    scenario.invariant("a is b", |data| {
        let a: Option<String> = data.get("a").unwrap_or_default();
        let Some(a) = a else { return Ok(()) };
        let b: Option<String> = data.get("b").unwrap_or_default();
        if b.is_some_and(|b| a != b) { Err(format!("a is {a}, and b is another").into()) } else { Ok(()) }
    })
}

/// Everything that clients, servers and oracles see of an execution, as text. The time of a command
/// is no part of it: if the command does not depend on the time, nobody sees when it ran.
pub(super) fn outcome(scenario: &Scenario, history: &History) -> String {
    let (mut of_actors, mut marks) = (BTreeMap::<String, String>::new(), String::new());
    let (mut keys, mut returned) = (BTreeMap::new(), BTreeSet::new());
    for event in &history.events {
        // A wait in vain lasts for a day, and shows nothing.
        let at = event.at.as_millis() % DAY.as_millis();
        match &event.kind {
            EventKind::Command { actor, server, text, reply, changed, .. } => {
                let own = of_actors.entry(actor.to_string()).or_default();
                _ = writeln!(own, "  server {server}: {text} -> {reply}");
                for change in changed {
                    keys.insert((*server, change.name()), change.to_string());
                }
            }
            EventKind::Message { actor, text, .. } => {
                _ = writeln!(of_actors.entry(actor.to_string()).or_default(), "  {text}");
            }
            EventKind::Enter { .. }
            | EventKind::Extended { .. }
            | EventKind::Leave { .. }
            | EventKind::Ended { .. }
            | EventKind::Shortened { .. }
            | EventKind::Did { .. }
            | EventKind::Judged { .. }
            | EventKind::Probed { .. } => _ = writeln!(marks, "  {at} ms: {:?}", event.kind),
            // A call comes after those that have returned.
            EventKind::Called { call: call @ (actor, _), what } => {
                let own = of_actors.entry(actor.to_string()).or_default();
                _ = writeln!(own, "  {call:?} calls {what} after {returned:?}");
            }
            EventKind::Returned { call: call @ (actor, _), answer, .. } => {
                returned.insert(*call);
                _ = writeln!(of_actors.entry(actor.to_string()).or_default(), "  {call:?} has {answer}");
            }
            EventKind::Broken { name, what } => _ = writeln!(marks, "  {name}: {what}"),
            EventKind::Overrun { actor, .. } => _ = writeln!(marks, "  {at} ms: overrun of {actor}"),
            EventKind::Accepted { actor, resource, token, .. } => {
                _ = writeln!(marks, "  {at} ms: {resource} accepts {token} of {actor}");
            }
            EventKind::Failed { actor, error } | EventKind::GaveUp { actor, error } => {
                _ = writeln!(of_actors.entry(actor.to_string()).or_default(), "  {error}");
            }
            EventKind::Stuck { actor } | EventKind::Endless { actor, .. } => {
                of_actors.entry(actor.to_string()).or_default().push_str("  stuck\n");
            }
            EventKind::AllEnded
            | EventKind::Arrived { .. }
            | EventKind::Fault { .. }
            | EventKind::RetriesEnded { .. }
            | EventKind::Advanced { .. }
            | EventKind::Lapsed { .. }
            | EventKind::Late { .. }
            | EventKind::Received { .. }
            | EventKind::Started { .. }
            | EventKind::SubscriptionEnded { .. } => {}
        }
    }
    let mut text = String::new();
    of_actors.iter().for_each(|(actor, own)| _ = write!(text, "{actor}:\n{own}"));
    _ = write!(text, "marks:\n{marks}keys:\n");
    keys.iter().for_each(|((server, _), line)| _ = writeln!(text, "  server {server}: {line}"));
    for oracle in scenario.oracles() {
        if oracle.check(history).is_some() {
            _ = writeln!(text, "violated: {}", oracle.name());
        }
    }
    text
}

/// The outcomes with a schedule for each, and the number of schedules.
pub(super) type Outcomes = BTreeMap<String, Vec<Step>>;

fn outcome_of(runner: &mut Runner, scenario: &Scenario, steps: &[Step], outcomes: &mut Outcomes) {
    let schedule = Schedule { steps: steps.to_vec() };
    let history = replay(runner, scenario, &schedule, Recording::Full);
    outcomes.entry(outcome(scenario, &history)).or_insert(schedule.steps);
}

/// The outcomes of all orders. `None` if there are too many.
fn brute_force(runner: &mut Runner, scenario: &Scenario) -> Option<(Outcomes, usize)> {
    let (mut outcomes, mut schedules) = (Outcomes::new(), 0);
    let mut depth_first = DepthFirst::default();
    while depth_first.next_schedule(usize::MAX) {
        schedules += 1;
        if schedules > SCHEDULES_MAX {
            return None;
        }
        let history = runner.run(scenario, &mut depth_first, Recording::Full);
        if probe_timers(runner, scenario, &history) {
            outcome_of(runner, scenario, &history.steps, &mut outcomes);
        } else {
            outcomes.entry(outcome(scenario, &history)).or_insert(history.into_history().steps);
        }
    }
    Some((outcomes, schedules))
}

/// The outcomes of the reduction.
pub(super) fn reduced(runner: &mut Runner, scenario: &Scenario) -> Outcomes {
    runner.learn_thresholds(scenario);
    let (mut outcomes, mut dpor) = (Outcomes::new(), Dpor::default());
    while let Some(history) = dpor.run_next(runner, scenario) {
        if !dpor.is_blocked() {
            outcome_of(runner, scenario, &history.steps, &mut outcomes);
        }
    }
    outcomes
}

/// Compares the outcomes of the reduction with those of brute force. Returns how many outcomes and
/// schedules there are. `None` if there are too many schedules.
pub(super) fn compare_outcomes(scenario: &Scenario) -> Option<(usize, usize)> {
    let mut runner = Runner::new().learning(Learning::Off);
    let reduced_if_all_run = reduced(&mut runner, scenario);
    let reduced = reduced(&mut Runner::new().learning(Learning::Eager), scenario);
    assert!(
        reduced.keys().eq(reduced_if_all_run.keys()),
        "{scenario:?}: learned clients have other outcomes"
    );
    // The reduction has found out which clients have timers.
    let (all, schedules) = brute_force(&mut runner, scenario)?;
    let only = |one: &Outcomes, other: &Outcomes| {
        let only: Vec<_> = one.iter().filter(|(outcome, _)| !other.contains_key(*outcome)).collect();
        only.first().map(|(outcome, steps)| format!("{} of them, {steps:?}\n{outcome}", only.len()))
    };
    let (missed, invented) = (only(&all, &reduced), only(&reduced, &all));
    assert!(
        missed.is_none() && invented.is_none(),
        "{scenario:?}\nmissed {}\ninvented {}",
        missed.unwrap_or_default(),
        invented.unwrap_or_default()
    );
    Some((all.len(), schedules))
}

/// Programs that draw from everything that a client can do.
#[test]
fn brute_force_finds_the_same_outcomes_of_random_programs() {
    let programs = bounds::OUTCOMES.get();
    for (nth, (name, kind)) in (0..).zip(kinds()) {
        let (mut outcomes, mut schedules, mut left_out) = (0, 0, 0);
        for seed in 0..programs {
            let mut program = judged(kind.program(seed + 10_000_000 * (nth + 1)));
            // This oracle makes all commands depend on each other, which would hide others.
            if seed % 5 == 0 {
                program = program.always(Fenced::of("resource"));
            }
            // It makes writes of two keys depend on each other.
            if seed % 5 == 1 {
                program = watched(program);
            }
            // It makes commands depend on the time.
            if seed % 5 == 2 {
                program = program.always(Rate::of("x", 1, Duration::from_millis(5)));
            }
            match compare_outcomes(&program) {
                Some((own_outcomes, own_schedules)) => {
                    outcomes += own_outcomes;
                    schedules += own_schedules;
                }
                None => left_out += 1,
            }
        }
        println!(
            "{name}: {programs} programs, {left_out} left out, {schedules} schedules, {outcomes} outcomes"
        );
        assert!(2 * left_out < programs, "{name}: most programs are too large: {left_out} of {programs}");
    }
}

fn program(programs: &[&[&str]], faults: Faults) -> Scenario {
    let scenario =
        Scenario::new(format!("{programs:?} {faults:?}")).lease(Duration::from_millis(8)).faults(faults);
    judged(programs.iter().fold(scenario, |scenario, program| sends(scenario, of(program))))
}

/// A holder deletes its grant on one server, and another client on another. The first of them ends
/// the grant.
#[test]
fn a_grant_of_a_majority_is_ended_by_the_first_client() {
    let holder: &[&str] = &["majority k", "3:DEL k", "DEL k"];
    let scenario = program(&[holder, &["2:DEL k"]], Faults::none());
    let (outcomes, _) = compare_outcomes(&scenario).unwrap();
    assert_eq!(outcomes, 3);
}

/// Who has subscribed is seen by others, and a message reaches nobody who has left.
#[test]
fn a_subscription_that_ends_is_in_the_footprint() {
    let (comes, counts): (&[&str], &[&str]) = (&["listen c", "leave", "hear 12ms"], &["PUBSUB NUMSUB c"]);
    for faults in [Faults::none(), Faults::none().lost(1), Faults::none().restarts(1)] {
        compare_outcomes(&program(&[comes, counts], faults)).unwrap();
        compare_outcomes(&program(&[comes, &["PUBLISH c m"]], faults)).unwrap();
    }
    compare_outcomes(&program(&[comes, comes, counts], Faults::none())).unwrap();
}

/// Orders of independent steps have one verdict, whatever happens after the last step.
#[test]
fn the_end_of_an_execution_changes_no_verdict() {
    let waits: &[&str] = &["listen c", "hear 12ms"];
    let works: &[&str] = &["lock k", "unlock k", "PUBLISH c m"];
    for faults in [Faults::none().lost(1), Faults::none()] {
        compare_outcomes(&program(&[waits, works], faults)).unwrap();
    }
}

/// State that a server keeps beside its keys orders the commands that read and change it.
#[test]
fn state_beside_the_keys_is_in_the_footprint() {
    let programs: &[&[&[&str]]] = &[
        &[&["FCALL count 1 n"], &["FCALL count 1 m"]],
        &[&["FCALL count 1 n"], &["FCALL peek 0"]],
        &[
            &["EVAL cjson.encode_number_precision(3) 0"],
            &["feed: EVAL return(cjson.encode(1/3)) 0 -> SET b {}"],
        ],
        &[&["INFO commandstats"], &["GET a"]],
        &[&["INFO keyspace"], &["SET a 1"]],
        &[&["CLIENT PAUSE 5 WRITE"], &["SET a 1"], &["GET a"]],
        &[&["BLPOP l 0.01"], &["BLPOP l 0.01"], &["RPUSH l m"]],
        &[&["DEBUG SLEEP 0.005"], &["PEXPIRE a 4"], &["GET a"]],
    ];
    for programs in programs {
        let stalled = (programs.len() == 2).then(|| Faults::none().stalls(1));
        for faults in [Faults::none()].into_iter().chain(stalled) {
            compare_outcomes(&program(programs, faults)).unwrap();
        }
    }
    // With stalls, not every idle time is explored, as `Faults::stalls` says.
    let idle: &[&[&str]] =
        &[&["GET a", "feed: OBJECT IDLETIME a -> SET b {}"], &["SET a 1", "sleep 1200ms", "GET a"]];
    compare_outcomes(&program(idle, Faults::none())).unwrap();
}

/// While a request is slow, others sleep, and the order of what they do then matters.
#[test]
fn slow_requests_are_reduced() {
    let programs: &[&[&[&str]]] = &[
        &[&["PTTL a", "SET b 1 PX 20"], &["sleep 12ms"]],
        &[&["GET a", "SET b 1"], &["sleep 5ms", "SET a 2", "sleep 7ms", "GET b"]],
        &[&["SET a 1 PX 8", "GET a"], &["sleep 5ms", "GET a", "sleep 5ms", "SET a 2 NX"]],
        &[&["SET b 1"], &["sleep 5ms", "GET b"], &["sleep 9ms"]],
        &[&["sleep 3ms", "GET b"], &["sleep 5ms", "SET b 1", "sleep 5ms"]],
        &[&["BLPOP l 0.01", "SET a 1"], &["sleep 5ms", "GET a", "sleep 7ms", "RPUSH l m"]],
    ];
    let programs = if bounds::SLOW_REQUESTS.is_left_out() { &programs[..2] } else { programs };
    for programs in programs {
        compare_outcomes(&program(programs, Faults::none().stalls(1))).unwrap();
    }
}

/// A rate counts by when a command ran. Its reply may come later, and the command itself need not
/// depend on the time.
#[test]
fn a_command_that_a_rate_counts_depends_on_the_time() {
    let scenario = program(&[&["GET a", "do x"], &["sleep 5ms"]], Faults::none().stalls(1));
    compare_outcomes(&scenario.always(Rate::of("x", 1, Duration::from_millis(5)))).unwrap();
}

/// Connections are opened and closed in steps. Commands that count, list or end connections depend
/// on that.
#[test]
fn connections_are_in_the_footprint() {
    let (none, clients) = (Faults::none(), "feed: CLIENT ID -> SET b {}");
    let programs: &[(&[&[&str]], Faults)] = &[
        (&[&["listen c", "CONFIG RESETSTAT"], &["listen c", "INFO stats"]], none),
        (&[&["GET a"], &["INFO clients"]], none.cancels(1)),
        (&[&["cancellably: GET a"], &["INFO clients"]], none.cancels(1)),
        (&[&["cancellably: GET a"], &["CLIENT LIST"]], none.cancels(1)),
        (&[&["GET a"], &["CLIENT LIST"]], none.delays(1)),
        (&[&["2:GET a", "GET a"], &["CLIENT KILL TYPE normal SKIPME yes"]], none.delays(1)),
        (&[&["cancellably: GET a", "GET a"], &["CLIENT KILL TYPE normal SKIPME yes"]], none.cancels(1)),
        (&[&["2:GET a"], &["INFO clients"]], none),
        (&[&["GET a"], &["CLIENT LIST"]], none.crashes(1)),
        (&[&["listen c"], &["2:GET a"], &["INFO stats"]], none),
        (&[&["CONFIG RESETSTAT"], &["GET a"], &["INFO commandstats"]], none),
        (&[&["SET b 1"], &["GET a"], &["INFO commandstats"]], none),
        (&[&["sleep 1200ms"], &["CLIENT LIST"]], none.stalls(1)),
        // The numbers of connections do not depend on the order in which clients connect.
        (&[&[clients], &[clients]], none),
        (&[&["listen c", clients], &["2:GET a", clients]], none),
    ];
    for &(programs, faults) in programs {
        compare_outcomes(&program(programs, faults)).unwrap();
    }
}

/// The number of a connection does not depend on what other clients do.
#[test]
fn connections_have_numbers_of_their_own() {
    let scenario = Scenario::new("numbers").always(Success).actors(3, |client| async move {
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let id = redis::cmd("CLIENT").arg("ID").to_owned();
            numbers.push(id.query_async::<usize>(&mut client.connection()).await?);
        }
        let first = 1 + ["A", "B", "C"].iter().position(|name| *name == client.name()).unwrap();
        assert_eq!(numbers, [first, first + ACTORS_MAX, first + 2 * ACTORS_MAX]);
        Ok(())
    });
    exhaustive(&scenario).unwrap();
}

/// Connections conflict with nothing if nobody looks at them.
#[test]
fn clients_connect_in_any_order() {
    let scenario = program(&[&["listen c"], &["listen d"], &["2:GET a"]], Faults::none());
    assert_eq!(count(&scenario), (1, 0));
}

/// The number of different outcomes of each program is what a reader can count by hand.
#[test]
fn outcomes_that_are_known() {
    let check_with = |faults: Faults, programs: &[&[&str]], expected: usize| {
        let (outcomes, _) = compare_outcomes(&program(programs, faults)).unwrap();
        assert_eq!(outcomes, expected, "{programs:?}");
    };
    let check = |programs: &[&[&str]], expected| check_with(Faults::none(), programs, expected);
    check(&[&["INCR a"], &["INCR a"]], 2);
    check(&[&["GET a"], &["GET a"]], 1);
    check(&[&["GET a"], &["SET a 1"]], 2);
    check(&[&["INCR a"], &["INCR b"], &["INCR b"]], 2);
    let unequal: BTreeSet<_> = ["SET a 1", "SET a 2", "SET a 3"].into();
    check(&unequal.iter().map(std::slice::from_ref).collect::<Vec<_>>(), 3);
    // The operation is cancelled before its request is sent, or after it has run, or it is not.
    check_with(Faults::none().cancels(1), &[&["cancellably: SET a 1", "GET a"]], 3);
    // The clock jumps ahead or back between its reading for the first command and that command, or
    // it does not.
    let jump = Faults::none().jump(Duration::from_millis(5));
    check_with(jump, &[&["SET a {now}", "SET b {now}"]], 3);
}
