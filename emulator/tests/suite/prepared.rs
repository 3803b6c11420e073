//! Data that a test puts into a server without a client: it is there as if a client had written it.

use std::time::Duration;

use emulator::{Clock, DirectConnection, Effect, Emulator, Fault, Reply};
use redis::AsyncCommands as _;

fn call(connection: &mut DirectConnection, line: &str) -> Reply {
    let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    connection.execute(&argv)
}

/// A server that has a key of each kind, with a deadline, and a client that gets all key events.
fn server() -> (Emulator, DirectConnection) {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    for line in ["RPUSH list old", "SADD set old", "HSET hash old 1", "ZADD zset 1 old", "SET string old"] {
        call(&mut connection, line);
        call(&mut connection, &format!("PEXPIRE {} 5000", line.split(' ').nth(1).unwrap()));
    }
    call(&mut connection, "CONFIG SET notify-keyspace-events KAn");
    call(&mut connection, "PSUBSCRIBE __keyspace@0__:*");
    (emulator, connection)
}

/// Everything that a client can notice after a change.
async fn noticed(emulator: &Emulator, mut subscriber: DirectConnection) -> String {
    let mut connection = emulator.connection();
    let mut text = emulator.dump(0);
    for key in emulator.keys("*") {
        text += &format!("{key:?} {:?}\n", connection.execute(&[b"OBJECT", b"ENCODING", &key]));
    }
    call(&mut connection, "PUBLISH __keyspace@0__: end");
    loop {
        let message = format!("{:?}\n", subscriber.message().await);
        if message.contains("end") {
            return text;
        }
        text += &message;
    }
}

/// Compares a change with the commands that it stands for.
#[track_caller]
fn check(change: impl Fn(&Emulator), lines: &[&str]) -> impl Future<Output = ()> {
    let ((changed, by_change), (commanded, by_commands)) = (server(), server());
    change(&changed);
    lines.iter().for_each(|line| _ = call(&mut commanded.connection(), line));
    let lines = lines.join(", ");
    async move {
        let by_change = noticed(&changed, by_change).await;
        assert_eq!(by_change, noticed(&commanded, by_commands).await, "{lines}");
    }
}

#[tokio::test]
async fn a_change_is_what_commands_do() {
    for key in ["list", "string", "missing"] {
        let del = format!("DEL {key}");
        check(|emulator| emulator.set(key, "v"), &[&format!("SET {key} v")]).await;
        let set = format!("RPUSH {key} b a b");
        check(|emulator| emulator.set_elements(key, ["b", "a", "b"]), &[&del, &set]).await;
        let set = format!("SADD {key} 2 1 2");
        check(|emulator| emulator.set_members(key, ["2", "1", "2"]), &[&del, &set]).await;
        let set = format!("SADD {key} b a");
        check(|emulator| emulator.set_members(key, ["b", "a"]), &[&del, &set]).await;
        let set = format!("HSET {key} f 1 g 2");
        check(|emulator| emulator.set_fields(key, [("f", "1"), ("g", "2")]), &[&del, &set]).await;
        let set = format!("ZADD {key} 2 a 1.5 b -inf c");
        let scores = [("a", 2.0), ("b", 1.5), ("c", f64::NEG_INFINITY)];
        check(|emulator| emulator.set_scores(key, scores), &[&del, &set]).await;
        check(|emulator| emulator.set_elements(key, [""; 0]), &[&del]).await;
        check(|emulator| _ = emulator.remove(key), &[&del]).await;
        let ttl = Duration::from_millis(70);
        check(|emulator| _ = emulator.set_ttl(key, Some(ttl)), &[&format!("PEXPIRE {key} 70")]).await;
        check(|emulator| _ = emulator.set_ttl(key, Some(Duration::ZERO)), &[&format!("PEXPIRE {key} 0")])
            .await;
        check(|emulator| _ = emulator.set_ttl(key, None), &[&format!("PERSIST {key}")]).await;
    }
    let long = "x".repeat(100);
    check(|emulator| emulator.set_fields("k", [("f", &long)]), &[&format!("HSET k f {long}")]).await;
    let many: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    check(|emulator| emulator.set_members("k", &many), &[&format!("SADD k {}", many.join(" "))]).await;
}

#[test]
fn what_is_put_is_read_back() {
    let emulator = Emulator::new();
    emulator.set_elements("list", ["b", "a", "b"]);
    emulator.set_members("set", ["b", "a", "b"]);
    emulator.set_fields("hash", [("f", "1")]);
    emulator.set_scores("zset", [("m", 2.5)]);
    assert_eq!(emulator.elements("list"), ["b", "a", "b"]);
    assert_eq!(emulator.members("set"), ["a", "b"]);
    assert_eq!(emulator.field("hash", "f").as_deref(), Some(&b"1"[..]));
    assert_eq!(emulator.score("zset", "m"), Some(2.5));
    for key in ["hash", "missing"] {
        assert!(emulator.elements(key).is_empty() && emulator.members(key).is_empty(), "{key}");
    }
    assert_eq!((emulator.remove("list"), emulator.remove("list")), (true, false));
    emulator.set("k", [0xff, 0]);
    assert_eq!(emulator.get("k").as_deref(), Some(&[0xff, 0][..]));
    assert!(emulator.set_ttl("k", Some(Duration::MAX)) && !emulator.set_ttl("missing", None));
    assert!(emulator.ttl("k").is_some());
    assert!(emulator.set_ttl("k", None));
    assert_eq!(emulator.ttl("k"), None);
    // The items may come from the server itself.
    emulator.set_elements("copy", (0..2).flat_map(|_| emulator.members("set")));
    assert_eq!(emulator.elements("copy"), ["a", "b", "a", "b"]);
}

#[test]
#[should_panic = "a score is a number"]
fn a_score_is_a_number() {
    Emulator::new().set_scores("zset", [("m", f64::NAN)]);
}

#[tokio::test]
async fn clients_that_wait_or_watch_notice_a_change() {
    let emulator = Emulator::new();
    emulator.set("list", "of another type");
    let mut waiter = emulator.connection();
    let waiting = tokio::spawn(async move { waiter.blpop::<_, (String, String)>("empty", 0.0).await });
    emulator.until_blocked(1).await;
    let mut watcher = emulator.connection();
    for line in ["WATCH list", "MULTI", "PING"] {
        call(&mut watcher, line);
    }
    emulator.set_elements("list", ["a"]);
    assert!(emulator.footprint().to_string().contains("write 0 list\n"));
    assert_eq!(call(&mut watcher, "EXEC"), Reply::NilArray);
    emulator.set_elements("empty", ["a", "b"]);
    assert_eq!(waiting.await.unwrap().unwrap(), ("empty".into(), "a".into()));
    assert_eq!(emulator.elements("empty"), ["b"]);
    let mut tracking = emulator.connection();
    for line in ["HELLO 3", "CLIENT TRACKING ON", "LRANGE list 0 0"] {
        call(&mut tracking, line);
    }
    emulator.remove("list");
    let message = format!("{:?}", tracking.message().await);
    assert!(message.contains("invalidate") && message.contains("list"), "{message}");
}

#[test]
fn nothing_holds_a_change_back() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    for line in ["CLIENT PAUSE 1000 ALL", "CONFIG SET maxmemory 1 requirepass x maxclients 1"] {
        call(&mut connection, line);
    }
    emulator.place(Fault::new(Effect::DropBefore).always());
    emulator.set("k", "v");
    assert_eq!(emulator.get("k").as_deref(), Some(&b"v"[..]));
}
