//! Programs of which the number of traces is known: the explorer runs each trace once, and misses none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use harness::explorer::{DepthFirst, Dpor, Random, find_timers};
use harness::history::{History, What};
use harness::trace::{Agent, Causes};
use harness::verdict::{Size, scenario};
use harness::{Actor, Client, Faults, Recording, Runner, Scenario, Schedule, Step, Whose, replay};
use locks::{ALGORITHMS, FaultClass, Subscribe as _};
use rand::{RngExt as _, SeedableRng as _};
use redis::aio::ConnectionLike;
use redis::{RedisResult, Value, cmd};

async fn call<C: ConnectionLike>(connection: &mut C, command: &str) -> RedisResult<Value> {
    let mut words = command.split(' ');
    let mut cmd = cmd(words.next().unwrap());
    words.for_each(|word| _ = cmd.arg(word));
    cmd.query_async(connection).await
}

/// An actor that sends these commands, until an answer is an error, and whatever a fault does: `2:` to the second server, `within
/// 5ms:` and no longer, `after 5ms:` by a task of its own, `cancellably:` with `;` between several, `{now}` for what its clock
/// shows. It may `sleep 5ms`, too; and `listen c`, from when on it may `hear 5ms`: wait so long for a message, and do one thing
/// if it has heard one, and another if it has not.
fn sends(scenario: Scenario, commands: Vec<String>) -> Scenario {
    sends_alike(scenario, 1, commands)
}

/// So many of them.
fn sends_alike(scenario: Scenario, actors: usize, commands: Vec<String>) -> Scenario {
    scenario.actors(actors, move |client| {
        let commands = commands.clone();
        async move {
            let mut connections = [client.connection_to(0), client.connection_to(1)];
            let mut subscription = None;
            for command in &commands {
                if let Some(channel) = command.strip_prefix("listen ") {
                    subscription = Some(connections[0].subscribe(channel).await?);
                    continue;
                }
                if let Some(span) = command.strip_prefix("hear ") {
                    let Some(subscription) = &mut subscription else { continue };
                    let heard = tokio::time::timeout(millis(span), subscription.message()).await;
                    call(&mut connections[0], if heard.is_ok() { "INCR heard" } else { "GET a" }).await?;
                    continue;
                }
                let now = || client.env().now_ms().to_string();
                let command = &if command.contains("{now}") {
                    command.replace("{now}", &now())
                } else {
                    command.clone()
                };
                if let Some(span) = command.strip_prefix("sleep ") {
                    tokio::time::sleep(millis(span)).await;
                    continue;
                }
                if let Some((delay, command)) =
                    command.strip_prefix("after ").and_then(|rest| rest.split_once(": "))
                {
                    let (delay, command) = (millis(delay), command.to_owned());
                    let mut connection = client.connection();
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        _ = call(&mut connection, &command).await;
                    });
                    continue;
                }
                if let Some(commands) = command.strip_prefix("cancellably: ") {
                    let connection = &mut connections[0];
                    let operation = async {
                        for command in commands.split("; ") {
                            match command.strip_prefix("sleep ") {
                                Some(span) => tokio::time::sleep(millis(span)).await,
                                None => _ = call(connection, command).await?,
                            }
                        }
                        Ok(())
                    };
                    go_on(client.cancellable(operation).await.unwrap_or(Ok(())))?;
                    continue;
                }
                let (limit, command) =
                    match command.strip_prefix("within ").and_then(|rest| rest.split_once(": ")) {
                        Some((limit, command)) => (millis(limit), command),
                        None => (Duration::MAX, command.as_str()),
                    };
                let second = command.strip_prefix("2:");
                let connection = &mut connections[usize::from(second.is_some())];
                let call = call(connection, second.unwrap_or(command));
                if let Ok(answer) = tokio::time::timeout(limit, call).await {
                    go_on(answer.map(|_| ()))?;
                }
            }
            Ok(())
        }
    })
}

/// What a fault did is no error of the server's.
fn go_on(answer: RedisResult<()>) -> RedisResult<()> {
    answer.or_else(|error| if error.is_io_error() { Ok(()) } else { Err(error) })
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.strip_suffix("ms").and_then(|n| n.parse().ok()).expect("milliseconds"))
}

