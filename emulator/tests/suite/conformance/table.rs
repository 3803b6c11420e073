//! Walks the command table: what holds for every command is tested for every row, so new rows are
//! covered as well.

use emulator::Emulator;
use emulator::command::{Flag, GROUPS, Row};

use super::wire::{Emulated, Peer, Real, Wire, parse};
use crate::redis_server;

/// `CLIENT SETINFO` came with Redis 7.2. The emulator has it because clients send it when they
/// connect.
const NOT_IN_7_0: &[&str] = &["client|setinfo"];

/// Commands whose replies are not compared. Their replies depend on the time, chance, the
/// connection's number, memory, earlier commands or the set of commands. Others are texts of the
/// emulator itself: docs and doctors' reports.
const ANSWERS_OF_ITS_OWN: &[&str] = &[
    "client|id",
    "client|info",
    "client|list",
    "command",
    "command|count",
    "command|docs",
    "command|info",
    "command|list",
    "hello",
    "info",
    "lastsave",
    "latency|doctor",
    "latency|histogram",
    "latency|history",
    "latency|latest",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|stats",
    "memory|usage",
    "object|idletime",
    "randomkey",
    "slowlog|get",
    "slowlog|len",
    "time",
];

/// Commands that create one key of every kind, named after its kind.
const ONE_OF_EACH_KIND: &[&[&str]] = &[
    &["SET", "string", "1"],
    &["LPUSH", "list", "1"],
    &["SADD", "set", "1"],
    &["HSET", "hash", "1", "1"],
    &["ZADD", "zset", "1", "1"],
];

/// Every command and every subcommand.
fn rows() -> impl Iterator<Item = &'static Row> {
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    rows.flat_map(|row| std::iter::once(row).chain(row.subcommands))
        .filter(|row| !NOT_IN_7_0.contains(&row.name))
}

