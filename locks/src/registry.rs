//! All algorithms by their names, and what each states about itself, for programs that run, list or test them. To use a lock, this
//! module is not needed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisFuture, RedisResult, Value};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::subscribe::{Subscribe, Subscription};
use crate::{mutex, published, semaphore};

/// Every algorithm: the published ones in the order of their history, then the correct ones.
pub const ALGORITHMS: &[Algorithm] = &[
    published::exists_set::ALGORITHM,
    published::setnx::ALGORITHM,
    published::setnx_expire::ALGORITHM,
    published::del_setnx_takeover::ALGORITHM,
    published::getset_takeover::ALGORITHM,
    published::lua_setnx_expire::ALGORITHM,
    published::lua_token::ALGORITHM,
    published::set_nx_ex_del::ALGORITHM,
    published::set_nx_get_del::ALGORITHM,
    published::set_nx_px_cad::ALGORITHM,
    published::redlock::ALGORITHM,
    published::redlock::ALGORITHM_OF_THREE,
    published::reentrant_hash::ALGORITHM,
    published::renewed_hash::ALGORITHM,
    published::local_reentrant::ALGORITHM,
    published::redisson::ALGORITHM,
    published::rw_two_keys::ALGORITHM,
    published::rw_hash::ALGORITHM,
    published::zset_semaphore::ALGORITHM,
    published::fair_semaphore_posted::ALGORITHM,
    published::fair_semaphore_comment::ALGORITHM,
    published::fair_semaphore_weighted::ALGORITHM,
    published::fair_semaphore_locked::ALGORITHM,
    mutex::ALGORITHM,
    semaphore::ALGORITHM,
];

/// A [`Lock`] behind a pointer.
pub trait DynLock: Send {
    /// [`Lock::try_acquire`]
    fn try_acquire(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::try_read`]
    fn try_read(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::acquire`]
    fn acquire(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<bool>> + Send + '_>>;
    /// [`Lock::release`]
    fn release(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<Release>> + Send + '_>>;
    /// [`Lock::record`]
    fn record(&self) -> Record;
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

    fn release(&mut self) -> Pin<Box<dyn Future<Output = RedisResult<Release>> + Send + '_>> {
        Box::pin(Lock::release(self))
    }

    fn record(&self) -> Record {
        Lock::record(self)
    }
}

/// Any connection of redis-rs, so that the registry can open every algorithm over any of them.
#[derive(Clone)]
pub struct AnyConnection(Box<dyn Connection>);

trait Connection: Subscribe + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Connection>;
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Connection for C {
    fn boxed_clone(&self) -> Box<dyn Connection> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Connection> {
    fn clone(&self) -> Box<dyn Connection> {
        (**self).boxed_clone()
    }
}

impl AnyConnection {
    /// Takes a connection. Who subscribes over it gets an error.
    pub fn new(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> AnyConnection {
        AnyConnection::listening(Deaf(connection))
    }

    /// Takes a connection whose client can listen.
    pub fn listening(connection: impl Subscribe + Clone + Send + Sync + 'static) -> AnyConnection {
        AnyConnection(Box::new(connection))
    }
}

impl Subscribe for AnyConnection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        self.0.subscribe(channel)
    }
}

impl fmt::Debug for AnyConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyConnection").finish_non_exhaustive()
    }
}

impl ConnectionLike for AnyConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// A connection that has commands, and no more.
#[derive(Clone)]
struct Deaf<C>(C);

impl<C: ConnectionLike> Subscribe for Deaf<C> {
    fn subscribe<'a>(&'a self, _: &'a str) -> RedisFuture<'a, Subscription> {
        Box::pin(std::future::ready(Err((ErrorKind::Client, "this connection cannot subscribe").into())))
    }
}

impl<C: ConnectionLike> ConnectionLike for Deaf<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// An algorithm in the registry.
#[derive(Debug)]
pub struct Algorithm {
    /// The name by which `lockstep` knows it.
    pub name: &'static str,
    /// What it states about itself.
    pub spec: &'static Spec,
    /// The scripts that it runs, for whoever wants them loaded before the first call.
    pub scripts: &'static [&'static str],
    /// One client's side of it.
    pub open: Open,
}

