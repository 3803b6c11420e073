//! The footprints of commands: what a command really read and changed, and so which commands depend
//! on each other. Also active expiry, which has a footprint of its own.

use std::fmt::Write as _;
use std::time::Duration;

use emulator::{Clock, DirectConnection, Emulator, Footprint, Reply};
use expect_test::{Expect, expect};

/// Runs commands, separated by semicolons, on a connection. None of them may fail.
fn run(connection: &mut DirectConnection, commands: &str) {
    for command in commands.split("; ").filter(|command| !command.is_empty()) {
        let argv: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let reply = connection.execute(&argv);
        assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
    }
}

/// The footprint of the last of these commands.
fn footprint(before: &str, last: &str) -> Footprint {
    let emulator = Emulator::with_databases(Clock::manual(), 2);
    let mut connection = emulator.connection();
    run(&mut connection, before);
    run(&mut connection, last);
    emulator.footprint()
}

/// Each access as a line, with the deadline in milliseconds since the clock's start.
fn show(footprint: &Footprint) -> String {
    let start = emulator::Timestamp::EPOCH.millis();
    footprint.iter().fold(String::new(), |mut shown, (resource, access, deadline)| {
        let until = deadline.map(|deadline| format!(", until +{}", deadline - start)).unwrap_or_default();
        let _ = writeln!(shown, "  {access:?} {resource}{until}");
        shown
    })
}

const LOCK: &str = "SET lock A";
const LEASE: &str = "SET lock A PX 100";
const SORTED: &str = "ZADD z 1 a 2 b 3 c";

/// Each last command, after the others before it, with its footprint.
fn check(commands: &[(&str, &str)], expected: &Expect) {
    let shown = commands.iter().map(|(before, last)| format!("{last}\n{}", show(&footprint(before, last))));
    expected.assert_eq(&shown.collect::<String>());
}

