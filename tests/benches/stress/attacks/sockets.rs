//! Attacks through bytes and connections.

use std::time::Duration;

use redis::Value;

use super::{Attack, Judge, argv, connect};
use crate::client::{Client, Lost, request, show};
use crate::server::Server;

/// The number of requests in a pipeline that is written whole before the first reply is read: 10
/// MB.
const PIPELINED: usize = 400_000;
const LEAVERS: usize = 1000;
/// Up to this number, threads are shown as few, because their number does not depend on the number
/// of clients.
const THREADS_FEW: u64 = 64;
const MAXCLIENTS: usize = 1000;
const BEYOND_MAXCLIENTS: usize = 500;

/// Bytes, and all replies up to the last one or the end of the connection. The bytes end with PING,
/// which asks for the last reply.
fn bytes(sent: &str, bytes: impl Into<Vec<u8>>) -> Attack {
    let bytes = bytes.into();
    Attack::new(sent, Judge::Same, move |server| replies_to(&mut connect(server)?, &bytes))
}

/// Bytes from a client that has not authenticated, and all replies.
fn stranger(sent: &str, bytes: impl Into<Vec<u8>>) -> Attack {
    let bytes = bytes.into();
    Attack::new(format!("before AUTH: {sent}"), Judge::Same, move |server| {
        let mut admin = connect(server)?;
        admin.ask(&["CONFIG", "SET", "requirepass", "secret"])?;
        let seen = replies_to(&mut connect(server)?, &bytes)?;
        admin.ask(&["CONFIG", "SET", "requirepass", ""])?;
        Ok(seen)
    })
}

/// All replies until the connection closes, until no reply comes for `QUIET`, or until there are
/// more than twenty.
fn replies_to(client: &mut Client, bytes: &[u8]) -> Result<String, Lost> {
    const QUIET: Duration = Duration::from_millis(300);
    // The server may close the connection before it has read everything.
    _ = client.send_bytes(bytes);
    client.be_patient(QUIET)?;
    let mut seen = Vec::new();
    loop {
        match client.receive() {
            Ok(reply) => seen.push(show(&reply)),
            Err(Lost::Silent) => seen.push("(waits)".into()),
            Err(lost) => seen.push(lost.to_string()),
        }
        if seen.len() > 20 || seen.last().is_some_and(|last| last == "(waits)" || last.contains("closed")) {
            return Ok(seen.join(", "));
        }
    }
}

pub(super) fn attacks() -> Vec<Attack> {
    let mut attacks = requests();
    attacks.extend(requests_before_auth());
    attacks.extend(closed_and_unread());
    attacks.extend(many_at_once());
    attacks.push(Attack::commands(
        "AUTH with 1 MB",
        Judge::Same,
        vec![
            argv(["CONFIG", "SET", "requirepass", "x"]),
            argv(["AUTH", &"y".repeat(1 << 20)]),
            argv(["CONFIG", "SET", "requirepass", ""]),
        ],
    ));
    attacks
}

