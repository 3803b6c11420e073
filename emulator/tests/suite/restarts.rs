//! `EMULATOR RESTART`: what a crash ends, and what is left on the disk.

use std::time::Duration;

use emulator::{Clock, Emulator};

use crate::conformance::wire::{Emulated, Peer as _, parse};

fn server() -> (Clock, Emulator) {
    let clock = Clock::manual();
    let server = Emulator::with_clock(clock.clone());
    server.allow_control();
    (clock, server)
}

fn run(server: &Emulator, command: &str) -> String {
    ask(&mut Emulated::open(server), command)
}

fn ask(client: &mut Emulated, command: &str) -> String {
    let reply = client.call(&command.split(' ').collect::<Vec<_>>());
    parse(&reply).map_or_else(String::new, |(wire, _)| wire.to_string())
}

#[test]
fn the_settings_say_which_writes_are_lost() {
    for (settings, left) in [
        ("appendonly no", "(nil) (nil) (nil)"),
        ("appendonly yes appendfsync always", "\"1\" \"2\" \"3\""),
        ("appendonly yes", "\"1\" \"2\" (nil)"),
        ("appendonly yes appendfsync no", "\"1\" (nil) (nil)"),
    ] {
        let (clock, server) = server();
        assert_eq!(run(&server, &format!("CONFIG SET {settings}")), "OK");
        assert_eq!(run(&server, "SET a 1"), "OK");
        clock.advance(Duration::from_secs(30));
        assert_eq!(run(&server, "SET b 2"), "OK");
        clock.advance(Duration::from_secs(1));
        assert_eq!(run(&server, "SET c 3"), "OK");
        assert_eq!(run(&server, "EMULATOR RESTART"), "OK");
        assert_eq!(["GET a", "GET b", "GET c"].map(|command| run(&server, command)).join(" "), left);
        assert!(run(&server, "CONFIG GET appendonly").contains("\"no\""), "settings end");
    }
}

#[test]
fn the_test_may_say_which_writes_are_lost() {
    for (losing, left) in [("NONE", "5"), ("0", "5"), ("100", "3"), ("201", "0"), ("ALL", "0"), ("1000", "0")]
    {
        let (clock, server) = server();
        for _ in 0..3 {
            run(&server, "INCR n");
        }
        clock.advance(Duration::from_millis(100));
        for _ in 0..2 {
            run(&server, "INCR n");
        }
        clock.advance(Duration::from_millis(99));
        assert_eq!(run(&server, &format!("EMULATOR RESTART LOSING {losing}")), "OK");
        assert_eq!(run(&server, "INCRBY n 0"), format!("(integer) {left}"), "{losing}");
    }
}

#[test]
fn a_crash_ends_connections_scripts_and_settings_and_keeps_deadlines() {
    let (clock, server) = server();
    let mut other = Emulated::open(&server);
    let mut own = Emulated::open(&server);
    assert_eq!(ask(&mut own, "SET lock a PX 5000"), "OK");
    assert_eq!(ask(&mut own, "SET short a PX 50"), "OK");
    let sha = ask(&mut own, "SCRIPT LOAD return");
    assert_eq!(ask(&mut own, "CONFIG SET maxclients 5"), "OK");
    assert_eq!(ask(&mut own, "EMULATOR FAULT ERROR OOM COMMAND decr"), "OK");
    let run_id = run(&server, "INFO server").lines().find(|line| line.contains("run_id")).map(str::to_owned);
    clock.advance(Duration::from_millis(51));
    assert_eq!(ask(&mut own, "EMULATOR RESTART LOSING NONE"), "OK");
    assert_eq!(ask(&mut other, "PING"), "", "it has been disconnected");
    assert_eq!(ask(&mut own, "PTTL lock"), "(integer) 4949");
    assert_eq!(ask(&mut own, "EXISTS short"), "(integer) 0");
    assert_eq!(ask(&mut own, "DBSIZE"), "(integer) 1");
    assert!(ask(&mut own, &format!("EVALSHA {} 0", sha.trim_matches('"'))).contains("NOSCRIPT"));
    assert!(ask(&mut own, "CONFIG GET maxclients").contains("10000"));
    assert!(ask(&mut own, "DECR n").contains("OOM"), "faults stay");
    assert_ne!(run(&server, "INFO server").lines().find(|line| line.contains("run_id")), run_id.as_deref());
}

