//! Compares the output of MONITOR and SLOWLOG for commands of other clients. Only times and
//! addresses may differ.

use emulator::Emulator;

use super::wire::{Emulated, Peer, Real, Wire, parse};
use crate::redis_server;

/// The commands that run while another client observes.
const COMMANDS: &[&[&[u8]]] = &[
    &[b"SET", b"k", b"v"],
    &[b"gEt", b"a\"b\\\r\n\t\x07\x08\x00\x7f\xff'"],
    &[b"NOSUCH"],
    &[b"GET"],
    &[b"CLIENT", b"SETNAME", b"me"],
    &[b"CONFIG", b"GET", b"hz"],
    &[b"CONFIG", b"SET", b"requirepass", b"", b"hz", b"10", b"MasterAuth", b"x"],
    &[b"CONFIG", b"SET", b"masterauth", b""],
    &[b"CONFIG", b"SET", b"nosuch", b"1", b"requirepass", b"x"],
    &[b"AUTH", b"x"],
    &[b"AUTH", b"default", b"x"],
    &[b"AUTH", b"a", b"b", b"c"],
    &[b"HELLO", b"2", b"AUTH", b"default", b"x", b"SETNAME", b"me"],
    &[b"HELLO", b"2", b"SETNAME", b"auth"],
    &[b"EVAL", b"redis.call('select', 1); return redis.call('Set', KEYS[1], 1)", b"1", b"k"],
    &[b"EVAL", b"return redis.pcall('nosuch')", b"0"],
    &[b"EVAL", b"return redis.call('config', 'get', 'hz')", b"0"],
    &[b"EVALSHA", b"x", b"0"],
    &[b"MULTI"],
    &[b"SET", b"k", b"v"],
    &[b"SELECT", b"2"],
    &[b"GET"],
    &[b"EXEC"],
    &[b"MULTI"],
    &[b"SET", b"k", b"v"],
    &[b"SELECT", b"2"],
    &[b"EXEC"],
    &[b"MULTI"],
    &[b"DISCARD"],
    &[b"WATCH", b"k"],
    &[b"SELECT", b"1"],
    &[b"RPUSH", b"l", b"v"],
    &[b"BLPOP", b"l", b"0"],
    &[b"SUBSCRIBE", b"c"],
    &[b"UNSUBSCRIBE", b"c"],
    &[b"CLIENT", b"LIST"],
    &[b"CLIENT", b"ID"],
    &[b"DEBUG", b"SLEEP", b"0"],
    &[b"LATENCY", b"RESET"],
    &[b"LASTSAVE"],
    &[b"SWAPDB", b"0", b"1"],
    &[b"RESET"],
    &[b"MONITOR"],
    &[b"MONITOR", b"x"],
    &[b"GET", b"k"],
    &[b"EVAL", b"return 1", b"0"],
    &[b"PUBLISH", b"c", b"m"],
    &[b"RESET"],
    &[b"PING"],
    &[b"QUIT"],
];

#[track_caller]
fn check(observed: fn(&mut dyn FnMut() -> Box<dyn Peer>) -> Vec<String>) {
    let emulator = Emulator::new();
    let emulated = observed(&mut || Box::new(Emulated::open(&emulator)));
    let Some(server) = redis_server::borrow().filter(redis_server::RedisServer::is_ours) else { return };
    let real = observed(&mut || Box::new(Real::over(server.connect_silently())));
    assert_eq!(emulated, real);
}

fn call(peer: &mut dyn Peer, argv: &[&[u8]]) -> Vec<u8> {
    peer.send(&super::wire::request(argv));
    peer.receive().unwrap_or_default()
}

#[test]
fn monitor() {
    check(|open| {
        let (mut monitor, mut client) = (open(), open());
        assert_eq!(call(&mut *monitor, &[b"SELECT", b"3"]), b"+OK\r\n");
        assert_eq!(call(&mut *monitor, &[b"MONITOR"]), b"+OK\r\n");
        for argv in COMMANDS {
            call(&mut *client, argv);
        }
        call(&mut *open(), &[b"ECHO", b"that was all"]);
        let lines =
            std::iter::from_fn(|| monitor.receive()).map(|line| mask(&String::from_utf8_lossy(&line)));
        lines.take_while(|line| !line.contains("that was all")).collect()
    });
}

/// A line without the time and the address: `+… [3 …] "PING"`.
fn mask(line: &str) -> String {
    let parts =
        line.split_once(" [").and_then(|(_, rest)| Some((rest.split_once(' ')?.0, rest.split_once("] ")?)));
    let (db, (source, command)) = parts.unwrap_or_else(|| panic!("{line:?} is no line of MONITOR"));
    format!("[{db} {}] {command}", if source.ends_with(" lua") { "lua" } else { "…" })
}

#[test]
fn slowlog() {
    check(|open| {
        let (mut admin, mut client) = (open(), open());
        let slower_than = |micros| [&b"CONFIG"[..], b"SET", b"slowlog-log-slower-than", micros];
        call(&mut *admin, &slower_than(b"-1"));
        call(&mut *admin, &[b"SLOWLOG", b"RESET"]);
        call(&mut *admin, &[b"CONFIG", b"SET", b"slowlog-max-len", b"1000"]);
        call(&mut *admin, &slower_than(b"0"));
        for argv in COMMANDS {
            call(&mut *client, argv);
        }
        let mut client = open();
        let long = [b'x'; 129];
        for argc in [31, 32, 33] {
            call(&mut *client, &[&[&b"DEL"[..]], &vec![&long[..argc + 96]; argc - 1][..]].concat());
        }
        let mut waiting = open();
        waiting.send(&super::wire::request(&["BLPOP", "list", "0"]));
        call(&mut *client, &[b"PING"]);
        call(&mut *client, &[b"RPUSH", b"list", b"1"]);
        waiting.receive();
        call(&mut *admin, &slower_than(b"-1"));
        let log = call(&mut *admin, &[b"SLOWLOG", b"GET", b"-1"]);
        for pair in [[&b"slowlog-log-slower-than"[..], b"10000"], [b"slowlog-max-len", b"128"]] {
            call(&mut *admin, &[b"CONFIG", b"SET", pair[0], pair[1]]);
        }
        call(&mut *admin, &[b"SLOWLOG", b"RESET"]);
        let Some((Wire::Items(_, entries), _)) = parse(&log) else { panic!("not a list: {log:?}") };
        let shown = entries.into_iter().map(|entry| {
            let Wire::Items(_, fields) = entry else { panic!("{entry} is no entry") };
            let is_script = fields[4] == Wire::Bulk(b"?:0".to_vec());
            format!("{} {} {is_script}", fields[3], fields[5])
        });
        shown.collect()
    });
}
