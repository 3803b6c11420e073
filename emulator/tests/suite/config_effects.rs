//! Settings for unread output, idle clients and the log, under a clock that stands still.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use emulator::{Clock, DirectConnection, Emulator, LogLevel, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::redis_server;

fn run(connection: &mut DirectConnection, line: &str) -> Reply {
    let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    connection.execute(&argv)
}

fn limit_subscribers(connection: &mut DirectConnection, limit: &str) {
    let value = format!("pubsub {limit}");
    let argv = [&b"CONFIG"[..], b"SET", b"client-output-buffer-limit", value.as_bytes()];
    assert_eq!(connection.execute(&argv), Reply::OK);
}

/// How many kilobytes a subscriber that never reads gets until it is disconnected, with one message
/// of a kilobyte per `every`.
async fn until_disconnected(limit: &str, every: Duration) -> i64 {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    limit_subscribers(&mut connection, limit);
    let mut stream = emulator.stream();
    stream.write_all(b"SUBSCRIBE news\r\n").await.unwrap();
    let kilobyte = vec![b'x'; 1024];
    (0..200)
        .take_while(|_| {
            clock.advance(every);
            connection.execute(&[b"PUBLISH", b"news", &kilobyte]) == Reply::Integer(1)
        })
        .count() as i64
}

#[tokio::test]
async fn a_client_with_too_much_unread_is_disconnected_at_once_or_after_a_while() {
    let second = Duration::from_secs(1);
    let at_once = until_disconnected("100kb 0 0", Duration::ZERO).await;
    assert!((100..=116).contains(&at_once), "{at_once} kB");
    assert_eq!(until_disconnected("0 50kb 10", Duration::ZERO).await, 200, "no time passes");
    let later = until_disconnected("0 50kb 10", second).await;
    assert!((50 + 10..=66 + 11).contains(&later), "{later} kB");
    assert_eq!(until_disconnected("0 0 0", second).await, 200);
}

/// Output that the socket has not taken yet counts towards the limit. That includes replies, and
/// messages that the connection has already taken.
#[tokio::test]
async fn a_client_with_unread_replies_at_a_socket_is_disconnected_after_a_while() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut control = emulator.connection();
    let limits = [&b"CONFIG"[..], b"SET", b"client-output-buffer-limit", b"normal 0 1mb 10 pubsub 0 1mb 10"];
    assert_eq!(control.execute(&limits), Reply::OK);
    let kilobyte = vec![b'x'; 1024];
    control.execute(&[b"SET", b"k", &kilobyte]);
    let mut reader = TcpStream::connect(server.addr()).await.unwrap();
    let mut subscriber = TcpStream::connect(server.addr()).await.unwrap();
    subscriber.write_all(b"SUBSCRIBE news\r\n").await.unwrap();
    // More replies than a socket buffers.
    reader.write_all("GET k\r\n".repeat(32 * 1024).as_bytes()).await.unwrap();
    let clients = |control: &mut DirectConnection| match run(control, "CLIENT LIST") {
        Reply::Bulk(text) | Reply::Verbatim(_, text) => String::from_utf8_lossy(&text).matches("id=").count(),
        other => panic!("{other:?}"),
    };
    while run(&mut control, "PUBSUB NUMSUB news")
        == Reply::Array(vec![Reply::bulk("news"), Reply::Integer(0)])
        || !matches!(run(&mut control, "INFO commandstats"), Reply::Bulk(text) | Reply::Verbatim(_, text)
            if String::from_utf8_lossy(&text).contains("cmdstat_get:calls=32768,"))
    {
        tokio::task::yield_now().await;
    }
    for _ in 0..32 * 1024 {
        control.execute(&[b"PUBLISH", b"news", &kilobyte]);
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(10));
    emulator.tick();
    assert_eq!(clients(&mut control), 3);
    clock.advance(Duration::from_secs(1));
    emulator.tick();
    let mut replies = Vec::new();
    for stream in [&mut reader, &mut subscriber] {
        replies.clear();
        _ = stream.read_to_end(&mut replies).await;
        assert!(replies.len() < 32 * 1024 * 1024, "it received all");
    }
    assert_eq!(clients(&mut control), 1);
}

#[tokio::test]
async fn an_idle_client_is_disconnected_by_the_servers_clock() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut early = client.get_multiplexed_async_connection().await.unwrap();
    let ping = redis::cmd("PING");
    assert_eq!(ping.query_async::<String>(&mut early).await.unwrap(), "PONG");
    assert_eq!(run(&mut emulator.connection(), "CONFIG SET timeout 300"), Reply::OK);
    let mut late = client.get_multiplexed_async_connection().await.unwrap();
    clock.advance(Duration::from_secs(300));
    assert_eq!(ping.query_async::<String>(&mut late).await.unwrap(), "PONG");
    clock.advance(Duration::from_secs(1));
    assert!(ping.query_async::<String>(&mut early).await.is_err());
    assert_eq!(ping.query_async::<String>(&mut late).await.unwrap(), "PONG");
    // The server closes an idle connection even if no other client sends anything.
    let mut silent = TcpStream::connect(server.addr()).await.unwrap();
    silent.write_all(b"PING\r\n").await.unwrap();
    let mut replies = vec![0; 7];
    silent.read_exact(&mut replies).await.unwrap();
    clock.advance(Duration::from_secs(301));
    assert_eq!(
        silent.read_to_end(&mut replies).await.unwrap(),
        0,
        "it is closed, though nobody says anything"
    );
}

