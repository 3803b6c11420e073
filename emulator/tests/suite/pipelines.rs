//! Clients at sockets that send many requests before they read a reply. Such a client must not wait
//! for ever or delay other clients. If it exceeds its limits, the server disconnects it. The real
//! server does the same.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as Socket;
use std::time::Duration;

use emulator::Emulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use crate::redis_server;

/// Far longer than a working server needs. Only a server that no longer reads or writes takes
/// longer.
const PROGRESS_MAX: Duration = Duration::from_secs(60);

/// More bytes of requests than the system buffers for a socket.
const REQUESTS_BYTES: usize = 16 * 1024 * 1024;

const VALUE_BYTES: usize = 256;

/// One of many requests. A long request means that fewer are needed.
fn get() -> String {
    format!("GET {}\r\n", "k".repeat(100))
}

/// Writes all requests, and then reads all replies.
fn write_all_and_read_all(mut stream: impl Read + Write) {
    let set = format!("SET {} {}\r\n", "k".repeat(100), "v".repeat(VALUE_BYTES));
    stream.write_all(set.as_bytes()).unwrap();
    let mut ok = [0; 5];
    stream.read_exact(&mut ok).unwrap();
    assert_eq!(&ok, b"+OK\r\n");

    let count = REQUESTS_BYTES / get().len();
    stream.write_all(get().repeat(count).as_bytes()).expect("the server reads while it cannot write");
    let reply = format!("${VALUE_BYTES}\r\n{}\r\n", "v".repeat(VALUE_BYTES));
    let mut received = vec![0; reply.len()];
    for _ in 0..count {
        stream.read_exact(&mut received).unwrap();
        assert!(received == reply.as_bytes());
    }
}

fn connect(addr: impl std::net::ToSocketAddrs) -> Socket {
    let stream = Socket::connect(addr).unwrap();
    stream.set_write_timeout(Some(PROGRESS_MAX)).unwrap();
    stream.set_read_timeout(Some(PROGRESS_MAX)).unwrap();
    stream
}

async fn over_tcp() {
    let server = Emulator::new().listen("127.0.0.1:0").await.unwrap();
    let addr = server.addr();
    spawn_blocking(move || write_all_and_read_all(connect(addr))).await.unwrap();
}

#[cfg(unix)]
async fn over_a_unix_socket(name: &str) {
    let path = std::env::temp_dir().join(format!("lockstep-{name}-{}.sock", std::process::id()));
    let _server = Emulator::new().listen_unix(&path, 0o600).await.unwrap();
    let client = move || {
        let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.set_write_timeout(Some(PROGRESS_MAX)).unwrap();
        stream.set_read_timeout(Some(PROGRESS_MAX)).unwrap();
        write_all_and_read_all(stream);
    };
    spawn_blocking(client).await.unwrap();
}

