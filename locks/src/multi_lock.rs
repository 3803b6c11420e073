//! A lock of several names at once, all or none.
//!
//! Each name has the keys of a [`Mutex`](crate::Mutex) of that name, and each key holds the same
//! token. So a `Mutex` of one of the names, and every `MultiLock` with one of them, exclude each
//! other.
//!
//! 1. Acquire, one script: if no key exists but those that hold our token, set all keys to our
//!    token with a time to live of one lease. All keys are read before the first is written, so an
//!    error leaves nothing behind. If the lock is fenced, the reply has one fencing token, which is
//!    greater than the last one of each name.
//! 2. Extend, one script: if all keys hold our token, their time to live is one lease again.
//! 3. Release, one script: delete the keys that hold our token. For each name, wake the first
//!    client that waits for a `Mutex`.
//!
//! A client that waits stands in no queue. It tries again after [`Builder::retry`], by chance up to
//! a half earlier. If the last lease in its way ends before that, it tries then. A client that
//! waits for a fair `Mutex` may be overtaken.
//!
//! Names that are taken one by one, each in another order, block each other: hold and wait. E. G.
//! Coffman, M. J. Elphick, A. Shoshani, "System Deadlocks" (1971). One script that takes all or
//! none never waits while it holds.

use std::time::Duration;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts, Servers};
use crate::lock::{Record, Terms};
use crate::name::Name;
use crate::row::{self, ClientSide};
use crate::script::Script;
use crate::spec::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Open, Property, Spec};

/// A script over several names. `KEYS` has the main keys first, then the queues, then the times
/// until when waiters are alive, both as in `queue.rs`. If the lock is fenced, the keys of the last
/// fencing tokens follow. `ARGV[4]` and the arguments after it are the channels of the names, and
/// the last argument is the number of names.
macro_rules! with_names {
    ($name:literal, $script:literal) => {
        concat!(
            "-- ",
            $name,
            "\n\
local token, lease, names = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[#ARGV])
local holders = {}
for nth = 1, names do
  holders[nth] = redis.call('GET', KEYS[nth])
end
",
            $script
        )
    };
}

const ACQUIRE: &str = with_names!(
    "acquire",
    "\
local wait
for nth = 1, names do
  if holders[nth] and holders[nth] ~= token then
    wait = math.max(wait or -1, redis.call('PTTL', KEYS[nth]))
  end
end
if wait then
  return {0, wait}
end
local fencing_token = 0
if #KEYS > 3 * names then
  local time = redis.call('TIME')
  fencing_token = time[1] * 1000000 + time[2]
  for nth = 3 * names + 1, #KEYS do
    fencing_token = math.max(fencing_token, tonumber(redis.call('GET', KEYS[nth]) or 0) + 1)
  end
  for nth = 3 * names + 1, #KEYS do
    redis.call('SET', KEYS[nth], string.format('%.0f', fencing_token), 'PX', math.max(86400000, 2 * lease))
  end
end
for nth = 1, names do
  redis.call('SET', KEYS[nth], token, 'PX', lease)
end
return {1, fencing_token}"
);

const EXTEND: &str = with_names!(
    "extend",
    "\
for nth = 1, names do
  if holders[nth] ~= token then
    return 0
  end
end
for nth = 1, names do
  redis.call('PEXPIRE', KEYS[nth], lease)
end
return 1"
);

/// A dead waiter stays in its queue until a client of that queue comes.
const RELEASE: &str = with_names!(
    "release",
    "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function wake(queue, alive, channel)
  for _, waiter in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if tonumber(redis.call('ZSCORE', alive, waiter) or 0) > now then
      redis.pcall('PUBLISH', channel, waiter)
      return
    end
  end
end
local held = 0
for nth = 1, names do
  if holders[nth] == token then
    redis.call('DEL', KEYS[nth])
    held = held + 1
    wake(KEYS[names + nth], KEYS[2 * names + nth], ARGV[3 + nth])
  end
end
return held == names and 1 or 0"
);

static SCRIPTS: Scripts =
    Scripts { acquire: Script::new(ACQUIRE), extend: Script::new(EXTEND), release: Script::new(RELEASE) };

const KIND: Kind<MultiLock> = Kind { protocol, new: |lease, _| MultiLock(lease) };

fn protocol(names: &[Name], details: Details) -> Protocol {
    let side_keys = |part| names.iter().map(move |name| name.side_key(part));
    let fences = details.is_fenced.then(|| side_keys("fence"));
    let keys = names.iter().map(|name| name.key.clone()).chain(side_keys("queue")).chain(side_keys("alive"));
    Protocol {
        scripts: &SCRIPTS,
        keys: keys.chain(fences.into_iter().flatten()).collect(),
        channels: side_keys("wake").collect(),
        has_queue: false,
        more: vec![names.len().to_string().into_bytes()],
    }
}

