//! A lock for one holder at a time, with a lease.
//!
//! 1. Acquire, one script: if the key does not exist, or holds our token, set it to our token with
//!    a time to live of one lease. If the lock is fenced, the reply has a fencing token: the
//!    server's time in microseconds, or the last token and one, whichever is greater. So tokens
//!    rise even if the server loses the last one.
//! 2. Extend, one script: if the key holds our token, its time to live is one lease again.
//! 3. Release, one script: delete the key if it holds our token, and wake the first waiting client.
//!
//! If the lock is fair, and clients wait, only the first of them is granted.
//!
//! Source: <https://redis.io/docs/latest/commands/set/#patterns>; the token is that of Martin
//! Kleppmann, "How to do distributed locking" (2016).

use std::time::Duration;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts};
use crate::lock::{Record, Terms};
use crate::name::Name;
use crate::queue::with_queue;
use crate::row::{self, ClientSide};
use crate::script::{COMPARE_AND_EXTEND, Script};
use crate::spec::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Open, Property, Spec};

/// The script that acquires the lock, with these lines for when it is granted. `ARGV[5]` says
/// whether the lock is fair. `KEYS[4]` is the last fencing token, if it is fenced.
macro_rules! acquire {
    ($($granted:literal)?) => {
        $crate::queue::with_queue!(
            "acquire",
            "\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= token then
  enqueue()
  return {0, redis.call('PTTL', KEYS[1])}
end
if not holder and ARGV[5] == '1' then
  local waiter, until_ms = first()
  if waiter and waiter ~= token then
    enqueue()
    return {0, until_ms - now}
  end
end
dequeue()
redis.call('SET', KEYS[1], token, 'PX', lease)
local fencing_token = 0
if KEYS[4] then
  local last = tonumber(redis.call('GET', KEYS[4]) or 0)
  fencing_token = math.max(time[1] * 1000000 + time[2], last + 1)
  redis.call('SET', KEYS[4], string.format('%.0f', fencing_token), 'PX', math.max(86400000, 2 * lease))
end
",
            $($granted,)?
            "return {1, fencing_token}"
        )
    };
}

pub(crate) use acquire;

const ACQUIRE: &str = acquire!();

pub(crate) const RELEASE: &str = with_queue!(
    "release",
    "\
local holder = redis.call('GET', KEYS[1])
dequeue()
if holder == token then
  redis.call('DEL', KEYS[1])
end
if not holder or holder == token then
  wake()
end
return holder == token and 1 or 0"
);

static SCRIPTS: Scripts = Scripts {
    acquire: Script::new(ACQUIRE),
    extend: Script::new(COMPARE_AND_EXTEND),
    release: Script::new(RELEASE),
};

const KIND: Kind<Mutex> = Kind { protocol, new: |lease, _| Mutex(lease) };

pub(crate) fn protocol(names: &[Name], details: Details) -> Protocol {
    let fence = details.is_fenced.then(|| names[0].side_key("fence"));
    Protocol::with_queue(&SCRIPTS, &names[0], fence, Vec::new())
}

/// A lock for one holder at a time. Clones share it.
///
/// ```
/// use locks::{Connection, Mutex, Release};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let mutex = Mutex::builder(connection, "report").fenced().build()?;
/// let guard = mutex.lock().await?;
/// // Ours. A task renews the lease of 30 seconds until the guard is dropped or released.
/// assert!(mutex.try_lock().await?.is_none());
/// assert_eq!(guard.release().await?, Release::Released);
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(Lease);

impl Mutex {
    /// The settings of the lock with this name.
    pub fn builder(connection: Connection, name: &str) -> Builder<Mutex> {
        Builder::on_one(connection, name, Details::default(), KIND)
    }

    /// Waits until the lock is free, and takes it. If the future is dropped, the client no longer
    /// waits, and holds nothing.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the lock was taken for as long as [`Builder::wait`] says.
    /// [`Error::TooLate`]: the server was too slow for the lease. [`Error::Server`]: a server did
    /// not do what it was asked, and whether it granted the lock is not known.
    pub async fn lock(&self) -> Result<Guard, Error> {
        self.0.acquire(&[]).await
    }