/// `n` actors that send what is made of their number.
fn each(n: usize, commands: impl Fn(usize) -> Vec<String>) -> Scenario {
    (0..n).fold(Scenario::new("program").servers(2), |scenario, nth| sends(scenario, commands(nth)))
}

fn of(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|&command| command.to_owned()).collect()
}

/// How many traces there are and how many executions were cut short because others covered them.
fn count(scenario: &Scenario) -> (usize, usize) {
    let (mut runner, mut dpor) = (Runner::new(), Dpor::default());
    let (mut traces, mut blocked) = (0, 0);
    while dpor.run_next(&mut runner, scenario).is_some() {
        if dpor.is_blocked() { blocked += 1 } else { traces += 1 }
    }
    (traces, blocked)
}

/// The traces as brute force finds them and as the explorer does, which runs each once.
fn compare(scenario: &Scenario) -> usize {
    let mut runner = Runner::new();
    let mut reduced = BTreeMap::new();
    let mut dpor = Dpor::default();
    while let Some(history) = dpor.run_next(&mut runner, scenario) {
        if !dpor.is_blocked() {
            let form = dpor.causes().normal_form(&history);
            if let Some(other) = reduced.insert(form, history.steps.clone()) {
                panic!("{scenario:?}: a trace was run twice: {other:?} {:?}", history.steps);
            }
        }
    }
    let mut brute = BTreeSet::new();
    let mut depth_first = DepthFirst::default();
    while depth_first.next_schedule(usize::MAX) {
        let mut history = runner.run(scenario, &mut depth_first, Recording::Lean);
        if find_timers(&mut runner, scenario, &history) {
            history = replay(&mut runner, scenario, &Schedule { steps: history.steps }, Recording::Lean);
        }
        brute.insert(Causes::of(&history).normal_form(&history));
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
    // One word each: `call` splits at spaces.
    format!(
        "EVAL if(redis.call('GET',KEYS[1])==ARGV[1])then\treturn(redis.call('SET',KEYS[1],ARGV[2]))end 1 k {from} {to}"
    )
}

/// Writers of `a[j] = a[j - 1] + 1`, and one who looks for the last zero.
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

/// Threads that each put four messages into a hash table of 128 places.
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
    for (n, expected) in [(3, 12), (5, 64), (10, 3328)] {
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

/// Who listens, who hears, and who tells: publications to nobody do not depend on each other, nor do those who only begin to
/// listen.
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
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().stalls(1), 28);
    check(&[&["listen c", "hear 12ms"], &["PUBLISH c m"]], Faults::none().crashes(1), 11);
    check(&[&["listen c", "hear 12ms", "hear 12ms"], &["PUBLISH c m"], &["PUBLISH c m"]], Faults::none(), 34);
}

/// The same through redis-rs's multiplexed connection, of which clients give up waiting for a reply, and clones share a queue.
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

/// How many random programs are compared.
const PROGRAMS: u64 = 5_000;
/// What their actors send: two keys, of which either may expire, and the time.
const COMMANDS: &[&str] = &[
    "GET a",
    "GET b",
    "SET a 1",
    "SET b 1",
    "SET a 1 NX",
    "SET a 1 NX PX 10",
    "SET b 1 PX 20",
    "SET a 1 XX KEEPTTL",
    "DEL a",
    "DEL b",
    "INCR a",
    "PEXPIRE a 15",
    "PERSIST a",
    "PTTL a",
    "EXISTS a b",
    "MSET a 2 b 2",
    "TIME",
    "DBSIZE",
    "PUBLISH c m",
    "listen c",
    "listen c",
    "hear 12ms",
    "hear 12ms",
    "PUBSUB NUMSUB c",
    "FLUSHDB",
    "2:SET a 1 NX PX 10",
    "2:GET a",
    "2:SET a 2",
    "RENAME a b",
    "sleep 5ms",
    "sleep 12ms",
    "within 5ms: SET a 3",
    "after 5ms: INCR a",
    "after 12ms: SET b 1 NX",
    "BLPOP l 0.01",
    "RPUSH l 1",
    "SCRIPT LOAD return(1)",
    "EVAL return(2) 0",
    "EVALSHA 930269f31393d0be681588b6ab08dccee7d6bb67 0",
    "SCRIPT FLUSH",
];

