//! Programs with a known number of traces. The explorer must run each trace once and miss none.

mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use harness::actor::Actor;
use harness::check::{Participants, scenario};
use harness::execution::Runner;
use harness::explore::{DepthFirst, Dpor, RandomWalk, probe_timers};
use harness::fault::Fault;
use harness::schedule::Step;
use harness::sim::Recording;
use harness::trace::{EventKind, HappensBefore, History, Process};
use harness::{Client, Faults, Scenario, Schedule, replay};
use locks::registry::{ALGORITHMS, FaultClass};
use redis::cmd;

use programs::{call, each, of, random_program, rare_programs, rarities, sends, uniform_program};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The number of random programs that are compared.
const PROGRAMS: u64 = 5_000;
/// The number of random programs for each kind in `rarities`.
const RARE_PROGRAMS: u64 = 100;

/// The number of traces, and the number of blocked executions.
fn count(scenario: &Scenario) -> (usize, usize) {
    let (mut runner, mut dpor) = (Runner::new(), Dpor::default());
    let (mut traces, mut blocked) = (0, 0);
    while dpor.run_next(&mut runner, scenario).is_some() {
        if dpor.is_blocked() { blocked += 1 } else { traces += 1 }
    }
    (traces, blocked)
}

/// The explorer reads replies from the reply log of the last execution. A replay without that log
/// must give the same history.
fn expect_the_same_without_reply_log(runner: &mut Runner, scenario: &Scenario, history: &History) {
    let schedule = Schedule { steps: history.steps.clone() };
    let again = replay(runner, scenario, &schedule, Recording::Lean);
    let shown = |history: &History| {
        let History { events, steps, footprints, reached, .. } = history;
        format!("{events:#?}\n{steps:#?}\n{footprints:#?}\n{reached:#?}")
    };
    assert_eq!(shown(history), shown(&again), "{scenario:?}");
}

/// Compares the traces of the explorer, which runs each once, with those of brute force. Returns
/// their number.
fn compare(scenario: &Scenario) -> usize {
    let mut runner = Runner::new();
    let mut reduced = BTreeMap::new();
    let mut dpor = Dpor::default();
    while let Some(history) = dpor.run_next(&mut runner, scenario) {
        if !dpor.is_blocked() {
            expect_the_same_without_reply_log(&mut runner, scenario, &history);
            let form = dpor.happens_before().foata_normal_form(&history);
            if let Some(other) = reduced.insert(form, history.steps.clone()) {
                panic!("{scenario:?}: a trace was run twice: {other:?} {:?}", history.steps);
            }
        }
    }
    let mut brute = BTreeSet::new();
    let mut depth_first = DepthFirst::default();
    while depth_first.next_schedule(usize::MAX) {
        let mut history = runner.run(scenario, &mut depth_first, Recording::Lean);
        if probe_timers(&mut runner, scenario, &history) {
            history = replay(&mut runner, scenario, &Schedule { steps: history.steps }, Recording::Lean);
        }
        brute.insert(HappensBefore::of(&history).foata_normal_form(&history));
    }
    let reduced: BTreeSet<_> = reduced.into_keys().collect();
    let missed: Vec<_> = brute.difference(&reduced).collect();
    let invented: Vec<_> = reduced.difference(&brute).collect();
    assert!(
        missed.is_empty() && invented.is_empty(),
        "{scenario:?}:\nmissed {missed:?}\ninvented {invented:?}"
    );
    brute.len()
}

fn readers(n: usize) -> Scenario {
    each(n + 1, |nth| of(&[if nth == 0 { "SET k v" } else { "GET k" }]))
}

fn cas_script(from: usize, to: usize) -> String {
    // The script has no spaces, because `call` splits the command at spaces.
    format!(
        "EVAL if(redis.call('GET',KEYS[1])==ARGV[1])then\treturn(redis.call('SET',KEYS[1],ARGV[2]))end 1 k {from} {to}"
    )
}

/// Writers of `a[j] = a[j - 1] + 1`, and a reader that searches for the last zero.
fn last_zero(n: usize) -> Scenario {
    let scenario = Scenario::new("lastzero").actors(1, move |client| async move {
        let mut connection = client.connection();
        for place in (0..=n).rev() {
            let value: Option<i64> = cmd("GET").arg(format!("a{place}")).query_async(&mut connection).await?;
            if value.unwrap_or(0) == 0 {
                break;
            }
        }
        Ok(())
    });
    (1..=n).fold(scenario, |scenario, place| {
        scenario.actors(1, move |client| async move {
            let mut connection = client.connection();
            let left = format!("a{}", place - 1);
            let value: Option<i64> = cmd("GET").arg(left).query_async(&mut connection).await?;
            let own = format!("a{place}");
            () = cmd("SET").arg(own).arg(value.unwrap_or(0) + 1).query_async(&mut connection).await?;
            Ok(())
        })
    })
}

