//! A read-write lock: any number of readers at a time, or one writer, each with a lease.
//!
//! The main key is a string with the token of the writer, and expires with its lease. A sorted set
//! has the token of each reader, with the end of its lease in the server's time as the score.
//!
//! 1. Read, one script: remove the readers whose lease has ended. If there is no writer, and no
//!    other client waits, add our token. Raise the set's time to live to at least one lease. Wake
//!    the next waiting client: it may read, too.
//! 2. Write, one script: if nobody has a grant, and no other client waits, set the main key to our
//!    token with a time to live of one lease.
//! 3. Extend, one script: only our own unexpired lease begins anew.
//! 4. Release, one script: remove only our own grant. If no writer is left, wake the first waiting
//!    client.
//!
//! Clients wait in one queue and come in turn, so that readers which follow one another do not keep
//! a writer out for ever. A waiting client that is dead is passed over.
//!
//! Sources: Redisson's `RReadWriteLock`, <https://redisson.pro/docs/data-and-services/locks-and-synchronizers/#readwritelock>,
//! for the problem that every reader needs a lease of its own; here it is in the set.

use std::time::Duration;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts};
use crate::lock::{Record, Terms};
use crate::queue::with_queue;
use crate::row::{self, ClientSide};
use crate::script::{COMPARE_AND_EXTEND, Script};
use crate::spec::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Open, Property, Spec};

/// A script over the readers in `KEYS[4]`, without those whose lease has ended.
macro_rules! with_readers {
    ($name:literal, $script:literal) => {
        with_queue!(
            $name,
            "\
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
local writer = redis.call('GET', KEYS[1])
local is_reader = redis.call('ZSCORE', KEYS[4], token)
local function add_reader()
  redis.call('ZADD', KEYS[4], now + lease, token)
  raise(KEYS[4], lease)
end
local function is_overtaking()
  local waiter, until_ms = first()
  return waiter and waiter ~= token and until_ms - now
end
",
            $script
        )
    };
}

const READ: &str = with_readers!(
    "read",
    "\
if not is_reader then
  local wait = writer and redis.call('PTTL', KEYS[1]) or is_overtaking()
  if wait then
    enqueue()
    return {0, wait}
  end
end
dequeue()
add_reader()
wake()
return {1, 0}"
);

const WRITE: &str = with_readers!(
    "write",
    "\
if writer ~= token then
  local wait = writer and redis.call('PTTL', KEYS[1])
  if not wait then
    local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2]
    wait = last and last - now or is_overtaking()
  end
  if wait then
    enqueue()
    return {0, wait}
  end
end
dequeue()
redis.call('SET', KEYS[1], token, 'PX', lease)
return {1, 0}"
);

const EXTEND_READ: &str = with_readers!(
    "extend-read",
    "\
if not is_reader then
  return 0
end
add_reader()
return 1"
);

const RELEASE: &str = with_readers!(
    "release",
    "\
dequeue()
local is_writer = writer == token
if is_writer then
  redis.call('DEL', KEYS[1])
end
redis.call('ZREM', KEYS[4], token)
if is_writer or not writer then
  wake()
end
return (is_writer or is_reader) and 1 or 0"
);

static READ_SCRIPTS: Scripts =
    Scripts { acquire: Script::new(READ), extend: Script::new(EXTEND_READ), release: Script::new(RELEASE) };

static WRITE_SCRIPTS: Scripts = Scripts {
    acquire: Script::new(WRITE),
    extend: Script::new(COMPARE_AND_EXTEND),
    release: Script::new(RELEASE),
};

const KIND: Kind<RwLock> = Kind {
    protocol: |names, _| {
        let readers = names[0].side_key("readers");
        Protocol::with_queue(&WRITE_SCRIPTS, &names[0], Some(readers), Vec::new())
    },
    new: |write, _| RwLock { read: write.with_scripts(&READ_SCRIPTS), write },
};

/// Any number of readers at a time, or one writer. Clones share it.
///
/// Clients that wait get the lock in the order in which they came. A client that only tries does
/// not get it while others wait.
///
/// ```
/// use locks::{Connection, RwLock};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let settings = RwLock::builder(connection, "settings").build()?;
/// let reader = settings.read().await?;
/// let other = settings.read().await?;
/// assert!(settings.try_write().await?.is_none());
/// reader.release().await?;
/// other.release().await?;
/// let writer = settings.write().await?;
/// assert!(settings.try_read().await?.is_none());
/// # drop(writer);
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    read: Lease,
    write: Lease,
}

impl RwLock {
    /// The settings of the lock with this name.
    pub fn builder(connection: Connection, name: &str) -> Builder<RwLock> {
        Builder::on_one(connection, name, Details::default(), KIND).fair()
    }