/// <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>: a primary without
/// persistence that restarts at once empties its replicas.
#[test]
fn a_primary_that_restarts_empty_empties_its_replicas() {
    let (_, primary) = server();
    let replica = primary.replica();
    replica.allow_control();
    assert_eq!(run(&primary, "SET k v"), "OK");
    assert_eq!(run(&replica, "EMULATOR RESTART"), "OK");
    assert_eq!(run(&replica, "GET k"), "\"v\"", "it has copied the data again");
    assert_eq!(run(&primary, "EMULATOR RESTART LOSING NONE"), "OK");
    assert_eq!(run(&replica, "GET k"), "\"v\"");
    assert_eq!(run(&primary, "SET k w"), "OK");
    assert_eq!(run(&replica, "GET k"), "\"w\"");
    assert_eq!(run(&primary, "EMULATOR RESTART"), "OK");
    assert_eq!(run(&replica, "GET k"), "(nil)");
}

#[test]
fn sentinels_notice_a_restart() {
    let (_, primary) = server();
    let _replica = primary.replica();
    let sentinel = primary.sentinels(1).remove(0);
    sentinel.allow_control();
    let mut subscriber = Emulated::open(&sentinel);
    ask(&mut subscriber, "SUBSCRIBE +reboot");
    assert_eq!(run(&primary, "EMULATOR RESTART"), "OK");
    subscriber.hear();
    let told = subscriber.receive_at_once().expect("it has been published");
    assert!(String::from_utf8_lossy(&told).contains("master mymaster 127.0.0.1 6379"));
    assert_eq!(run(&sentinel, "EMULATOR RESTART"), "OK");
    assert_eq!(ask(&mut subscriber, "PING"), "");
    assert!(run(&sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster").contains("6379"));
}

#[test]
fn every_kind_of_write_is_restored() {
    let (_, server) = server();
    for command in [
        "SELECT 3",
        "RPUSH list a b c",
        "LPOP list",
        "HSET hash f 1",
        "HINCRBY hash f 4",
        "SADD set a",
        "ZADD zset 1 a",
        "ZINCRBY zset 2 a",
        "SET text 1",
        "APPEND text 2",
    ] {
        run(&server, command);
    }
    let mut client = Emulated::open(&server);
    for command in ["MULTI", "SET t 1", "SELECT 5", "SET t 2", "EXEC"] {
        ask(&mut client, command);
    }
    let library = "#!lua name=l\nredis.register_function('f', function() return 7 end)";
    client.call(&["FUNCTION", "LOAD", library]);
    client.call(&[
        "EVAL",
        "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[1])",
        "1",
        "e",
        "4",
    ]);
    let data = || {
        let commands = [
            "LRANGE list 0 -1",
            "HGETALL hash",
            "SMEMBERS set",
            "ZRANGE zset 0 -1 WITHSCORES",
            "GET text",
            "GET t",
        ];
        commands.map(|command| run(&server, command)).join("\n")
    };
    let before = data();
    assert_eq!(ask(&mut client, "EMULATOR RESTART LOSING NONE"), "OK");
    assert_eq!(data(), before);
    assert_eq!(run(&server, "FCALL f 0"), "(integer) 7");
    let mut client = Emulated::open(&server);
    ask(&mut client, "SELECT 5");
    assert_eq!([ask(&mut client, "GET t"), ask(&mut client, "GET e")], ["\"2\"", "\"5\""]);
}

#[test]
fn a_long_journal_forgets_and_says_so() {
    let (clock, server) = server();
    let mut client = Emulated::open(&server);
    for _ in 0..3 {
        for _ in 0..1 << 16 {
            client.call(&["INCR", "n"]);
        }
        clock.advance(Duration::from_millis(10));
    }
    assert!(ask(&mut client, "EMULATOR RESTART LOSING 1000").contains("only the last 20 ms"));
    assert_eq!(ask(&mut client, "GET n"), "\"196608\"", "nothing is lost");
    assert_eq!(ask(&mut client, "EMULATOR RESTART LOSING 11"), "OK");
    assert_eq!(ask(&mut client, "GET n"), "\"131072\"");
}

#[test]
fn wrong_requests_change_nothing() {
    let (_, server) = server();
    assert_eq!(run(&server, "SET k v"), "OK");
    for (command, told) in [
        ("EMULATOR RESTART NOW", "takes one of LOSING"),
        ("EMULATOR RESTART LOSING", "takes one of LOSING"),
        ("EMULATOR RESTART LOSING some", "must be an integer from 0"),
        ("EMULATOR RESTART LOSING -1", "not '-1'"),
    ] {
        let reply = run(&server, command);
        assert!(reply.contains(told), "{command}: {reply}");
    }
    assert_eq!(run(&server, "GET k"), "\"v\"");
}
