//! Sends random bytes, well formed or not, to both servers over sockets. All bytes that come back
//! until the server closes must be equal.
//!
//! Each stream has its own connection to each server. The test sends the whole stream, closes its
//! sending side, and reads until the server closes. So it never has to guess whether a reply is
//! complete. A [`MARKER`] after the stream shows whether the server still read requests there.
//!
//! The streams avoid two effects of Redis that differ from run to run:
//!
//! - After a client has closed its sending side, Redis may drop replies beyond the first 64 KiB of
//!   a batch. No stream asks for that much.
//! - Redis refuses a line without an end after it has read more than 64 KiB of the line. If one
//!   read contains a longer line whole, Redis accepts it: the network's cuts decide. So no line
//!   with an end is longer here. A longer line has no end, and nothing follows it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use emulator::{Clock, Emulator, Server, command};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tokio::runtime::Runtime;

use super::super::wire::{Emulated, Peer as _, Real, Wire, mask, parse, request};
use crate::redis_server::OwnServer;

/// The longest line whose end both servers always find.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The length of a long argument or a long line in the middle. It stays below [`LINE_BYTES_MAX`]
/// with everything that a mutation may join to it.
const LONG_BYTES_MAX: usize = 48 * 1024;
/// The most bytes that one mutation removes or doubles.
const MUTATED_BYTES_MAX: usize = 48;
/// The most that a server reads at once.
const READ_BYTES: usize = 16 * 1024;
/// The most time for a reply: only a server that hangs takes longer.
const REPLY_MAX: Duration = Duration::from_secs(10);
const PASSWORD: &str = "secret";
const MARKER: &[u8] = b"\r\n*2\r\n$4\r\nECHO\r\n$12\r\nstill there?\r\n";

/// Commands that change how later bytes are parsed or answered, and commands on some data. The
/// order of each reply is fixed.
const COMMANDS: &[&str] = &[
    "PING",
    "ECHO x",
    "SET k v",
    "GET k",
    "GET nope",
    "UNLINK k",
    "INCR k",
    "LPUSH l a b",
    "BLPOP l 0",
    "LRANGE l 0 -1",
    "SADD s a",
    "SMEMBERS nope",
    "HSET h f 1.5",
    "HGETALL h",
    "ZADD z 2.5 m",
    "ZSCORE z m",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH k",
    "SELECT 1",
    "SELECT x",
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "HELLO 4",
    "HELLO 3 AUTH default secret",
    "AUTH secret",
    "AUTH wrong",
    "AUTH default secret",
    "RESET",
    "QUIT",
    "SUBSCRIBE c",
    "PUBLISH c x",
    "CLIENT REPLY ON",
    "CLIENT REPLY OFF",
    "CLIENT REPLY SKIP",
    "CLIENT GETNAME",
    "CLIENT SETNAME x",
    "POST / HTTP/1.1",
    "Host: localhost",
    "nonsense with words",
    "",
];

/// Words of an inline command, as they are written on the line.
const INLINE_WORDS: &[&str] = &[
    "a",
    "\"b c\"",
    "'d e'",
    "\"\\x41\\n\\\"\"",
    "'\\''",
    "\"\"",
    "''",
    "a\"b\"",
    "\"open",
    "'open",
    "\"a\"b",
    "\"\\x4",
    "\\x41",
    "\0",
    "\x0b",
    "\t",
    "\r",
    "ü",
];

/// Fragments that are wrong, or at the limit of a valid one.
const FRAGMENTS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\0",
    "*",
    "$",
    "\"",
    "*0\r\n",
    "*-1\r\n",
    "*-9223372036854775808\r\n",
    "*-9223372036854775809\r\n",
    "*10\r\n",
    "*11\r\n",
    "*1024\r\n",
    "*1048577\r\n",
    "*2147483647\r\n",
    "*2147483648\r\n",
    "*9223372036854775808\r\n",
    "*+1\r\n",
    "*01\r\n",
    "*1 \r\n",
    "*1\n",
    "*\r\n",
    "*1\r\n",
    "*1\r\r$4\r\rPING\r\n",
    "*1\r\n$4\r\nPINGxx",
    "*1\r\n$-1\r\n",
    "*1\r\n$0\r\n\r\n",
    "*1\r\n$\r\n",
    "*1\r\n$+4\r\nPING\r\n",
    "*1\r\n$04\r\nPING\r\n",
    "*1\r\n$16384\r\n",
    "*1\r\n$16385\r\n",
    "*1\r\n$536870912\r\n",
    "*1\r\n$536870913\r\n",
    "*1\r\n\r\n",
    "*1\r\n:4\r\n",
    "*1\r\n\0",
    "*2\r\n$4\r\nECHO\r\n",
    "$4\r\nPING\r\n",
    "\x7f",
];

/// The bytes of one connection, in the pieces in which they are sent.
#[derive(Clone)]
struct Stream(Vec<Vec<u8>>);

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|piece| shown(piece))).finish()
    }
}

