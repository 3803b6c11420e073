//! Random programs of a few commands, for each kind of fault.

use std::time::Duration;

use harness::{Faults, Scenario};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::commands::{millis, sends, sends_alike, serves};
use crate::bounds;

/// For so many random programs there is one random program of each kind in `rarities`.
const PROGRAMS_FOR_A_RARE_ONE: u64 = 75;

/// The number of random programs that are compared.
pub fn programs() -> u64 {
    bounds::PROGRAMS.get()
}

/// The number of random programs of each kind in `rarities`.
pub fn programs_of_a_kind() -> u64 {
    programs().div_ceil(PROGRAMS_FOR_A_RARE_ONE)
}

/// Commands on two keys, either of which may expire, and on the time.
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
    "KEYS *",
    "SCAN 0",
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
    "hold: SET a 4",
    "BLPOP l 0.01",
    "RPUSH l 1",
    "SCRIPT LOAD return(1)",
    "EVAL return(2) 0",
    "EVALSHA 930269f31393d0be681588b6ab08dccee7d6bb67 0",
    "SCRIPT FLUSH",
];

/// Commands of every fourth random program: they touch parts of a sorted set.
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

/// Commands of clients some of which wait for ever.
const FOR_EVER: &[&str] = &[
    "BLPOP l 0",
    "BLPOP l 0",
    "BLPOP l 0.01",
    "RPUSH l 1",
    "SET b 1",
    "SET a 1 PX 10",
    "SET a 1 NX",
    "GET a",
    "PTTL a",
    "sleep 12ms",
    "within 5ms: BLPOP l 0",
    "after 5ms: RPUSH l 1",
];

/// A kind of program for rarer faults: actors, each of which sends at most `commands_max` of these
/// commands.
pub struct Rare {
    pub faults: Faults,
    pub actors: usize,
    pub commands: &'static [&'static str],
    pub commands_max: usize,
    pub response_timeout: Option<Duration>,
    /// The last of the actors is a service, and begins each round by waiting for an element of `l`.
    pub has_service: bool,
    /// How many replicas each server has.
    pub replicas: usize,
}

/// Commands that depend on the state of a connection.
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
/// `LPUSH a 1` fails if `a` is not a list.
const WAITERS: &[&str] = &[
    "BLPOP l 0.01",
    "after 5ms: BLPOP l 0.01",
    "RPUSH l 1",
    "SET a 1",
    "LPUSH a 1",
    "cancellably: BLPOP l 0.01",
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
    "hold: SET b 3",
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

/// Writes, and clients that wait until replicas have them.
const ACKNOWLEDGED: &[&str] = &[
    "SET a 1",
    "INCR a",
    "SET b 1 NX",
    "feed: GET a -> SET b {}",
    "GET b",
    "DEL a",
    "WAIT 1 10",
    "WAIT 2 10",
    "WAIT 1 0",
    "2:SET a 2",
    "EVAL if(redis.call('GET','a'))then\nredis.call('SET','b','2')\nend 0",
    "MULTI",
    "EXEC",
];

/// Commands that count, list and end connections, and the commands that open or close some.
pub const CLIENTS: &[&str] = &[
    "INFO clients",
    "INFO stats",
    "INFO commandstats",
    "CONFIG RESETSTAT",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal SKIPME yes",
    "CLIENT KILL TYPE pubsub",
    "feed: CLIENT ID -> SET b {}",
    "listen c",
    "hear 5ms",
    "GET a",
    "2:GET a",
    "cancellably: GET a",
];

/// All kinds of programs with rarer faults.
pub fn rarities() -> Vec<Rare> {
    let (none, five) = (Faults::none(), Duration::from_millis(5));
    let of = |faults, commands, commands_max| Rare {
        faults,
        actors: 2,
        commands,
        commands_max,
        response_timeout: None,
        has_service: false,
        replicas: 0,
    };
    let with_replicas = |replicas, rare| Rare { replicas, ..rare };
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
        of(none.drops(1).stalls(1), SESSIONS, 2),
        of(none.restarts(1), SESSIONS, 3),
        of(none.reloads(1).outage(Duration::from_millis(7)), SESSIONS, 2),
        of(none.cancels(1), OPERATIONS, 2),
        of(none.cancels(1).stalls(1), OPERATIONS, 2),
        of(none.cancels(2).crashes(1), OPERATIONS, 2),
        of(none.restarts(1), WAITERS, 2),
        of(none.reloads(1).cancels(1), WAITERS, 2),
        of(none.delays(1), COMMANDS, 3),
        of(none.delays(2), SESSIONS, 2),
        of(none.delays(1).crashes(1), COMMANDS, 2),
        times_out(of(none.stalls(1), COMMANDS, 2)),
        of(none.jump(five), CLOCKS, 3),
        of(none.jump(five).stalls(1), CLOCKS, 2),
        of(none.drift(500_000).stalls(1), CLOCKS, 2),
        of(none.server_skew(five), CLOCKS, 2),
        of(none.server_drift(500_000), CLOCKS, 3),
        of(none.server_drift(300_000).stalls(1), CLOCKS, 2),
        of(none.server_jump(five).stalls(1), COMMANDS, 1),
        of(none.restarts(1).stalls(1), COMMANDS, 1),
        of(none, CLIENTS, 3),
        of(none.cancels(1), CLIENTS, 2),
        of(none.delays(1), CLIENTS, 2),
        of(none.drops(1), CLIENTS, 2),
        with_replicas(1, of(none.failovers(1), COMMANDS, 2)),
        with_replicas(1, of(none.failovers(1).behind(1), COMMANDS, 2)),
        with_replicas(1, of(none.failovers(1).behind(2), COMMANDS_ON_MEMBERS, 2)),
        with_replicas(2, of(none.failovers(1).behind(2), ACKNOWLEDGED, 3)),
        with_replicas(1, of(none.failovers(1).behind(1).old_primary_writable(1), COMMANDS, 2)),
        with_replicas(1, of(none.failovers(1).old_primary_writable(1), SESSIONS, 2)),
        with_replicas(2, of(none.failovers(2).behind(1), ACKNOWLEDGED, 2)),
        with_replicas(1, of(none.planned_failovers(1), SESSIONS, 3)),
        with_replicas(1, of(none.planned_failovers(1).failovers(1).behind(1), WAITERS, 2)),
        with_replicas(1, of(none.failovers(1).server_skew(five), CLOCKS, 2)),
        with_replicas(1, of(none.failovers(1).behind(1).stalls(1), CLOCKS, 1)),
        with_replicas(1, of(none.failovers(1).behind(1).delays(1), ACKNOWLEDGED, 2)),
        with_replicas(1, of(none.failovers(1).behind(1).old_primary_writable(1), ACKNOWLEDGED, 2)),
        with_replicas(1, of(none.failovers(1).behind(1).reloads(1).unsynced(1), ACKNOWLEDGED, 1)),
        of(none.partitions(1), COMMANDS, 3),
        of(none.partitions(1).parted_for(Duration::from_millis(7)), SESSIONS, 2),
        of(none.partitions(1).parted_for(five).stalls(1), COMMANDS, 2),
        of(none.partitions(1), CLIENTS, 2),
        with_replicas(1, of(none.partitions(1).failovers(1), SESSIONS, 2)),
        of(none.delays(1), FOR_EVER, 2),
    ]
}

