//! Sends bytes of one client to a socket, cut at any place. The client must receive what a client
//! without a socket receives, and the connection must then close. While an endless script or
//! function runs, a client must receive complete replies. The server must continue after that
//! script is killed.

use std::cell::OnceCell;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use bytes::BytesMut;
use emulator::{Clock, Connection, Emulator, Server, UnixServer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};

use crate::replies;

/// How often the server's tasks may run between two pieces.
const TURNS: usize = 4;
/// How many bytes the client reads at once.
const READ_BYTES: usize = 1000;

/// The most requests until the script has begun or has ended.
const ASKS_MAX: usize = 100_000;
const ENDLESS: [(&[u8], &[u8]); 2] = [
    (b"EVAL \"while true do pcall(function() while true do end end) end\" 0\r\n", b"SCRIPT KILL\r\n"),
    (b"FCALL f 1 key arg\r\n", b"FUNCTION KILL\r\n"),
];
const LIBRARY: &[u8] = b"#!lua name=l\nredis.register_function('f', function() while true do end end)";
const PASSWORD: &[u8] = b"secret";

/// The socket to which a client connects.
#[derive(Clone, Copy)]
pub enum FrontEnd {
    Unix,
    Tcp,
    /// A TCP socket on another runtime, which has a single thread.
    Url,
}

/// A server and its runtime.
struct Site {
    runtime: Runtime,
    emulator: Emulator,
    path: PathBuf,
    _unix: UnixServer,
    tcp: Server,
}

thread_local! {
    static SITE: OnceCell<Site> = const { OnceCell::new() };
}

impl Site {
    fn open() -> io::Result<Site> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let emulator = Emulator::with_clock(Clock::manual());
        let path = std::env::temp_dir().join(format!("lockstep-fuzz-{}.sock", std::process::id()));
        // A killed process may have left a socket behind.
        _ = std::fs::remove_file(&path);
        drop(UnixListener::bind(&path)?);
        let unix = runtime.block_on(emulator.listen_unix(&path, 0o600))?;
        let another = runtime.block_on(emulator.listen_unix(&path, 0o600));
        assert_eq!(another.unwrap_err().kind(), io::ErrorKind::AddrInUse, "two servers at one socket");
        let tcp = runtime.block_on(emulator.listen("127.0.0.1:0"))?;
        Ok(Site { runtime, emulator, path, _unix: unix, tcp })
    }

    async fn visit<'a>(
        &self,
        front_end: FrontEnd,
        pieces: impl Iterator<Item = &'a [u8]>,
        expected: &[u8],
    ) -> io::Result<()> {
        match front_end {
            FrontEnd::Unix => exchange(UnixStream::connect(&self.path).await?, pieces, expected).await,
            FrontEnd::Tcp => exchange(TcpStream::connect(self.tcp.addr()).await?, pieces, expected).await,
            FrontEnd::Url => {
                let url = self.emulator.url();
                let addr = url.trim_start_matches("redis://").trim_end_matches('/');
                exchange(TcpStream::connect(addr).await?, pieces, expected).await
            }
        }
    }

    async fn ask_while_busy<'a>(
        &self,
        what: usize,
        has_password: bool,
        mut pieces: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        let (endless, kill) = ENDLESS[what];
        let mut runner = UnixStream::connect(&self.path).await?;
        let mut judge = UnixStream::connect(&self.path).await?;
        // Both connect before there is a password.
        ask(&mut runner, b"PING\r\n", |reply| reply == b"+PONG\r\n").await?;
        ask(&mut judge, b"PING\r\n", |reply| reply == b"+PONG\r\n").await?;
        if has_password {
            self.emulator.connection().execute(&[b"CONFIG", b"SET", b"requirepass", PASSWORD]);
        }
        let mut client = UnixStream::connect(&self.path).await?;
        // The client's first piece may run before the script.
        _ = client.write_all(pieces.next().unwrap_or_default()).await;
        runner.write_all(endless).await?;
        ask(&mut judge, b"PING\r\n", |reply| reply.starts_with(b"-BUSY")).await?;
        for piece in pieces {
            _ = client.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        // The client may already have killed the script.
        ask(&mut judge, kill, |reply| reply.starts_with(b"-NOTBUSY")).await?;
        ask(&mut judge, b"PING\r\n", |reply| reply == b"+PONG\r\n").await?;
        ask(&mut runner, b"", |reply| reply.starts_with(b"-ERR Script killed")).await?;
        _ = client.shutdown().await;
        let mut heard = Vec::new();
        _ = client.read_to_end(&mut heard).await;
        assert!(replies::split(&heard).is_some(), "not whole replies: {}", heard.escape_ascii());
        Ok(())
    }
}

/// Sends the pieces, and compares all bytes that come back with `expected`.
async fn exchange<'a>(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    pieces: impl Iterator<Item = &'a [u8]>,
    expected: &[u8],
) -> io::Result<()> {
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

/// Repeats a request until its reply of one line is the wanted one.
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

/// Sends the pieces while a script or a function runs. `variant` decides which, and whether there
/// is a password.
pub fn check_busy<'a>(variant: usize, pieces: impl Iterator<Item = &'a [u8]>) {
    SITE.with(|site| {
        let site = site.get_or_init(|| Site::open().expect("a socket in the folder for temporary files"));
        site.emulator.reset(Clock::manual());
        let mut client = site.emulator.connection();
        client.execute(&[b"CONFIG", b"SET", b"busy-reply-threshold", b"1"]);
        client.execute(&[b"FUNCTION", b"LOAD", LIBRARY]);
        let asked = site.ask_while_busy(variant % 2, variant % 4 >= 2, pieces);
        site.runtime.block_on(asked).expect("a socket in the same process works");
    });
}

/// Sends the stream without a socket and then at one.
pub fn check<'a>(front_end: FrontEnd, stream: &[u8], pieces: impl Iterator<Item = &'a [u8]>) {
    SITE.with(|site| {
        let site = site.get_or_init(|| Site::open().expect("a socket in the folder for temporary files"));
        site.emulator.reset(Clock::manual());
        let mut expected = BytesMut::new();
        Connection::open(&site.emulator).receive(stream, &mut expected);
        site.emulator.reset(Clock::manual());
        match site.runtime.block_on(site.visit(front_end, pieces, &expected)) {
            // If a server closes a connection with unread bytes, the system resets it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            outcome => outcome.expect("a socket in the same process works"),
        }
    });
}