/// What the actors of every fourth program send: a sorted set, of which parts are touched.
const COMMANDS_ON_MEMBERS: &[&str] = &[
    "ZADD z 1 x",
    "ZADD z 2 x",
    "ZADD z 2 y",
    "ZADD z 5 y",
    "ZADD z NX 3 v",
    "ZADD z XX GT 4 x",
    "ZINCRBY z 2 x",
    "ZREM z x",
    "ZREM z x y",
    "ZRANK z x",
    "ZRANK z y",
    "ZREVRANK z x",
    "ZSCORE z y",
    "ZMSCORE z x v",
    "ZCOUNT z 2 3",
    "ZRANGEBYSCORE z (1 2",
    "ZREMRANGEBYSCORE z 0 1",
    "ZREMRANGEBYSCORE z (2 +inf",
    "ZREMRANGEBYRANK z 0 0",
    "ZRANGE z 0 -1",
    "ZCARD z",
    "ZPOPMIN z",
    "BZPOPMIN z 0.01",
    "ZUNIONSTORE z 1 z WEIGHTS 2",
    "EXISTS z",
    "SET z 1 NX",
    "PEXPIRE z 15",
    "DEL z",
    "EVAL redis.call('ZADD','z',2,'w')redis.call('ZREM','z','x') 1 z",
    "sleep 12ms",
];

/// What may go wrong in programs of its own: two actors, each of which sends up to so many of these commands.
struct Rare {
    faults: Faults,
    commands: &'static [&'static str],
    commands_max: usize,
    response_timeout: Option<Duration>,
}

/// What connections keep.
const SESSIONS: &[&str] = &[
    "WATCH a",
    "MULTI",
    "EXEC",
    "GET a",
    "SET a 1",
    "INCR a",
    "SET b 1",
    "BLPOP l 0.01",
    "RPUSH l 1",
    "2:GET a",
    "listen c",
    "hear 5ms",
    "PUBLISH c m",
];
const OPERATIONS: &[&str] = &[
    "cancellably: SET a 1",
    "cancellably: GET a; SET b 1",
    "cancellably: SET b 2 PX 10; sleep 5ms; GET a",
    "cancellably: sleep 12ms; SET a 2",
    "cancellably: BLPOP l 0.01; INCR a",
    "RPUSH l 1",
    "GET a",
    "SET a 3",
    "GET b",
    "sleep 5ms",
    "within 5ms: SET a 4",
];

const CLOCKS: &[&str] = &[
    "SET a {now}",
    "GET a",
    "SET b 1 PX 10",
    "EXISTS b",
    "PTTL b",
    "TIME",
    "2:SET b 2 NX PX 12",
    "2:GET b",
    "sleep 5ms",
    "BLPOP l 0.01",
];

fn rarities() -> Vec<Rare> {
    let (none, five) = (Faults::none(), Duration::from_millis(5));
    let of = |faults, commands, commands_max| Rare { faults, commands, commands_max, response_timeout: None };
    let times_out = |rare| Rare { response_timeout: Some(five), ..rare };
    vec![
        of(none.flushes(1), COMMANDS, 3),
        of(none.flushes(1).restarts(1), COMMANDS, 2),
        of(none.reloads(1), COMMANDS, 3),
        of(none.reloads(1).outage(Duration::from_millis(7)), COMMANDS, 3),
        of(none.reloads(1).unsynced(1), COMMANDS, 3),
        of(none.reloads(2).unsynced(2), COMMANDS, 2),
        of(none.reloads(1).unsynced(1), COMMANDS_ON_MEMBERS, 3),
        of(none.drops(1), COMMANDS, 3),
        of(none.drops(2), SESSIONS, 2),
        of(none.drops(1), SESSIONS, 3),
        of(none.cancels(1), OPERATIONS, 2),
        of(none.cancels(1).stalls(1), OPERATIONS, 2),
        of(none.cancels(2).crashes(1), OPERATIONS, 2),
        of(none.delays(1), COMMANDS, 3),
        of(none.delays(2), SESSIONS, 2),
        of(none.delays(1).crashes(1), COMMANDS, 2),
        times_out(of(none.stalls(1), COMMANDS, 2)),
        of(none.client_jump(five), CLOCKS, 3),
        of(none.client_jump(five).stalls(1), CLOCKS, 2),
        of(none.drift(500_000).stalls(1), CLOCKS, 2),
        of(none.server_skew(five), CLOCKS, 2),
        of(none.server_drift(500_000), CLOCKS, 3),
        of(none.server_drift(300_000).stalls(1), CLOCKS, 2),
    ]
}