impl Algorithm {
    /// On how many servers it keeps its grants, each independent of the others.
    pub fn servers(&self) -> usize {
        match self.open {
            Open::One(_) => 1,
            Open::Many(servers, _) => servers,
        }
    }

    /// One client's side of it, with a connection to each server.
    ///
    /// # Panics
    /// There are not as many connections as servers.
    pub fn open(&self, connections: Vec<AnyConnection>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
        assert_eq!(
            connections.len(),
            self.servers(),
            "{} wants a connection to each of its servers",
            self.name
        );
        match self.open {
            Open::One(open) => {
                let connection = connections.into_iter().next().expect("there is one");
                open(connection, env, terms)
            }
            Open::Many(_, open) => open(connections, env, terms),
        }
    }
}

/// How a client opens an algorithm.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    /// On one server.
    One(fn(AnyConnection, Env, &Terms) -> Box<dyn DynLock>),
    /// On so many, that know nothing of each other.
    Many(usize, fn(Vec<AnyConnection>, Env, &Terms) -> Box<dyn DynLock>),
}

/// What an algorithm guarantees, and what breaks it. The harness holds it to exactly this.
#[derive(Debug)]
pub struct Spec {
    /// What it is for.
    pub kind: Kind,
    /// The guarantee, in a sentence.
    pub guarantees: &'static str,
    /// What must be true for it.
    pub assumes: &'static str,
    /// What has been said against it.
    pub objection: &'static str,
    /// The properties that it lacks, each with the mildest faults that show it. Every other property holds.
    pub breaks: &'static [(Property, FaultClass)],
}

impl Spec {
    /// Whether the property holds in this class. What breaks in `order` breaks in every class, since each begins with all
    /// orders and adds its faults.
    pub fn holds(&self, property: Property, class: FaultClass) -> bool {
        !self
            .breaks
            .iter()
            .any(|&(broken, by)| broken == property && (by == class || by == FaultClass::Order))
    }
}

/// What an algorithm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One holder at a time.
    Mutex,
    /// Up to `permits` holders at a time.
    Semaphore,
    /// One holder at a time, which may acquire again while it holds, and then releases as often.
    Reentrant,
    /// The same, and whoever finds it taken waits until somebody says that it is free.
    Waiting,
    /// Any number of readers at a time, or one writer.
    ReadWrite,
}

impl Kind {
    /// Whether a holder may acquire again.
    pub fn is_reentrant(self) -> bool {
        matches!(self, Kind::Reentrant | Kind::Waiting)
    }
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($(#[$variant_doc])* $variant,)* }

        impl $type {
            /// All of them, in order.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// The name in tables and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }

            /// The one of this name.
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
    /// What can be asked of an algorithm.
    Property {
        /// Never two clients that were both granted the lock, have not sent their release, and whose lease, counted in true
        /// time from before their attempt began, still runs.
        ExclusiveFact = "exclusive-fact",
        /// Never more than `permits` such clients of a semaphore.
        OverIssue = "over-issue",
        /// Never such a client of a read-write lock that writes, and another that reads or writes.
        WriterAlone = "writer-alone",
        /// Never two clients (more than `permits`, of a semaphore; another beside a writer, of a read-write lock) inside the
        /// critical section at once.
        ExclusiveBelief = "exclusive-belief",
        /// No client's release ends another's unexpired grant.
        OwnerSafe = "owner-safe",
        /// After a crash or a lost message, and one lease and some grace later, a fresh client gets the lock, or fresh clients all
        /// permits.
        Recovers = "recovers",
        /// When all have released, nobody crashed and no message was lost, everything is free at once.
        NoLeak = "no-leak",
        /// As long as nobody has crashed and no message was lost, nobody waits for a lease or longer while nobody holds.
        NoLostWakeUp = "no-lost-wake-up",
    }
}

named! {
    /// What may go wrong.
    FaultClass {
        /// Any order of commands; perfect clocks; no lease runs out.
        Order = "order",
        /// One client's clock is a whole lease ahead, or behind.
        Skew = "skew",
        /// A client ends without a word.
        Crash = "crash",
        /// A client stalls past its lease, at any point.
        Slow = "slow",
        /// A request is lost, or a reply: the client gives up, or its library sends the request again.
        Lost = "lost",
        /// One server's clock jumps ahead by more than a lease, or one server restarts and has lost all data and scripts.
        Server = "server",
    }
}
