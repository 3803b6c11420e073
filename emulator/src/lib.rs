//! A Redis 7.0 server inside your process: real RESP, real Lua 5.1, and a clock that you own.
//!
//! ```
//! use std::time::Duration;
//! use emulator::{Clock, Emulator};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> redis::RedisResult<()> {
//! let clock = Clock::manual();
//! let emulator = Emulator::with_clock(clock.clone());
//! let mut connection = emulator.connection();
//!
//! let set = redis::cmd("SET").arg(&["lock", "me", "NX", "PX", "10000"]).to_owned();
//! assert_eq!(set.query_async::<bool>(&mut connection).await?, true);
//! assert_eq!(set.query_async::<bool>(&mut connection).await?, false);
//!
//! clock.advance(Duration::from_millis(10_001)); // no waiting: the lease has run out
//! assert_eq!(set.query_async::<bool>(&mut connection).await?, true);
//! # Ok(()) }
//! ```
//!
//! One engine has three front ends: [`Emulator::connection`] for redis-rs, with no bytes and no task; [`Emulator::stream`] for any client
//! that takes a stream; [`Emulator::listen`] for any client at all. Behind each of them, a command, a transaction and a script are
//! atomic on whatever runtime, and leave a [`Footprint`].
//!
//! # Architecture
//!
//! The way of a request, file by file:
//!
//! 1. `server` accepts sockets and moves bytes; `stream` does the same in memory. `connection` does no I/O: it takes bytes, asks
//!    [`resp`] for the arguments of the next request, and gives back the bytes of replies. `direct` gets the arguments from redis-rs.
//! 2. `shared` hands the engine to one caller at a time. While a long script has it, others get their turn between two steps of the
//!    script, or `-BUSY` (`busy`).
//! 3. `command` finds the row of the command in the table of its group and checks, in one fixed order: arity, authentication, pub/sub
//!    mode, `MULTI`, `command/admission.rs` (memory, replicas), `CLIENT PAUSE`. Then it runs the function of the row.
//! 4. The function reads and changes the `keyspace`, which records the `footprint` of whatever it touches, and returns a [`Reply`].
//! 5. `engine` ends the execution: it publishes keyspace events, serves blocked clients, notices watched and tracked keys, and hands the
//!    outbox to the clients.
//! 6. `resp` encodes the reply.
//!
//! A script takes the same way from step 3 on: `redis.call` in `script/redis.rs` calls `command` with the engine that was lent to the
//! script (`engine/loan.rs`).
//!
//! The modules, in the order in which they may import each other, a later one from an earlier one:
//!
//! | module | what it has |
//! | --- | --- |
//! | `error` | Redis's error texts, byte for byte |
//! | `reply` | what a command answers, before it is bytes |
//! | [`resp`] | requests from bytes, replies to bytes; knows no command |
//! | `clock` | the one source of time, and views of it that are wrong |
//! | `glob` | patterns of `KEYS` and `PSUBSCRIBE` |
//! | `log` | log lines, and who receives them |
//! | `long_double` | the floating point of `INCRBYFLOAT` |
//! | `footprint` | what an execution read and changed, and which footprints conflict |
//! | `keyspace` | databases, values, deadlines; knows no client and reads no clock |
//! | `config` | the parameters of `CONFIG` |
//! | `stats` | counters for `INFO`, `LATENCY` and `SLOWLOG` |
//! | `script` | Lua: sandbox, budget, libraries, conversions; knows no command |
//! | `client` | what the server knows of each connection |
//! | `fault` | faults that a test places before commands |
//! | `pubsub` | subscriptions |
//! | `tracking` | client-side caching |
//! | `busy` | the long script, as other clients see it |
//! | `engine` | all of the above as one server |
//! | [`command`] | the table of commands, and the one path through it |
//! | `shared` | the engine behind its lock |
//! | `connection`, `direct`, `stream`, `server`, `background` | the front ends |
//!
//! # Invariants
//!
//! - No command records by hand which keys it touched: the keyspace does. What a command touches outside of the keyspace (scripts,
//!   channels, settings, clients) is recorded where the engine changes it.
//! - One execution sees one instant: the clock is read when it begins.
//! - `connection` does no I/O, and only `server` knows sockets.
//! - `unsafe` code is forbidden. Lua's C code is in the process all the same; `.github/SECURITY.md` says what that means.