/// Threads that each put four messages into a hash table of 128 slots.
fn indexer(n: usize) -> Scenario {
    (0..n).fold(Scenario::new("indexer"), |scenario, thread| {
        scenario.actors(1, move |client| async move {
            let mut connection = client.connection();
            for message in 1..=4 {
                let word = message * 11 + thread;
                let mut hash = (word * 7) % 128;
                loop {
                    let is_free: bool = cmd("SETNX").arg(hash).arg(word).query_async(&mut connection).await?;
                    if is_free {
                        break;
                    }
                    hash = (hash + 1) % 128;
                }
            }
            Ok(())
        })
    })
}

/// `LOCKSTEP_COUNTS=whole` also counts lastzero(15), which takes long because most of its
/// executions are blocked.
#[test]
fn counts_that_are_known() {
    let factorial = |n: usize| (1..=n).product::<usize>();
    let mut wrong = Vec::new();
    let mut check = |name: &str, n: usize, scenario: &Scenario, expected: usize| {
        let (traces, blocked) = count(scenario);
        println!("{name}({n}): {traces} traces, {blocked} blocked");
        if traces != expected {
            wrong.push(format!("{name}({n}): {traces} instead of {expected}"));
        }
    };
    for n in [2, 3, 4, 5, 6, 7, 8, 13] {
        check("readers", n, &readers(n), 1 << n);
    }
    for n in 2..=5 {
        check("ainc", n, &each(n, |_| of(&["INCR a"])), factorial(n));
    }
    for n in 2..=4 {
        check("binc", n, &each(n, |_| of(&["INCR a", "INCR b"])), factorial(n).pow(2));
        check("lostupd", n, &each(n, |_| of(&["GET a", "SET a 1"])), factorial(n).pow(2));
    }
    for n in 2..=8 {
        check("cas", n, &each(n, |_| of(&["SET k v NX"])), n);
    }
    for (n, expected) in [(2, 5), (3, 13), (4, 33), (5, 81), (6, 193)] {
        let program = each(n + 1, |nth| vec![if nth == 0 { "SET k 1".into() } else { cas_script(1, 2) }]);
        let program = program.before(|client: Client| async move {
            call(&mut client.connection(), &cas_script(0, 0)).await?;
            Ok(())
        });
        check("wcas", n, &program, expected);
    }
    for (n, expected) in [(2, 2), (3, 5), (4, 14), (5, 43), (6, 144), (7, 523), (8, 2048), (9, 8597)] {
        let program = each(n, |nth| vec![cas_script(nth, nth + 1)]).before(|client: Client| async move {
            call(&mut client.connection(), "SET k 0").await?;
            call(&mut client.connection(), &cas_script(9, 9)).await?;
            Ok(())
        });
        check("casrot", n, &program, expected);
    }
    for (n, expected) in [(2, 6), (3, 66), (4, 1200), (5, 32_880)] {
        let program = each(n, |nth| vec![cas_script(0, nth + 1), format!("SET k {}", nth + 1)]).before(
            |client: Client| async move {
                call(&mut client.connection(), "SET k 0").await?;
                call(&mut client.connection(), &cas_script(9, 9)).await?;
                Ok(())
            },
        );
        check("casw", n, &program, expected);
    }
    let is_whole = std::env::var("LOCKSTEP_COUNTS").is_ok_and(|counts| counts == "whole");
    for (n, expected) in [(3, 12), (5, 64), (10, 3328)].into_iter().chain(is_whole.then_some((15, 147_456))) {
        check("lastzero", n, &last_zero(n), expected);
    }
    check("indexer", 12, &indexer(12), 8);
    check("indexer", 15, &indexer(15), 4096);
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn brute_force_finds_the_same_traces() {
    for n in 2..=4 {
        compare(&readers(n));
        compare(&each(n, |_| of(&["INCR a"])));
        compare(&each(n, |_| of(&["SET k v NX"])));
    }
    for n in 2..=3 {
        compare(&each(n, |_| of(&["INCR a", "INCR b"])));
        compare(&each(n, |_| of(&["GET a", "SET a 1"])));
        compare(&last_zero(n));
    }
    compare(&each(2, |_| of(&["INCR a", "GET b"])).faults(Faults::none().lost(2)));
    compare(&each(3, |_| of(&["SET k v NX"])).faults(Faults::none().lost(2).crashes(1)));
}

/// Subscriptions, received messages and publications are steps. Publications without subscribers do
/// not depend on each other. Subscriptions do not depend on each other either.
#[test]
fn messages_are_steps() {
    let check = |programs: &[&[&str]], faults: Faults, expected: usize| {
        let scenario = Scenario::new(format!("{programs:?} {faults:?}")).servers(2).faults(faults);
        let scenario = programs.iter().fold(scenario, |scenario, program| sends(scenario, of(program)));
        assert_eq!(compare(&scenario), expected, "{scenario:?}");
    };
    check(&[&["PUBLISH c m"], &["PUBLISH c m"], &["PUBLISH d m"]], Faults::none(), 1);
    check(&[&["listen c"], &["listen c"], &["listen c"]], Faults::none(), 1);
    check(&[&["listen c"], &["PUBLISH c m"]], Faults::none(), 2);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none(), 4);
    check(&[&["listen c", "hear 12ms"], &["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none(), 23);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().stalls(1), 51);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().crashes(1), 11);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().drops(1), 21);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().drops(1).stalls(1), 265);
    check(&[&["listen c", "hear 12ms", "hear 12ms"], &["PUBLISH c m"], &["PUBLISH c m"]], Faults::none(), 34);
}

/// Compares traces through redis-rs's multiplexed connection. Its clients can time out, and its
/// clones share a queue.
#[test]
fn brute_force_finds_the_same_traces_through_redis_rs() {
    let sends = |scenario: Scenario, commands: &'static [&'static str]| {
        scenario.actors(1, move |client| async move {
            let connection = client.multiplexed().await?;
            let (mut one, mut other) = (connection.clone(), connection);
            for pair in commands.chunks(2) {
                let [command, rest @ ..] = pair else { continue };
                let meanwhile = async {
                    if let [command] = rest {
                        _ = call(&mut other, command).await;
                    }
                };
                _ = tokio::join!(call(&mut one, command), meanwhile);
            }
            Ok(())
        })
    };
    let programs: [&[&str]; 3] = [&["SET a 1 NX PX 600", "GET b"], &["GET a", "INCR b"], &["SET a 2"]];
    for (count, faults, expected) in [
        (3, Faults::none(), 10),
        (3, Faults::none().lost(1), 152),
        (2, Faults::none().crashes(1), 8),
        (2, Faults::none().stalls(1), 93),
    ] {
        let scenario = Scenario::new(format!("through redis-rs: {faults:?}")).faults(faults);
        let scenario = programs[..count].iter().copied().fold(scenario, sends);
        assert_eq!(compare(&scenario), expected, "{scenario:?}");
    }
}

#[test]
fn brute_force_finds_the_same_traces_of_random_programs() {
    let traces: usize = (0..PROGRAMS).map(|seed| compare(&random_program(seed))).sum();
    println!("{PROGRAMS} programs, {traces} traces");
}

#[test]
fn brute_force_finds_the_same_traces_where_rarer_things_go_wrong() {
    let traces: usize = rare_programs(RARE_PROGRAMS).map(|scenario| compare(&scenario)).sum();
    println!("{RARE_PROGRAMS} programs of each of {} kinds, {traces} traces", rarities().len());
}

/// If clients draw their tokens by chance, no two executions are equal. The explorer must still
/// find as many traces as with fixed tokens.
#[test]
fn names_drawn_by_chance() {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let lock = |token: fn(&Client) -> String| {
        Scenario::new("lock").faults(Faults::none().stalls(1)).actors(2, move |client| async move {
            let (mut connection, token) = (client.connection(), token(&client));
            let mut set = cmd("SET");
            set.arg("k").arg(&token).arg("NX").arg("PX").arg(10_000);
            if set.query_async(&mut connection).await? {
                let script = redis::Script::new(COMPARE_AND_DELETE);
                () = script.key("k").arg(token).invoke_async(&mut connection).await?;
            }
            Ok(())
        })
    };
    let by_chance = lock(|_| DRAWN.fetch_add(1, Ordering::Relaxed).to_string());
    assert_eq!(compare(&by_chance), compare(&lock(Client::name)));
}

/// These commands leave more behind than data and scripts, or their replies show more. The next
/// execution must not depend on what the execution before it left.
#[test]
fn more_than_data_is_left_behind() {
    const COUNTER: &str = "#!lua name=counter
local calls = 0
redis.register_function('count', function(keys) calls = calls + 1 return redis.call('SET', keys[1] .. calls, '') end)";
    // The reply to a command in braces replaces the `{}` of a later command.
    let programs: [[&[&str]; 2]; 5] = [
        [&["INCR k", "INCR k", "{INFO commandstats}", "SET counted:{} 1"], &["INCR k", "INCR k"]],
        [
            &["INCR k", "GET b", "{EVAL return(redis.call('INFO','commandstats')) 0}", "SET counted:{} 1"],
            &["SET b 1"],
        ],
        [&["SELECT 1", "GET b"], &["SELECT 1", "SET b 1"]],
        [&["FCALL count 1 n", "GET b", "FCALL count 1 n"], &["SET b 1", "SET b 2"]],
        [
            &[
                "EVAL cjson.encode_number_precision(3) 0",
                "GET b",
                "{EVAL return(cjson.encode(1/3)) 0}",
                "SET {} 1",
            ],
            &["SET b 1", "SET b 2"],
        ],
    ];
    for program in programs {
        let mut scenario = Scenario::new(format!("{program:?}"));
        if program[0][0].starts_with("FCALL") {
            scenario = scenario.before(|client| async move {
                let mut connection = client.connection();
                Ok(cmd("FUNCTION").arg("LOAD").arg(COUNTER).exec_async(&mut connection).await?)
            });
        }
        for commands in program {
            scenario = scenario.actors(1, move |client| async move {
                let (mut connection, mut answer) = (client.connection(), String::new());
                for command in commands {
                    let words = command.trim_matches(['{', '}']);
                    let mut sent = redis::Cmd::new();
                    words.split(' ').for_each(|word| _ = sent.arg(word.replace("{}", &answer)));
                    let value: redis::Value = sent.query_async(&mut connection).await?;
                    if command.starts_with('{') {
                        let text: String = redis::from_redis_value(value)?;
                        let line = text.lines().find(|line| line.starts_with("cmdstat_incr"));
                        answer = line.unwrap_or(&text).to_owned();
                    }
                }
                Ok(())
            });
        }
        let (mut runner, mut dpor) = (Runner::new(), Dpor::default());
        let mut executions = 0;
        while let Some(history) = dpor.run_next(&mut runner, &scenario) {
            executions += 1;
            if !dpor.is_blocked() {
                expect_the_same_without_reply_log(&mut runner, &scenario, &history);
            }
        }
        assert!(executions > 1, "{program:?}");
    }
}

/// If the first choices of an exploration become branches, each trace is still run once, for any
/// number of choices. Steps that are independent in one order are independent in all.
#[test]
fn branches_have_all_traces_and_each_once() {
    let mut runner = Runner::new();
    let cells =
        [("redlock_3", FaultClass::Order), ("redlock_3", FaultClass::Server), ("mutex", FaultClass::Slow)];
    for (name, class) in cells {
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
        let scenario = scenario(algorithm, class, Participants { clients: 2, permits: 1, readers: None });
        let (all, _) = count(&scenario);
        for choices in 1..=3 {
            let (mut trunk, mut traces) = (Dpor::trunk(choices), 0);
            while trunk.run_next(&mut runner, &scenario).is_some() {
                let Some(mut branch) = trunk.branch() else {
                    traces += usize::from(!trunk.is_blocked());
                    continue;
                };
                while branch.run_next(&mut runner, &scenario).is_some() {
                    traces += usize::from(!branch.is_blocked());
                }
            }
            assert_eq!(traces, all, "{name} ({class}), {choices} choices");
        }
    }
}

/// The trace with its actors renamed.
fn renamed(form: &[Vec<Step>], names: &[usize]) -> Vec<Vec<Step>> {
    let rename = |actor: Actor| Actor(names[actor.0]);
    let rename_step = |step: &Step| match *step {
        Step::Run(actor, nth) => Step::Run(rename(actor), nth),
        Step::Start(actor) => Step::Start(rename(actor)),
        Step::Fault(fault) => Step::Fault(Fault { target: fault.target.renamed(rename), ..fault }),
        step => step,
    };
    let layers = form.iter().map(|layer| {
        let mut layer: Vec<Step> = layer.iter().map(rename_step).collect();
        layer.sort_unstable();
        layer
    });
    layers.collect()
}

/// With interchangeable actors the explorer runs every trace up to a renaming of the actors. The
/// comparison runs all traces without that reduction.
#[test]
fn interchangeable_actors_change_places_in_no_trace() {
    const NAMES: &[&[usize]] = &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    let mut runner = Runner::new();
    let mut fewer = 0;
    for seed in 0..400 {
        let scenario = uniform_program(seed);
        let mut forms = |scenario: &Scenario| {
            let (mut dpor, mut forms) = (Dpor::default(), Vec::new());
            while let Some(history) = dpor.run_next(&mut runner, scenario) {
                if !dpor.is_blocked() {
                    // The order in which clients start depends on no step, so the form does not
                    // contain it.
                    let form = HappensBefore::of(&history).foata_normal_form(&history);
                    forms.push(NAMES.iter().map(|names| renamed(&form, names)).min());
                }
            }
            forms
        };
        let (all, some) = (forms(&scenario), forms(&scenario.clone().interchangeable()));
        fewer += all.len() - some.len();
        let [all, some] = [all, some].map(|forms| forms.into_iter().collect::<BTreeSet<_>>());
        assert_eq!(some, all, "{scenario:?}");
    }
    assert!(fewer > 5_000, "{fewer} fewer");
}

/// Per actor, in its own order: its commands and replies, its faults and errors, and its stays in a
/// section.
fn seen_by_actors(history: &History) -> Vec<Vec<String>> {
    let mut reached = vec![Vec::new(); 3];
    for event in &history.events {
        match &event.kind {
            EventKind::Command { actor, text, reply, .. } => {
                reached[actor.0].push(format!("{text} -> {reply}"));
            }
            EventKind::Fault { fault, request } => {
                let actor = fault.target.actor().into_iter();
                actor.for_each(|actor| reached[actor.0].push(format!("{:?} {request}", fault.kind)));
            }
            EventKind::Enter { actor, until, .. } => reached[actor.0].push(format!("inside until {until:?}")),
            EventKind::Leave { actor, .. } => reached[actor.0].push(format!("outside at {:?}", event.at)),
            EventKind::Failed { actor, error } => reached[actor.0].push(format!("fails: {error}")),
            EventKind::GaveUp { actor, error } => reached[actor.0].push(format!("gives up: {error}")),
            _ => {}
        }
    }
    reached
}

/// The value of every key after its last change.
fn left_behind(history: &History) -> BTreeMap<(usize, &str), &str> {
    let changes = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { server, changed, .. } => Some((server, changed)),
        _ => None,
    });
    let lines = changes.flat_map(|(&server, changed)| changed.iter().map(move |line| (server, line)));
    lines
        .map(|(server, line)| ((server, line.split(' ').next().unwrap_or_default()), line.as_str()))
        .collect()
}

