//! A semaphore: up to N permits at a time, each with a lease.
//!
//! A sorted set of tokens. The score of each token is the end of its lease in the server's time. A
//! grant of several permits is several members.
//!
//! 1. Acquire, one script: remove all members whose lease has ended. If enough permits are free, or
//!    our token has them, add our members with the end of their lease. Raise the key's time to live
//!    to at least one lease. If permits are left, wake the first waiting client.
//! 2. Extend, one script: if our token has an unexpired grant, raise its scores.
//! 3. Release, one script: remove our members, and wake the first waiting client if a permit is
//!    free. The reply says whether our lease still ran.
//!
//! Time comes only from the server. Counting and adding are one step. A lease ends without any
//! client. Therefore no client's clock, no order of commands and no crash changes the number of
//! permits.
//!
//! Source: Josiah Carlson, "Redis in Action", chapter 6.3, without its races and without the
//! clients' clocks.

use std::time::Duration;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts};
use crate::lock::{Record, Terms};
use crate::queue::with_queue;
use crate::row::{self, ClientSide};
use crate::script::Script;
use crate::spec::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Open, Property, Spec};

/// A script over the members of a grant. `ARGV[5]` says whether the semaphore is fair, `ARGV[6]` is
/// the number of its permits, and `ARGV[7]` the number of those in the grant.
///
/// Scores are whole milliseconds, which a double represents exactly. The key's time to live is
/// never lowered: a short lease must not end a longer one in the same key.
macro_rules! with_members {
    ($name:literal, $script:literal) => {
        with_queue!(
            $name,
            "\
local permits, count = tonumber(ARGV[6]), tonumber(ARGV[7])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local is_held = redis.call('ZSCORE', KEYS[1], token)
local members = {token}
for nth = 2, count do
  members[nth] = token .. ':' .. nth
end
local function add()
  for _, member in ipairs(members) do
    redis.call('ZADD', KEYS[1], now + lease, member)
  end
  raise(KEYS[1], lease)
end
local function free()
  return permits - redis.call('ZCARD', KEYS[1])
end
",
            $script
        )
    };
}

const ACQUIRE: &str = with_members!(
    "acquire",
    "\
if not is_held then
  local waiter, until_ms
  if ARGV[5] == '1' then
    waiter, until_ms = first()
  end
  local is_overtaking = waiter and waiter ~= token
  if free() < count or is_overtaking then
    enqueue()
    local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
    if is_overtaking and not (oldest and tonumber(oldest) < until_ms) then
      oldest = until_ms
    end
    return {0, oldest - now}
  end
end
dequeue()
add()
if free() > 0 then
  wake()
end
return {1, 0}"
);

const EXTEND: &str = with_members!(
    "extend",
    "\
if is_held then
  add()
  return 1
end
return 0"
);

const RELEASE: &str = with_members!(
    "release",
    "\
dequeue()
if is_held then
  redis.call('ZREM', KEYS[1], unpack(members))
end
if free() > 0 then
  wake()
end
return is_held and 1 or 0"
);

static SCRIPTS: Scripts =
    Scripts { acquire: Script::new(ACQUIRE), extend: Script::new(EXTEND), release: Script::new(RELEASE) };

const KIND: Kind<Semaphore> = Kind {
    protocol: |names, details| {
        Protocol::with_queue(&SCRIPTS, &names[0], None, vec![argument(details.permits)])
    },
    new: |lease, details| Semaphore { lease, permits: details.permits },
};

/// Up to N permits at a time. Clones share them.
///
/// ```
/// use locks::{Connection, Semaphore};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let downloads = Semaphore::builder(connection, "downloads", 3).build()?;
/// let two = downloads.acquire_many(2).await?;
/// let one = downloads.acquire().await?;
/// assert!(downloads.try_acquire().await?.is_none());
/// two.release().await?;
/// assert!(downloads.try_acquire().await?.is_some());
/// # drop(one);
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    lease: Lease,
    permits: u32,
}

impl Semaphore {
    /// The settings of the semaphore with this name. All clients have to use the same number of
    /// permits.
    pub fn builder(connection: Connection, name: &str, permits: u32) -> Builder<Semaphore> {
        Builder::on_one(connection, name, Details { permits, ..Details::default() }, KIND)
    }