    /// Waits until there is no writer and it is the client's turn, and takes a grant to read. If
    /// the future is dropped, the client no longer waits, and holds nothing.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the lock was taken for as long as [`Builder::wait`] says.
    /// [`Error::TooLate`]: the server was too slow for the lease. [`Error::Server`]: a server did
    /// not do what it was asked, and whether it granted the lock is not known.
    pub async fn read(&self) -> Result<Guard, Error> {
        self.read.acquire(&[]).await
    }

    /// Waits until nobody else holds the lock and it is the client's turn, and takes the grant to
    /// write.
    ///
    /// # Errors
    /// Those of [`RwLock::read`].
    pub async fn write(&self) -> Result<Guard, Error> {
        self.write.acquire(&[]).await
    }

    /// Waits up to `timeout` for a grant to read.
    ///
    /// # Errors
    /// Those of [`RwLock::read`].
    pub async fn read_timeout(&self, timeout: Duration) -> Result<Guard, Error> {
        self.read.acquire_timeout(timeout, &[]).await
    }

    /// Waits up to `timeout` for the grant to write.
    ///
    /// # Errors
    /// Those of [`RwLock::read`].
    pub async fn write_timeout(&self, timeout: Duration) -> Result<Guard, Error> {
        self.write.acquire_timeout(timeout, &[]).await
    }

    /// Takes a grant to read if there is no writer. `None` if there is one, or if clients wait.
    ///
    /// # Errors
    /// Those of [`RwLock::read`], without the first.
    pub async fn try_read(&self) -> Result<Option<Guard>, Error> {
        self.read.try_acquire(&[]).await
    }

    /// Takes the grant to write if nobody holds the lock. `None` if somebody does, or if clients
    /// wait.
    ///
    /// # Errors
    /// Those of [`RwLock::read`], without the first.
    pub async fn try_write(&self) -> Result<Option<Guard>, Error> {
        self.write.try_acquire(&[]).await
    }

    /// Goes on with a grant to read that another guard has given away: [`Guard::into_token`]. Its
    /// lease begins anew.
    ///
    /// # Errors
    /// [`Error::Lost`]: the grant has ended. [`Error::Invalid`]: the text is no token of such a
    /// grant. [`Error::Server`]: whether the grant still exists is not known.
    pub async fn resume_read(&self, token: &str) -> Result<Guard, Error> {
        self.read.resume(token, 0).await
    }

    /// Goes on with the grant to write that another guard has given away.
    ///
    /// # Errors
    /// Those of [`RwLock::resume_read`].
    pub async fn resume_write(&self, token: &str) -> Result<Guard, Error> {
        self.write.resume(token, 0).await
    }
}

const SPEC: Spec = Spec {
    kind: AlgorithmKind::ReadWrite,
    abilities: &[],
    guarantees: "a writer is alone, and every reader has a lease of its own",
    assumes: "one server that keeps its data and whose clock does not jump",
    objection: "a holder that outlives its lease does not know it",
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::WriterAlone, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::NoLeak, FaultClass::Server),
        (Property::WriterAlone, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
        (Property::NoLeak, FaultClass::Failover),
    ],
};

/// The row of the registry for clients that try once.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "rw_lock",
    spec: &SPEC,
    scripts: &[READ, WRITE, EXTEND_READ, COMPARE_AND_EXTEND, RELEASE],
    open: Open::One(|connection, env, terms| row_of(RwLock::builder(connection, &terms.key), env, terms)),
};

/// The row of the registry for clients that wait.
pub const ALGORITHM_WAITING: Algorithm = Algorithm {
    name: "rw_lock_waiting",
    spec: &Spec {
        abilities: &[Ability::Waits],
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::WriterAlone, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::NoLostWakeUp, FaultClass::Server),
            (Property::WriterAlone, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::NoLostWakeUp, FaultClass::Failover),
        ],
        ..SPEC
    },
    ..ALGORITHM
};

/// The row of the registry for clients that try once, and renew their grants.
pub const ALGORITHM_RENEWED: Algorithm = Algorithm {
    name: "rw_lock_renewed",
    spec: &Spec { abilities: &[Ability::Renews], ..SPEC },
    open: Open::One(|connection, env, terms| {
        row_of(RwLock::builder(connection, &terms.key).renew(true), env, terms)
    }),
    ..ALGORITHM
};

fn row_of(builder: Builder<RwLock>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
    let lock = builder.of(env, terms);
    let readers = |key: String, token| Record::Member(format!("{{{key}}}:readers"), token);
    row::open(terms, lock, |RwLock { read, write }| {
        Box::new(ClientSide::new(write, &[], Record::Value).reading(read, readers))
    })
}
