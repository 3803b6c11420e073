//! Random commands from two clients, on the emulator and on the real server: every reply and the final state are the same.

use std::fmt::Write as _;

use emulator::Emulator;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{FileFailurePersistence, TestRunner};

use super::wire::{Emulated, Peer, Real};
use crate::redis_server;

const SEQUENCES: u32 = 64;
const COMMANDS_MAX: usize = 60;

/// What commands look like: each word of one capital letter stands for one of [`pool`]. Deadlines are absolute, long gone or
/// far away, so that it does not matter when a command runs. What depends on the order of keys, on chance, or on when the
/// server cleans up expired keys, is left out; sets are of integers, which have an order.
const TEMPLATES: &[&str] = &[
    "append K V",
    "decr K",
    "decrby K N",
    "get K",
    "getdel K",
    "getex K",
    "getex K pxat T",
    "getex K persist",
    "getset K V",
    "incr K",
    "incrby K N",
    "mget K K K",
    "mset K V K V",
    "set K V",
    "set K V nx",
    "set K V xx get",
    "set K V O",
    "set K V O O",
    "set K V pxat T",
    "set K V exat N",
    "set K V O pxat T",
    "setnx K V",
    "strlen K",
    "getrange K N N",
    "setrange K I V",
    "msetnx K V K V",
    "incrbyfloat K S",
    "incrbyfloat K N",
    "lcs K K",
    "lcs K K idx withmatchlen minmatchlen N",
    "del K",
    "del K K",
    "exists K K",
    "expireat K N",
    "keys K",
    "persist K",
    "pexpireat K T",
    "pexpireat K T O",
    "pexpireat K T O O",
    "pexpiretime K",
    "expiretime K",
    "type K",
    "unlink K",
    "copy K K",
    "copy K K replace",
    "rename K K",
    "renamenx K K",
    "touch K K",
    "object encoding K",
    "object refcount K",
    "scan 0 match K count 1000",
    "sort K",
    "sort K desc limit N N",
    "sort K alpha O",
    "sort K alpha limit N N store K",
    "sort K by weight_* get # get K get *",
    "sort_ro K",
    "hset K F V",
    "hset K F V F V",
    "hsetnx K F V",
    "hget K F",
    "hmget K F F",
    "hgetall K",
    "hdel K F",
    "hdel K F F",
    "hexists K F",
    "hlen K",
    "hkeys K",
    "hvals K",
    "hincrby K F N",
    "hmset K F V",
    "zadd K S F",
    "zadd K S F S F",
    "zadd K O S F",
    "zadd K O O S F",
    "zadd K O incr S F",
    "zadd K ch O S F S F",
    "zincrby K S F",
    "zrem K F",
    "zrem K F F",
    "zscore K F",
    "zrank K F",
    "zrevrank K F",
    "zcard K",
    "zcount K B B",
    "zrange K N N",
    "zrange K N N withscores",
    "zrange K B B byscore",
    "zrange K B B byscore rev withscores limit N N",
    "zrevrange K N N withscores",
    "zrangebyscore K B B",
    "zrangebyscore K B B withscores limit N N",
    "zrevrangebyscore K B B",
    "zremrangebyscore K B B",
    "zremrangebyrank K N N",
    "zinterstore K 2 K K",
    "zinterstore K 2 K K weights S S",
    "zinterstore K 3 K K K aggregate A",
    "zunionstore K 2 K K",
    "zunionstore K 2 K K weights S S aggregate A",
    "zinterstore K 1 K weights S",
    "lpush K V",
    "rpush K V V",
    "lpushx K V",
    "rpushx K V",
    "lpop K",
    "lpop K N",
    "rpop K N",
    "llen K",
    "lindex K N",
    "lset K N V",
    "lrange K N N",
    "ltrim K N N",
    "lrem K N V",
    "linsert K before V V",
    "linsert K after V V",
    "lpos K V",
    "lpos K V rank N count N",
    "lpos K V maxlen N",
    "lmove K K E E",
    "rpoplpush K K",
    "lmpop 2 K K E",
    "lmpop 1 K E count N",
    "sadd K I",
    "sadd K I I I",
    "srem K I F",
    "smembers K",
    "sismember K I",
    "smismember K I F",
    "scard K",
    "spop K 10",
    "srandmember K 10",
    "smove K K I",
    "sinter K K",
    "sinterstore K K K",
    "sintercard 2 K K limit N",
    "sunion K K K",
    "sunionstore K K K",
    "sdiff K K K",
    "sdiffstore K K K",
    "multi",
    "exec",
    "exec",
    "discard",
    "watch K",
    "unwatch",
    "O K",
    "get",
    "hello H",
    "eval L 2 K K F V",
    "eval L 2 K K F S",
    "eval L 2 K K pxat T",
];