/// `of_each` random programs of every kind in `rarities`.
pub fn rare_programs(of_each: u64) -> impl Iterator<Item = Scenario> {
    (0..)
        .zip(rarities())
        .flat_map(move |(nth, rare)| (0..of_each).map(move |seed| rare.program(seed + 1_000_000 * (nth + 1))))
}

impl Rare {
    /// A random program of this kind.
    pub fn program(&self, seed: u64) -> Scenario {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut commands = commands(&mut rng, self.commands, self.actors, self.commands_max);
        let service = commands.pop_if(|_| self.has_service);
        let program = program(seed, self.faults, commands).replicas(self.replicas);
        let program = service.into_iter().fold(program, |program, mut commands| {
            // It would go on for ever if it pushed what it waits for.
            commands.retain(|command| !command.contains("PUSH"));
            serves(program, [vec!["BLPOP l 0".to_owned()], commands].concat())
        });
        match self.response_timeout {
            Some(response_timeout) => program.response_timeout(response_timeout),
            None => program,
        }
    }
}

/// A program of two actors, or of three with fewer commands each, and random faults.
pub fn random_program(seed: u64) -> Scenario {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let known = if seed.is_multiple_of(4) { COMMANDS_ON_MEMBERS } else { COMMANDS };
    let actors = rng.random_range(2..=3);
    let commands_max = if actors == 2 { 3 } else { 2 };
    let programs = commands(&mut rng, known, actors, commands_max);
    let faults = match rng.random_range(0..8) {
        0 => Faults::none().crashes(1),
        1 if actors == 2 => Faults::none().stalls(1),
        2 => Faults::none().skew(Duration::from_millis(5)),
        3 => Faults::none().server_jump(Duration::from_millis(12)),
        4 => Faults::none().restarts(1),
        5 if actors == 2 => Faults::none().lost(1),
        6 if actors == 2 => Faults::none().lost(1).crashes(1),
        _ => Faults::none(),
    };
    program(seed, faults, programs)
}

/// Three actors that send the same commands.
pub fn uniform_program(seed: u64) -> Scenario {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let [commands] = &commands(&mut rng, COMMANDS, 1, 2)[..] else { unreachable!("one program") };
    let faults = match rng.random_range(0..5) {
        0 if commands.len() == 1 => Faults::none().crashes(1),
        1 => Faults::none().skew(Duration::from_millis(5)),
        2 if commands.len() == 1 => Faults::none().stalls(1),
        3 if commands.len() == 1 => Faults::none().lost(1),
        _ => Faults::none(),
    };
    let name = format!("uniform program {seed}: {commands:?}, {faults:?}");
    sends_alike(Scenario::new(name).servers(2).faults(faults), 3, commands.clone())
}

/// Random commands for each actor, at most `commands_max` each.
fn commands(rng: &mut Pcg64Mcg, of: &[&str], actors: usize, commands_max: usize) -> Vec<Vec<String>> {
    let program = |_| {
        let commands = rng.random_range(1..=commands_max);
        (0..commands).map(|_| of[rng.random_range(0..of.len())].to_owned()).collect()
    };
    (0..actors).map(program).collect()
}

/// If replies can be late, each command is two steps. Brute force then affords fewer of them: two
/// actors, the second with one command. If time can pass and more can go wrong, each has one.
fn program(seed: u64, faults: Faults, mut programs: Vec<Vec<String>>) -> Scenario {
    if faults.stalls > 0 {
        programs.truncate(2);
        let is_mixed = faults.stalls > 0 && faults != Faults::none().stalls(faults.stalls);
        programs[0].truncate(if is_mixed { 1 } else { 2 });
        programs[1].truncate(1);
    }
    let scenario = Scenario::new(format!("random program {seed}: {programs:?}, {faults:?}"))
        .servers(2)
        .faults(faults)
        .lease(millis("8ms"));
    programs.into_iter().fold(scenario, sends)
}
