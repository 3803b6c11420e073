//! The state of the engine. These types contain each other: a script borrows the engine from the
//! engine, and a blocked command runs on it again.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use indexmap::{IndexMap, IndexSet};
use tokio::sync::Notify;

use super::departed::Departed;
use super::outbox::Outbox;
use super::output_limit::OutputLimit;
use super::watch::Watches;
use crate::busy::Busy;
use crate::client::{Client, Clients, Slot};
use crate::clock::{Clock, Timestamp};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::error::Error;
use crate::fault::Faults;
use crate::keyspace::{Hasher, Keyspace, Value};
use crate::log::Hook;
use crate::pubsub::PubSub;
use crate::replication::{Outgoing, Replication, Unit};
use crate::reply::Reply;
use crate::script::{Functions, Rules, ScriptCall, Scripts};
use crate::sentinel::Sentinel;
use crate::stats::Stats;
use crate::tracking::Tracker;

/// The state of one server.
///
/// The caller that holds the engine runs commands; that makes them atomic. Commands get the engine
/// in a box, so that lending it to a script moves only a pointer.
#[derive(Default)]
pub struct Engine {
    /// The databases.
    pub keyspace: Keyspace,
    /// The settings.
    pub config: Config,
    /// The settings with which the server started. A reset restores them.
    pub(super) started_with: Config,
    /// The counters of the server.
    pub stats: Stats,
    /// The script cache.
    pub(super) scripts: Scripts,
    /// The libraries of functions.
    pub(super) functions: Functions,
    /// The host of the last script, to be used again: it is large.
    pub(super) host: Option<Box<ScriptHost>>,
    /// The running script, as other clients see it.
    pub busy: Arc<Busy<Job>>,
    /// Whether a script without a time limit has the engine on loan. A command that runs now runs
    /// between two steps of that script.
    pub is_amid_script: bool,
    /// The connections.
    pub clients: Clients,
    /// The clients whose connections have closed, but which the engine has not closed yet.
    pub departed: Arc<Departed>,
    /// The subscribers of channels and patterns.
    pub(super) pubsub: PubSub,
    /// The watched keys and the clients that watch them.
    pub watches: Watches,
    /// The blocked commands.
    pub waiting: Waiting,
    /// The clients that get a message when a key changes which they have read.
    pub tracker: Tracker,
    /// The part of the server in replication.
    pub replication: Replication,
    /// The cluster, as this server sees it. `None` if it is part of no cluster.
    pub cluster: Option<Box<Cluster>>,
    /// The state of a Sentinel, if this server is one. It has no data then.
    pub sentinel: Option<Box<Sentinel>>,
    /// How often the server has been restarted.
    pub(super) restarts: u64,
    /// The effects of the running command.
    pub outgoing: Outgoing,
    /// The effects of the last execution, if they are kept.
    pub(super) units: Vec<Arc<Unit>>,
    /// The end of `CLIENT PAUSE`, and the commands that it holds back.
    pub pause: Option<(Timestamp, PauseMode)>,
    /// The end of `DEBUG SLEEP`. Until then, the server seems to stand still.
    pub asleep_until: Option<Timestamp>,
    /// The password that `AUTH` must give. If it is empty, no password is needed.
    pub password: Bytes,
    /// The clients that get every command: `MONITOR`.
    pub monitors: Vec<Slot>,
    /// The commands that scripts have called, if they are kept.
    pub script_calls: Option<Vec<ScriptCall>>,
    /// Whether no caller needs the footprint of an execution.
    pub leaves_no_footprint: bool,
    /// The hook that gets the lines of the log.
    pub on_log: Option<Weak<Hook>>,
    /// The commands that the emulator lacks, as far as the log tells of them.
    pub logged_missing: BTreeSet<&'static str>,
    /// The limits of unread output: first for clients without subscriptions, then for subscribers.
    pub(super) output_limits: [OutputLimit; 2],
    /// The next time at which clients are checked for idleness and unread output.
    pub(super) client_check_at: Option<Timestamp>,
    /// Whether memory was lacking when the command began. If so, commands that may need more memory
    /// are refused.
    pub lacked_memory: bool,
    /// The faults that are to happen.
    pub faults: Faults,
    /// If the command `EMULATOR` is allowed: the clock at the time of the permission.
    pub control: Option<Clock>,
    /// The messages to clients. They are delivered when the execution is over.
    pub outbox: Outbox,
    pub(super) clock: Clock,
    /// The clock reading that serves all requests which run in sequence now. It is not set if the
    /// clock may be moved between them.
    pub(super) requests_at: Option<Timestamp>,
    /// The next wake-up: when something happens without a command. For example, a key expires or a
    /// blocked command times out.
    pub(super) next_wake_up: Option<Timestamp>,
    /// Notified when the next wake-up moves to an earlier time.
    pub(super) wake_up_moved: Arc<Notify>,
    /// Notified when a client blocks.
    pub(super) client_blocked: Arc<Notify>,
}

