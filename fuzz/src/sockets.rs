//! One client at a socket, in whatever pieces the network takes its bytes: it hears what a client without a socket hears, and then the
//! connection closes. And one while a script runs that does not end: it hears whole replies, and the server lives on once the script is
//! killed.

use std::cell::OnceCell;
use std::io;
use std::path::PathBuf;

use bytes::BytesMut;
use emulator::{Clock, Connection, Emulator, UnixServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use crate::replies;

/// How often the server may do something between two pieces.
const TURNS: usize = 4;
/// How much the client reads at once, in bytes.
const READ_BYTES: usize = 1000;

/// How often somebody asks until the script has begun, or has ended.
const ASKS_MAX: usize = 100_000;
const ENDLESS: &[u8] = b"EVAL \"while true do end\" 0\r\n";

/// A server that listens, and the runtime in which it does.
struct Site {
    runtime: Runtime,
    emulator: Emulator,
    path: PathBuf,
    _server: UnixServer,
}

thread_local! {
    static SITE: OnceCell<Site> = const { OnceCell::new() };
}

impl Site {
    fn open() -> io::Result<Site> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let emulator = Emulator::with_clock(Clock::manual());
        let path = std::env::temp_dir().join(format!("lockstep-fuzz-{}.sock", std::process::id()));
        let server = runtime.block_on(emulator.listen_unix(&path, 0o600))?;
        Ok(Site { runtime, emulator, path, _server: server })
    }

    async fn exchange<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>, expected: &[u8]) -> io::Result<()> {
        let mut client = UnixStream::connect(&self.path).await?;
        for piece in pieces {
            // The server may have closed the connection.
            _ = client.write_all(piece).await;
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
        let (mut heard, mut room) = (Vec::new(), [0; READ_BYTES]);
        while heard.len() < expected.len() {
            match client.read(&mut room).await? {
                0 => break,
                len => heard.extend_from_slice(&room[..len]),
            }
        }
        _ = client.shutdown().await;
        client.read_to_end(&mut heard).await?;
        if heard != expected {
            panic!("at a socket: {}, without: {}", heard.escape_ascii(), expected.escape_ascii());
        }
        Ok(())
    }
}

impl Site {
    async fn ask_while_busy<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut runner = UnixStream::connect(&self.path).await?;
        runner.write_all(ENDLESS).await?;
        let mut judge = UnixStream::connect(&self.path).await?;
        ask(&mut judge, b"PING\r\n", |reply| reply.starts_with(b"-BUSY")).await?;
        let mut client = UnixStream::connect(&self.path).await?;
        for piece in pieces {
            _ = client.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        // The client may have killed it.
        ask(&mut judge, b"SCRIPT KILL\r\n", |reply| reply.starts_with(b"-NOTBUSY")).await?;
        ask(&mut judge, b"PING\r\n", |reply| reply == b"+PONG\r\n").await?;
        _ = client.shutdown().await;
        let mut heard = Vec::new();
        _ = client.read_to_end(&mut heard).await;
        assert!(replies::split(&heard).is_some(), "not whole replies: {}", heard.escape_ascii());
        Ok(())
    }
}

/// Asks until the reply, which is one line, is as wanted.
async fn ask(client: &mut UnixStream, question: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    for _ in 0..ASKS_MAX {
        client.write_all(question).await?;
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            reply.push(client.read_u8().await?);
        }
        if is_wanted(&reply) {
            return Ok(());
        }
    }
    panic!("{} is never answered as it should be", question.escape_ascii());
}

/// Plays the pieces while a script runs.
pub fn check_busy<'a>(pieces: impl Iterator<Item = &'a [u8]>) {
    SITE.with(|site| {
        let site = site.get_or_init(|| Site::open().expect("a socket in the folder for temporary files"));
        site.emulator.reset(Clock::manual());
        site.emulator.connection().execute(&[b"CONFIG", b"SET", b"busy-reply-threshold", b"1"]);
        site.runtime.block_on(site.ask_while_busy(pieces)).expect("a socket in the same process works");
    });
}

/// Plays the stream without a socket, then at one.
pub fn check<'a>(stream: &[u8], pieces: impl Iterator<Item = &'a [u8]>) {
    SITE.with(|site| {
        let site = site.get_or_init(|| Site::open().expect("a socket in the folder for temporary files"));
        site.emulator.reset(Clock::manual());
        let mut expected = BytesMut::new();
        Connection::open(&site.emulator).receive(stream, &mut expected);
        site.emulator.reset(Clock::manual());
        match site.runtime.block_on(site.exchange(pieces, &expected)) {
            // The server may close a connection whose bytes it has not read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            outcome => outcome.expect("a socket in the same process works"),
        }
    });
}
