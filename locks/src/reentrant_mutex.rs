//! A mutex whose owner can lock it again while it holds it.
//!
//! 1. Acquire: if the owner holds nothing, as [`Mutex`](crate::Mutex) does. Otherwise the lease
//!    begins anew, by the script that extends it. If that finds that the grant is lost, the owner
//!    gets an error and not a second grant: the outer section would not know.
//! 2. Release: count down in this process. The last guard releases as that of a `Mutex` does.
//!
//! The server knows no count. So a request that is sent twice, as after a lost reply, cannot leave
//! a wrong one.
//!
//! Clones of an owner that wait stand in the queue one by one. When one of them has the lock, the
//! others have it, too, and leave the queue.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::connection::Connection;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease};
use crate::lock::{Lock, Record, Release};
use crate::mutex;
use crate::row;
use crate::spec::{Ability, Algorithm, FaultClass, Open, Property, Spec};

const KIND: Kind<ReentrantMutex> =
    Kind { protocol: mutex::protocol, new: |lease, _| ReentrantMutex { lease, owner: Arc::default() } };

/// One owner of a lock for one owner at a time. The owner can lock it again while it holds it, and
/// has it until its last guard is gone.
///
/// Clones are the same owner. Each [`Builder::build`] makes another one.
///
/// ```
/// use locks::{Connection, ReentrantMutex, Release};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let owner = ReentrantMutex::builder(connection.clone(), "account").build()?;
/// let other = ReentrantMutex::builder(connection, "account").build()?;
/// let outer = owner.lock().await?;
/// let inner = owner.lock().await?;
/// assert_eq!(inner.release().await?, Release::Inner);
/// assert!(other.try_lock().await?.is_none());
/// assert_eq!(outer.release().await?, Release::Released);
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    lease: Lease,
    owner: Arc<Owner>,
}

/// The state that the clones of an owner share.
#[derive(Debug, Default)]
struct Owner {
    /// The grant, while a guard of it exists.
    grant: watch::Sender<Weak<Guard>>,
    /// One clone tries at a time: what is granted to one is not refused to another.
    trying: AsyncMutex<()>,
}

/// A part of an owner's grant. The owner holds the lock until its last guard is released or
/// dropped, or until the grant is lost.
#[derive(Debug)]
#[must_use = "a lock is released as soon as its last guard is dropped"]
pub struct ReentrantGuard(Arc<Guard>);

impl ReentrantMutex {
    /// The settings of the lock with this name.
    pub fn builder(connection: Connection, name: &str) -> Builder<ReentrantMutex> {
        Builder::on_one(connection, name, Details::default(), KIND)
    }

    /// Waits until no other owner has the lock, and takes it. If the future is dropped, the owner
    /// no longer waits, and holds what it held before.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::Mutex::lock). [`Error::Lost`]: the owner has guards, and
    /// their grant is lost. It can lock again when they are gone.
    pub async fn lock(&self) -> Result<ReentrantGuard, Error> {
        self.lock_within(self.lease.wait()).await
    }

    /// Waits up to `timeout` until no other owner has the lock, and takes it.
    ///
    /// # Errors
    /// Those of [`ReentrantMutex::lock`].
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<ReentrantGuard, Error> {
        self.lock_within(Some(timeout)).await
    }

    /// Takes the lock if no other owner has it. `None` if one has, or if the lock is fair and
    /// clients wait.
    ///
    /// # Errors
    /// Those of [`ReentrantMutex::lock`].
    pub async fn try_lock(&self) -> Result<Option<ReentrantGuard>, Error> {
        let _turn = self.owner.trying.lock().await;
        let held = self.owner.grant.borrow().upgrade();
        match held {
            Some(guard) => again(guard).await.map(Some),
            None => Ok(self.lease.try_acquire(&[]).await?.map(|guard| self.owner.keep(guard))),
        }
    }

