//! The front door: a server, and all that can be done with it from outside. `inspect` and `prepare`
//! add what tests read of its data, and what they put there.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::ToSocketAddrs;

use crate::background::Background;
use crate::clock::{Clock, Timestamp};
use crate::cluster::{HashSlot, SlotMap};
use crate::command;
use crate::connection::Connection;
use crate::direct::DirectConnection;
use crate::engine::{DATABASES, Engine, Snapshot};
use crate::error::Error;
use crate::footprint::Footprint;
use crate::log::{Hook, LogHook, LogLine};
use crate::replication::Unit;
use crate::reply::Reply;
use crate::script::ScriptBudget;
#[cfg(unix)]
use crate::server::UnixServer;
use crate::server::{Server, serve_stream};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::topic::Topic;

/// An in-process Redis. Clones are handles to the same server.
#[derive(Clone)]
pub struct Emulator {
    pub(crate) shared: Arc<Shared>,
    /// The listener of [`Emulator::url`], started by the first call. It holds `shared` but no
    /// `Emulator`, so it ends with the last handle.
    background: Arc<OnceLock<Background>>,
}

impl Default for Emulator {
    fn default() -> Emulator {
        Emulator::new()
    }
}

impl Emulator {
    /// Creates an empty server on the system's clock.
    pub fn new() -> Emulator {
        Emulator::with_clock(Clock::system())
    }

    /// Creates an empty server on this clock.
    pub fn with_clock(clock: Clock) -> Emulator {
        Emulator::with_databases(clock, DATABASES)
    }

    /// Creates an empty server on this clock, with this many databases.
    ///
    /// # Panics
    /// If `databases` is 0.
    pub fn with_databases(clock: Clock, databases: usize) -> Emulator {
        assert!(databases > 0, "a server has at least one database");
        let engine = Engine::new(clock, databases);
        Emulator { shared: Arc::new(Shared::new(engine)), background: Arc::default() }
    }

    /// Opens a connection that runs each command where the command is awaited. With the feature
    /// `redis`, it is a connection of redis-rs.
    pub fn connection(&self) -> DirectConnection {
        DirectConnection::over(self.shared.clone())
    }

    /// Opens a connection as an in-memory byte stream.
    pub fn stream(&self) -> Stream {
        Stream::over(&self.shared)
    }

