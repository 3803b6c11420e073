//! Replies as bytes: where a reply ends, how `redis-cli` shows it, and the connections to both
//! servers.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::task::{Context, Waker};

use bytes::{Buf as _, BytesMut};
use emulator::{Connection, Emulator};

/// Stands for a reply if none comes.
pub const NOTHING: &[u8] = b"+(nothing)\r\n";

/// A connection that sends requests and receives replies as bytes.
pub trait Peer {
    /// Sends bytes.
    fn send(&mut self, bytes: &[u8]);
    /// The next reply, or `None` if the other end has closed.
    fn receive(&mut self) -> Option<Vec<u8>>;

    /// Sends one command and returns its reply; empty if the connection closes instead.
    fn call<T: AsRef<[u8]>>(&mut self, argv: &[T]) -> Vec<u8>
    where
        Self: Sized,
    {
        self.send(&request(argv));
        self.receive().unwrap_or_default()
    }
}

/// A connection to the emulator.
pub struct Emulated {
    connection: Connection,
    replies: BytesMut,
}

impl Emulated {
    /// A new connection.
    pub fn open(emulator: &Emulator) -> Emulated {
        Emulated { connection: Connection::open(emulator), replies: BytesMut::new() }
    }

    /// Receives messages that the server sends without a request. Returns whether there were any.
    pub fn hear(&mut self) -> bool {
        let before = self.replies.len();
        self.connection.receive(b"", &mut self.replies);
        self.replies.len() > before
    }

    /// Whether there is something to receive.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The next reply that has already arrived.
    pub fn receive_at_once(&mut self) -> Option<Vec<u8>> {
        if self.has_replies() { self.receive() } else { None }
    }

    /// Whether the server has closed the connection, or is about to.
    pub fn is_closing(&self) -> bool {
        self.connection.is_closing()
    }

    /// Sends one command and returns whether a reply comes. A blocked client gets none.
    pub fn answers(&mut self, argv: &[&str]) -> bool {
        self.send(&request(argv));
        self.has_replies()
    }
}

impl Peer for Emulated {
    fn send(&mut self, bytes: &[u8]) {
        self.connection.receive(bytes, &mut self.replies);
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        if self.replies.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            _ = self.connection.poll_messages(&mut cx, &mut self.replies);
            if self.replies.is_empty() {
                return (!self.connection.is_closing()).then(|| NOTHING.to_vec());
            }
        }
        let (_, rest) = parse(&self.replies).expect("the emulator sends whole replies");
        let len = self.replies.len() - rest.len();
        Some(self.replies.split_to(len).to_vec())
    }
}

/// A connection to the real server.
pub struct Real {
    stream: TcpStream,
    replies: BytesMut,
}

impl Real {
    /// A connection over this socket.
    pub fn over(stream: TcpStream) -> Real {
        Real { stream, replies: BytesMut::new() }
    }

    /// The next reply. `None` if the server has closed, or if it answers others but not this
    /// client.
    pub fn receive_while_alive(&mut self, other: &mut Real) -> Option<Vec<u8>> {
        self.receive_before(other).ok().flatten()
    }

    /// Whether the server has closed without a reply before.
    pub fn is_closed(&mut self, other: &mut Real) -> bool {
        self.replies.is_empty() && matches!(self.receive_before(other), Ok(None))
    }

    /// The next reply that comes before the server has answered `other` twice. After that the
    /// server has had enough time. The socket needs a short read timeout.
    fn receive_before(&mut self, other: &mut Real) -> io::Result<Option<Vec<u8>>> {
        for _ in 0..2 {
            match self.try_receive() {
                Ok(reply) => return Ok(reply),
                Err(_) => other.call(&["PING"]),
            };
        }
        self.try_receive()
    }

    /// The next reply, or `None` if the server has closed.
    fn try_receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some((_, rest)) = parse(&self.replies) {
                let len = self.replies.len() - rest.len();
                let reply = self.replies[..len].to_vec();
                self.replies.advance(len);
                return Ok(Some(reply));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(len) => self.replies.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits until the server has closed, too: otherwise a subscriber that is gone gets messages yet.
impl Drop for Real {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.stream.shutdown(Shutdown::Write).is_ok() {
            _ = io::copy(&mut self.stream, &mut io::sink());
        }
    }
}

impl Peer for Real {
    fn send(&mut self, bytes: &[u8]) {
        // If the server has closed, that shows when the reply is received.
        _ = self.stream.write_all(bytes);
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        match self.try_receive() {
            Ok(reply) => reply,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Some(NOTHING.to_vec())
            }
            Err(error) => panic!("the server does not answer: {error}"),
        }
    }
}