/// How many random programs are compared with each of these.
const RARE_PROGRAMS: u64 = 100;

fn rare_programs() -> impl Iterator<Item = Scenario> {
    (0..).zip(rarities()).flat_map(|(nth, rare)| {
        (0..RARE_PROGRAMS).map(move |seed| {
            let seed = seed + 1_000_000 * (nth + 1);
            let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
            let program = program(seed, rare.faults, commands(&mut rng, rare.commands, 2, rare.commands_max));
            match rare.response_timeout {
                Some(response_timeout) => program.response_timeout(response_timeout),
                None => program,
            }
        })
    })
}

/// A program of two actors, or of three that do little, with what may go wrong.
fn random_program(seed: u64) -> Scenario {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let known = if seed.is_multiple_of(4) { COMMANDS_ON_MEMBERS } else { COMMANDS };
    let actors = rng.random_range(2..=3);
    let commands_max = if actors == 2 { 3 } else { 2 };
    let programs = commands(&mut rng, known, actors, commands_max);
    let faults = match rng.random_range(0..8) {
        0 => Faults::none().crashes(1),
        1 if actors == 2 => Faults::none().stalls(1),
        2 => Faults::none().skew(Duration::from_millis(5)),
        3 => Faults::none().jump(Duration::from_millis(12)),
        4 => Faults::none().restarts(1),
        5 if actors == 2 => Faults::none().lost(1),
        6 if actors == 2 => Faults::none().lost(1).crashes(1),
        _ => Faults::none(),
    };
    program(seed, faults, programs)
}

/// What so many actors send, each at most so many of these commands.
fn commands(
    rng: &mut rand_pcg::Pcg64Mcg,
    of: &[&str],
    actors: usize,
    commands_max: usize,
) -> Vec<Vec<String>> {
    let program = |_| {
        let commands = rng.random_range(1..=commands_max);
        (0..commands).map(|_| of[rng.random_range(0..of.len())].to_owned()).collect()
    };
    (0..actors).map(program).collect()
}

fn program(seed: u64, faults: Faults, programs: Vec<Vec<String>>) -> Scenario {
    let scenario =
        Scenario::new(format!("random program {seed}: {programs:?}, {faults:?}")).servers(2).faults(faults);
    programs.into_iter().fold(scenario, sends)
}

#[test]
fn brute_force_finds_the_same_traces_of_random_programs() {
    let traces: usize = (0..PROGRAMS).map(|seed| compare(&random_program(seed))).sum();
    println!("{PROGRAMS} programs, {traces} traces");
}

#[test]
fn brute_force_finds_the_same_traces_where_rarer_things_go_wrong() {
    let traces: usize = rare_programs().map(|scenario| compare(&scenario)).sum();
    println!("{RARE_PROGRAMS} programs of each of {} kinds, {traces} traces", rarities().len());
}

