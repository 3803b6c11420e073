//! The explorer must run each trace of a program once and miss none. Brute force finds the same
//! traces.

pub mod commands;
pub mod programs;
pub mod kinds;
pub mod known_counts;
mod exchanges;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use harness::check::{Participants, scenario};
use harness::execution::{Learning, Runner};
use harness::explore::{DepthFirst, Dpor, probe_timers};
use harness::oracle::ExclusiveFact;
use harness::schedule::Step;
use harness::sim::Recording;
use harness::trace::{HappensBefore, History, Reached};
use harness::{Client, Faults, Scenario, Schedule, exhaustive, replay};
use locks::registry::{ALGORITHMS, FaultClass};
use redis::cmd;

use crate::bounds::SPINNING;

use commands::{call, each, of, sends};
use known_counts::{count, last_zero, readers};
use programs::{programs, programs_of_a_kind, random_program, rare_programs, rarities};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The explorer repeats what clients and servers did before. A replay in which all of them run must
/// give the same history.
fn expect_the_same_if_all_run(runner: &mut Runner, scenario: &Scenario, history: &History) {
    let schedule = Schedule { steps: history.steps.clone() };
    let again = replay(runner, scenario, &schedule, Recording::Lean);
    let shown = |history: &History| {
        let History { events, steps, footprints, reached, .. } = history;
        format!("{events:#?}\n{steps:#?}\n{footprints:#?}\n{reached:#?}")
    };
    assert_eq!(shown(history), shown(&again), "{scenario:?}");
}

/// The traces of the explorer, which must run each once.
fn explore(runner: &mut Runner, scenario: &Scenario) -> BTreeSet<Vec<Vec<Step>>> {
    runner.learn_thresholds(scenario);
    let mut traces = BTreeMap::new();
    let mut dpor = Dpor::default();
    while let Some(history) = dpor.run_next(runner, scenario) {
        if !dpor.is_blocked() {
            expect_the_same_if_all_run(runner, scenario, &history);
            let form = dpor.happens_before().foata_normal_form(&history);
            if let Some(other) = traces.insert(form, history.steps.clone()) {
                panic!("{scenario:?}: a trace was run twice: {other:?} {:?}", history.steps);
            }
        }
    }
    traces.into_keys().collect()
}

/// Compares the traces of the explorer with those of brute force, in which all clients and servers
/// run. Returns their number.
fn compare(scenario: &Scenario) -> usize {
    let mut runner = Runner::new().learning(Learning::Off);
    let reduced = explore(&mut runner, scenario);
    let learned = explore(&mut Runner::new().learning(Learning::Eager), scenario);
    assert_eq!(reduced, learned, "{scenario:?}: learned clients have other traces");
    let mut brute = BTreeSet::new();
    let mut depth_first = DepthFirst::default();
    while depth_first.next_schedule(usize::MAX) {
        let executed = runner.run(scenario, &mut depth_first, Recording::Lean);
        let has_news = probe_timers(&mut runner, scenario, &executed);
        let mut history = executed.into_history();
        if has_news {
            history = replay(&mut runner, scenario, &Schedule { steps: history.steps }, Recording::Lean);
        }
        brute.insert(HappensBefore::of(&history).foata_normal_form(&history));
    }
    let missed: Vec<_> = brute.difference(&reduced).collect();
    let invented: Vec<_> = reduced.difference(&brute).collect();
    assert!(
        missed.is_empty() && invented.is_empty(),
        "{scenario:?}:\nmissed {missed:?}\ninvented {invented:?}"
    );
    brute.len()
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

/// A client that tries again at once, and for ever, is explored as one that waits for a change.
#[test]
fn clients_that_try_again_and_again() {
    let spinning = |clients, options: &'static [&'static str], faults| {
        let scenario = Scenario::new(format!("spinning {options:?} {faults:?}")).faults(faults);
        scenario.actors(clients, move |client| async move {
            let mut connection = client.connection();
            while !cmd("SET").arg("k").arg(1).arg("NX").arg(options).query_async(&mut connection).await? {}
            () = cmd("DEL").arg("k").query_async(&mut connection).await?;
            Ok(())
        })
    };
    // One client takes the key first. The other tries up to three times before it is free.
    assert_eq!(compare(&spinning(2, &[], Faults::none())), 2 * 4);
    // With three clients, the second tries up to three times. The third tries m times while the
    // first has the key, and n times while the second has it: m from 0 to 3, and n up to 3, 2, 1
    // and 1.
    if !SPINNING.is_left_out() {
        assert_eq!(compare(&spinning(3, &[], Faults::none())), 6 * 4 * (4 + 3 + 2 + 2));
        compare(&spinning(2, &["PX", "5"], Faults::none().stalls(1)));
    }
    compare(&spinning(2, &["PX", "5"], Faults::none().crashes(1)));
}

