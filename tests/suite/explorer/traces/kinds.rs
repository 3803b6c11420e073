//! The kinds of random programs whose outcomes are compared with brute force.

use harness::Faults;

use super::programs::{CLIENTS, Rare};

/// Commands on all data types, some of which read before they write.
const TYPES: &[&str] = &[
    "HSET h f 1",
    "HINCRBY h f 1",
    "HGETALL h",
    "HDEL h f",
    "LPUSH l 1",
    "RPOPLPUSH l m",
    "LLEN l",
    "SADD s 1",
    "SREM s 1",
    "SCARD s",
    "ZADD z 1 x",
    "ZRANK z x",
    "ZREMRANGEBYSCORE z 0 1",
    "ZINTERSTORE y 1 z",
    "APPEND a x",
    "GETSET a 1",
    "GETDEL a",
    "feed: GET a -> SET b {}",
    "feed: TIME -> SET b {}",
    "feed: INCR n -> SET b {}",
    "feed: PTTL a -> SET b {}",
    "EVAL if(redis.call('GET','a'))then\nredis.call('SET','b','1')\nend 0",
    "EVAL return(redis.call('INCR','n')+redis.call('SCARD','s')) 0",
    "SET a 1 PX 10",
    "OBJECT ENCODING a",
    "TYPE a",
];
/// Commands whose effect depends on the connection or on tasks of the client.
const TASKS: &[&str] = &[
    "both: SET a 1 | 2:GET a",
    "both: INCR a | GET a",
    "either: GET a | SET a 2",
    "either: BLPOP l 0.01 | GET b",
    "every 4ms: INCR a",
    "after 5ms: SET a 1",
    "within 5ms: BLPOP l 0.02",
    "RPUSH l 1",
    "GET a",
    "SET b 1",
    "WATCH a",
    "MULTI",
    "EXEC",
    "2:INCR a",
];
/// Commands on the state that a server keeps beside its keys.
const STATE: &[&str] = &[
    "FCALL count 1 n",
    "FCALL peek 0",
    "EVAL cjson.encode_number_precision(3) 0",
    "feed: EVAL return(cjson.encode(1/3)) 0 -> SET b {}",
    "SCRIPT LOAD return(1)",
    "pass: EVALSHA 930269f31393d0be681588b6ab08dccee7d6bb67 0",
    "SCRIPT FLUSH",
    "feed: OBJECT IDLETIME a -> SET b {}",
    "GET a",
    "SET a 1",
    "INCR n",
    "CONFIG SET notify-keyspace-events KEA",
    "DBSIZE",
    "RANDOMKEY",
];
/// Locks, and clients that end grants.
const LOCKS: &[&str] = &[
    "lock k",
    "lock k",
    "unlock k",
    "release k",
    "extend k",
    "DEL k",
    "SET k x",
    "PEXPIRE k 3",
    "accept",
    "GET b",
    "sleep 5ms",
    "hold: GET a",
];
/// Grants that are parts of a value, and commands that remove such parts.
const RECORDS: &[&str] = &[
    "member z",
    "member z",
    "field h",
    "key k",
    "ZREM z A",
    "ZREM z B",
    "ZADD z 0 C",
    "ZREMRANGEBYRANK z 0 0",
    "HDEL h A",
    "HDEL h B",
    "DEL k",
    "FLUSHALL",
    "unlock z",
];
/// Operations that are called and return, things that are done, and things that come from outside.
const CALLS: &[&str] = &[
    "call: GET a",
    "call: GET a",
    "call: SET a 1",
    "call: INCR n",
    "call: GET b; SET b 1",
    "call: BLPOP l 0.01",
    "SET a 2",
    "RPUSH l 1",
    "arrive",
    "do x",
    "sleep 5ms",
    "after 5ms: INCR n",
];
/// Commands of which a service sends some after each element of a list.
const SERVICES: &[&str] = &["RPUSH l 1", "RPUSH l 2", "GET b", "SET b 1", "do x", "INCR n"];
/// A lock on three servers.
const MAJORITY: &[&str] = &["majority k", "DEL k", "2:DEL k", "3:DEL k", "2:FLUSHALL"];

/// All kinds of programs, each with its name.
pub fn kinds() -> Vec<(&'static str, Rare)> {
    let none = Faults::none();
    let of = |name, faults, actors, commands, commands_max| {
        let (response_timeout, has_service, replicas) = (None, false, 0);
        (name, Rare { faults, actors, commands, commands_max, response_timeout, has_service, replicas })
    };
    let with_replicas = |replicas, (name, rare)| (name, Rare { replicas, ..rare });
    let with_service = |(name, rare)| (name, Rare { has_service: true, ..rare });
    vec![
        of("types", none, 3, TYPES, 2),
        of("types and stalls", none.stalls(1), 2, TYPES, 2),
        of("types and crashes", none.crashes(1), 3, TYPES, 2),
        of("tasks", none, 2, TASKS, 3),
        of("tasks and lost messages", none.lost(1), 2, TASKS, 2),
        of("state", none, 3, STATE, 2),
        of("state and restarts", none.restarts(1), 2, STATE, 2),
        of("locks", none, 2, LOCKS, 4),
        of("three clients with locks", none, 3, LOCKS, 3),
        of("locks and stalls", none.stalls(1), 2, LOCKS, 3),
        of("locks and crashes", none.crashes(1), 2, LOCKS, 3),
        of("locks, crashes and lost messages", none.crashes(1).lost(1), 2, LOCKS, 2),
        of("locks and lost writes", none.reloads(1).unsynced(1), 2, LOCKS, 3),
        of("records", none, 2, RECORDS, 3),
        of("records and crashes", none.crashes(1), 2, RECORDS, 2),
        of("majority", none, 2, MAJORITY, 2),
        of("majority and crashes", none.crashes(1), 2, MAJORITY, 2),
        of("calls", none, 2, CALLS, 3),
        of("calls of three clients", none, 3, CALLS, 2),
        of("calls and stalls", none.stalls(1), 2, CALLS, 2),
        of("calls and crashes", none.crashes(1), 2, CALLS, 2),
        with_replicas(1, of("locks and failovers", none.failovers(1).behind(2), 2, LOCKS, 3)),
        with_replicas(
            1,
            of("locks and split brains", none.failovers(1).behind(1).old_primary_writable(1), 2, LOCKS, 2),
        ),
        with_replicas(1, of("records and failovers", none.failovers(1).behind(1), 2, RECORDS, 2)),
        with_replicas(1, of("majority and failovers", none.failovers(1).behind(1), 2, MAJORITY, 2)),
        with_replicas(1, of("state and failovers", none.failovers(1).behind(1), 2, STATE, 2)),
        with_replicas(1, of("calls and failovers", none.failovers(1).behind(1), 2, CALLS, 2)),
        with_service(of("services", none, 3, SERVICES, 2)),
        with_service(of("services and crashes", none.crashes(1), 2, SERVICES, 2)),
        with_service(of("services that start anew", none.respawns(1), 2, SERVICES, 2)),
        of("clients", none, 3, CLIENTS, 2),
        of("clients and cancels", none.cancels(1), 2, CLIENTS, 2),
        of("clients and delays", none.delays(1), 2, CLIENTS, 2),
        of("locks and partitions", none.partitions(1), 2, LOCKS, 3),
        of("majority and partitions", none.partitions(1), 2, MAJORITY, 2),
        of("calls and partitions", none.partitions(1), 2, CALLS, 2),
    ]
}
