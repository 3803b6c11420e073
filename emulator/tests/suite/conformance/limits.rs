//! Limits that transcripts cannot show. They are how much a client may send before it
//! authenticates, how much at once, and how many clients may connect.

use emulator::Emulator;

use super::wire::{Emulated, Peer, Real, request};
use crate::redis_server;

/// Opens these connections one after the other, on servers with these settings, and sends their
/// bytes. Both servers must give the same first reply. The settings are then set `back`.
#[track_caller]
fn check(settings: &[&str], back: &[&str], connections: &[&[u8]]) {
    let emulator = Emulator::new();
    let say = |peer: &mut dyn Peer, sent: &[u8]| {
        peer.send(sent);
        peer.receive().map_or_else(|| "(closed)".to_owned(), |reply| reply.escape_ascii().to_string())
    };
    let set = |words: &[&str]| request(&[&["CONFIG", "SET"], words].concat());
    let mut admin = Emulated::open(&emulator);
    assert_eq!(say(&mut admin, &set(settings)), r"+OK\r\n");
    let emulated: Vec<String> =
        connections.iter().map(|sent| say(&mut Emulated::open(&emulator), sent)).collect();

    let Some(server) = redis_server::borrow().filter(redis_server::RedisServer::is_ours) else { return };
    let mut admin = Real::over(server.connect());
    assert_eq!(say(&mut admin, &set(settings)), r"+OK\r\n");
    let real: Vec<String> =
        connections.iter().map(|sent| say(&mut Real::over(server.connect_silently()), sent)).collect();
    assert_eq!(say(&mut admin, &set(back)), r"+OK\r\n");
    assert_eq!(emulated, real);
}

#[test]
fn before_authentication_a_client_may_send_little() {
    let ten = request(&["PING", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    let long = request(&["PING".to_owned(), "x".repeat(16 * 1024)]);
    let connections = [&ten[..], b"*11\r\n", &long, b"*2\r\n$4\r\nPING\r\n$16385\r\n"];
    check(&["requirepass", "secret"], &["requirepass", ""], &connections);
}

#[test]
fn a_client_that_sends_too_much_at_once_is_disconnected() {
    let of_len = |len: usize| request(&["PING".to_owned(), "x".repeat(len)]);
    let limit = 1 << 20;
    let connections = [limit - 2, limit - 1, limit, 2 * limit].map(of_len);
    check(
        &["client-query-buffer-limit", "1mb"],
        &["client-query-buffer-limit", "1gb"],
        &connections.each_ref().map(Vec::as_slice),
    );
}

#[test]
fn one_client_too_many_is_told_so() {
    check(&["maxclients", "1"], &["maxclients", "10000"], &[b"", b""]);
}

/// Scripts that nest their result `n` levels deep, with tables as items, members, keys and values.
const NESTING: &[&str] = &[
    "t = {t}",
    "t = {set = {[t] = true}}",
    "t = {map = {[t] = 1}}",
    "t = {map = {[1] = t}}",
    "t = i % 2 == 0 and {set = {[t] = true}} or {map = {[t] = 1}}",
];

#[test]
fn a_script_returns_tables_in_tables() {
    let returns = |before: &str, step: &str, n: usize| {
        let script = format!("{before}local t = {{}} for i = 1, {n} do {step} end return t");
        request(&["EVAL", &script, "0"])
    };
    let emulator = Emulator::new();
    let mut emulated = Emulated::open(&emulator);
    let server = redis_server::borrow();
    let mut real = server.as_ref().map(|server| Real::over(server.connect()));
    let mut check = |request: &[u8]| {
        emulated.send(request);
        let reply = emulated.receive().expect("the emulator answers");
        if let Some(real) = &mut real {
            real.send(request);
            let expected = real.receive().expect("the server answers");
            assert_eq!(reply.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    };
    for before in ["", "redis.setresp(3) "] {
        for step in NESTING {
            for n in [1, 52, 53, 54, 153, 180, 190, 199] {
                check(&returns(before, step, n));
            }
        }
    }
    // Beyond, the emulator does not go on as long as Redis.
    for (step, begin) in NESTING.iter().zip(["*1", "*1", "*2", "*2", "*1"]) {
        emulated.send(&returns("", step, 200));
        let reply = emulated.receive().expect("the emulator answers").escape_ascii().to_string();
        assert!(
            reply.starts_with(begin) && reply.contains("-ERR reached lua stack limit"),
            "{step}: {reply}"
        );
    }
}