/// B waits for a key with a timeout, and A may begin only after that. In the first execution A
/// begins, so that no time passes.
#[test]
fn a_timer_may_fire_before_another_client_begins() {
    let scenario = Scenario::new("timeout").servers(2);
    let scenario = sends(scenario, of(&["SET a 1", "RPUSH list m"]));
    assert_eq!(compare(&sends(scenario, of(&["BLPOP list 0.01"]))), 3);
}

/// When a slow reply arrives, its client has a request to send again. A wait may have to come
/// before that.
#[test]
fn a_wait_may_come_before_a_slow_reply() {
    let scenario = Scenario::new("slow reply").servers(2).faults(Faults::none().stalls(1));
    let scenario = sends(scenario, of(&["PTTL a", "SET b 1 PX 20"]));
    compare(&sends(scenario, of(&["sleep 12ms"])));
}

/// A step that was tried first may do less after another step.
#[test]
fn a_step_may_touch_less_after_another() {
    let scenario = Scenario::new("cancelled").servers(2).faults(Faults::none().cancels(1).reloads(1));
    let scenario = sends(scenario, of(&["after 5ms: BLPOP l 0.01", "cancellably: BLPOP l 0.01"]));
    compare(&sends(scenario, of(&["RPUSH l 1"])));
}

/// A client waits for ever. Whether a wait in vain comes before a late request or after it is the
/// same, so there is not one more wait after that.
#[test]
fn a_wait_in_vain_may_come_before_a_late_request() {
    let scenario = Scenario::new("for ever").servers(2).faults(Faults::none().delays(1));
    assert_eq!(compare(&sends(sends(scenario, of(&["BLPOP l 0"])), of(&["SET b 1"]))), 5);
}

/// Who waits first is served first, so the order of two clients that find nothing counts. While
/// nobody but them has begun, a wait in vain may come after each: with the push last, there are
/// 2 * 2 * 2 traces, with the push between them 2 * 2, and with the push first 2.
#[test]
fn clients_are_served_in_the_order_in_which_they_wait() {
    let waiting = sends(each(2, |_| of(&["BLPOP l 0"])), of(&["RPUSH l 1"]));
    assert_eq!(compare(&waiting), 8 + 4 + 2);
}