mod error;
mod reply;
pub mod resp;
mod clock;
mod glob;
mod log;
mod long_double;
mod footprint;
mod keyspace;
mod config;
mod stats;
mod script;
mod client;
mod fault;
mod pubsub;
mod tracking;
mod busy;
mod engine;
pub mod command;
mod shared;
mod connection;
mod direct;
mod stream;
mod server;
mod background;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::ToSocketAddrs;

pub use clock::{Clock, DRIFT_PPM, Timestamp};
pub use connection::Connection;
pub use direct::DirectConnection;
pub use engine::Snapshot;
pub use error::Error;
pub use fault::{Effect, Fault};
pub use footprint::{Access, Footprint, Part, Place, Resource};
pub use log::{LogHook, LogLevel, LogLine};
pub use reply::Reply;
pub use script::ScriptBudget;
pub use server::Server;
#[cfg(unix)]
pub use server::UnixServer;
pub use stream::Stream;

use background::Background;
use engine::Engine;
use keyspace::{Text, Value};
use shared::Shared;

/// How many databases an emulator has unless told otherwise; as Redis.
pub const DATABASES: usize = 16;

/// An in-process Redis. Clones are handles to the same server.
#[derive(Clone)]
pub struct Emulator {
    shared: Arc<Shared>,
    /// Listens since somebody asked for a URL. It knows what is shared, but not this: so it ends with the last handle.
    background: Arc<OnceLock<Background>>,
}

impl Default for Emulator {
    fn default() -> Emulator {
        Emulator::new()
    }
}

impl Emulator {
    /// An empty server on the system's clock.
    pub fn new() -> Emulator {
        Emulator::with_clock(Clock::system())
    }

    /// An empty server on this clock.
    pub fn with_clock(clock: Clock) -> Emulator {
        Emulator::with_databases(clock, DATABASES)
    }

    /// An empty server on this clock, with this many databases.
    ///
    /// # Panics
    /// Without a single database.
    pub fn with_databases(clock: Clock, databases: usize) -> Emulator {
        assert!(databases > 0, "a server has at least one database");
        let engine = Engine::new(clock, databases);
        Emulator { shared: Arc::new(Shared::new(engine)), background: Arc::default() }
    }

    /// A connection for redis-rs that runs each command where it is awaited.
    pub fn connection(&self) -> DirectConnection {
        DirectConnection::open(self)
    }

    /// A connection as an in-memory byte stream.
    pub fn stream(&self) -> Stream {
        Stream::open(self)
    }