/// A row's name, followed by as many arguments as make `argc`.
fn call(row: &Row, argc: usize, arg: &'static str) -> Vec<&'static str> {
    let mut argv: Vec<&str> = row.name.split('|').collect();
    argv.resize(argc.max(argv.len()), arg);
    argv
}

fn arity(row: &Row) -> usize {
    row.arity.unsigned_abs() as usize
}

/// Every number of arguments that a row accepts, up to two more than it needs.
fn argcs(row: &Row) -> impl Iterator<Item = usize> {
    arity(row)..=if row.arity < 0 { arity(row) + 2 } else { arity(row) }
}

/// Sends each list of commands to both servers and compares all replies. Each list gets new
/// connections and one key of each kind. On the real server, a second may pass between two
/// commands, and on a busy machine that is not rare. A difference counts if it comes three times.
#[track_caller]
fn check(scripts: impl IntoIterator<Item = Vec<Vec<&'static str>>>) {
    let Some(server) = redis_server::borrow() else { return };
    let mut differences = Vec::new();
    for script in scripts {
        if !server.is_ours() && script.iter().flatten().any(|word| matches!(*word, "select" | "flushall")) {
            continue;
        }
        let difference = || {
            let emulated = run(&mut Emulated::open(&Emulator::new()), &script);
            let mut real = Real::over(server.connect());
            real.call(&["FLUSHDB"]);
            let real = run(&mut real, &script);
            (real != emulated)
                .then(|| format!("{script:?}\n    server:   {real:?}\n    emulator: {emulated:?}\n"))
        };
        differences.extend(difference().and_then(|_| difference()).and_then(|_| difference()));
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

fn run(peer: &mut impl Peer, script: &[Vec<&str>]) -> Vec<String> {
    for argv in ONE_OF_EACH_KIND {
        peer.call(argv);
    }
    script.iter().map(|argv| peer.call(argv).escape_ascii().to_string()).collect()
}

#[test]
fn the_wrong_number_of_arguments() {
    check(rows().flat_map(|row| {
        let fewer = arity(row) - 1;
        let more = (row.arity > 0).then(|| arity(row) + 1);
        let names = row.name.split('|').count();
        let wrong = std::iter::once(fewer).filter(move |&argc| argc >= names).chain(more);
        wrong.map(|argc| vec![call(row, argc, "1")])
    }));
}

#[test]
fn keys_of_every_kind() {
    let kinds = ["string", "list", "set", "hash", "zset", "missing"];
    // Redis has each small integer once, for all keys. It is idle since a command read any of them.
    let left_out = ["memory|usage", "object|idletime"];
    let with_keys = rows().filter(|row| !row.keys.is_empty() && !left_out.contains(&row.name));
    check(with_keys.flat_map(|row| argcs(row).map(move |argc| (row, argc))).flat_map(move |(row, argc)| {
        // A blocking command would wait here.
        let waits = |kind: &str| kind == "missing" && row.flags.contains(&Flag::Blocking);
        kinds.into_iter().filter(move |kind| !waits(kind)).map(move |kind| {
            // With 1, the key could expire before the next command reads it.
            let is_time = row.name.ends_with("expire") || row.name.ends_with("setex");
            let mut argv = call(row, argc, if is_time { "100000" } else { "1" });
            let positions = row.keys.iter().flat_map(|spec| spec.positions(&bytes(&argv)));
            for idx in positions.collect::<Vec<_>>() {
                argv[idx] = kind;
            }
            vec![argv, vec!["TYPE", kind], vec!["TYPE", "1"]]
        })
    }));
}

#[test]
fn inside_multi() {
    check(deterministic_calls().map(|argv| vec![vec!["MULTI"], argv, vec!["EXEC"], vec!["PING"]]));
}

#[test]
fn inside_eval() {
    for script in ["return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))"] {
        check(deterministic_calls().map(|argv| vec![[&["EVAL", script, "0"], &argv[..]].concat()]));
    }
}

fn deterministic_calls() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = rows().filter(|row| !ANSWERS_OF_ITS_OWN.contains(&row.name) && !row.name.ends_with("|help"));
    rows.flat_map(|row| argcs(row).map(move |argc| call(row, argc, "string")))
}

fn bytes<'a>(argv: &[&'a str]) -> Vec<&'a [u8]> {
    argv.iter().map(|arg| arg.as_bytes()).collect()
}

/// Compares the reply of `COMMAND INFO` for each row. Only the subcommands that the emulator has
/// are compared.
#[test]
fn command_info() {
    let Some(server) = redis_server::borrow() else { return };
    let mut emulated = Emulated::open(&Emulator::new());
    let mut real = Real::over(server.connect());
    for row in rows() {
        let argv = ["COMMAND", "INFO", row.name];
        assert_eq!(describe(&emulated.call(&argv)), describe(&real.call(&argv)), "{}", row.name);
    }
    for name in NOT_IN_7_0 {
        let unknown = real.call(&["COMMAND", "INFO", name]);
        assert_eq!(unknown, b"*1\r\n$-1\r\n", "{name} is no exception any more");
    }
}

/// The reply without its subcommands. Fields that are sets are sorted.
fn describe(reply: &[u8]) -> String {
    let Some((Wire::Items(_, infos), _)) = parse(reply) else { panic!("not a list: {reply:?}") };
    let Some(Wire::Items(_, fields)) = infos.into_iter().next() else { return "unknown".into() };
    let mut fields = fields[..9].to_vec();
    sort(&mut fields[2]);
    sort(&mut fields[6]);
    sort(&mut fields[7]);
    if let Wire::Items(_, specs) = &mut fields[8] {
        for spec in specs {
            if let Wire::Items(_, parts) = spec {
                // Names and values alternate. The value of `flags` is a set.
                parts.chunks_mut(2).for_each(|field| {
                    if let [Wire::Bulk(name), flags] = field
                        && name == b"flags"
                    {
                        sort(flags);
                    }
                });
            }
        }
    }
    Wire::Items(b'*', fields).to_string()
}

fn sort(set: &mut Wire) {
    if let Wire::Items(_, items) = set {
        items.sort_by_key(Wire::to_string);
    }
}