const SCRIPTS: &[&str] = &[
    "if redis.call('get', KEYS[1]) == ARGV[2] then return redis.call('del', KEYS[1]) else return 0 end",
    "redis.call('set', KEYS[1], ARGV[2]); return redis.call('set', KEYS[2], ARGV[2], 'nx', 'get')",
    "return {redis.pcall('incrby', KEYS[1], 1), redis.call('hgetall', KEYS[2])}",
    "redis.call('zadd', KEYS[1], ARGV[2], ARGV[1]); return redis.call('zrange', KEYS[2], 0, -1, 'withscores')",
    "redis.call('hincrby', KEYS[1], ARGV[1], 1); return redis.call('hset', KEYS[2], ARGV[1], ARGV[2])",
    "local v = redis.call('get', KEYS[1]); return v and #v or redis.status_reply(tostring(v))",
    "redis.call('rpush', KEYS[1], ARGV[1], ARGV[2]); return redis.call('lmove', KEYS[1], KEYS[2], 'left', 'right')",
    "return redis.call('set', KEYS[1], 'x', unpack(ARGV))",
    "return {tonumber(redis.call('pexpiretime', KEYS[1])), 1.9, false, 'x', nil, 'y'}",
];

fn pool(letter: &str) -> Option<&'static [&'static str]> {
    Some(match letter {
        "K" => &["a", "b", "c", "d"],
        "V" => &["1", "-7", "x", "", "9223372036854775807", "a longer value \r\n with a line break"],
        "N" => &["0", "1", "2", "-1", "-2", "10", "9223372036854775807", "-9223372036854775808", "x"],
        "F" => &["f", "g", "h", "1"],
        "S" => &["0", "1", "-1", "2.5", "0.1", "1e20", "inf", "-inf", "x"],
        "B" => &["0", "(1", "-inf", "+inf", "2.5", "(2.5", "x"],
        "T" => &["1", "1000000000000", "4102444800000", "4102444800001", "-1", "0", "9223372036854775807"],
        "O" => &["nx", "xx", "gt", "lt", "ch", "get", "keepttl"],
        "E" => &["left", "right"],
        "I" => &["0", "1", "-1", "7", "10", "9223372036854775807"],
        "A" => &["sum", "min", "max", "avg"],
        "L" => SCRIPTS,
        _ => return None,
    })
}

/// A command, and which of the two clients sends it.
fn command() -> impl Strategy<Value = (usize, Vec<&'static str>)> {
    let choice = (0..2usize, select(TEMPLATES), vec(any::<Index>(), 8));
    choice.prop_map(|(client, template, indices)| {
        let mut indices = indices.into_iter();
        let mut word = |word: &'static str| match pool(word) {
            Some(pool) => *indices.next().expect("no template has more than 8 capital letters").get(pool),
            None => word,
        };
        (client, template.split(' ').map(&mut word).collect())
    })
}

#[test]
fn random_commands_have_the_same_replies() {
    let Some(server) = redis_server::borrow() else { return };
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/suite/data/conformance_seeds");
    let mut runner = TestRunner::new(ProptestConfig {
        cases: SEQUENCES,
        max_shrink_iters: 4096,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(seeds))),
        ..ProptestConfig::default()
    });
    let result = runner.run(&vec(command(), 1..COMMANDS_MAX), |commands| {
        let emulator = Emulator::new();
        let emulated = run([0, 1].map(|_| Emulated::open(&emulator)), &commands);
        let mut real = [0, 1].map(|_| Real::over(server.connect()));
        real[0].call(&["FLUSHDB"]);
        let real = run(real, &commands);
        prop_assert_eq!(emulated, real);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Every reply and the final state, as text.
fn run<P: Peer>(mut clients: [P; 2], commands: &[(usize, Vec<&str>)]) -> String {
    let mut log = String::new();
    for (client, argv) in commands {
        let reply = clients[*client].call(argv).escape_ascii().to_string();
        writeln!(log, "{client}> {}\n{reply}", argv.join(" ")).expect("a string takes text");
    }
    let [client, _] = &mut clients;
    client.call(&["discard"]);
    for key in pool("K").unwrap_or_default() {
        let looks = [
            &["type", key][..],
            &["pexpiretime", key],
            &["get", key],
            &["lrange", key, "0", "-1"],
            &["smembers", key],
            &["hgetall", key],
            &["zrange", key, "0", "-1", "withscores"],
        ];
        for look in looks {
            writeln!(log, "{look:?} {}", client.call(look).escape_ascii()).expect("a string takes text");
        }
    }
    log
}