/// After the failover of another server, B's write is a consequence of A's. A replica that lacked
/// A's would lack both.
#[test]
fn a_write_may_count_for_what_another_client_waits_for() {
    let faults = Faults::none().failovers(1).behind(1);
    let scenario = Scenario::new("consequence").servers(2).replicas(1).faults(faults);
    let scenario = sends(scenario, of(&["INCR a", "WAIT 1 0"]));
    assert_eq!(compare(&sends(scenario, of(&["WAIT 1 10", "SET b 1 NX"]))), 114);
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
    check(&[&["listen c", "leave"], &["PUBLISH c m"]], Faults::none(), 3);
    check(&[&["listen c", "leave"], &["listen c", "leave"]], Faults::none(), 1);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none(), 4);
    check(&[&["listen c", "hear 12ms"], &["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none(), 23);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().stalls(1), 143);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().crashes(1), 21);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().drops(1), 22);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().drops(1).stalls(1), 692);
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
        (2, Faults::none().crashes(1), 20),
        (2, Faults::none().stalls(1), 413),
    ] {
        let scenario = Scenario::new(format!("through redis-rs: {faults:?}")).faults(faults);
        let scenario = programs[..count].iter().copied().fold(scenario, sends);
        assert_eq!(compare(&scenario), expected, "{scenario:?}");
    }
}

#[test]
fn brute_force_finds_the_same_traces_of_random_programs() {
    let traces: usize = (0..programs()).map(|seed| compare(&random_program(seed))).sum();
    println!("{} programs, {traces} traces", programs());
}

#[test]
fn brute_force_finds_the_same_traces_where_rarer_things_go_wrong() {
    let each = programs_of_a_kind();
    let traces: usize = rare_programs(each).map(|scenario| compare(&scenario)).sum();
    println!("{each} programs of each of {} kinds, {traces} traces", rarities().len());
}

/// If clients draw their tokens by chance, no two executions are equal. The explorer must still
/// find as many traces as with fixed tokens.
#[test]
fn names_drawn_by_chance() {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let lock = |token: fn(&Client) -> String| {
        let scenario = Scenario::new("lock").faults(Faults::none().stalls(1));
        let scenario = scenario.script(&redis::Script::new(COMPARE_AND_DELETE));
        scenario.actors(2, move |client| async move {
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
        let (mut runner, mut dpor) = (Runner::new().learning(Learning::Eager), Dpor::default());
        let mut executions = 0;
        while let Some(history) = dpor.run_next(&mut runner, &scenario) {
            executions += 1;
            if !dpor.is_blocked() {
                expect_the_same_if_all_run(&mut runner, &scenario, &history);
            }
        }
        assert!(executions > 1, "{program:?}");
    }
}

/// An exploration can be divided after any number of choices, and at any time. Its branches can
/// follow each other in any order. It still runs the traces of the whole, as often as the whole
/// does.
#[test]
fn branches_have_the_traces_of_the_whole() {
    let mut runner = Runner::new().learning(Learning::Eager);
    let cells =
        [("redlock_3", FaultClass::Order), ("redlock_3", FaultClass::Server), ("mutex", FaultClass::Slow)];
    for (name, class) in cells {
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
        let scenario = scenario(algorithm, class, Participants { clients: 2, permits: 1, readers: None });
        // The first division has no choices in its trunk: it is the whole.
        let mut whole = Vec::new();
        for (choices, before) in [(0, 0), (1, 0), (3, 0), (1, 1), (3, 7), (3, 40), (5, 1_000)] {
            let mut traces = Vec::new();
            let mut run = |dpor: &mut Dpor| {
                let Some(history) = dpor.run_next(&mut runner, &scenario) else { return false };
                if dpor.branch().is_none() && !dpor.is_blocked() {
                    traces.push(dpor.happens_before().foata_normal_form(&history));
                }
                true
            };
            let mut trial = Dpor::default();
            (0..before).for_each(|_| _ = run(&mut trial));
            let (mut trunk, begun) = trial.divide(choices);
            let mut branches = Vec::from_iter(begun);
            while run(&mut trunk) {
                branches.extend(trunk.branch());
            }
            // Neighbours have most of the trunk in common, the two ends little.
            let far = branches.split_off(branches.len() / 2);
            let mut last = trunk;
            for mut branch in far.into_iter().rev().chain(branches) {
                branch.follow(last);
                while run(&mut branch) {}
                last = branch;
            }
            traces.sort_unstable();
            if choices == 0 {
                assert_eq!(traces.len(), count(&scenario).0);
                whole = traces;
            } else {
                assert!(traces == whole, "{name} ({class}), {choices} choices after {before}");
            }
        }
    }
}

/// The last command could run while the other client is inside, but no schedule with that has to
/// run.
#[test]
fn contention_in_an_equivalent_schedule_is_noticed() {
    let scenario = Scenario::new("apart").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut connection = client.connection();
        let _hold = client.hold("cs").enter();
        () = cmd("SET").arg(&["a", "1"]).query_async(&mut connection).await?;
        Ok(cmd("DEL").arg("a").exec_async(&mut connection).await?)
    });
    let scenario = scenario.must_reach(Reached { contention: true, ..Reached::default() });
    let scenario = scenario.actors(1, |client| async move {
        Ok(cmd("SET").arg(&["b", "1"]).exec_async(&mut client.connection()).await?)
    });
    assert_eq!(exhaustive(&scenario).unwrap().schedules, 1);
}