#[test]
fn footprints_of_keys() {
    check(
        &[
            ("", "GET lock"),
            ("", "SET lock A NX PX 100"),
            (LOCK, "SET lock B NX PX 100"),
            (LEASE, "SET lock B NX"),
            (LEASE, "PTTL lock"),
            (LEASE, "PEXPIRE lock 200"),
            (LEASE, "DEL lock none"),
            ("SELECT 1", "SET lock A"),
            ("", "KEYS *"),
            ("", "FLUSHALL"),
            (LEASE, "FLUSHALL"),
        ],
        &expect![[r#"
            GET lock
              Read 0 lock
            SET lock A NX PX 100
              Read clock
              Read 0 lock
              Write 0 lock, until +100
            SET lock B NX PX 100
              Read clock
              Read 0 lock
            SET lock B NX
              Read 0 lock, until +100
            PTTL lock
              Read 0 lock, until +100
              Read clock
            PEXPIRE lock 200
              Read clock
              Read 0 lock, until +100
              Read 0 lock, until +100
              Read 0 lock, until +100
              Write 0 lock, until +200
            DEL lock none
              Read 0 lock, until +100
              Write 0 lock
              Read 0 none
            SET lock A
              Write 1 lock
            KEYS *
              Read 0
            FLUSHALL
              Read 0
              Read 1
            FLUSHALL
              Write 0
              Read 1
        "#]],
    );
}

#[test]
fn footprints_of_sorted_sets() {
    check(
        &[
            (SORTED, "ZSCORE z a"),
            (SORTED, "ZRANK z b"),
            (SORTED, "ZREVRANK z b"),
            (SORTED, "ZRANGEBYSCORE z (1 2"),
            (SORTED, "ZADD z 1 a 5 b"),
            (SORTED, "ZREM z a x"),
            (SORTED, "ZREMRANGEBYSCORE z -inf 1"),
        ],
        &expect![[r#"
            ZSCORE z a
              Read 0 z member a
            ZRANK z b
              Read 0 z member b
              Read 0 z places before -inf to 2 b
            ZREVRANK z b
              Read 0 z member b
              Read 0 z places 2 b to after inf
            ZRANGEBYSCORE z (1 2
              Read 0 z places before 1 to after 2
            ZADD z 1 a 5 b
              Read 0 z member a
              Read 0 z member b
              Write 0 z member b
              Write 0 z places 2 b to 2 b
              Write 0 z places 5 b to 5 b
            ZREM z a x
              Read 0 z member a
              Write 0 z member a
              Write 0 z places 1 a to 1 a
              Read 0 z member x
            ZREMRANGEBYSCORE z -inf 1
              Read 0 z places before -inf to after 1
              Read 0 z member a
              Write 0 z member a
              Write 0 z places 1 a to 1 a
        "#]],
    );
}

#[test]
fn footprints_beside_the_keys() {
    check(
        &[
            ("", "TIME"),
            ("", "EVAL return(1) 0"),
            ("", "SCRIPT EXISTS 930269f31393d0be681588b6ab08dccee7d6bb67"),
            ("", "SCRIPT FLUSH"),
            ("", "FUNCTION LIST"),
            ("SADD s a b", "SRANDMEMBER s"),
            ("", "PUBLISH c m"),
            ("HELLO 3; SUBSCRIBE c", "PUBLISH c m"),
            ("", "SUBSCRIBE c"),
            ("", "PSUBSCRIBE c*"),
            ("", "PUBSUB NUMSUB c"),
            ("", "CONFIG GET maxmemory"),
            ("", "CONFIG SET maxmemory 1gb"),
        ],
        &expect![[r#"
            TIME
              Read clock
            EVAL return(1) 0
              Write script 930269f31393d0be681588b6ab08dccee7d6bb67
            SCRIPT EXISTS 930269f31393d0be681588b6ab08dccee7d6bb67
              Read script 930269f31393d0be681588b6ab08dccee7d6bb67
            SCRIPT FLUSH
              Write scripts
            FUNCTION LIST
              Read functions
            SRANDMEMBER s
              Read 0 s
              Write random
            PUBLISH c m
              Read subscribers of c
            PUBLISH c m
              Read connections
              Read subscribers of c
              Write channel c
            SUBSCRIBE c
              Read connections
              Write subscription to c
            PSUBSCRIBE c*
              Read connections
              Write channels
            PUBSUB NUMSUB c
              Read subscribers of c
            CONFIG GET maxmemory
              Read settings
            CONFIG SET maxmemory 1gb
              Read settings
              Write settings
        "#]],
    );
}

#[test]
fn commands_that_touch_the_same_depend_on_each_other() {
    for (before, one, other, expected) in [
        ("", "GET a", "GET a", false),
        ("", "GET a", "SET a 1", true),
        ("", "GET a", "SET b 1", false),
        ("SET a 1", "SET a 2 NX", "SET a 3 NX", false),
        ("", "SET a 1 NX", "SET a 2 NX", true),
        ("", "SELECT 1; GET a", "SET a 1", false),
        (SORTED, "ZSCORE z a", "ZADD z 5 a", true),
        (SORTED, "ZSCORE z b", "ZADD z 5 a", false),
        (SORTED, "ZSCORE z x", "DEL z", true),
        (SORTED, "ZRANK z b", "ZADD z 0 x", true),
        (SORTED, "ZRANK z b", "ZADD z 2 aa", true),
        (SORTED, "ZRANK z b", "ZADD z 2 bb", false),
        (SORTED, "ZRANK z b", "ZADD z 3 x", false),
        (SORTED, "ZRANGEBYSCORE z 2 3", "ZADD z 3 x", true),
        (SORTED, "ZRANGEBYSCORE z 2 3", "ZADD z 2 x", true),
        (SORTED, "ZRANGEBYSCORE z 2 3", "ZADD z 3.5 x", false),
        (SORTED, "ZRANGEBYSCORE z 2 3", "ZADD z 1.5 x", false),
        // The name of this member is empty.
        (SORTED, "ZRANGEBYSCORE z 2 3", "ZADD z 2 ", true),
        ("", "DBSIZE", "SET a 1", true),
        ("", "SELECT 1; DBSIZE", "SET a 1", false),
        ("", "SELECT 1; FLUSHDB", "SET a 1", false),
        ("SET a 1", "GET a", "FLUSHALL", true),
        ("", "SCRIPT EXISTS 930269f31393d0be681588b6ab08dccee7d6bb67", "EVAL return(1) 0", true),
        ("", "SCRIPT EXISTS 930269f31393d0be681588b6ab08dccee7d6bb67", "EVAL return(2) 0", false),
        ("", "SCRIPT EXISTS 930269f31393d0be681588b6ab08dccee7d6bb67", "SCRIPT FLUSH", true),
        ("SADD s a b; SADD t a b", "SRANDMEMBER s", "SRANDMEMBER t", true),
        ("HELLO 3; SUBSCRIBE c", "PUBLISH c m", "PUBLISH c m", true),
        ("", "PUBLISH c m", "PUBLISH c m", false),
        ("", "PUBLISH c m", "PUBLISH d m", false),
        ("", "SUBSCRIBE c", "SUBSCRIBE c", false),
        ("", "SUBSCRIBE c", "PUBLISH c m", true),
        ("", "SUBSCRIBE c", "PUBLISH d m", false),
        ("", "SUBSCRIBE c", "PUBSUB NUMSUB c", true),
        ("", "SUBSCRIBE c", "PUBSUB NUMSUB d", false),
        ("", "SUBSCRIBE c", "PUBSUB CHANNELS", true),
        ("", "PSUBSCRIBE c*", "PUBLISH d m", true),
        ("", "PSUBSCRIBE c*", "SUBSCRIBE d", true),
        ("", "PUBSUB NUMSUB c", "PSUBSCRIBE c*", true),
        ("", "PING", "CONFIG SET maxmemory 1gb", true),
        ("", "CONFIG GET maxmemory", "CONFIG GET maxmemory", false),
    ] {
        let [one_print, other_print] = [one, other].map(|last| footprint(before, last));
        let depends = (one_print.conflicts_with(&other_print), other_print.conflicts_with(&one_print));
        assert_eq!(depends, (expected, expected), "{one} and {other}");
    }
}

#[test]
fn commands_that_depend_on_time() {
    for (before, last, expected) in [
        ("", "TIME", true),
        ("", "GET a", false),
        ("SET a 1 PX 100", "GET a", true),
        ("SET a 1 PX 100", "SET a 2", true),
        ("SET a 1 PX 100", "GET b", false),
        ("", "SET a 1 PX 100", true),
        ("", "FLUSHALL", false),
        ("SET a 1", "FLUSHALL", true),
        ("SET a 1", "DBSIZE", false),
        ("", "PSUBSCRIBE c*", false),
        ("", "CONFIG GET maxmemory", false),
    ] {
        assert_eq!(footprint(before, last).depends_on_time(), expected, "{last}");
    }
}

/// A script may touch one thing very often, and another one only once before.
#[test]
fn a_long_footprint_has_few_duplicates() {
    // Arguments are separated by spaces, so the script has tabs.
    let of = |times: usize| {
        let calls = "redis.call('GET','k')redis.call('ZRANK','z','b')redis.call('ZSCORE','z','a')";
        let first = "redis.call('GET','first')";
        footprint("ZADD z 1 a 2 b", &format!("EVAL {first}for\ti=1,{times}\tdo\t{calls}\tend 0"))
    };
    let lines = |footprint: &Footprint| {
        let mut lines: Vec<String> = show(footprint).lines().map(str::to_owned).collect();
        lines.retain(|line| !line.contains("script"));
        lines.sort();
        lines.dedup();
        lines
    };
    let (once, often) = (of(1), of(3000));
    assert_eq!(lines(&once), lines(&often));
    assert!(often.iter().count() < 2048, "{}", often.iter().count());
}

/// The keys that a tick removes are its footprint.
#[test]
fn a_tick_removes_what_has_expired() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    let mut tick = |after_ms: u64, commands: &str| {
        run(&mut connection, commands);
        clock.advance(Duration::from_millis(after_ms));
        emulator.tick();
        show(&emulator.footprint())
    };
    // Its deadline has changed: the first one is outdated.
    assert_eq!(tick(60, "SET b 1 PX 50; SET b 1 PX 200; SET a 1 PX 100; SET c 1"), "");
    assert_eq!(tick(40, ""), "");
    assert_eq!(tick(1, ""), "  Write 0 a\n");
    assert_eq!(tick(99, ""), "");
    assert_eq!(tick(1, ""), "  Write 0 b\n");
    // Databases change places, and are emptied.
    assert_eq!(tick(11, "SET a 1 PX 10; SWAPDB 0 3"), "  Write 3 a\n");
    assert_eq!(tick(11, "SET a 1 PX 10; FLUSHALL"), "");
    // Very many deadlines of one key are outdated.
    let renewed: Vec<String> = (1..=1000).map(|ms| format!("SET a 1 PX {ms}")).collect();
    assert_eq!(tick(1000, &renewed.join("; ")), "");
    assert_eq!(tick(1, ""), "  Write 0 a\n");
    assert_eq!(tick(0, "DBSIZE"), "");
}

/// Steps on different keys are independent, so their order must not decide which key is drawn.
#[test]
fn a_random_key_does_not_depend_on_the_order_of_keys() {
    let drawn = |commands: &str| {
        let emulator = Emulator::with_clock(Clock::manual());
        let mut connection = emulator.connection();
        run(&mut connection, commands);
        [(); 8].map(|()| connection.execute(&[b"RANDOMKEY"]))
    };
    assert_eq!(drawn("SET a 1; SET b 1; SET c 1; SET d 1"), drawn("SET d 1; SET c 1; SET b 1; SET a 1"));
}