    /// Waits up to `timeout` until the lock is free, and takes it.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`].
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Guard, Error> {
        self.0.acquire_timeout(timeout, &[]).await
    }

    /// Takes the lock if it is free. `None` if it is taken, or if it is fair and clients wait.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`], without the first.
    pub async fn try_lock(&self) -> Result<Option<Guard>, Error> {
        self.0.try_acquire(&[]).await
    }

    /// Goes on with a grant that another guard has given away: [`Guard::into_token`]. Its lease
    /// begins anew.
    ///
    /// # Errors
    /// [`Error::Lost`]: the grant has ended. [`Error::Invalid`]: the text is no token of such a
    /// grant. [`Error::Server`]: whether the grant still exists is not known.
    pub async fn resume(&self, token: &str) -> Result<Guard, Error> {
        self.0.resume(token, 0).await
    }
}

impl Builder<Mutex> {
    /// Each grant has a [`Guard::fencing_token`]. The server keeps the last one for a day. As long
    /// as its clock does not go back, tokens rise even if it loses that.
    pub fn fenced(mut self) -> Self {
        self.details.is_fenced = true;
        self
    }
}

pub(crate) const SPEC: Spec = Spec {
    kind: AlgorithmKind::Mutex,
    abilities: &[Ability::Fences],
    guarantees: "one unexpired grant at a time, ended by its holder or by its lease, with a fencing token that is greater than all before",
    assumes: "one server that keeps its data, whose clock does not jump, and which does not restart within a microsecond",
    objection: "a holder that outlives its lease does not know it: only a resource that checks fencing tokens keeps it out",
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::ExclusiveFact, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::NoLeak, FaultClass::Server),
        (Property::Fenced, FaultClass::Server),
        (Property::ExclusiveFact, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
        (Property::NoLeak, FaultClass::Failover),
        (Property::Fenced, FaultClass::Failover),
    ],
};

const WAITING: Spec = Spec {
    abilities: &[Ability::Fences, Ability::Waits],
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::ExclusiveFact, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::NoLeak, FaultClass::Server),
        (Property::NoLostWakeUp, FaultClass::Server),
        (Property::Fenced, FaultClass::Server),
        (Property::ExclusiveFact, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
        (Property::NoLeak, FaultClass::Failover),
        (Property::NoLostWakeUp, FaultClass::Failover),
        (Property::Fenced, FaultClass::Failover),
    ],
    ..SPEC
};

/// The row of the registry for clients that try once.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "mutex",
    spec: &SPEC,
    scripts: &[ACQUIRE, COMPARE_AND_EXTEND, RELEASE],
    open: Open::One(|connection, env, terms| row_of(Mutex::builder(connection, &terms.key), env, terms)),
};

/// The row of the registry for clients that wait.
pub const ALGORITHM_WAITING: Algorithm = Algorithm { name: "mutex_waiting", spec: &WAITING, ..ALGORITHM };

/// The row of the registry for clients that wait in the order in which they came.
pub const ALGORITHM_FAIR: Algorithm = Algorithm {
    name: "mutex_fair",
    open: Open::One(|connection, env, terms| {
        row_of(Mutex::builder(connection, &terms.key).fair(), env, terms)
    }),
    ..ALGORITHM_WAITING
};

/// The row of the registry for clients that try once, and renew their grants.
pub const ALGORITHM_RENEWED: Algorithm = Algorithm {
    name: "mutex_renewed",
    spec: &Spec { abilities: &[Ability::Fences, Ability::Renews], ..SPEC },
    open: Open::One(|connection, env, terms| {
        row_of(Mutex::builder(connection, &terms.key).renew(true), env, terms)
    }),
    ..ALGORITHM
};

fn row_of(builder: Builder<Mutex>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
    let mutex = builder.fenced().of(env, terms);
    row::open(terms, mutex, |Mutex(lease)| Box::new(ClientSide::new(lease, &[], Record::Value)))
}