/// A request in the form that clients send.
pub fn request<T: AsRef<[u8]>>(argv: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", argv.len()).into_bytes();
    for arg in argv {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Hides the connection's number in the reply to `HELLO`, because it depends on what ran before.
pub fn mask(reply: &[u8]) -> Vec<u8> {
    const ID: &[u8] = b"$2\r\nid\r\n:";
    let Some(at) = reply.windows(ID.len()).position(|window| window == ID) else { return reply.to_vec() };
    let (before, after) = reply.split_at(at + ID.len());
    let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
    [before, b"1", &mask(&after[digits..])].concat()
}

/// A parsed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A reply of one line: its marker and its text.
    Line(u8, Vec<u8>),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// An array, a set, or a map with keys and values in turn.
    Items(u8, Vec<Wire>),
    /// Any null reply.
    Nil,
}

/// The first reply in `bytes`, and the rest; `None` if the reply is not complete.
pub fn parse(bytes: &[u8]) -> Option<(Wire, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (marker, text, mut rest) = (bytes[0], &bytes[1..end], &bytes[end + 2..]);
    let len = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let wire = match marker {
        b'_' => Wire::Nil,
        b'$' | b'*' if text == b"-1" => Wire::Nil,
        b'$' | b'=' => {
            let (body, behind) = rest.split_at_checked(len()? as usize)?;
            rest = behind.get(2..)?;
            Wire::Bulk(body.to_vec())
        }
        b'*' | b'~' | b'%' | b'>' => {
            let count = len()? * if marker == b'%' { 2 } else { 1 };
            let mut items = Vec::new();
            for _ in 0..count {
                let (item, behind) = parse(rest)?;
                items.push(item);
                rest = behind;
            }
            Wire::Items(marker, items)
        }
        _ => Wire::Line(marker, text.to_vec()),
    };
    Some((wire, rest))
}

/// Shows a reply as `redis-cli` does.
impl std::fmt::Display for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl Wire {
    fn lines(&self) -> Vec<String> {
        let one = |line: String| vec![line];
        match self {
            Wire::Nil => one("(nil)".into()),
            Wire::Bulk(text) => one(format!("\"{}\"", escape(text))),
            Wire::Line(b'+', text) => one(escape(text)),
            Wire::Line(b'-', text) => one(format!("(error) {}", escape(text))),
            Wire::Line(b':', text) => one(format!("(integer) {}", escape(text))),
            Wire::Line(b'#', text) => one(if text == b"t" { "(true)" } else { "(false)" }.into()),
            Wire::Line(b',', text) => one(format!("(double) {}", escape(text))),
            Wire::Line(marker, text) => one(format!("{}{}", *marker as char, escape(text))),
            Wire::Items(marker, items) if items.is_empty() => one(match marker {
                b'%' => "(empty hash)".into(),
                b'~' => "(empty set)".into(),
                _ => "(empty array)".into(),
            }),
            Wire::Items(b'%', items) => numbered(items.as_chunks::<2>().0, '#', |[key, value]| {
                let (mut lines, value) = (key.lines(), value.lines());
                let last = lines.last_mut().expect("every reply has a line");
                let indent = " ".repeat(last.chars().count() + 4);
                *last += &format!(" => {}", value[0]);
                lines.extend(value[1..].iter().map(|line| format!("{indent}{line}")));
                lines
            }),
            Wire::Items(marker, items) => {
                let sign = match marker {
                    b'~' => '~',
                    b'>' => '>',
                    _ => ')',
                };
                numbered(items, sign, Wire::lines)
            }
        }
    }
}

fn numbered<T>(items: &[T], sign: char, lines: impl Fn(&T) -> Vec<String>) -> Vec<String> {
    let width = items.len().to_string().len();
    let number = |(idx, item): (usize, &T)| {
        let lines = lines(item).into_iter().enumerate();
        let prefixed = lines.map(move |(line_idx, line)| match line_idx {
            0 => format!("{:>width$}{sign} {line}", idx + 1),
            _ => format!("{:width$}  {line}", ""),
        });
        prefixed.collect::<Vec<_>>()
    };
    items.iter().enumerate().flat_map(number).collect()
}

fn escape(text: &[u8]) -> String {
    let byte = |&byte: &u8| match byte {
        b'"' => "\\\"".into(),
        b'\\' => "\\\\".into(),
        b'\n' => "\\n".into(),
        b'\r' => "\\r".into(),
        b'\t' => "\\t".into(),
        b' '..=b'~' => (byte as char).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    text.iter().map(byte).collect()
}