/// The commands that `CLIENT PAUSE` holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// Only commands that may write.
    Write,
    /// All commands.
    All,
}

/// A request to the engine that waits while a script has the engine.
pub type Job = Box<dyn FnOnce(&mut Box<Engine>) + Send>;

/// All blocked commands.
#[derive(Default)]
pub struct Waiting {
    pub(super) blocked: IndexMap<Slot, Blocked, Hasher>,
    /// The clients that wait for each key, in the order of arrival.
    pub(super) by_key: IndexMap<(usize, Bytes), IndexSet<Slot, Hasher>, Hasher>,
    pub(super) deadlines: BTreeSet<(Timestamp, Slot)>,
    /// The clients that only wait until others have blocked.
    pub(super) observers: Vec<Slot>,
    /// The clients that wait for acknowledgements of replicas.
    pub(super) for_replicas: Vec<Slot>,
}

/// A blocked command.
#[derive(Clone)]
pub struct Blocked {
    /// The event that ends the waiting.
    pub until: Until,
    /// The instant at which the command times out.
    pub deadline: Option<Timestamp>,
    /// The reply after a timeout.
    pub on_timeout: Reply,
    /// The function that runs when the event may have happened.
    pub attempt: Attempt,
}

/// The event for which a command waits.
#[derive(Clone)]
pub enum Until {
    /// One of these keys of a database appears, and its value is of the right kind.
    Key {
        /// The index of the database.
        db: usize,
        /// The keys.
        keys: Vec<Bytes>,
        /// Whether a value is of the kind that the command waits for.
        is_kind: fn(&Value) -> bool,
    },
    /// `CLIENT PAUSE` or `DEBUG SLEEP` ends.
    Unpaused,
    /// The deadline, at which the command arrives: a fault delayed it.
    Arrival,
    /// Only the deadline.
    Deadline,
    /// So many replicas have acknowledged an offset.
    Acknowledged {
        /// The number of replicas.
        replicas: usize,
        /// The offset.
        offset: u64,
    },
    /// So many other clients have a blocked command, for a test that waits for them.
    OthersBlock {
        /// The number of clients.
        clients: usize,
        /// The end of the wait on the clock with which the server started, which no client moves.
        patience: Timestamp,
    },
}

/// Tries a blocked command again, with a key that appeared or after the end of a pause. Returns
/// `None` if the command must wait longer.
pub type Attempt =
    Arc<dyn Fn(&mut Box<Engine>, &mut Box<Client>, &[u8]) -> Result<Option<Reply>, Error> + Send + Sync>;

/// The engine on loan to a running script, with the client for which the script calls commands.
#[derive(Default)]
pub struct ScriptHost {
    pub(super) engine: Box<Engine>,
    pub(super) client: Box<Client>,
    pub(super) commands: Option<&'static dyn Commands>,
}

/// How the commands of a script are found and run.
pub trait Commands: Send + Sync {
    /// Runs a command for a client, inside the execution of the script that calls it and under its
    /// rules.
    fn call(
        &'static self,
        engine: &mut Box<Engine>,
        client: &mut Box<Client>,
        argv: &[&[u8]],
        rules: Rules,
    ) -> Reply;

    /// Whether the server has such a command.
    fn knows(&self, argv: &[&[u8]]) -> bool;
}
