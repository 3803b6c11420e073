//! How a program opens an algorithm by name, and the statements of an algorithm about itself.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use redis::RedisResult;

use crate::connection::Connection;
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::task::Task;

/// A [`Lock`] behind a pointer.
pub trait DynLock: Send {
    /// [`Lock::try_acquire`]
    fn try_acquire(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::try_read`]
    fn try_read(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::acquire`]
    fn acquire(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::acquire_read`]
    fn acquire_read(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::release`]
    fn release(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<Release>> + Send + '_>>;
    /// [`Lock::record`]
    fn record(&self) -> Record;
    /// [`Lock::fencing_token`]
    fn fencing_token(&self) -> Option<i64>;
}

impl<L: Lock> DynLock for L {
    fn try_acquire(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>> {
        Box::pin(Lock::try_acquire(self))
    }

    fn try_read(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>> {
        Box::pin(Lock::try_read(self))
    }

    fn acquire(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>> {
        Box::pin(Lock::acquire(self))
    }

    fn acquire_read(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>> {
        Box::pin(Lock::acquire_read(self))
    }

    fn release(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<Release>> + Send + '_>> {
        Box::pin(Lock::release(self))
    }

    fn record(&self) -> Record {
        Lock::record(self)
    }

    fn fencing_token(&self) -> Option<i64> {
        Lock::fencing_token(self)
    }
}

/// An algorithm in the registry.
#[derive(Debug)]
pub struct Algorithm {
    /// The name that `lockstep` uses.
    pub name: &'static str,
    /// The statements of the algorithm about itself.
    pub spec: &'static Spec,
    /// The scripts that the algorithm runs. A caller can load them before the first call.
    pub scripts: &'static [&'static str],
    /// Opens one client's side of the algorithm.
    pub open: Open,
}

impl Algorithm {
    /// On how many independent servers the algorithm keeps its grants.
    pub fn servers(&self) -> usize {
        match self.open {
            Open::One(_) | Open::Task(_) => 1,
            Open::Many(servers, _) => servers,
        }
    }

    /// What the algorithm does if it is no lock: a limiter, or work that is done once.
    pub fn task(&self) -> Option<Task> {
        match self.open {
            Open::Task(task) => Some(task),
            Open::One(_) | Open::Many(..) => None,
        }
    }

    /// Opens one client's side of a lock, with a connection to each server.
    ///
    /// # Panics
    /// The number of connections differs from the number of servers, or the algorithm is a
    /// [`task`](Algorithm::task).
    pub fn open(&self, connections: Vec<Connection>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
        assert_eq!(
            connections.len(),
            self.servers(),
            "{} needs one connection to each of its servers",
            self.name
        );
        match self.open {
            Open::One(open) => {
                let connection = connections.into_iter().next().expect("there is one");
                open(connection, env, terms)
            }
            Open::Many(_, open) => open(connections, env, terms),
            Open::Task(_) => panic!("{} is no lock", self.name),
        }
    }
}

/// How a client opens an algorithm.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    /// The algorithm is no lock. It runs on one server.
    Task(Task),
    /// The algorithm runs on one server.
    One(fn(Connection, Env, &Terms) -> Box<dyn DynLock>),
    /// The algorithm runs on this many servers, which are independent of each other.
    Many(usize, fn(Vec<Connection>, Env, &Terms) -> Box<dyn DynLock>),
}

/// The guarantees of an algorithm, and the faults that break it. The harness tests exactly this.
#[derive(Debug)]
pub struct Spec {
    /// The purpose of the algorithm.
    pub kind: AlgorithmKind,
    /// The abilities of the algorithm besides its purpose.
    pub abilities: &'static [Ability],
    /// The guarantee, in a sentence.
    pub guarantees: &'static str,
    /// The assumptions of the guarantee.
    pub assumes: &'static str,
    /// The published objection.
    pub objection: &'static str,
    /// The properties that the algorithm lacks, each with the mildest fault class that shows it.
    /// Every other property holds.
    pub breaks: &'static [(Property, FaultClass)],
}

impl Spec {
    /// Whether the algorithm can do this.
    pub fn can(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }

    /// Whether the property holds in this class. If it breaks in `order`, it breaks in every class,
    /// because each class includes all orders and adds faults.
    pub fn holds(&self, property: Property, class: FaultClass) -> bool {
        !self
            .breaks
            .iter()
            .any(|&(broken, by)| broken == property && (by == class || by == FaultClass::Order))
    }
}

/// The purpose of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmKind {
    /// One holder at a time.
    Mutex,
    /// Up to `permits` holders at a time.
    Semaphore,
    /// Any number of readers at a time, or one writer.
    ReadWrite,
    /// A limiter of requests: up to `permits` of them in a window as long as the lease.
    Limiter,
    /// Work that is done once: a job, the operation of a request, the sale of an item.
    Once,
}

impl AlgorithmKind {
    /// Whether clients are granted something, and give it back.
    pub fn is_lock(self) -> bool {
        matches!(self, AlgorithmKind::Mutex | AlgorithmKind::Semaphore | AlgorithmKind::ReadWrite)
    }
}

/// An ability that an algorithm has besides its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// A holder can acquire again, and then must release equally often.
    Reenters,
    /// If the lock is taken, a client waits until it is free.
    Waits,
    /// A task renews each grant until its holder releases it.
    Renews,
    /// Each grant has a fencing token.
    Fences,
    /// A client stops waiting for a server long before its lease ends.
    TimesOut,
    /// A grant has no lease: it lasts until its holder releases it.
    Persists,
    /// A grant is a subscription, and the server keeps it in no key. Nobody else can end it.
    Subscribes,
    /// Its keys are in several slots, so that no cluster serves it.
    SpansSlots,
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[doc = $line:literal])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($(#[doc = $line])* $variant,)* }

        impl $type {
            /// All values, in order.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// The name in tables and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }

            /// The description of the value, as in its documentation here.
            pub const fn description(self) -> &'static str {
                match self { $($type::$variant => concat!($($line),*).trim_ascii()),* }
            }

            /// The value with this name.
            pub fn named(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|known| known.name() == name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// The properties that an algorithm can be tested for.
    Property {
        /// Never two holders at once. A holder is a client that was granted the lock, has not sent
        /// its release, and whose lease still runs. The lease counts in true time from before the
        /// attempt began.
        ExclusiveFact = "exclusive-fact",
        /// Never more than `permits` holders of a semaphore at once. Holders are defined as for
        /// `exclusive-fact`.
        OverIssue = "over-issue",
        /// If a writer holds a read-write lock, no other reader or writer holds it. Holders are
        /// defined as for `exclusive-fact`.
        WriterAlone = "writer-alone",
        /// Never two clients inside the critical section at once. For a semaphore: never more than
        /// `permits`. For a read-write lock: a writer is always alone.
        ExclusiveBelief = "exclusive-belief",
        /// No client ends or shortens the unexpired grant of another client.
        OwnerSafe = "owner-safe",
        /// After a crash or a lost message, fresh clients get the lock, or all permits. A limiter
        /// lets one of them through. They try one lease and some grace later.
        Recovers = "recovers",
        /// If all clients have released, nobody crashed and no message was lost, everything is free
        /// at once.
        NoLeak = "no-leak",
        /// While all clients wait, the lock is never free for a lease or longer. After a crash, it
        /// is free for at most twice that.
        NoLostWakeUp = "no-lost-wake-up",
        /// If clients try, and nobody crashed and no message was lost, at least one of them is
        /// granted.
        Progress = "progress",
        /// If a holder acquires a reentrant lock once more, no other client has held it since its
        /// last grant.
        Unbroken = "unbroken",
        /// A resource that checks fencing tokens never accepts a write with a smaller token than
        /// one before, nor two clients' writes with one token.
        Fenced = "fenced",
        /// A limiter lets no more requests through than its limit in any span as long as its
        /// window. The time of a request is that of the server when it decided.
        Rate = "rate",
        /// No work that is to be done once is done twice.
        AtMostOnce = "at-most-once",
        /// Work that is to be done once is done at the end, when a fresh client has tried, too.
        /// After a crash, a lost message or a cancellation, one lease and some grace pass before.
        AtLeastOnce = "at-least-once",
    }
}

named! {
    /// The faults that may happen in a test. The harness defines their numbers and sizes.
    FaultClass {
        /// Any order of commands, with perfect clocks. No lease ends.
        Order = "order",
        /// The clock of one client or of one server is one or two leases ahead or behind, or jumps.
        Skew = "skew",
        /// A client ends at any step, without a release.
        Crash = "crash",
        /// A client stalls until after its lease, at any point.
        Slow = "slow",
        /// A request or a reply is lost or late, or a connection breaks. The client gives up, or
        /// its library sends the request again.
        Lost = "lost",
        /// One server's clock jumps ahead by more than a lease, or one server restarts. It loses
        /// all data, its last write, or only its scripts.
        Server = "server",
        /// A replica takes over. It lacks the last write, or its clock is ahead, or the old primary
        /// still serves some clients, or nothing is wrong with it. It knows no scripts.
        Failover = "failover",
        /// The servers are a cluster. A slot moves from one of them to another while clients work.
        Cluster = "cluster",
        /// An acquire or a release is cancelled wherever it waits.
        Cancel = "cancel",
        /// Two of the faults above.
        Pairs = "pairs",
        /// Each client acquires twice with one lock object, and goes on after an error. There may
        /// be a stall or a lost message.
        Rounds = "rounds",
    }
}

impl FaultClass {
    /// The classes whose faults this class combines, or repeats in a longer scenario. A property
    /// that breaks in one of them is not asked here.
    pub fn combines(self) -> &'static [FaultClass] {
        use FaultClass::{Cancel, Cluster, Crash, Failover, Lost, Order, Pairs, Rounds, Server, Skew, Slow};
        match self {
            Order | Skew | Crash | Slow | Lost | Server | Failover => &[],
            Cancel | Cluster => &[Order],
            Pairs => &[Order, Skew, Crash, Slow, Lost],
            Rounds => &[Order, Slow, Lost],
        }
    }
}
