//! The command `EMULATOR` and the faults that it sets.

use std::task::{Context, Waker};
use std::time::Duration;

use bytes::BytesMut;
use emulator::{Clock, Connection, Effect, Emulator, Fault};
use redis::AsyncCommands as _;

/// A client that sends commands and shows its replies.
struct Peer(Connection);

impl Peer {
    fn open(emulator: &Emulator) -> Peer {
        Peer(Connection::open(emulator))
    }

    fn call(&mut self, line: &str) -> String {
        let mut output = BytesMut::new();
        self.0.receive(format!("{line}\r\n").as_bytes(), &mut output);
        show(&output)
    }

    /// Returns messages and late replies.
    fn receive(&mut self) -> String {
        let mut output = BytesMut::new();
        _ = self.0.poll_messages(&mut Context::from_waker(Waker::noop()), &mut output);
        show(&output)
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().replace("\r\n", " ")
}

/// A server that allows control, and two clients of it.
fn controlled() -> (Emulator, Peer, Peer) {
    let emulator = Emulator::with_clock(Clock::manual());
    emulator.allow_control();
    let (a, b) = (Peer::open(&emulator), Peer::open(&emulator));
    (emulator, a, b)
}

#[test]
fn without_leave_there_is_no_such_command() {
    let mut client = Peer::open(&Emulator::new());
    assert_eq!(
        client.call("EMULATOR CLOCK NOW"),
        "-ERR unknown command 'EMULATOR', with args beginning with: 'CLOCK' 'NOW'"
    );
    let (_, mut client, _) = controlled();
    assert_eq!(client.call("COMMAND INFO emulator"), "*1 $-1");
    let reply = client.call("EVAL \"return redis.call('EMULATOR', 'RESET')\" 0");
    assert!(reply.starts_with("-ERR Unknown Redis command called from script"), "{reply}");
}

#[test]
fn the_clock_moves_and_what_is_due_has_happened() {
    let (emulator, mut a, mut b) = controlled();
    assert_eq!(a.call("EMULATOR CLOCK NOW"), ":1700000000000");
    assert_eq!(a.call("SET k v PX 5000"), "+OK");
    assert_eq!(b.call("BLPOP list 10"), "");
    assert_eq!(a.call("EMULATOR CLOCK ADVANCE 5001"), ":1700000005001");
    assert!(!emulator.exists("k"));
    assert_eq!(b.receive(), "");
    assert_eq!(a.call("EMULATOR CLOCK ADVANCE 4999"), ":1700000010000");
    assert_eq!(b.receive(), "*-1");
    assert_eq!(a.call("EMULATOR CLOCK JUMP -10000"), ":1700000000000");
    assert_eq!(a.call("EMULATOR CLOCK SET 1800000000000"), ":1800000000000");
    assert_eq!(a.call("TIME"), "*2 $10 1800000000 $1 0");
}

#[test]
fn the_clock_drifts_wobbles_stands_and_goes_on() {
    let time = Clock::manual();
    let emulator = Emulator::with_clock(time.view());
    emulator.allow_control();
    let mut client = Peer::open(&emulator);
    assert_eq!(client.call("EMULATOR CLOCK DRIFT 100"), ":1700000000000");
    time.advance(Duration::from_secs(100));
    assert_eq!(client.call("EMULATOR CLOCK FREEZE"), ":1700000100010");
    time.advance(Duration::from_secs(100));
    assert_eq!(client.call("EMULATOR CLOCK ADVANCE 5"), ":1700000100015");
    assert_eq!(client.call("EMULATOR CLOCK RUN"), ":1700000100015");
    assert_eq!(client.call("EMULATOR CLOCK DRIFT 0"), ":1700000100015");
    assert_eq!(client.call("EMULATOR CLOCK WOBBLE 20 4000"), ":1700000100015");
    time.advance(Duration::from_secs(1));
    assert_eq!(client.call("EMULATOR CLOCK NOW"), ":1700000101035");
    assert_eq!(client.call("EMULATOR RESET"), "+OK");
    assert_eq!(client.call("EMULATOR CLOCK NOW"), ":1700000201000");
}

#[tokio::test]
async fn a_client_that_waits_on_a_frozen_system_clock_is_woken() {
    let emulator = Emulator::new();
    emulator.allow_control();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connect = async || client.get_multiplexed_async_connection().await.unwrap();
    let mut control = connect().await;
    () = redis::cmd("EMULATOR").arg(&["CLOCK", "FREEZE"]).query_async(&mut control).await.unwrap();
    let mut doors = (connect().await, emulator.connection());
    let waiting = async { tokio::join!(doors.0.blpop("a", 3600.0), doors.1.blpop("b", 3600.0)) };
    let advance = async {
        let blocked =
            redis::cmd("EMULATOR").arg(&["WAIT-BLOCKED", "2"]).query_async::<i64>(&mut control).await;
        assert_eq!(blocked.unwrap(), 2);
        redis::cmd("EMULATOR")
            .arg(&["CLOCK", "ADVANCE", "3600000"])
            .query_async::<i64>(&mut control)
            .await
            .unwrap()
    };
    type Popped = redis::RedisResult<Option<(String, String)>>;
    let (popped, _): ((Popped, Popped), i64) = tokio::join!(waiting, advance);
    assert_eq!((popped.0.unwrap(), popped.1.unwrap()), (None, None));
}

#[test]
fn a_client_waits_until_others_have_blocked() {
    let (emulator, mut control, mut a) = controlled();
    let mut b = Peer::open(&emulator);
    assert_eq!(control.call("EMULATOR WAIT-BLOCKED 0"), ":0");
    assert_eq!(control.call("EMULATOR WAIT-BLOCKED 2"), "");
    assert_eq!(emulator.blocked_clients(), 0, "who waits for others does not count");
    assert_eq!(a.call("BLPOP list 0"), "");
    assert!(a.call("INFO clients").is_empty());
    assert_eq!((control.receive().as_str(), emulator.blocked_clients()), ("", 1));
    let mut other = Peer::open(&emulator);
    assert!(other.call("INFO clients").contains("blocked_clients:1 "));
    assert_eq!(b.call("BLPOP list 0"), "");
    assert_eq!((control.receive().as_str(), emulator.blocked_clients()), (":2", 2));
    assert_eq!(control.call("EMULATOR WAIT-BLOCKED 2"), ":2");
    // A command that CLIENT PAUSE holds back waits, too, as in `blocked_clients` of Redis.
    assert_eq!(other.call("CLIENT PAUSE 1000 WRITE"), "+OK");
    assert_eq!(control.call("EMULATOR WAIT-BLOCKED 3"), "");
    assert_eq!(other.call("SET k v"), "");
    assert_eq!(control.receive(), ":3");
    drop((a, b));
    assert_eq!(emulator.blocked_clients(), 1);
}

#[test]
fn a_wait_for_blocked_clients_ends() {
    const TOO_FEW: &str = "-ERR fewer than 1 clients have blocked. CLIENT LIST shows what each client does.";
    let time = Clock::manual();
    let emulator = Emulator::with_clock(time.view());
    emulator.allow_control();
    let (mut a, mut b) = (Peer::open(&emulator), Peer::open(&emulator));
    for (line, wait_ms) in [("EMULATOR WAIT-BLOCKED 1", 10_000), ("EMULATOR WAIT-BLOCKED 1 5", 5)] {
        assert_eq!(a.call(line), "");
        // The clock that clients move has no influence.
        b.call("EMULATOR CLOCK ADVANCE 3600000");
        b.call("EMULATOR CLOCK FREEZE");
        time.advance(Duration::from_millis(wait_ms - 1));
        emulator.tick();
        assert_eq!(a.receive(), "");
        time.advance(Duration::from_millis(1));
        emulator.tick();
        assert_eq!(a.receive(), TOO_FEW);
    }
    assert_eq!(a.call("EMULATOR WAIT-BLOCKED 1"), "");
    assert_eq!(b.call("EMULATOR RESET"), "+OK");
    assert_eq!(a.receive(), TOO_FEW);
    let mut direct = emulator.connection();
    let reply = direct.execute(&[b"EMULATOR", b"WAIT-BLOCKED", b"1"]);
    assert!(matches!(reply, emulator::Reply::Error(_)), "where no command can wait: {reply:?}");
    assert_eq!(
        a.call("EMULATOR WAIT-BLOCKED one"),
        "-ERR EMULATOR WAIT-BLOCKED: clients must be an integer from 0 to 4294967295, not 'one'"
    );
    assert_eq!(
        a.call("EMULATOR WAIT-BLOCKED 1 -1"),
        "-ERR EMULATOR WAIT-BLOCKED: milliseconds must be an integer from 0 to 253402300799999, not '-1'"
    );
    assert_eq!(
        a.call("EMULATOR WAIT-BLOCKED 1 2 3"),
        "-ERR EMULATOR WAIT-BLOCKED takes only clients and milliseconds"
    );
}

#[tokio::test]
async fn a_wait_for_blocked_clients_ends_while_the_clock_is_frozen() {
    let emulator = Emulator::new();
    emulator.allow_control();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut doors = (client.get_multiplexed_async_connection().await.unwrap(), emulator.connection());
    () = redis::cmd("EMULATOR").arg(&["CLOCK", "FREEZE"]).query_async(&mut doors.0).await.unwrap();
    let wait = redis::cmd("EMULATOR").arg(&["WAIT-BLOCKED", "1", "20"]).to_owned();
    let ended = tokio::join!(wait.query_async::<i64>(&mut doors.0), wait.query_async::<i64>(&mut doors.1));
    for error in [ended.0.unwrap_err(), ended.1.unwrap_err()] {
        assert!(error.to_string().contains("fewer than 1 clients have blocked"), "{error}");
    }
}

#[test]
fn connections_are_dropped_before_and_after() {
    let (emulator, mut control, mut a) = controlled();
    assert_eq!(control.call("EMULATOR FAULT DROP-BEFORE COMMAND incr"), "+OK");
    assert_eq!(a.call("GET k"), "$-1");
    assert_eq!((a.call("INCR k").as_str(), a.0.is_closing(), emulator.exists("k")), ("", true, false));
    assert_eq!(control.call("EMULATOR FAULT DROP-AFTER COMMAND incr"), "+OK");
    let mut a = Peer::open(&emulator);
    assert_eq!((a.call("INCR k").as_str(), a.0.is_closing(), emulator.exists("k")), ("", true, true));
    let mut a = Peer::open(&emulator);
    assert_eq!(a.call("INCR k"), ":2");
    assert_eq!(control.call("EMULATOR FAULT DROP-AFTER COMMAND blpop"), "+OK");
    assert_eq!((a.call("BLPOP list 0").as_str(), a.0.is_closing()), ("", true));
    assert_eq!(control.call("RPUSH list 1"), ":1");
    assert!(emulator.exists("list"), "nobody waits any more");
}

#[test]
fn a_lost_reply_loses_all_that_would_follow() {
    let (emulator, mut control, mut a) = controlled();
    control.call("EMULATOR FAULT LOSE-REPLY COMMAND set");
    assert_eq!((a.call("SUBSCRIBE news").as_str()), "*3 $9 subscribe $4 news :1");
    assert_eq!(a.call("RESET"), "+RESET");
    assert_eq!(a.call("SET k v"), "");
    assert_eq!(emulator.get("k").as_deref(), Some(&b"v"[..]));
    assert_eq!((a.call("PING").as_str(), a.0.is_closing()), ("", false));
    assert_eq!(Peer::open(&emulator).call("GET k"), "$1 v");
}

#[test]
fn a_late_command_holds_back_what_is_behind_it() {
    let (emulator, mut control, mut a) = controlled();
    control.call("EMULATOR FAULT DELAY 50 COMMAND set");
    assert_eq!(a.call("SET k v"), "");
    assert_eq!(a.call("GET k"), "");
    control.call("EMULATOR CLOCK ADVANCE 49");
    assert!(!emulator.exists("k"));
    control.call("EMULATOR CLOCK ADVANCE 1");
    assert!(emulator.exists("k"));
    assert_eq!(a.receive(), "+OK $1 v");

    control.call("EMULATOR FAULT DELAY 50 COMMAND blpop");
    assert_eq!(a.call("BLPOP list 1"), "");
    control.call("EMULATOR CLOCK ADVANCE 50");
    control.call("EMULATOR CLOCK ADVANCE 999");
    assert_eq!(a.receive(), "");
    control.call("EMULATOR CLOCK ADVANCE 1");
    assert_eq!(a.receive(), "*-1");
}

#[test]
fn a_repeated_command_answers_what_the_second_did() {
    let (_, mut control, mut a) = controlled();
    control.call("EMULATOR FAULT TWICE COMMAND set");
    assert_eq!(a.call("SET lock a NX"), "$-1");
    assert_eq!(a.call("GET lock"), "$1 a");
}

#[test]
fn errors_strike_named_clients_and_commands_and_spoil_transactions() {
    let (_, mut control, mut a) = controlled();
    a.call("CLIENT SETNAME worker");
    control.call("EMULATOR FAULT ERROR oom COUNT 2 CLIENT worker COMMAND set");
    control.call("EMULATOR FAULT ERROR \"MINE it is broken\" COUNT 0 COMMAND get");
    assert_eq!(control.call("SET k 1"), "+OK");
    assert_eq!(a.call("SET k 2"), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(a.call("MULTI"), "+OK");
    assert_eq!(a.call("SET k 2"), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(a.call("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(a.call("SET k 2"), "+OK");
    assert_eq!(control.call("EMULATOR FAULT LIST"), "*1 $45 ERROR \"MINE it is broken\" COUNT 0 COMMAND get");
    assert_eq!([a.call("GET k"), control.call("GET k")], ["-MINE it is broken"; 2]);
    assert_eq!(control.call("EMULATOR FAULT CLEAR"), "+OK");
    assert_eq!(a.call("GET k"), "$1 2");
}

/// A fault that strikes nothing makes a test green that tests nothing.
#[test]
fn a_fault_that_never_struck_is_listed() {
    let (emulator, mut control, mut a) = controlled();
    control.call("EMULATOR FAULT DROP-AFTER COMMAND incr");
    control.call("EMULATOR FAULT TWICE COUNT 0 COMMAND incrby");
    assert_eq!(emulator.unstruck().len(), 2);
    assert_eq!(a.call("INCRBY n 2"), ":4");
    assert_eq!(control.call("EMULATOR FAULT UNSTRUCK"), "*1 $31 DROP-AFTER COUNT 1 COMMAND incr");
    assert_eq!(emulator.unstruck(), [Fault::new(Effect::DropAfter).command("INCR")]);
    assert_eq!(a.call("INCR n"), "");
    assert_eq!(emulator.unstruck(), []);
}

#[test]
#[should_panic(expected = "would never strike: ERR there is no command 'incrr'")]
fn a_fault_on_an_unknown_command_is_refused() {
    Emulator::new().place(Fault::new(Effect::DropAfter).command("INCRR"));
}

#[test]
#[should_panic(expected = "would never strike: ERR there is no command 'client|rename'")]
fn a_fault_on_an_unknown_subcommand_is_refused() {
    Emulator::new().place(Fault::new(Effect::DropAfter).command("CLIENT|RENAME"));
}

#[test]
fn control_is_not_part_of_the_game() {
    let (emulator, mut control, mut a) = controlled();
    control.call("EMULATOR FAULT DROP-BEFORE COUNT 0");
    assert_eq!(control.call("EMULATOR CLOCK NOW"), ":1700000000000");
    control.call("EMULATOR FAULT CLEAR");
    control.call("CLIENT PAUSE 1000");
    assert_eq!(a.call("PING"), "");
    assert_eq!(control.call("EMULATOR CLOCK ADVANCE 1000"), ":1700000001000");
    assert_eq!(a.receive(), "+PONG");
    assert_eq!(a.call("MULTI"), "+OK");
    assert_eq!(a.call("EMULATOR CLOCK ADVANCE 1"), "-ERR Command not allowed inside a transaction");
    control.call("SET k v");
    control.call("EMULATOR FAULT TWICE");
    assert_eq!(control.call("EMULATOR RESET"), "+OK");
    assert_eq!((emulator.dump(0).as_str(), control.call("EMULATOR FAULT LIST").as_str()), ("", "*0"));
    assert_eq!(control.call("EMULATOR CLOCK NOW"), ":1700000000000");
}

#[test]
fn errors_say_what_was_wrong_and_what_to_do() {
    let (_, mut client, _) = controlled();
    for (line, error) in [
        ("EMULATOR", "ERR wrong number of arguments for 'emulator' command"),
        ("EMULATOR CLOCK", "ERR wrong number of arguments for 'emulator|clock' command"),
        ("EMULATOR NOSUCH", "ERR unknown subcommand 'NOSUCH'. Try EMULATOR HELP."),
        (
            "EMULATOR CLOCK STOP",
            "ERR EMULATOR CLOCK takes one of NOW, SET, ADVANCE, JUMP, DRIFT, WOBBLE, FREEZE, RUN, not 'STOP'. Try EMULATOR HELP.",
        ),
        (
            "EMULATOR CLOCK ADVANCE",
            "ERR wrong number of arguments: write EMULATOR CLOCK ADVANCE milliseconds",
        ),
        ("EMULATOR CLOCK FREEZE now", "ERR wrong number of arguments: write EMULATOR CLOCK FREEZE"),
        (
            "EMULATOR CLOCK ADVANCE -1",
            "ERR EMULATOR CLOCK ADVANCE: milliseconds must be an integer from 0 to 253402300799999, not '-1'",
        ),
        (
            "EMULATOR CLOCK DRIFT -1000000",
            "ERR EMULATOR CLOCK DRIFT: ppm must be an integer from -999999 to 999000000, not '-1000000'",
        ),
        (
            "EMULATOR FAULT EXPLODE",
            "ERR EMULATOR FAULT takes one of DROP-BEFORE, DROP-AFTER, LOSE-REPLY, DELAY, TWICE, ERROR, LIST, UNSTRUCK, CLEAR, not 'EXPLODE'. Try EMULATOR HELP.",
        ),
        ("EMULATOR FAULT DELAY", "ERR wrong number of arguments: write EMULATOR FAULT DELAY milliseconds"),
        (
            "EMULATOR FAULT ERROR \"\"",
            "ERR the text of the error is missing: write EMULATOR FAULT ERROR text",
        ),
        ("EMULATOR FAULT LIST all", "ERR EMULATOR FAULT LIST, UNSTRUCK and CLEAR take no more arguments"),
        (
            "EMULATOR FAULT TWICE COUNT",
            "ERR EMULATOR FAULT … takes one of COUNT n, COMMAND name, CLIENT name, not 'COUNT'. Try EMULATOR HELP.",
        ),
        (
            "EMULATOR FAULT TWICE COMMAND nosuch",
            "ERR there is no command 'nosuch'. COMMAND LIST lists all; write a subcommand as client|id",
        ),
    ] {
        assert_eq!(client.call(line), format!("-{error}"), "{line}");
    }
    let help = client.call("EMULATOR HELP");
    assert!(help.contains("CLOCK WOBBLE <amplitude-milliseconds> <period-milliseconds>"), "{help}");
}

#[tokio::test(start_paused = true)]
async fn faults_at_the_direct_connection() {
    let emulator = Emulator::with_clock(Clock::tokio());
    let mut connection = emulator.connection();
    emulator.place(Fault::new(Effect::Delay(Duration::from_secs(60))));
    emulator.place(Fault::new(Effect::DropAfter).command("SET"));
    assert_eq!(connection.incr::<_, _, i64>("n", 1).await.unwrap(), 1, "late");
    assert!(connection.set::<_, _, ()>("k", "v").await.unwrap_err().is_connection_dropped());
    assert!(connection.get::<_, ()>("k").await.unwrap_err().is_connection_dropped(), "it stays closed");
    let mut connection = emulator.connection();
    assert_eq!(connection.get::<_, String>("k").await.unwrap(), "v");
    emulator.place(Fault::new(Effect::LoseReply));
    let lost = tokio::time::timeout(Duration::from_secs(3600), connection.del::<_, ()>("k")).await;
    assert!(lost.is_err() && !emulator.exists("k"));
}