    /// Listens on a TCP address; port 0 takes a free one. Must run inside a tokio runtime with I/O
    /// and time.
    ///
    /// On tokio's multi-threaded runtime a script may run for any time. As in Redis, other clients
    /// then get `-BUSY` and can kill it. On a single-threaded runtime no client could kill it.
    /// There, a script that takes too many instructions gets an error.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn listen(&self, addr: impl ToSocketAddrs) -> io::Result<Server> {
        Server::bind(self.shared.clone(), addr).await
    }

    /// The URL that any Redis client can connect to, with or without a runtime.
    ///
    /// The first call starts a listener on a free port of this machine, on its own thread. The
    /// listener ends when the last handle to this emulator is dropped.
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
    /// No other thread sees tokio's clock while a runtime has paused it. If this is so at the first
    /// call and the server has [`Clock::tokio`], the listener is a task of this runtime. It ends
    /// with the runtime. There, a client must be async, or run in `spawn_blocking`. A client that
    /// blocks the runtime's thread would wait for ever.
    ///
    /// # Panics
    /// If the machine has no free port or no free thread, or if such a runtime has no I/O.
    pub fn url(&self) -> String {
        let start =
            || Background::start(self.shared.clone()).expect("the emulator needs a free port and a thread");
        self.background.get_or_init(start).url().to_owned()
    }

    /// A client of redis-rs for [`Emulator::url`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use emulator::{Clock, Emulator};
    /// use redis::AsyncCommands as _;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> redis::RedisResult<()> {
    /// // In `#[tokio::test(start_paused = true)]`: an hour is over as soon as all tasks wait.
    /// let emulator = Emulator::with_clock(Clock::tokio());
    /// let mut connection = emulator.client().get_multiplexed_async_connection().await?;
    /// () = connection.set_ex("session", "me", 60).await?;
    /// tokio::time::sleep(Duration::from_secs(3_600)).await;
    /// assert!(!connection.exists("session").await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// As [`Emulator::url`] does.
    #[cfg(feature = "redis")]
    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).expect("a listener has a valid URL")
    }

    /// Listens on a Unix socket at this path. Must run inside a tokio runtime with I/O and time.
    ///
    /// The socket gets these permissions before any client can connect (Redis: `unixsocketperm`).
    /// With `0o600` only the same user can connect. If no server listens on an existing socket, the
    /// socket is replaced.
    ///
    /// # Errors
    /// If a server listens at the path, if the file there is not a socket, or if a socket cannot be
    /// made.
    #[cfg(unix)]
    pub async fn listen_unix(
        &self,
        path: impl AsRef<std::path::Path>,
        permissions: u32,
    ) -> io::Result<UnixServer> {
        UnixServer::bind(self.shared.clone(), path.as_ref(), permissions).await
    }

    /// Serves one client on any stream until the connection closes, as [`listen`](Emulator::listen)
    /// does on a socket. It is for a fuzzer that decides when the stream is ready and when it
    /// fails.
    #[doc(hidden)]
    pub fn serve_stream(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        serve_stream(self.shared.clone(), stream)
    }

    /// Sets a parameter as a line of redis.conf does.
    ///
    /// It also sets a parameter that `CONFIG SET` refuses, such as `enable-debug-command`.
    /// [`reset`](Emulator::reset) restores this value. The number of databases is set by
    /// [`Emulator::with_databases`].
    ///
    /// # Errors
    /// Redis's texts, if there is no such parameter or it does not take this value.
    pub fn start_with(&self, parameter: &str, value: &str) -> Result<(), Error> {
        self.shared.engine().start_with(parameter, value)
    }

    /// Empties the server and sets its clock, as if the server had just been created.
    ///
    /// The settings are those that it [started with](Emulator::start_with). A reset is much cheaper
    /// than a new server: the Lua state and compiled scripts stay, where no client can see them.
    /// Connections stay open. Servers that replicate with this one are emptied, too, and each gets
    /// the role that it had at first.
    pub fn reset(&self, clock: Clock) {
        let mut engine = self.shared.engine();
        engine.reset(clock);
        engine.reset_network();
        engine.clients.count_anew();
    }

    /// Returns a copy of everything that the server holds, for [`Emulator::restore`].
    pub fn snapshot(&self) -> Snapshot {
        self.shared.engine().snapshot()
    }

    /// Whether a snapshot taken now holds the whole state of the server.
    ///
    /// If it does, an emulator that was [reset] and then restored from the snapshot behaves like
    /// this one, for new and for connected clients. The snapshot is not complete if, since the
    /// reset, one of these happened:
    ///
    /// - A client has changed the state of its connection, waits, or has read the server's
    ///   counters or the number of its connection.
    /// - A setting has changed, or a library was loaded.
    /// - A script has changed the state of Lua's libraries.
    ///
    /// [reset]: Emulator::reset
    pub fn is_snapshot_complete(&self) -> bool {
        self.shared.engine().is_snapshot_complete()
    }

    /// Restores a snapshot, which may come from another emulator. Deadlines are absolute, so the
    /// clock decides which keys have expired.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.shared.engine().restore(snapshot);
    }

    /// Restores only the data of a snapshot, as a server does that loads them from its disk.
    ///
    /// Unlike [`restore`], this is an execution: blocked clients get the keys that they wait for,
    /// and the footprint records a change of every database.
    ///
    /// [`restore`]: Emulator::restore
    pub fn restore_data(&self, snapshot: &Snapshot) {
        self.shared.engine().restore_data(snapshot);
    }

    /// Becomes a server that has followed another one and takes over, whatever it was before.
    ///
    /// It has the data and the functions of the snapshot, and then the [effects](Emulator::effects)
    /// that have arrived, but no scripts. So a test decides itself what a copy of a server lacks,
    /// where a [replica](Emulator::replica) has what its link lets through. Like
    /// [`restore_data`](Emulator::restore_data), this is an execution.
    pub fn take_over(&self, snapshot: &Snapshot, arrived: &[Arc<Unit>]) {
        command::take_over(&mut self.shared.engine(), snapshot, arrived);
    }

    /// Answers as a replica of the server at this address from now on, or as a primary, for a test
    /// that keeps the primary itself.
    ///
    /// Its link is up, but nothing arrives by it: what the replica has got is up to
    /// [`receive`](Emulator::receive). Like [`restore`](Emulator::restore), this is no execution.
    pub fn show_primary(&self, primary: Option<(&str, u16)>) {
        let primary = primary.map(|(host, port)| (host.to_owned(), port));
        self.shared.engine().show_primary(primary);
    }

    /// Has got what the snapshot has, but for scripts, and then these
    /// [effects](Emulator::effects), whatever it had before.
    ///
    /// Unlike [`take_over`](Emulator::take_over), it keeps its own scripts. Like
    /// [`restore_data`](Emulator::restore_data), this is an execution.
    pub fn receive(&self, snapshot: &Snapshot, arrived: &[Arc<Unit>]) {
        command::receive(&mut self.shared.engine(), snapshot, arrived);
    }

    /// Closes the connections of all subscribed, tracking or blocked clients, as a server does that
    /// shuts down.
    ///
    /// Messages sent to them before still arrive. Like a command, this leaves a footprint. Other
    /// connections stay open: only a client that waits for something notices a shutdown.
    pub fn hang_up(&self) {
        self.shared.engine().hang_up();
    }

    /// Runs everything that is due by the clock without any command: keys expire, and blocked
    /// clients reach their timeouts.
    ///
    /// A client that waits at a front end does this by itself, and so does the next command.
    pub fn tick(&self) {
        self.shared.engine().tick();
    }

    /// How many clients wait for the reply to a command: for a key, for a time, or for the end of a
    /// pause (`blocked_clients` of `INFO`).
    pub fn blocked_clients(&self) -> usize {
        self.shared.engine().waiting.blocked_clients()
    }

    /// Waits until at least so many clients wait for the reply to a command. For how long is up to
    /// the caller: see `tokio::time::timeout`.
    ///
    /// ```
    /// use emulator::Emulator;
    /// use redis::AsyncCommands as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redis::RedisResult<()> {
    /// let emulator = Emulator::new();
    /// let mut worker = emulator.connection();
    /// let job = tokio::spawn(async move { worker.blpop::<_, (String, String)>("jobs", 0.0).await });
    /// emulator.until_blocked(1).await; // no sleep: from here on, the worker waits
    /// () = emulator.connection().rpush("jobs", "one").await?;
    /// assert_eq!(job.await.unwrap()?.1, "one");
    /// # Ok(()) }
    /// ```
    pub async fn until_blocked(&self, clients: usize) {
        let client_blocked = self.shared.engine().client_blocked();
        loop {
            let mut client_blocked = pin!(client_blocked.notified());
            client_blocked.as_mut().enable();
            if clients <= self.blocked_clients() {
                return;
            }
            client_blocked.await;
        }
    }

    /// Allows every client to use the command `EMULATOR`, which moves the clock, places faults and
    /// empties the server.
    ///
    /// `EMULATOR HELP` describes it. Without this call the command does not exist, as in Redis.
    pub fn allow_control(&self) {
        let mut engine = self.shared.engine();
        engine.control = Some(engine.clock().view());
        engine.keep_journal();
    }

    /// Sets the budget of each script and each function from now on. Exceeding it is an error.
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
        self.shared.engine().set_script_budget(budget);
    }

    /// Calls the hook with every line that scripts log with `redis.log` and that `loglevel` lets
    /// through.
    ///
    /// The hook is active until it is dropped or replaced by another. Without a hook the lines are
    /// lost. The server waits while the hook runs, so the hook must not call the emulator.
    ///
    /// ```
    /// # let emulator = emulator::Emulator::new();
    /// let _hook = emulator.on_log(|line| println!("{line}"));
    /// # _ = emulator.connection().execute(&[b"EVAL", b"redis.log(redis.LOG_NOTICE, 'hello')", b"0"]);
    /// ```
    pub fn on_log(&self, hook: impl Fn(&LogLine) + Send + Sync + 'static) -> LogHook {
        let hook: Arc<Hook> = Arc::new(hook);
        self.shared.engine().on_log = Some(Arc::downgrade(&hook));
        LogHook { _alive: hook }
    }

    /// Is the server `own` of a cluster until the next [reset](Emulator::reset), for a test that
    /// keeps the other servers itself.
    ///
    /// Where the servers of [`Emulator::cluster`] reach each other, this one reaches none, and has
    /// no replica. Server n has the port 6379 + n in redirections. A message that is published
    /// reaches the own subscribers, and is one of the [effects](Emulator::effects).
    ///
    /// Like [`restore`](Emulator::restore), this is no execution.
    pub fn serve_slots(&self, own: usize, slot_map: &SlotMap) {
        self.shared.engine().serve_slots(own, slot_map);
    }

    /// Has lost slots to other servers of its cluster. Their keys are removed, and clients that
    /// wait for them are redirected.
    pub fn lose_slots(&self, own: usize, slot_map: &SlotMap) {
        self.shared.engine().execution(None, |engine| {
            engine.lose_slots(own, slot_map);
            Reply::NOTHING
        });
    }

    /// Sends a message to the subscribers of a channel, as if it had been published at another
    /// server of the cluster.
    pub fn deliver(&self, channel: &Bytes, message: &Bytes) {
        self.shared.engine().execution(None, |engine| {
            engine.publish(Topic::Channel, channel, message);
            Reply::NOTHING
        });
    }

    /// Takes the keys of a slot from a snapshot of another server, which it took `at` a time of its
    /// clock. They live as long as they would have there.
    pub fn take_slot(&self, slot: HashSlot, from: &Snapshot, at: Timestamp) {
        self.shared.engine().execution(None, |engine| {
            engine.take_slot(slot, from, at);
            Reply::NOTHING
        });
    }

    /// Keeps the effects of each execution from now on, for [`Emulator::effects`].
    pub fn keep_effects(&self) {
        self.shared.engine().keep_effects();
    }

    /// What replicas would get of the last command, transaction or script: effects with absolute
    /// deadlines, in units that they apply together.
    ///
    /// Keys that were removed at their deadlines before are units of their own, and so are the
    /// commands of blocked clients that were served after.
    pub fn effects(&self) -> Vec<Arc<Unit>> {
        self.shared.engine().units().to_vec()
    }

    /// Stops recording footprints, for a server that is not explored: recording costs time.
    pub fn leave_no_footprint(&self) {
        let mut engine = self.shared.engine();
        engine.leaves_no_footprint = true;
        engine.trim_footprint();
    }

    /// Returns what the last command, transaction or script touched.
    pub fn footprint(&self) -> Footprint {
        self.shared.engine().footprint().clone()
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator").finish_non_exhaustive()
    }
}

impl Connection {
    /// Opens a connection as if a client had just connected.
    pub fn open(emulator: &Emulator) -> Connection {
        Connection::over(&emulator.shared)
    }
}