    /// Waits until a permit is free, and takes it. If the future is dropped, the client no longer
    /// waits, and holds nothing.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: no permit was free for as long as [`Builder::wait`] says.
    /// [`Error::TooLate`]: the server was too slow for the lease. [`Error::Server`]: a server did
    /// not do what it was asked, and whether it granted a permit is not known.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_many(1).await
    }

    /// Waits until `permits` permits are free, and takes all of them in one step.
    ///
    /// # Errors
    /// Those of [`Semaphore::acquire`], and [`Error::Invalid`]: `permits` is zero, or more than
    /// the semaphore has.
    pub async fn acquire_many(&self, permits: u32) -> Result<Guard, Error> {
        self.lease.acquire(&[&self.checked(permits)?]).await
    }

    /// Waits up to `timeout` until a permit is free, and takes it.
    ///
    /// # Errors
    /// Those of [`Semaphore::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Guard, Error> {
        self.lease.acquire_timeout(timeout, &[b"1"]).await
    }

    /// Takes a permit if one is free. `None` if none is, or if the semaphore is fair and clients
    /// wait.
    ///
    /// # Errors
    /// Those of [`Semaphore::acquire`], without the first.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        self.try_acquire_many(1).await
    }

    /// Takes `permits` permits in one step if they are free.
    ///
    /// # Errors
    /// Those of [`Semaphore::acquire_many`], without the first.
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, Error> {
        self.lease.try_acquire(&[&self.checked(permits)?]).await
    }

    /// Goes on with a grant that another guard has given away, of one permit or more:
    /// [`Guard::into_token`]. Its lease begins anew.
    ///
    /// # Errors
    /// [`Error::Lost`]: the grant has ended. [`Error::Invalid`]: the text is no token of such a
    /// grant. [`Error::Server`]: whether the grant still exists is not known.
    pub async fn resume(&self, token: &str) -> Result<Guard, Error> {
        self.lease.resume(token, 1).await
    }

    /// The number of permits as an argument of the scripts.
    fn checked(&self, permits: u32) -> Result<Vec<u8>, Error> {
        match permits {
            0 => Err(self.lease.invalid("a grant has at least one permit")),
            _ if permits > self.permits => Err(self
                .lease
                .invalid(format!("{permits} permits were asked for, and there are only {}", self.permits))),
            _ => Ok(argument(permits)),
        }
    }
}

fn argument(permits: u32) -> Vec<u8> {
    permits.to_string().into_bytes()
}

const SPEC: Spec = Spec {
    kind: AlgorithmKind::Semaphore,
    abilities: &[],
    guarantees: "never more than N unexpired grants, and all N permits are available again one lease after any crash",
    assumes: "one server that keeps its data and whose clock does not jump",
    objection: "a holder that outlives its lease does not know it",
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::OverIssue, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::NoLeak, FaultClass::Server),
        (Property::OverIssue, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
        (Property::NoLeak, FaultClass::Failover),
    ],
};

const WAITING: Spec = Spec {
    abilities: &[Ability::Waits],
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::OverIssue, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::NoLeak, FaultClass::Server),
        (Property::NoLostWakeUp, FaultClass::Server),
        (Property::OverIssue, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
        (Property::NoLeak, FaultClass::Failover),
        (Property::NoLostWakeUp, FaultClass::Failover),
    ],
    ..SPEC
};

/// The row of the registry for clients that try once.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "semaphore",
    spec: &SPEC,
    scripts: &[ACQUIRE, EXTEND, RELEASE],
    open: Open::One(|connection, env, terms| row_of(builder_of(connection, terms), env, terms)),
};

/// The row of the registry for clients that wait.
pub const ALGORITHM_WAITING: Algorithm = Algorithm { name: "semaphore_waiting", spec: &WAITING, ..ALGORITHM };

/// The row of the registry for clients that wait in the order in which they came.
pub const ALGORITHM_FAIR: Algorithm = Algorithm {
    name: "semaphore_fair",
    open: Open::One(|connection, env, terms| row_of(builder_of(connection, terms).fair(), env, terms)),
    ..ALGORITHM_WAITING
};

/// The row of the registry for clients that try once, and renew their grants.
pub const ALGORITHM_RENEWED: Algorithm = Algorithm {
    name: "semaphore_renewed",
    spec: &Spec { abilities: &[Ability::Renews], ..SPEC },
    open: Open::One(|connection, env, terms| row_of(builder_of(connection, terms).renew(true), env, terms)),
    ..ALGORITHM
};

fn builder_of(connection: Connection, terms: &Terms) -> Builder<Semaphore> {
    Semaphore::builder(connection, &terms.key, terms.permits)
}

fn row_of(builder: Builder<Semaphore>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
    let semaphore = builder.of(env, terms);
    row::open(terms, semaphore, |Semaphore { lease, .. }| {
        Box::new(ClientSide::new(lease, &[b"1"], Record::Member))
    })
}