/// Several names at once, for one holder at a time. A client gets all of them or none. Clones share
/// it.
///
/// A [`Mutex`](crate::Mutex) of one of the names excludes it, and is excluded by it. If the `Mutex`
/// gives fencing tokens, make both with `fenced`: then they are tokens of one sequence.
///
/// A waiting client only looks again and again ([`Builder::retry`]). It gets the lock when it finds
/// all names free at one time, and may wait for ever if that never happens.
///
/// In a cluster, all names have to be in one slot: write the common part in braces, as
/// `{user:7}:mail` and `{user:7}:files`. Names without braces work on a single server only. A
/// cluster refuses them with an error.
///
/// ```
/// use locks::{Connection, MultiLock, Mutex};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let accounts = MultiLock::builder(connection.clone(), ["account:1", "account:2"]).build()?;
/// let first = Mutex::builder(connection, "account:1").build()?;
/// let guard = accounts.lock().await?;
/// assert!(first.try_lock().await?.is_none());
/// guard.release().await?;
/// assert!(first.try_lock().await?.is_some());
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock(Lease);

impl MultiLock {
    /// The settings of the lock with these names, at most 100. Their order does not matter.
    pub fn builder<N: Into<String>>(
        connection: Connection,
        names: impl IntoIterator<Item = N>,
    ) -> Builder<MultiLock> {
        let names = names.into_iter().map(Into::into).collect();
        Builder::new(Servers::One(connection), names, Details::default(), KIND)
    }

    /// Waits until all names are free, and takes them. If the future is dropped, the client holds
    /// nothing.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: a name was taken for as long as [`Builder::wait`] says.
    /// [`Error::TooLate`]: the server was too slow for the lease. [`Error::Server`]: a server did
    /// not do what it was asked, and whether it granted the lock is not known.
    pub async fn lock(&self) -> Result<Guard, Error> {
        self.0.acquire(&[]).await
    }

    /// Waits up to `timeout` until all names are free, and takes them.
    ///
    /// # Errors
    /// Those of [`MultiLock::lock`].
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Guard, Error> {
        self.0.acquire_timeout(timeout, &[]).await
    }

    /// Takes all names if they are free. `None` if one is taken.
    ///
    /// # Errors
    /// Those of [`MultiLock::lock`], without the first.
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

impl Builder<MultiLock> {
    /// Each grant has one [`Guard::fencing_token`] for all names. The server keeps the last one of
    /// each name for a day. As long as its clock does not go back, tokens rise even if it loses
    /// them.
    pub fn fenced(mut self) -> Self {
        self.details.is_fenced = true;
        self
    }
}

const SPEC: Spec = Spec {
    kind: AlgorithmKind::Mutex,
    abilities: &[Ability::Fences],
    guarantees: "one unexpired grant of each name at a time, all names or none, with a fencing token that is greater than all before",
    assumes: "one server that keeps its data, whose clock does not jump, and which does not restart within a microsecond",
    objection: "a client that waits for many names can starve, and a holder that outlives its lease does not know it",
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

/// The row of the registry, for two names.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "multi_lock",
    spec: &SPEC,
    scripts: &[ACQUIRE, EXTEND, RELEASE],
    open: Open::One(|connection, env, terms| row_of(builder_of(connection, terms), env, terms)),
};

/// The row of the registry for clients that wait.
pub const ALGORITHM_WAITING: Algorithm = Algorithm {
    name: "multi_lock_waiting",
    spec: &Spec {
        abilities: &[Ability::Fences, Ability::Waits],
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            // It looks once in a while, and that can be late itself.
            (Property::NoLostWakeUp, FaultClass::Slow),
            (Property::NoLostWakeUp, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Fenced, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::NoLostWakeUp, FaultClass::Failover),
            (Property::Fenced, FaultClass::Failover),
        ],
        ..SPEC
    },
    ..ALGORITHM
};

/// The row of the registry for clients that try once, and renew their grants.
pub const ALGORITHM_RENEWED: Algorithm = Algorithm {
    name: "multi_lock_renewed",
    spec: &Spec { abilities: &[Ability::Fences, Ability::Renews], ..SPEC },
    open: Open::One(|connection, env, terms| row_of(builder_of(connection, terms).renew(true), env, terms)),
    ..ALGORITHM
};

/// Nobody wakes a client that waits.
fn builder_of(connection: Connection, terms: &Terms) -> Builder<MultiLock> {
    let names = [terms.key.clone(), format!("{{{}}}:second", terms.key)];
    MultiLock::builder(connection, names).retry(terms.lease / 2)
}

fn row_of(builder: Builder<MultiLock>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
    let multi_lock = builder.fenced().of(env, terms);
    row::open(terms, multi_lock, |MultiLock(lease)| Box::new(ClientSide::new(lease, &[], Record::Value)))
}
