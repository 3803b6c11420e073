//! A lock on most of several independent servers: Redlock.
//!
//! 1. Draw a new token, read the monotonic clock, and ask all servers at once. Each runs one
//!    script: if the key does not exist, or holds our token, set it to our token with a time to
//!    live of one lease. A server that does not reply within [`Builder::server_timeout`] counts as
//!    failed.
//! 2. If more than half of all servers granted it, read the clock again. The client relies on the
//!    lock for a lease after the first reading, less 1 % and 2 ms for the drift of clocks. If
//!    nothing of that is left, the lock is given back, and the result is [`Error::TooLate`].
//! 3. If the servers that can still grant it are too few, give it up on each server, after that
//!    server has replied. The attempt ends when all have done so, or a second timeout later. If
//!    most servers failed, the result is [`Error::NoQuorum`]. Otherwise the lock is taken, and a
//!    client that waits tries again after a random time.
//! 4. Extend: ask all servers at once. Where the key holds our token, its time to live is one lease
//!    again. If more than half did that, the lease begins anew, counted from before the first
//!    request. No server gets the token that does not have it.
//! 5. Release: on every server, delete the key if it holds our token.
//!
//! Requests that a client no longer waits for go on in a task. If a server grants the lock only
//! after its holder has released it, that task releases it there.
//!
//! # Guarantees and limits
//!
//! While two majorities have a server in common that keeps its keys until they expire, at most one
//! client has an unexpired grant. This assumes three things.
//!
//! - Clocks run at nearly the same speed, and do not jump. If a server's clock jumps by a lease,
//!   its vote is free too early.
//! - A server that restarts still has its keys, or stays away for longer than the longest lease.
//!   With the default `appendfsync everysec`, a crash loses up to a second of votes.
//! - A server is a master of its own. If a replica takes over before it has a vote, the vote is
//!   lost.
//!
//! There are no fencing tokens: numbers of independent servers have no common order. So nothing
//! keeps out a client that stalls for longer than its lease, and then writes. If that must never
//! happen, use a fenced [`Mutex`](crate::Mutex), or a system with consensus. A grant on most
//! servers survives the loss of the others, which a `Mutex` does not.
//!
//! Three clients on three servers can get one vote each. All then give up and try again: the random
//! pauses make it unlikely that this repeats, but no bound is known.
//!
//! Sources: Salvatore Sanfilippo,
//! <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>. The objections:
//! Martin Kleppmann, "How to do distributed locking" (2016),
//! <https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>. The answer:
//! Salvatore Sanfilippo, "Is Redlock safe?" (2016), <http://antirez.com/news/101>.

use std::time::Duration;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts, Servers};
use crate::lock::{Record, Terms};
use crate::row::{self, ClientSide};
use crate::script::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND, Script};
use crate::spec::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Open, Property, Spec};

const ACQUIRE: &str = "\
-- acquire
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, 0}";

static SCRIPTS: Scripts = Scripts {
    acquire: Script::new(ACQUIRE),
    extend: Script::new(COMPARE_AND_EXTEND),
    release: Script::new(COMPARE_AND_DELETE),
};

const KIND: Kind<Redlock> = Kind {
    protocol: |names, _| Protocol {
        scripts: &SCRIPTS,
        keys: vec![names[0].key.clone()],
        channels: Vec::new(),
        has_queue: false,
        more: Vec::new(),
    },
    new: |lease, _| Redlock(lease),
};

/// A lock for one holder at a time, on most of several independent servers. It survives the loss of
/// the others. Clones share it.
///
/// It is safe only while no server loses a vote: if its clock jumps by a lease, or it restarts
/// without its data and comes back within a lease, two clients can hold the lock. It gives no
/// fencing tokens. A fenced [`Mutex`](crate::Mutex) on one server is safer, and less available.
/// Kleppmann's [objections](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html)
/// and Sanfilippo's [answer](http://antirez.com/news/101) say more.
///
/// A waiting client tries again after [`Builder::retry`], by chance up to a half earlier. In
/// between, it holds nothing.
///
/// ```
/// use locks::{Connection, Redlock, Release};
///
/// # async fn example(connections: [Connection; 3]) -> Result<(), locks::Error> {
/// let redlock = Redlock::builder(connections, "report").build()?;
/// let guard = redlock.lock().await?;
/// // Ours, on at least two of three servers.
/// assert!(redlock.try_lock().await?.is_none());
/// assert_eq!(guard.release().await?, Release::Released);
/// # Ok(()) }
/// # let servers = [(); 3].map(|()| emulator::Emulator::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # let connections = servers.each_ref().map(|server| Connection::new(server.connection()));
/// # runtime.block_on(example(connections)).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Redlock(Lease);