    /// Listens on a TCP address; port 0 takes a free one. Must run inside a tokio runtime with I/O and time.
    ///
    /// On tokio's multi-threaded runtime a script may take as long as it likes; as in Redis, others are then told that the server
    /// is busy, and can kill it. On the other kind nobody could: there a script that takes too many instructions is an error.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn listen(&self, addr: impl ToSocketAddrs) -> io::Result<Server> {
        Server::bind(self.shared.clone(), addr).await
    }

    /// Where any Redis client can connect to, with or without a runtime: the first call has it listen on a free port of this
    /// machine, on a thread of its own, until the last handle to this emulator is dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use emulator::{Clock, Emulator};
    /// use redis::Commands as _;
    ///
    /// # fn main() -> redis::RedisResult<()> {
    /// let clock = Clock::manual();
    /// let emulator = Emulator::with_clock(clock.clone());
    /// let mut connection = redis::Client::open(emulator.url())?.get_connection()?;
    /// () = connection.set_ex("session", "me", 60)?;
    /// assert_eq!(emulator.ttl("session"), Some(Duration::from_secs(60)));
    /// clock.advance(Duration::from_secs(61));
    /// assert!(!connection.exists("session")?);
    /// # Ok(()) }
    /// ```
    ///
    /// A [`Clock::tokio`] of a paused runtime is not seen from that thread: for that there are the other doors.
    ///
    /// # Panics
    /// The machine has no port or no thread left.
    pub fn url(&self) -> String {
        let start = || Background::start(self.shared.clone()).expect("a port and a thread can be had");
        self.background.get_or_init(start).url().to_owned()
    }

    /// A client of redis-rs for [`Emulator::url`].
    ///
    /// # Panics
    /// The machine has no port or no thread left.
    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).expect("the URL of a listener is one")
    }

    /// Listens on a Unix socket at this path, which has these permissions before anybody can connect (Redis: `unixsocketperm`);
    /// `0o600` lets in the same user alone. A socket on which nobody listens any more is replaced. Must run inside a tokio runtime
    /// with I/O and time.
    ///
    /// # Errors
    /// Somebody listens there, there is something else than a socket, or a socket cannot be made.
    #[cfg(unix)]
    pub async fn listen_unix(
        &self,
        path: impl AsRef<std::path::Path>,
        permissions: u32,
    ) -> io::Result<UnixServer> {
        UnixServer::bind(self.shared.clone(), path.as_ref(), permissions).await
    }

    /// Serves one client at any stream, as [`listen`](Emulator::listen) does at a socket, until the connection closes: for a
    /// fuzzer that says when the stream is ready, and when it fails.
    #[doc(hidden)]
    pub fn serve_stream(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        server::serve_stream(self.shared.clone(), stream)
    }

    /// Sets a parameter as a line of redis.conf does: also one that `CONFIG SET` refuses, such as `enable-debug-command`, and
    /// [`reset`](Emulator::reset) comes back to it. How many databases there are is said to [`Emulator::with_databases`].
    ///
    /// # Errors
    /// There is no such parameter, or it does not take this value: Redis's texts.
    pub fn start_with(&self, parameter: &str, value: &str) -> Result<(), Error> {
        self.shared.engine().start_with(parameter, value)
    }

    /// Back to an empty server on this clock, as if just made, with the settings that it [started with](Emulator::start_with). Much
    /// cheaper than a new one: the Lua state and what it has compiled stay, where no client can see them. Connections stay open.
    pub fn reset(&self, clock: Clock) {
        let mut engine = self.shared.engine();
        engine.reset(clock);
        engine.clients.count_anew();
    }

    /// A copy of everything that the server holds, to come back to.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.engine().snapshot()
    }

    /// Whether a copy, restored on an emulator that was [reset], is this one to everybody who connects and to everybody who is
    /// connected: since then nobody has said anything of a connection, waits, or was told what the server counts; there is no other
    /// setting, no library, and nothing that a script told the libraries of Lua.
    ///
    /// [reset]: Emulator::reset
    pub fn is_snapshot_complete(&self) -> bool {
        self.shared.engine().is_snapshot_complete()
    }

    /// Back to a copy, which may come from another emulator. Deadlines are absolute, so the clock decides what has expired.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.shared.engine().restore(snapshot);
    }

    /// Brings the data of a copy back, and nothing else of it, as a server does that finds them on its disk. Unlike [`restore`],
    /// it is something that happens: whoever waits for a key gets it, and the footprint says that every database has changed.
    ///
    /// [`restore`]: Emulator::restore
    pub fn restore_data(&self, snapshot: &Snapshot) {
        self.shared.engine().restore_data(snapshot);
    }

    /// Closes the connections of all clients that are subscribed or blocked, as a server does that goes down: they have something to
    /// hear of it. What had been sent to them before arrives. Like a command, it leaves a footprint.
    pub fn hang_up(&self) {
        self.shared.engine().hang_up();
    }

    /// Lets happen what is due by the clock without any command: keys expire, those who have waited long enough are told so.
    /// Whoever waits at one of the doors does so by itself, and so does the next command.
    pub fn tick(&self) {
        self.shared.engine().tick();
    }

    /// Places a fault in the way of commands, behind those that were placed before.
    pub fn place(&self, fault: Fault) {
        self.shared.engine().faults.place(fault);
    }

    /// Forgets the faults that have not struck.
    pub fn clear_faults(&self) {
        self.shared.engine().faults.clear();
    }

    /// Lets every client move the clock, place faults and empty the server by the command `EMULATOR`, for which `EMULATOR HELP` has
    /// help. Without this there is no such command, as in Redis.
    pub fn allow_control(&self) {
        let mut engine = self.shared.engine();
        engine.control = Some(engine.clock().view());
    }

    /// What each script and each function may take from now on, before it is an error.
    ///
    /// ```
    /// use emulator::{Emulator, ScriptBudget};
    ///
    /// let emulator = Emulator::new();
    /// emulator.script_budget(ScriptBudget { commands_max: 100, ..ScriptBudget::default() });
    /// let reply = emulator.connection().execute(&[b"EVAL", b"while redis.call('INCR', 'n') do end", b"0"]);
    /// assert!(format!("{reply:?}").contains("it called more than 100 commands"));
    /// ```
    pub fn script_budget(&self, budget: ScriptBudget) {
        let mut engine = self.shared.engine();
        engine.scripts.set_budget(budget);
        engine.functions.set_budget(budget);
    }

    /// Has every line be heard that scripts log with `redis.log` and that `loglevel` lets through, until the hook is dropped or
    /// there is another. Without one nobody hears them. The server waits while a line is heard, so whoever hears it must not ask the
    /// emulator for anything.
    ///
    /// ```
    /// # let emulator = emulator::Emulator::new();
    /// let _hook = emulator.on_log(|line| println!("{line}"));
    /// # _ = emulator.connection().execute(&[b"EVAL", b"redis.log(redis.LOG_NOTICE, 'hello')", b"0"]);
    /// ```
    pub fn on_log(&self, hook: impl Fn(&LogLine) + Send + Sync + 'static) -> LogHook {
        let hook: Arc<log::Hook> = Arc::new(hook);
        self.shared.engine().on_log = Some(Arc::downgrade(&hook));
        LogHook { _alive: hook }
    }

    /// Has executions leave no footprint from now on: for a server that nobody explores, as that costs some time.
    pub fn leave_no_footprint(&self) {
        let mut engine = self.shared.engine();
        engine.leaves_no_footprint = true;
        engine.trim_footprint();
    }

    /// What the last command, transaction or script touched.
    pub fn footprint(&self) -> Footprint {
        self.shared.engine().footprint().clone()
    }

    /// The nearest deadline of a key after `after`, in any database.
    pub fn next_deadline(&self, after: Timestamp) -> Option<Timestamp> {
        self.shared.engine().keyspace.next_deadline(after.millis()).map(Timestamp::from_millis)
    }

    /// The string at a key of database 0. Looking from here touches nothing: no footprint, no expiry.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.peek(key, |value| if let Value::String(bytes) = value { Some(bytes.to_bytes()) } else { None })
            .flatten()
    }

    /// Whether database 0 has this key.
    pub fn exists(&self, key: &str) -> bool {
        self.peek(key, |_| ()).is_some()
    }

    /// The time that is left to a key of database 0, by this server's clock; `None` if there is no such key, or no end to it.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        let engine = self.shared.engine();
        let now = engine.now();
        let deadline = engine.keyspace.peek_deadline(0, key.as_bytes(), now)?;
        // In milliseconds, as Redis counts: a deadline may be later than any instant in microseconds.
        let left_ms = deadline.saturating_sub(now.millis());
        Some(Duration::from_millis(left_ms.try_into().unwrap_or_default()))
    }

    /// The keys of database 0 that match a pattern of `KEYS`, in order.
    pub fn keys(&self, pattern: &str) -> Vec<Bytes> {
        let engine = self.shared.engine();
        let keys = engine.keyspace.peek_keys(0, engine.now());
        let matching = keys.filter(|key| glob::selects(pattern.as_bytes(), key));
        let mut keys: Vec<Bytes> = matching.map(Text::to_bytes).collect();
        keys.sort_unstable();
        keys
    }

    /// The score of a member of the sorted set at a key of database 0.
    pub fn score(&self, key: &str, member: &str) -> Option<f64> {
        self.peek(
            key,
            |value| if let Value::ZSet(zset) = value { zset.score(member.as_bytes()) } else { None },
        )
        .flatten()
    }

    /// The value of a field of the hash at a key of database 0.
    pub fn field(&self, key: &str, field: &str) -> Option<Bytes> {
        self.peek(key, |value| {
            if let Value::Hash(hash) = value { hash.get(field.as_bytes()).map(Text::to_bytes) } else { None }
        })
        .flatten()
    }

    /// A key of a database as one line of readable text: `lock = "A1" (10000 ms left)`.
    pub fn describe(&self, db: usize, key: &[u8]) -> Option<String> {
        let engine = self.shared.engine();
        engine.keyspace.describe(db, key, engine.now())
    }

    /// A database as readable text: one line a key, sorted by key.
    pub fn dump(&self, db: usize) -> String {
        let engine = self.shared.engine();
        engine.keyspace.dump(db, engine.now())
    }

    fn peek<R>(&self, key: &str, look: impl FnOnce(&Value) -> R) -> Option<R> {
        let engine = self.shared.engine();
        engine.keyspace.peek(0, key.as_bytes(), engine.now()).map(look)
    }
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").finish_non_exhaustive()
    }
}

/// What C calls a space: `\v` is one, too.
pub(crate) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The text behind the spaces in front of it.
pub(crate) fn trim_start(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| is_space(byte)).count();
    &text[spaces..]
}

/// Redis's strict 64-bit integers: no sign but `-`, no leading zeros, no spaces.
pub(crate) fn parse_integer(digits: &[u8]) -> Option<i64> {
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    let is_canonical = match unsigned {
        [b'0'] => digits.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_canonical { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}