/// Both servers, and an observer of the real one.
pub struct Peers {
    server: OwnServer,
    observer: Real,
    /// The real server's commands that the emulator does not have. A mutation can make one from
    /// another command, for example `XADD` from `ZADD`.
    left_out: BTreeSet<String>,
    emulator: Emulator,
    listening: Server,
    _runtime: Runtime,
}

impl Peers {
    pub fn new(server: OwnServer) -> Peers {
        let mut observer = Real::over(server.connect());
        let Some((Wire::Items(_, names), _)) = parse(&observer.call(&["command", "list"])) else {
            panic!("the server lists its commands");
        };
        let names = names.iter().map(|name| name.to_string().trim_matches('"').to_owned());
        let left_out = names.filter(|name| command::lookup(name.as_bytes()).is_none()).collect();
        let emulator = Emulator::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread can be started");
        let listening = runtime.block_on(emulator.listen("127.0.0.1:0")).expect("a port is free");
        Peers { server, observer, left_out, emulator, listening, _runtime: runtime }
    }

    /// The commands that the emulator does not have, but says that Redis has.
    pub fn expect_left_out_are_named(&self) {
        let mut connection = self.emulator.connection();
        for name in self.left_out.iter().filter(|name| !name.contains('|')) {
            let reply = format!("{:?}", connection.execute(&[name.as_bytes()]));
            assert!(reply.contains("the emulator has no "), "{name}: {reply}");
            let script = format!("return redis.pcall('{name}').err");
            let reply = format!("{:?}", connection.execute(&[b"EVAL", script.as_bytes(), b"0"]));
            assert!(reply.contains("the emulator has no "), "{name} in a script: {reply}");
        }
    }

    /// Plays the streams of one seed and reports the first failure. Every second seed sets a
    /// password.
    pub fn play(&mut self, seed: u64, per_seed: u64) -> Option<(String, String)> {
        let password = if seed % 2 == 1 { PASSWORD } else { "" };
        let set_password = ["config", "set", "requirepass", password];
        assert_eq!(self.observer.call(&set_password), b"+OK\r\n");
        let peers = std::cell::RefCell::new(self);
        let result = super::runner(seed, per_seed).run(&streams(), |stream| {
            let peers = &mut *peers.borrow_mut();
            assert_eq!(peers.observer.call(&["flushall"]), b"+OK\r\n");
            peers.emulator.reset(Clock::manual());
            assert_eq!(Emulated::open(&peers.emulator).call(&set_password), b"+OK\r\n");
            let real = talk(peers.server.addr(), &stream);
            let emulated = talk(peers.listening.addr(), &stream);
            if real == emulated || peers.is_about_left_out(&emulated) {
                return Ok(());
            }
            let [real, emulated] = [real, emulated].map(|replies| shown(&replies));
            Err(TestCaseError::fail(format!("    server    {real}\n    emulator  {emulated}")))
        });
        let (reason, stream) = super::failure(result)?;
        let about = reason.lines().next().unwrap_or_default().to_owned();
        Some((about, format!("LOCKSTEP_SEED={seed} LOCKSTEP_SEQUENCES=1\n{stream:?}\n{reason}\n")))
    }

    /// Whether the emulator's reply names a command that it leaves out.
    fn is_about_left_out(&self, emulated: &[u8]) -> bool {
        let replies = String::from_utf8_lossy(emulated).to_ascii_lowercase();
        let mut missing = replies.split(", and so no ").skip(1).filter_map(|rest| rest.split('.').next());
        missing.any(|name| self.left_out.contains(name))
    }
}

/// All bytes that a server sends to a client that sends this stream and then closes its sending
/// side.
fn talk(addr: SocketAddr, stream: &Stream) -> Vec<u8> {
    let mut socket = TcpStream::connect(addr).expect("the server listens");
    socket.set_nodelay(true).expect("a socket takes this option");
    socket.set_read_timeout(Some(REPLY_MAX)).expect("a socket takes this option");
    for piece in &stream.0 {
        if socket.write_all(piece).is_err() {
            break;
        }
    }
    // The server may have closed the connection already.
    _ = socket.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    if let Err(error) = socket.read_to_end(&mut replies) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the server does not close: {stream:?}");
    }
    mask(&replies)
}

fn streams() -> impl Strategy<Value = Stream> {
    let middle = (prop::collection::vec(part(), 0..8), long_part(), any::<Index>()).prop_map(
        |(mut parts, long, at)| {
            if let Some(long) = long {
                parts.insert(at.index(parts.len() + 1), long);
            }
            parts.concat()
        },
    );
    let middle = (middle, prop::collection::vec(mutation(), 0..3)).prop_map(|(mut bytes, mutations)| {
        for (kind, at, len, byte) in mutations {
            mutate(&mut bytes, kind, at, len, byte);
        }
        bytes
    });
    let cuts = prop::collection::vec(any::<Index>(), 0..4);
    (first_line(), middle, last_line(), cuts).prop_map(|(first, middle, last, mut cuts)| {
        let mut bytes = [first, middle, last].concat();
        if has_http_words(&bytes) {
            bytes.truncate(READ_BYTES);
            cuts.clear();
        }
        Stream(cut(&bytes, &cuts))
    })
}