impl Redlock {
    /// The settings of the lock with this name on these servers, which have to be independent of
    /// each other. All clients have to use the same servers.
    ///
    /// There are at least three. An even number is possible, and of no use: it survives no more
    /// failures than one server less. Half of the servers are not enough.
    pub fn builder(connections: impl IntoIterator<Item = Connection>, name: &str) -> Builder<Redlock> {
        let servers = Servers::Many(connections.into_iter().collect());
        Builder::new(servers, vec![name.to_owned()], Details::default(), KIND)
    }

    /// Waits until most servers grant the lock. If the future is dropped, the client holds nothing.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the lock was taken for as long as [`Builder::wait`] says.
    /// [`Error::TooLate`]: the servers were too slow for the lease. [`Error::NoQuorum`]: so many
    /// servers failed that the others are not most of them.
    pub async fn lock(&self) -> Result<Guard, Error> {
        self.0.acquire(&[]).await
    }

    /// Waits up to `timeout` until most servers grant the lock.
    ///
    /// # Errors
    /// Those of [`Redlock::lock`].
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Guard, Error> {
        self.0.acquire_timeout(timeout, &[]).await
    }

    /// Tries once. `None` if another client has the lock, or if several clients try at the same
    /// time, and none of them gets most servers.
    ///
    /// # Errors
    /// Those of [`Redlock::lock`], without the first.
    pub async fn try_lock(&self) -> Result<Option<Guard>, Error> {
        self.0.try_acquire(&[]).await
    }

    /// Goes on with a grant that another guard has given away: [`Guard::into_token`]. Its lease
    /// begins anew.
    ///
    /// # Errors
    /// [`Error::Lost`]: the grant has ended. [`Error::Invalid`]: the text is no token of such a
    /// grant. [`Error::NoQuorum`]: whether the grant still exists is not known.
    pub async fn resume(&self, token: &str) -> Result<Guard, Error> {
        self.0.resume(token, 0).await
    }
}

impl Builder<Redlock> {
    /// How long a client waits for the reply of a server, at most half of the lease: if this is not
    /// called, a twentieth of the lease, and at most 200 milliseconds.
    ///
    /// A silent server delays each release by `server_timeout`, and each attempt in vain by up to
    /// twice as long. It does not delay a grant.
    pub fn server_timeout(self, server_timeout: Duration) -> Self {
        self.with_server_timeout(server_timeout)
    }
}

const SPEC: Spec = Spec {
    kind: AlgorithmKind::Mutex,
    abilities: &[Ability::TimesOut],
    guarantees: "one unexpired grant at a time, ended by its holder or by its lease, as long as most servers answer",
    assumes: "servers whose clocks never jump, and which either keep their data or stay down for a lease after losing it",
    objection: "clocks and restarts of servers decide whether it is safe, and a holder that outlives its lease is not fenced off",
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::ExclusiveFact, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::Progress, FaultClass::Order),
        (Property::ExclusiveFact, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
    ],
};

/// The row of the registry, for three servers.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "redlock_for_use",
    spec: &SPEC,
    scripts: &[ACQUIRE, COMPARE_AND_EXTEND, COMPARE_AND_DELETE],
    open: Open::Many(3, open_row),
};

fn open_row(connections: Vec<Connection>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
    let redlock = Redlock::builder(connections, &terms.key).of(env, terms);
    row::open(terms, redlock, |Redlock(lease)| Box::new(ClientSide::new(lease, &[], Record::Majority)))
}