    async fn lock_within(&self, within: Option<Duration>) -> Result<ReentrantGuard, Error> {
        let mut grant = self.owner.grant.subscribe();
        let began_at = self.lease.elapsed();
        loop {
            let held = grant.borrow_and_update().upgrade();
            if let Some(guard) = held {
                return again(guard).await;
            }
            let left = within.map(|within| within.saturating_sub(self.lease.elapsed() - began_at));
            let mut shared = pin!(grant.changed());
            let mut acquired = pin!(self.lease.acquire_within(left, &[]));
            let granted = poll_fn(|cx| match shared.as_mut().poll(cx) {
                // Another clone has it.
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => acquired.as_mut().poll(cx).map(Some),
            });
            if let Some(granted) = granted.await {
                return Ok(self.owner.keep(granted?));
            }
        }
    }
}

impl Builder<ReentrantMutex> {
    /// Each grant has a [`Guard::fencing_token`], as that of [`Mutex`](crate::Mutex). The guards of
    /// one grant have the same.
    pub fn fenced(mut self) -> Self {
        self.details.is_fenced = true;
        self
    }
}

impl Owner {
    fn keep(&self, guard: Guard) -> ReentrantGuard {
        let guard = Arc::new(guard);
        self.grant.send_replace(Arc::downgrade(&guard));
        ReentrantGuard(guard)
    }
}

/// The lease of the grant begins anew.
async fn again(guard: Arc<Guard>) -> Result<ReentrantGuard, Error> {
    guard.extend().await?;
    Ok(ReentrantGuard(guard))
}

impl ReentrantGuard {
    /// Gives this part of the grant back. If it is the last, the lock is released, as by
    /// [`Guard::release`]. Otherwise the result is [`Release::Inner`].
    ///
    /// # Errors
    /// Those of [`Guard::release`].
    pub async fn release(self) -> Result<Release, Error> {
        match Arc::into_inner(self.0) {
            Some(last) => last.release().await,
            None => Ok(Release::Inner),
        }
    }
}

/// All methods of the grant, but those that end it.
impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// One owner's side of the lock in the registry, with its guards, the innermost last.
struct OwnerSide {
    mutex: ReentrantMutex,
    guards: Vec<ReentrantGuard>,
    /// The token and the fencing token of the last grant.
    last: (String, Option<i64>),
}

impl Lock for OwnerSide {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let guard = match self.mutex.try_lock().await {
            // For a client that does not look at errors of time, the attempt was in vain.
            Err(Error::TooLate { .. } | Error::Lost { .. }) => None,
            other => other?,
        };
        let is_granted = guard.is_some();
        if let Some(guard) = guard {
            self.last = (guard.token().to_owned(), guard.fencing_token());
            self.guards.push(guard);
        }
        Ok(is_granted)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        match self.guards.pop() {
            Some(guard) => Ok(guard.release().await?),
            None => Ok(Release::NotHeld),
        }
    }

    fn record(&self) -> Record {
        Record::Value(self.mutex.lease.key().to_owned(), self.last.0.clone())
    }

    fn fencing_token(&self) -> Option<i64> {
        self.last.1
    }
}

/// The row of the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "reentrant_mutex",
    spec: &Spec {
        abilities: &[Ability::Fences, Ability::Reenters],
        guarantees: "one unexpired grant at a time, which its owner can take again, with a fencing token that is greater than all before",
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Fenced, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Unbroken, FaultClass::Failover),
            (Property::Fenced, FaultClass::Failover),
        ],
        ..mutex::SPEC
    },
    open: Open::One(|connection, env, terms| {
        let mutex = ReentrantMutex::builder(connection, &terms.key).fenced().of(env, terms);
        let (guards, last) = (Vec::new(), (String::new(), None));
        row::open(terms, mutex, |mutex| Box::new(OwnerSide { mutex, guards, last }))
    }),
    ..mutex::ALGORITHM
};