/// Whether there is a word at which the server closes the connection at once. Replies that are not
/// yet written are then lost, and which ones depends on what the server read together.
fn has_http_words(bytes: &[u8]) -> bool {
    let words = bytes.windows(5).map(<[u8]>::to_ascii_lowercase);
    words.into_iter().any(|word| word.starts_with(b"post") || word == b"host:")
}

/// Bytes that a client may send.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let command = || select(COMMANDS);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let inline_words = prop::collection::vec(select(INLINE_WORDS), 0..4);
    let line_end = || select(&["\r\n", "\n"][..]);
    let raw = prop::collection::vec(select(&b"*$\r\n\0'\"\\x 0123456789-+aP"[..]), 0..12);
    prop_oneof![
        6 => command().prop_map(move |line| request(&words(line))),
        3 => (command(), line_end()).prop_map(|(line, end)| [line, end].concat().into_bytes()),
        2 => (command(), inline_words, select(&[" ", "  ", "\t"][..]), line_end())
            .prop_map(|(line, words, space, end)| [line, space, &words.join(space), end].concat().into_bytes()),
        3 => select(FRAGMENTS).prop_map(|fragment| fragment.as_bytes().to_vec()),
        1 => raw,
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// Rarely, an argument or a line that does not fit into one read.
fn long_part() -> impl Strategy<Value = Option<Vec<u8>>> {
    let long = (select(&[16 * 1024, 32 * 1024, LONG_BYTES_MAX][..]), 0..3_usize)
        .prop_map(|(len, less)| "x".repeat(len - less));
    prop_oneof![
        12 => Just(None),
        1 => long.clone().prop_map(|long| Some(request(&["EXISTS", &long]))),
        1 => long.prop_map(|long| Some(format!("EXISTS {long}\r\n").into_bytes())),
    ]
}

/// Rarely, a first line with the greatest length that is allowed.
fn first_line() -> impl Strategy<Value = Vec<u8>> {
    let line = |(start, less): (&str, usize)| {
        let header_bytes = start.rfind('\n').map_or(0, |newline| newline + 1);
        let mut line = start.as_bytes().to_vec();
        line.resize(header_bytes + LINE_BYTES_MAX - less, b'1');
        line.extend_from_slice(b"\r\n");
        line
    };
    prop_oneof![
        24 => Just(Vec::new()),
        1 => (select(LINE_STARTS), 1..4_usize).prop_map(line),
    ]
}

/// The marker or, rarely, a line without an end, about as long as the limit.
fn last_line() -> impl Strategy<Value = Vec<u8>> {
    let line = |(start, more): (&str, usize)| {
        let header_bytes = start.rfind('\n').map_or(0, |newline| newline + 1);
        let mut line = start.as_bytes().to_vec();
        line.resize(header_bytes + LINE_BYTES_MAX - 1 + more, b'1');
        line
    };
    prop_oneof![
        24 => Just(MARKER.to_vec()),
        1 => (select(LINE_STARTS), 0..4_usize).prop_map(line),
    ]
}

const LINE_STARTS: &[&str] = &["", "EXISTS ", "*", "*1\r\n$", "*1\r\n"];

fn mutation() -> impl Strategy<Value = (u8, Index, usize, u8)> {
    (0..4_u8, any::<Index>(), 1..MUTATED_BYTES_MAX, any::<u8>())
}

/// Flips bits of a byte, drops or doubles a few bytes, or cuts the rest off.
fn mutate(bytes: &mut Vec<u8>, kind: u8, at: Index, len: usize, byte: u8) {
    if bytes.is_empty() {
        return;
    }
    let start = at.index(bytes.len());
    let end = (start + len).min(bytes.len());
    match kind {
        0 => bytes[start] ^= byte,
        1 => drop(bytes.drain(start..end)),
        2 => drop(bytes.splice(start..start, bytes[start..end].to_vec())),
        _ => bytes.truncate(start),
    }
}

fn cut(bytes: &[u8], cuts: &[Index]) -> Vec<Vec<u8>> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.extend([0, bytes.len()]);
    ends.sort_unstable();
    ends.dedup();
    ends.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect()
}

/// Bytes as text. A long run of equal bytes is shown as a count.
fn shown(bytes: &[u8]) -> String {
    const EQUAL_MAX: usize = 40;
    let runs = bytes.chunk_by(|a, b| a == b).map(|run| match run.len() {
        len if len > EQUAL_MAX => format!("{{{len} x {}}}", run[..1].escape_ascii()),
        _ => run.escape_ascii().to_string(),
    });
    runs.collect()
}