/// Requests that break the protocol, or that are never complete.
fn requests() -> Vec<Attack> {
    vec![
        bytes("*1000000000", "*1000000000\r\n"),
        bytes("*2147483647", "*2147483647\r\n"),
        bytes("*2147483648", "*2147483648\r\n"),
        bytes("*-1, then PING", "*-1\r\nPING\r\n"),
        bytes("*0, then PING", "*0\r\nPING\r\n"),
        bytes("*99999999999999999999", "*99999999999999999999\r\n"),
        bytes("*x", "*x\r\n"),
        bytes("*1, *1", "*1\r\n*1\r\n"),
        bytes("*1, $536870912", "*1\r\n$536870912\r\n"),
        bytes("*1, $536870913", "*1\r\n$536870913\r\n"),
        bytes("*1, $-1", "*1\r\n$-1\r\n"),
        bytes("*1, $4, PING without its end", "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n"),
        bytes("* and 70 KB without an end", format!("*{}", "1".repeat(70_000))),
        bytes("an inline command of 70 KB", "x".repeat(70_000)),
        bytes("70 KB of zeros", vec![0; 70_000]),
        bytes("an inline command with open quotes", "SET k \"abc\r\n"),
        bytes("POST / HTTP/1.1", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n"),
        bytes("Host: localhost", "Host: localhost\r\nPING\r\n"),
        bytes("half a command", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nabc"),
        bytes("QUIT, then PING", "QUIT\r\nPING\r\n"),
        bytes("CLIENT REPLY OFF, then an error", "CLIENT REPLY OFF\r\nNOSUCH\r\nPING\r\n"),
    ]
}

fn requests_before_auth() -> Vec<Attack> {
    vec![
        stranger("*11", "*11\r\n"),
        stranger("*10, then half", "*10\r\n$3\r\nSET\r\n"),
        stranger("*1, $16385", "*1\r\n$16385\r\n"),
        stranger("*1, $16384", "*1\r\n$16384\r\n"),
        stranger("*1000000000", "*1000000000\r\n"),
        stranger("an inline command of 70 KB", "x".repeat(70_000)),
        stranger("GET, PING, HELLO 3", "GET k\r\nPING\r\nHELLO 3\r\n"),
        stranger("CONFIG, DEBUG, EMULATOR", "CONFIG GET *\r\nDEBUG SEGFAULT\r\nEVAL x 0\r\n"),
    ]
}

/// Clients that the server disconnects, or that read their replies late.
fn closed_and_unread() -> Vec<Attack> {
    vec![
        Attack::new("CLIENT KILL of itself", Judge::Same, |server| {
            let mut client = connect(server)?;
            let Value::Int(id) = client.ask(&["CLIENT", "ID"])? else { return Ok("no number".into()) };
            replies_to(&mut client, &request(&["CLIENT", "KILL", "ID", &id.to_string(), "SKIPME", "no"]))
        }),
        Attack::new(format!("{PIPELINED} GETs of 1 KB, then the replies are read"), Judge::Same, |server| {
            let mut client = connect(server)?;
            client.ask(&["SET", "k", &"x".repeat(1024)])?;
            client.send_bytes(&request(&["GET", "k"]).repeat(PIPELINED))?;
            let mut read = 0;
            while read < PIPELINED && matches!(client.receive()?, Value::BulkString(_)) {
                read += 1;
            }
            Ok(format!("{read} replies"))
        }),
        Attack::new("client-output-buffer-limit normal 1 MB, replies unread", Judge::Same, |server| {
            let mut client = connect(server)?;
            client.ask(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1048576 0 0"])?;
            client.ask(&["SET", "k", &"x".repeat(1024)])?;
            // The server closes the connection before it has sent everything.
            let sent = client.send_bytes(&request(&["GET", "k"]).repeat(PIPELINED));
            let mut is_closed = matches!(sent, Err(Lost::Closed));
            while !is_closed {
                is_closed = match client.receive() {
                    Ok(_) => false,
                    Err(Lost::Silent) => return Err(Lost::Silent),
                    Err(_) => true,
                };
            }
            Ok("closed".into())
        }),
        Attack::new("a subscriber that does not read 128 MB", Judge::Same, |server| {
            let mut subscriber = connect(server)?;
            subscriber.ask(&["SUBSCRIBE", "c"])?;
            let mut publisher = connect(server)?;
            let publish = request(&[b"PUBLISH", &b"c"[..], &vec![b'x'; 1 << 20]]);
            let mut last = Value::Nil;
            for _ in 0..128 {
                publisher.send_bytes(&publish)?;
                last = publisher.receive()?;
            }
            Ok(format!("the last message reached {}", show(&last)))
        }),
    ]
}

/// Many clients at once, or one that sees the commands of others.
fn many_at_once() -> Vec<Attack> {
    vec![
        Attack::new(
            format!("{LEAVERS} clients leave during an endless script"),
            Judge::Same,
            leave_while_busy,
        ),
        Attack::new("1000 half commands of 1 MB, never finished", Judge::Same, |server| {
            let mut half = b"*2\r\n$4\r\nECHO\r\n$1048576\r\n".to_vec();
            half.resize(half.len() + 1000, b'x');
            let mut clients = Vec::new();
            for _ in 0..1000 {
                let mut client = connect(server)?;
                client.send_bytes(&half)?;
                clients.push(client);
            }
            Ok(show(&connect(server)?.ask(&["PING"])?))
        }),
        Attack::new(format!("{BEYOND_MAXCLIENTS} more clients than maxclients"), Judge::Same, |server| {
            let mut admin = connect(server)?;
            admin.ask(&["CONFIG", "SET", "maxclients", &MAXCLIENTS.to_string()])?;
            let mut clients = Vec::new();
            let mut refused = 0;
            for _ in 0..MAXCLIENTS + BEYOND_MAXCLIENTS {
                let mut client = connect(server)?;
                match client.ask(&["PING"]) {
                    Ok(Value::SimpleString(_)) => clients.push(client),
                    _ => refused += 1,
                }
            }
            Ok(format!("{} served, {refused} refused, {}", clients.len(), show(&admin.ask(&["PING"])?)))
        }),
        Attack::new("MONITOR that is not read, 20000 commands", Judge::Same, |server| {
            let mut monitor = connect(server)?;
            monitor.ask(&["MONITOR"])?;
            let mut client = connect(server)?;
            let big = request(&["SET", "k", &"x".repeat(1000)]);
            let mut last = Value::Nil;
            for _ in 0..20 {
                client.send_bytes(&big.repeat(1000))?;
                for _ in 0..1000 {
                    last = client.receive()?;
                }
            }
            Ok(show(&last))
        }),
    ]
}

/// Tests whether others get replies after many clients disconnected, and how many threads the
/// server then has.
fn leave_while_busy(server: &Server) -> Result<String, Lost> {
    let mut runner = connect(server)?;
    let mut killer = connect(server)?;
    killer.ask(&["CONFIG", "SET", "busy-reply-threshold", "50"])?;
    let clients: Vec<_> = (0..LEAVERS).map(|_| connect(server)).collect::<Result<_, _>>()?;
    // The reply shows that the server has accepted all connections.
    killer.ask(&["PING"])?;
    runner.send(&["EVAL", "while true do end", "0"])?;
    killer.wait_until_busy()?;
    drop(clients);
    let reply = connect(server)?.ask(&["PING"])?;
    let threads = match server.usage().map_or(0, |usage| usage.threads) {
        0..=THREADS_FEW => "few threads".into(),
        many => format!("{many} threads"),
    };
    let killed = killer.ask(&["SCRIPT", "KILL"])?;
    let code = show(&reply).split(' ').next().unwrap_or_default().to_owned();
    Ok(format!("{code}, {threads}, SCRIPT KILL: {}", show(&killed)))
}