#[test]
fn log_lines_of_scripts_pass_from_a_level_on() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    let script = "redis.log(redis.LOG_VERBOSE, 'a', 1, {}, 'b') redis.log(redis.LOG_WARNING, 2.5)";
    assert_eq!(connection.execute(&[b"EVAL", script.as_bytes(), b"0"]), Reply::Nil, "nobody hears it");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = heard.clone();
    let _hook = emulator.on_log(move |line| hook.lock().unwrap().push((line.level, line.to_string())));
    connection.execute(&[b"EVAL", script.as_bytes(), b"0"]);
    run(&mut connection, "CONFIG SET loglevel verbose");
    connection.execute(&[b"EVAL", script.as_bytes(), b"0"]);
    run(&mut connection, "DEBUG LOG here");
    let warning = |text: &str| (LogLevel::Warning, format!("1700000000.000 # {text}"));
    let verbose = (LogLevel::Verbose, "1700000000.000 - a 1 b".to_owned());
    assert_eq!(*heard.lock().unwrap(), [warning("2.5"), verbose, warning("2.5"), warning("DEBUG LOG: here")]);
}

/// A program may swallow the error.
#[test]
fn a_command_that_the_emulator_lacks_is_logged_once() {
    let emulator = Emulator::with_clock(Clock::manual());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = heard.clone();
    let _hook = emulator.on_log(move |line| hook.lock().unwrap().push(line.to_string()));
    let mut connection = emulator.connection();
    for command in ["XADD s * a 1", "xadd s * a 1", "NOSUCH", "PFADD h a"] {
        run(&mut connection, command);
    }
    connection.execute(&[b"EVAL", b"return redis.pcall('XADD', 's', '*', 'a', 1)", b"0"]);
    connection.execute(&[b"EVAL", b"return redis.pcall('XLEN', 's')", b"0"]);
    let lacks = |what: &str| format!("1700000000.000 # ERR the emulator has no {what}. Redis has it.");
    let wanted = ["streams, and so no XADD", "HyperLogLogs, and so no PFADD", "streams, and so no XLEN"];
    assert_eq!(*heard.lock().unwrap(), wanted.map(lacks));
}

/// A hook may hold a handle of the emulator: the listener ends when the last handle is dropped.
#[test]
fn a_hook_that_holds_the_emulator_does_not_keep_it() {
    let emulator = Emulator::with_clock(Clock::manual());
    let addr = emulator.client().get_connection_info().addr().to_string();
    let held = emulator.clone();
    let hook = emulator.on_log(move |_| _ = &held);
    drop(emulator);
    assert!(std::net::TcpStream::connect(&addr).is_ok(), "the hook has a handle");
    drop(hook);
    assert!(std::net::TcpStream::connect(&addr).is_err());
}

#[test]
fn a_log_is_heard_by_the_latest_hook_until_that_is_dropped() {
    let emulator = Emulator::with_clock(Clock::manual());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = |name: &'static str| {
        let heard = heard.clone();
        emulator.on_log(move |_| heard.lock().unwrap().push(name))
    };
    let mut connection = emulator.connection();
    let mut log = || run(&mut connection, "DEBUG LOG here");
    let first = hear("first");
    log();
    let second = hear("second");
    drop(first);
    log();
    drop(second);
    log();
    assert_eq!(*heard.lock().unwrap(), ["first", "second"]);
}

/// The runtime has one worker. It is blocked until both clients have connected, and then serves the
/// second one first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_password_is_for_those_who_come_after_it() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let (release, is_released) = mpsc::channel::<()>();
    let (kept, is_kept) = mpsc::channel();
    tokio::spawn(async move {
        kept.send(()).unwrap();
        is_released.recv()
    });
    is_kept.recv().unwrap();
    let replies = set_password(server.addr(), || drop(release));
    assert_eq!(replies, ["+OK", "+PONG", "-NOAUTH Authentication required."]);
    if let Some(real) = redis_server::start_own(1).first() {
        assert_eq!(replies, set_password(real.addr(), || {}));
    }
}

/// The early client connects first and sends nothing until another has set a password. A third
/// client connects later.
fn set_password(addr: SocketAddr, release: impl FnOnce()) -> Vec<String> {
    let connect = || std::net::TcpStream::connect(addr).unwrap();
    let send = |mut stream: &std::net::TcpStream, line: &str| write!(stream, "{line}\r\n").unwrap();
    let (early, other) = (connect(), connect());
    send(&other, "CONFIG SET requirepass secret");
    release();
    let mut replies = Vec::new();
    let mut receive = |stream: &std::net::TcpStream| {
        replies.push(BufReader::new(stream).lines().next().expect("a reply comes").expect("it is text"));
    };
    receive(&other);
    send(&early, "PING");
    receive(&early);
    let late = connect();
    send(&late, "PING");
    receive(&late);
    replies
}