#[tokio::test]
async fn all_is_written_before_anything_is_read_over_tcp() {
    over_tcp().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_is_written_before_anything_is_read_over_tcp_on_many_threads() {
    over_tcp().await;
}

#[cfg(unix)]
#[tokio::test]
async fn all_is_written_before_anything_is_read_over_a_unix_socket() {
    over_a_unix_socket("one").await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_is_written_before_anything_is_read_over_a_unix_socket_on_many_threads() {
    over_a_unix_socket("many").await;
}

/// Commands after the one that kills their own client still run, but the client gets no reply.
#[test]
fn a_transaction_that_kills_its_client_runs_to_its_end() {
    let emulator = Emulator::new();
    let real = redis_server::borrow();
    let urls = real.iter().map(redis_server::RedisServer::url).chain([emulator.url()]);
    for url in urls {
        let client = redis::Client::open(url.as_str()).unwrap();
        let redis::ConnectionAddr::Tcp(host, port) = client.get_connection_info().addr() else {
            panic!("{url}")
        };
        let mut stream = connect((host.as_str(), *port));
        stream.write_all(b"CLIENT ID\r\n").unwrap();
        let mut id = [0; 64];
        let len = stream.read(&mut id).unwrap();
        let id = std::str::from_utf8(&id[1..len]).unwrap().trim();
        let kill = format!("CLIENT KILL ID {id} SKIPME no");
        let db = client.get_connection_info().redis_settings().db();
        let sent = format!("SELECT {db}\r\nMULTI\r\nSET a 1\r\n{kill}\r\nSET b 1\r\nEXEC\r\nPING\r\n");
        stream.write_all(sent.as_bytes()).unwrap();
        let mut replies = Vec::new();
        // Redis closes with requests unread, and the system may report that.
        _ = stream.read_to_end(&mut replies);
        let queued = "+QUEUED\r\n".repeat(3);
        assert_eq!(String::from_utf8_lossy(&replies), format!("+OK\r\n+OK\r\n{queued}*3\r\n+OK\r\n:1\r\n"));
        let mut connection = client.get_connection().unwrap();
        let kept: Vec<String> = redis::cmd("MGET").arg(&["a", "b"]).query(&mut connection).unwrap();
        assert_eq!(kept, ["1", "1"]);
    }
}

#[test]
fn all_is_written_before_anything_is_read_without_a_runtime() {
    let emulator = Emulator::new();
    let url = emulator.url();
    let addr = url.trim_start_matches("redis://").trim_end_matches('/');
    write_all_and_read_all(connect(addr));
}

/// The server reads what follows the last request and runs none of it. A client that first writes
/// everything still gets its replies.
#[tokio::test]
async fn requests_after_quit_are_read_and_dropped() {
    let server = Emulator::new().listen("127.0.0.1:0").await.unwrap();
    let addr = server.addr();
    let client = move || {
        let mut stream = connect(addr);
        // The replies do not fit into the socket, so the server cannot close it at once.
        let echo = format!("ECHO {}\r\n", "v".repeat(60_000));
        stream.write_all(echo.repeat(REQUESTS_BYTES / echo.len()).as_bytes()).unwrap();
        stream.write_all(b"QUIT\r\n").unwrap();
        stream.write_all(echo.repeat(REQUESTS_BYTES / echo.len()).as_bytes()).unwrap();
        let mut received = Vec::new();
        // The connection may be reset because requests stay unread. The replies before it must be
        // complete.
        _ = stream.read_to_end(&mut received);
        received.len()
    };
    assert!(spawn_blocking(client).await.unwrap() > REQUESTS_BYTES / 2);
}

/// A client that never reads, with a limit for its output buffer. Returns how many bytes it still
/// received.
fn never_reads(mut control: Socket, mut stream: Socket) -> usize {
    let mut reply = [0; 5];
    control.write_all(b"CONFIG SET client-output-buffer-limit \"normal 1mb 0 0\"\r\n").unwrap();
    control.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    let count = 16 * REQUESTS_BYTES / VALUE_BYTES;
    let set = format!("SET k {}\r\n", "v".repeat(VALUE_BYTES));
    control.write_all(set.as_bytes()).unwrap();
    control.read_exact(&mut reply).unwrap();
    let written = stream.write_all("GET k\r\n".repeat(count).as_bytes());
    let mut received = Vec::new();
    let read = stream.read_to_end(&mut received);
    // If the server closes a connection with unread requests, the system resets it.
    for error in [written.err(), read.err()].into_iter().flatten() {
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    }
    control.write_all(b"CONFIG SET client-output-buffer-limit \"normal 0 0 0\"\r\n").unwrap();
    control.read_exact(&mut reply).unwrap();
    received.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_is_disconnected_at_the_limit() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let addr = server.addr();
    let all = 16 * REQUESTS_BYTES;
    let ours = spawn_blocking(move || never_reads(connect(addr), connect(addr))).await.unwrap();
    assert!(ours < all, "it received all {ours} bytes");
    if let Some(real) = redis_server::start_own(1).first() {
        let theirs = never_reads(real.connect(), real.connect());
        assert!(theirs < all, "Redis sent all {theirs} bytes");
    }
}

/// While one client sends requests without end, the server must serve another after a few kilobytes
/// of them.
#[tokio::test]
async fn a_client_that_sends_without_end_does_not_keep_others_waiting() {
    const PINGS: usize = 100;
    /// The most bytes of requests that may run between a `PING` of another client and its reply.
    const BYTES_PER_PING_MAX: usize = 8 * 16 * 1024;
    const INCR: &str = "INCR n\r\n";

    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut other = TcpStream::connect(server.addr()).await.unwrap();
    let mut busy = TcpStream::connect(server.addr()).await.unwrap();
    busy.write_all(b"CLIENT REPLY OFF\r\n").await.unwrap();
    let flood = tokio::spawn(async move {
        let requests = INCR.repeat(256 * 1024);
        while busy.write_all(requests.as_bytes()).await.is_ok() {}
    });
    let n = || emulator.get("n").map_or(0, |n| String::from_utf8_lossy(&n).parse::<usize>().unwrap());
    while n() == 0 {
        tokio::task::yield_now().await;
    }
    let before = n();
    for _ in 0..PINGS {
        other.write_all(b"PING\r\n").await.unwrap();
        other.read_exact(&mut [0; 7]).await.unwrap();
    }
    let bytes = (n() - before) * INCR.len();
    flood.abort();
    assert!(bytes <= PINGS * BYTES_PER_PING_MAX, "{bytes} bytes of requests ran during {PINGS} PINGs");
}
