//! Finds the real Redis that suites compare with, and lends it to one test at a time.
//!
//! `LOCKSTEP_REDIS_URL` names a server: `redis://localhost:6379/9`. Its database (15 if the URL names none) must be empty,
//! belongs to the tests while they run, and is emptied before and after each; the script cache is emptied, too, and nothing
//! else of that server is touched. Without the variable, a `redis-server` on the `PATH` is started on a free port, with
//! nothing kept on disk. With neither, tests say so in one line and pass, but in CI (`CI` is set) they fail.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo as _};

const URL: &str = "LOCKSTEP_REDIS_URL";
/// The database of a given server whose URL names none: the last one that every server has.
const DB: i64 = 15;
/// How many databases a server of our own has.
const DATABASES: i64 = 16;
/// How often another port is tried when someone was quicker.
const STARTS_MAX: usize = 5;
/// How long a reply may take: only a hanging server takes longer.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// The real server, lent to one test: nobody else uses it before this is dropped.
pub struct RedisServer {
    server: &'static Server,
    _turn: MutexGuard<'static, ()>,
}

struct Server {
    host: String,
    port: u16,
    username: Option<String>,
    password: Option<String>,
    db: i64,
    /// The server that we started ends when this pipe closes: with our process, however that ends.
    lifeline: Option<ChildStdin>,
}

/// Waits for its turn and lends the server, empty. `None`, and a line on stderr, if there is none.
///
/// # Panics
/// Without a server in CI; with a given server whose database is not empty.
#[track_caller]
pub fn borrow() -> Option<RedisServer> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed in its turn has said so itself.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(server) = SERVER.get_or_init(|| given().or_else(start)) else {
        say_it_is_missing(&format!("install redis-server or set {URL}"));
        return None;
    };
    let borrowed = RedisServer { server, _turn: turn };
    borrowed.clear();
    Some(borrowed)
}

impl RedisServer {
    /// What redis-rs is to connect to.
    pub fn url(&self) -> String {
        self.url_of(self.server.db)
    }

    /// The URLs of all databases that belong to the tests.
    pub fn urls(&self) -> Vec<String> {
        if self.is_ours() { (0..DATABASES).map(|db| self.url_of(db)).collect() } else { vec![self.url()] }
    }

    fn url_of(&self, db: i64) -> String {
        let Server { host, port, username, password, .. } = self.server;
        let user = username.as_deref().unwrap_or_default();
        let credentials = password.as_ref().map(|password| format!("{user}:{password}@"));
        format!("redis://{}{host}:{port}/{db}", credentials.unwrap_or_default())
    }

    /// Whether it was started by us: then all its databases may be used.
    pub fn is_ours(&self) -> bool {
        self.server.lifeline.is_some()
    }

    /// A connection to the tests' database, as plain bytes.
    pub fn connect(&self) -> TcpStream {
        self.server.connect()
    }

    /// A connection that has sent nothing yet, no password either.
    pub fn connect_silently(&self) -> TcpStream {
        self.server.open()
    }

    /// Empties what belongs to the tests.
    pub fn clear(&self) {
        let flush = if self.is_ours() { "FLUSHALL" } else { "FLUSHDB" };
        let mut connection = self.connect();
        command(&mut connection, flush);
        command(&mut connection, "SCRIPT FLUSH");
        command(&mut connection, "FUNCTION FLUSH");
    }
}

/// A server that only one test uses, whole.
pub struct OwnServer(Server);

impl OwnServer {
    /// A connection, as plain bytes.
    pub fn connect(&self) -> TcpStream {
        self.0.connect()
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.0.port).into()
    }

    /// Starts another server in place of one that has crashed.
    pub fn restart(&mut self) {
        self.0 = start().expect("what could be started once can be again");
    }
}

/// Starts this many servers, on which `DEBUG` may be used. None, and a line on stderr, if no `redis-server` is installed.
#[track_caller]
pub fn start_own(count: usize) -> Vec<OwnServer> {
    let servers: Vec<_> = (0..count).map_while(|_| start().map(OwnServer)).collect();
    if servers.is_empty() {
        say_it_is_missing("install redis-server");
    }
    servers
}

#[track_caller]
fn say_it_is_missing(remedy: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let message = format!("{test} did not run: {remedy}");
    assert!(std::env::var_os("CI").is_none(), "{message}");
    eprintln!("{message}");
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.clear();
        }
    }
}

impl Server {
    fn open(&self) -> TcpStream {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes this option");
        stream.set_read_timeout(Some(REPLY_MAX)).expect("a socket takes this option");
        stream
    }

    fn connect(&self) -> TcpStream {
        let mut stream = self.open();
        if let Some(password) = &self.password {
            let user = self.username.as_deref().unwrap_or("default");
            command(&mut stream, &format!("AUTH {user} {password}"));
        }
        command(&mut stream, &format!("SELECT {}", self.db));
        stream
    }
}

/// The server that the environment names.
fn given() -> Option<Server> {
    let url = std::env::var(URL).ok()?;
    let info = url.as_str().into_connection_info().unwrap_or_else(|error| panic!("{URL}: {error}"));
    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
        panic!("{URL} is not a plain redis:// URL")
    };
    let names_db =
        url.trim_end_matches('/').rsplit('/').next().is_some_and(|last| last.parse::<i64>().is_ok());
    let settings = info.redis_settings();
    let server = Server {
        host,
        port,
        username: settings.username().map(ToOwned::to_owned),
        password: settings.password().map(ToOwned::to_owned),
        db: if names_db { settings.db() } else { DB },
        lifeline: None,
    };
    let size = command(&mut server.connect(), "DBSIZE");
    assert!(size == ":0", "database {} of {URL} is not empty, and the tests would empty it", server.db);
    Some(server)
}

/// A server of our own, if there is a `redis-server`.
fn start() -> Option<Server> {
    let is_installed = |program: &str| {
        let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    if !is_installed("redis-server") {
        return None;
    }
    (0..STARTS_MAX).find_map(|_| {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).ok()?.port();
        // The shell keeps nothing open but its input, and ends the server when that closes.
        let mut shell = Command::new("sh")
            .args(["-c", "redis-server \"$@\" & exec >/dev/null; cat; kill $!; wait", "sh"])
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--databases", &DATABASES.to_string()])
            .args(["--enable-debug-command", "yes"])
            .arg("--dir")
            .arg(std::env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lifeline = shell.stdin.take();
        let log = BufReader::new(shell.stdout.take()?);
        // The log ends early if the port was taken in the meantime.
        log.lines().map_while(Result::ok).find(|line| line.contains("Ready to accept connections"))?;
        Some(Server { host: "127.0.0.1".into(), port, username: None, password: None, db: 0, lifeline })
    })
}

/// Sends an inline command whose reply is one line, and gives that line.
fn command(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("the server takes a command");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("the server answers");
    let reply = reply.trim_end().to_owned();
    // Not the whole line: there may be a password in it.
    let name = line.split(' ').next().unwrap_or_default();
    assert!(!reply.starts_with('-'), "{name}: {reply}");
    reply
}

#[test]
fn the_url_leads_to_what_is_lent() -> redis::RedisResult<()> {
    let Some(server) = borrow() else { return Ok(()) };
    command(&mut server.connect(), "SET here 1");
    let mut connection = redis::Client::open(server.url())?.get_connection()?;
    assert_eq!(redis::cmd("GET").arg("here").query::<i32>(&mut connection)?, 1);
    Ok(())
}
