//! A client over a plain socket. It can send part of a request, leave replies unread and disconnect
//! at any byte.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use redis::{Parser, Value};

use crate::server::wait_for;

/// The most time for one reply or one write. A server that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reason why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error("the server closed the connection")]
    Closed,
    #[error("no reply in time: the server hangs")]
    Silent,
    #[error("not a reply: {0}")]
    Garbled(String),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Lost::Silent,
            _ => Lost::Closed,
        }
    }
}

pub(crate) struct Client {
    stream: TcpStream,
    parser: Parser,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Result<Client, Lost> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_nodelay(true)?;
        let client = Client { stream, parser: Parser::new() };
        client.be_patient(PATIENCE)?;
        Ok(client)
    }

    /// Sets the most time for a reply or a write.
    pub(crate) fn be_patient(&self, patience: Duration) -> Result<(), Lost> {
        self.stream.set_read_timeout(Some(patience))?;
        Ok(self.stream.set_write_timeout(Some(patience))?)
    }

    pub(crate) fn send<T: AsRef<[u8]>>(&mut self, argv: &[T]) -> Result<(), Lost> {
        self.send_bytes(&request(argv))
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        Ok(self.stream.write_all(bytes)?)
    }

    pub(crate) fn receive(&mut self) -> Result<Value, Lost> {
        self.parser.parse_value(&self.stream).map_err(|error| {
            if error.is_timeout() {
                Lost::Silent
            } else if error.is_connection_dropped() || error.is_io_error() {
                Lost::Closed
            } else {
                Lost::Garbled(error.to_string())
            }
        })
    }

    pub(crate) fn ask<T: AsRef<[u8]>>(&mut self, argv: &[T]) -> Result<Value, Lost> {
        self.send(argv)?;
        self.receive()
    }

    /// Sends `PING` until a script has run so long that the server replies `BUSY`.
    pub(crate) fn wait_until_busy(&mut self) -> Result<(), Lost> {
        let busy = wait_for(PATIENCE, || match self.ask(&["PING"]) {
            Ok(reply) if is_error(&reply, "BUSY") => Some(Ok(())),
            Ok(_) => None,
            Err(lost) => Some(Err(lost)),
        });
        busy.unwrap_or(Err(Lost::Silent))
    }

    /// Waits until a reply begins to arrive, and leaves it unread. If the socket then closes, the
    /// system sends a reset.
    pub(crate) fn wait_unread(&self) -> Result<(), Lost> {
        match self.stream.peek(&mut [0])? {
            0 => Err(Lost::Closed),
            _ => Ok(()),
        }
    }
}

/// A request in the form that clients send.
pub(crate) fn request<T: AsRef<[u8]>>(argv: &[T]) -> Vec<u8> {
    let mut cmd = redis::Cmd::new();
    for arg in argv {
        cmd.arg(arg.as_ref());
    }
    cmd.get_packed_command()
}

pub(crate) fn bulk(bytes: impl AsRef<[u8]>) -> Value {
    Value::BulkString(bytes.as_ref().to_vec())
}

pub(crate) fn error(text: &str) -> Value {
    redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an error reply is one line")
}

/// Whether a reply is an error whose text begins like this.
pub(crate) fn is_error(reply: &Value, start: &str) -> bool {
    matches!(reply, Value::ServerError(_)) && show(reply).starts_with(start)
}

/// A reply on one line. Errors are shown as the server wrote them.
pub(crate) fn show(reply: &Value) -> String {
    match reply {
        Value::Nil => "nil".into(),
        Value::Okay => "OK".into(),
        Value::Int(number) => number.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
        Value::ServerError(error) => match error.details() {
            Some(detail) => format!("{} {detail}", error.code()),
            None => error.code().into(),
        },
        other => format!("{other:?}"),
    }
}