/// However many of the first choices are taken in every way, each trace is run once: what is independent in one order is so in all.
#[test]
fn branches_have_all_traces_and_each_once() {
    let mut runner = Runner::new();
    let cells =
        [("redlock_3", FaultClass::Order), ("redlock_3", FaultClass::Server), ("mutex", FaultClass::Slow)];
    for (name, class) in cells {
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
        let scenario = scenario(algorithm, class, Size { clients: 2, permits: 1, readers: None });
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

/// A trace with its actors called by the names of others.
fn renamed(form: &[Vec<Step>], names: &[usize]) -> Vec<Vec<Step>> {
    let rename = |actor: Actor| Actor(names[actor.0]);
    let rename_step = |step: &Step| match *step {
        Step::Run(actor, nth) => Step::Run(rename(actor), nth),
        Step::Start(actor) => Step::Start(rename(actor)),
        Step::Mishap(actor, nth, mishap) => Step::Mishap(rename(actor), nth, mishap),
        Step::Crash(actor) => Step::Crash(rename(actor)),
        Step::Skew(Whose::Client(actor), by_ms) => Step::Skew(Whose::Client(rename(actor)), by_ms),
        step => step,
    };
    let layers = form.iter().map(|layer| {
        let mut layer: Vec<Step> = layer.iter().map(rename_step).collect();
        layer.sort_unstable();
        layer
    });
    layers.collect()
}

/// Of actors that are interchangeable every trace is run, but for who is who; as brute force finds them that lets nobody be anybody
/// else.
#[test]
fn interchangeable_actors_change_places_in_no_trace() {
    const NAMES: &[&[usize]] = &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    let mut runner = Runner::new();
    let mut fewer = 0;
    for seed in 0..400 {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let commands: Vec<String> = (0..rng.random_range(1..=2))
            .map(|_| COMMANDS[rng.random_range(0..COMMANDS.len())].to_owned())
            .collect();
        let faults = match rng.random_range(0..5) {
            0 => Faults::none().crashes(1),
            1 => Faults::none().skew(Duration::from_millis(5)),
            2 if commands.len() == 1 => Faults::none().stalls(1),
            3 if commands.len() == 1 => Faults::none().lost(1),
            _ => Faults::none(),
        };
        let name = format!("uniform program {seed}: {commands:?}, {faults:?}");
        let scenario = sends_alike(Scenario::new(name).servers(2).faults(faults), 3, commands);
        let mut forms = |scenario: &Scenario| {
            let (mut dpor, mut forms) = (Dpor::default(), Vec::new());
            while let Some(history) = dpor.run_next(&mut runner, scenario) {
                if !dpor.is_blocked() {
                    // Who began before whom depends on no step: that is left out of the form.
                    let form = Causes::of(&history).normal_form(&history);
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

/// What every actor sent and was answered, in its own order.
fn seen_by_actors(history: &History) -> Vec<Vec<String>> {
    let mut seen = vec![Vec::new(); 3];
    for event in &history.events {
        match &event.what {
            What::Command { actor, text, reply, .. } => seen[actor.0].push(format!("{text} -> {reply}")),
            What::Mishap { actor, mishap, text } => seen[actor.0].push(format!("{text}: {mishap:?}")),
            What::Cancelled { actor } => seen[actor.0].push("cancelled".into()),
            What::Failed { actor, error } | What::GaveUp { actor, error } => {
                seen[actor.0].push(error.clone());
            }
            _ => {}
        }
    }
    seen
}

/// What every key held after its last change.
fn left_behind(history: &History) -> BTreeMap<(usize, &str), &str> {
    let changes = history.events.iter().filter_map(|event| match &event.what {
        What::Command { server, changed, .. } => Some((server, changed)),
        _ => None,
    });
    let lines = changes.flat_map(|(&server, changed)| changed.iter().map(move |line| (server, line)));
    lines
        .map(|(server, line)| ((server, line.split(' ').next().unwrap_or_default()), line.as_str()))
        .collect()
}

/// Neighbours that are said not to depend on each other change places, and nobody sees a difference.
#[test]
fn independent_neighbours_may_change_places() {
    let mut runner = Runner::new();
    let mut swaps = 0;
    for (seed, scenario) in (0..).zip((0..PROGRAMS).map(random_program).chain(rare_programs())) {
        let history = runner.run(&scenario, &mut Random::new(seed, 0), Recording::Full);
        for place in 1..history.steps.len() {
            let agents = [place - 1, place].map(|place| Agent::of(history.steps[place]));
            if agents[0] == agents[1]
                || agents[0] == Agent::Setup
                || history.touched[place - 1].conflicts_with(&history.touched[place])
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