/// If two neighbouring steps are independent, swapping them changes nothing that an actor or a
/// server sees.
#[test]
fn independent_neighbours_may_change_places() {
    let mut runner = Runner::new();
    let mut swaps = 0;
    for (seed, scenario) in (0..).zip((0..PROGRAMS).map(random_program).chain(rare_programs(RARE_PROGRAMS))) {
        let history = runner.run(&scenario, &mut RandomWalk::new(seed, 0), Recording::Full);
        probe_timers(&mut runner, &scenario, &history);
        let history = replay(&mut runner, &scenario, &Schedule { steps: history.steps }, Recording::Full);
        for place in 1..history.steps.len() {
            let processes = [place - 1, place].map(|place| Process::of(history.steps[place]));
            if processes[0] == processes[1]
                || processes[0] == Process::Setup
                || history.footprints[place - 1].conflicts_with(&history.footprints[place])
            {
                continue;
            }
            let mut steps = history.steps.clone();
            steps.swap(place - 1, place);
            let swapped = replay(&mut runner, &scenario, &Schedule { steps: steps.clone() }, Recording::Full);
            assert_eq!(swapped.steps, steps, "{scenario:?}: a step was no longer possible");
            assert_eq!(seen_by_actors(&swapped), seen_by_actors(&history), "{scenario:?}: {steps:?}");
            assert_eq!(left_behind(&swapped), left_behind(&history), "{scenario:?}: {steps:?}");
            swaps += 1;
        }
    }
    assert!(swaps > 1_000, "{swaps}");
}
