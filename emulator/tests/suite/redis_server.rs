//! Finds the real Redis server for comparisons, and lends it to one test at a time.
//!
//! `LOCKSTEP_REDIS_URL` names a server: `redis://localhost:6379/9`. Its database (15 if the URL
//! names none) must be empty and belongs to the tests while they run. Each test empties it before
//! and after, and also clears the script cache. The tests touch nothing else on that server.
//!
//! Without the variable, a `redis-server` on the `PATH` is started on a free port, without files on
//! disk. If there is neither, tests print one line and pass. In CI (`CI` is set) they fail.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo as _};

const URL: &str = "LOCKSTEP_REDIS_URL";
/// The database if the URL names none: the last one of a server with default settings.
const DB: i64 = 15;
/// The number of databases of a server that the tests start.
const DATABASES: i64 = 16;
/// The most attempts to start a server, if another process takes its port first.
const STARTS_MAX: usize = 5;
/// A shell that runs its arguments. It keeps only its input open, and ends them when that closes.
const UNTIL_INPUT_ENDS: &str = r#"cd "$(mktemp -d)" || exit
"$@" & exec >/dev/null
cat; kill $!; wait; rm -r "$PWD""#;
/// The most time for a reply: only a server that hangs takes longer.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// The real server, lent to one test. No other test uses it until this is dropped.
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
    /// A server that the tests started ends when this pipe closes. That happens whenever the test
    /// process ends.
    lifeline: Option<ChildStdin>,
}

/// Waits until the server is free, empties it and lends it. Returns `None` and prints a line on
/// stderr if there is none.
///
/// # Panics
/// If there is no server in CI, or if the database of a given server is not empty.
#[track_caller]
pub fn borrow() -> Option<RedisServer> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    // A poisoned lock means that another test failed, which reports that itself.
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
    /// The URL for redis-rs.
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

    /// Whether the tests started this server and may use all its databases.
    pub fn is_ours(&self) -> bool {
        self.server.lifeline.is_some()
    }

    /// A connection for plain bytes to the tests' database.
    pub fn connect(&self) -> TcpStream {
        self.server.connect()
    }

    /// A connection that has sent nothing yet, not even a password.
    pub fn connect_silently(&self) -> TcpStream {
        self.server.open()
    }

    /// Empties the databases that belong to the tests.
    pub fn clear(&self) {
        let flush = if self.is_ours() { "FLUSHALL" } else { "FLUSHDB" };
        let mut connection = self.connect();
        command(&mut connection, flush);
        command(&mut connection, "SCRIPT FLUSH");
        command(&mut connection, "FUNCTION FLUSH");
    }
}

/// A whole server for one test.
pub struct OwnServer(Server);

impl OwnServer {
    /// A connection for plain bytes.
    pub fn connect(&self) -> TcpStream {
        self.0.connect()
    }

    /// The address of the server.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.0.port).into()
    }

    /// Starts another server after this one has crashed.
    pub fn restart(&mut self) {
        self.0 = start().expect("what could be started once can be again");
    }
}

/// Starts this many servers, which allow `DEBUG`. Returns none, and prints a line on stderr, if no
/// `redis-server` is installed.
#[track_caller]
pub fn start_own(count: usize) -> Vec<OwnServer> {
    let servers: Vec<_> = (0..count).map_while(|_| start().map(OwnServer)).collect();
    if servers.is_empty() {
        say_it_is_missing("install redis-server");
    }
    servers
}

/// A server of a cluster, for one test, with its port for the other servers.
pub struct ClusterServer(pub OwnServer, pub u16);

/// Starts this many servers that may form a cluster, with their files in a folder. Returns none,
/// and prints a line on stderr, if no `redis-server` is installed.
#[track_caller]
pub fn start_cluster_servers(count: usize, folder: &Path) -> Vec<ClusterServer> {
    let servers = (0..count).map_while(|nth| {
        let bus_port = free_port()?;
        let (nodes, bus) = (format!("nodes-{nth}.conf"), bus_port.to_string());
        let args = [
            ["--cluster-enabled", "yes"],
            ["--cluster-config-file", &nodes],
            ["--cluster-port", &bus],
            ["--cluster-node-timeout", "15000"],
            ["--repl-diskless-sync-delay", "0"],
            ["--dir", &folder.to_string_lossy()],
        ];
        let server = if is_installed() { start_with(args.as_flattened()) } else { None };
        server.map(|server| ClusterServer(OwnServer(server), bus_port))
    });
    let servers: Vec<_> = servers.collect();
    if servers.is_empty() {
        say_it_is_missing("install redis-server");
    }
    servers
}

#[track_caller]
pub(crate) fn say_it_is_missing(remedy: &str) {
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

/// The server that the environment variable names.
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

/// A server that the tests start, if `redis-server` is installed.
fn start() -> Option<Server> {
    if is_installed() { start_with(&[]) } else { None }
}

fn is_installed() -> bool {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// A server with more arguments. There must be a `redis-server`.
fn start_with(args: &[&str]) -> Option<Server> {
    let databases = DATABASES.to_string();
    let usual = [
        &["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"][..],
        &["--databases", &databases, "--enable-debug-command", "yes"],
    ];
    launch(&["redis-server"], &[&usual.concat(), args].concat(), "Ready to accept connections")
}

/// Starts a program on a free port in a folder of its own, so that it loads nothing that another
/// one has left. Waits until its log has a line with this text.
fn launch(program: &[&str], args: &[&str], ready: &str) -> Option<Server> {
    (0..STARTS_MAX).find_map(|_| {
        let port = free_port()?;
        let mut shell = Command::new("sh")
            .args(["-c", UNTIL_INPUT_ENDS, "sh"])
            .args(program)
            .args(["--port", &port.to_string()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lifeline = shell.stdin.take();
        let log = BufReader::new(shell.stdout.take()?);
        // The log ends early if another process took the port.
        log.lines().map_while(Result::ok).find(|line| line.contains(ready))?;
        Some(Server { host: "127.0.0.1".into(), port, username: None, password: None, db: 0, lifeline })
    })
}

fn free_port() -> Option<u16> {
    Some(TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).ok()?.port())
}

/// A Sentinel for one test. It watches nothing yet.
pub struct OwnSentinel {
    server: Server,
    config: PathBuf,
}

impl OwnSentinel {
    /// Starts a Sentinel. `None` if none is installed.
    pub fn start() -> Option<OwnSentinel> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("lockstep-sentinel-{}-{nth}.conf", std::process::id());
        let config = std::env::temp_dir().join(name);
        // A Sentinel writes this file, too.
        std::fs::write(&config, "").ok()?;
        let server =
            launch(&["redis-sentinel", config.to_str()?], &["--bind", "127.0.0.1"], "Sentinel ID is");
        let server = server.or_else(|| {
            _ = std::fs::remove_file(&config);
            None
        });
        Some(OwnSentinel { server: server?, config })
    }

    /// A connection for plain bytes.
    pub fn connect(&self) -> TcpStream {
        self.server.open()
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.server.port
    }
}

impl Drop for OwnSentinel {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.config);
    }
}

/// Sends an inline command and returns its reply of one line.
fn command(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("the server takes a command");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("the server answers");
    let reply = reply.trim_end().to_owned();
    // Shows only the command's name, because the line may contain a password.
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
