//! Cancels each public future of the locks for use wherever it waits. No grant of it outlives a
//! lease, also if a task would renew it, and no other client loses anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use harness::oracle::Recovers;
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario, exhaustive, sample};
use locks::{
    Builder, Connection, Error, MultiLock, Mutex, Redlock, ReentrantMutex, Release, RwLock, Semaphore,
};
use others::{ELECTION, IDEMPOTENCY_KEYS, LATCH, LIMITER};

use super::judged::{Judged, note};

const LEASE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_secs(1);
/// Another client of a lock on several servers makes too many orders to run them all.
const SAMPLES: u64 = 2_000;

type Done<T> = Pin<Box<dyn Future<Output = Result<T, ActorError>> + Send>>;

/// The code of a client.
type Act<T> = fn(Client) -> Done<T>;

/// The futures of a type, and the clients around the one that is cancelled.
struct Futures {
    /// Runs everything once, so that the servers know the scripts.
    before: Act<()>,
    /// Each future as `Type::method`, and a client whose call of it is cancelled.
    cancelled: &'static [(&'static str, Act<()>)],
    /// Acquires and releases, and must not notice anything of the other client.
    other: Act<()>,
    /// Must get a grant when a lease has passed, and so many such clients at the same time.
    fresh: Act<bool>,
    wanted: u32,
    servers: usize,
}

impl Futures {
    /// A client is cancelled while another one acquires and releases.
    fn scenario(&self, (name, cancelled): (&str, Act<()>), others: usize) -> Scenario {
        Scenario::new(format!("{name}, cancelled"))
            .servers(self.servers)
            .lease(LEASE)
            .faults(Faults::none().cancels(1))
            .must_reach(Reached { cancel: true, ..Reached::default() })
            .before(self.before)
            .actors(1, cancelled)
            .actors(others, self.other)
            .probe(self.wanted, self.fresh)
            .always(Recovers)
    }

    fn explore(&self) {
        for &case in self.cancelled {
            if self.servers == 1 {
                let found = exhaustive(&self.scenario(case, 1).always(Judged)).unwrap();
                println!("{}: {} schedules", case.0, found.schedules);
            } else {
                let alone = exhaustive(&self.scenario(case, 0)).unwrap();
                sample(&self.scenario(case, 1).always(Judged), SAMPLES, 0).unwrap();
                println!("{}: {} schedules alone, {SAMPLES} beside another client", case.0, alone.schedules);
            }
        }
    }
}

/// A client with this code.
macro_rules! act {
    ($client:ident => $code:expr) => {
        |$client: Client| Box::pin(async move { $code })
    };
}

/// A client that acquires by this expression, if it is granted, and releases.
macro_rules! beside {
    ($client:ident => $attempt:expr) => {
        act!($client => {
            if let Some(guard) = $attempt.await? {
                guard.extend().await?;
                assert_eq!(guard.release().await?, Release::Released);
            }
            note(&$client);
            Ok(())
        })
    };
}

/// A client that tries by this expression.
macro_rules! tries {
    ($client:ident => $attempt:expr) => {
        act!($client => Ok($attempt.await?.is_some()))
    };
}

/// A client that has this call cancelled. It drops what it was granted.
macro_rules! cancelled {
    ($($name:literal: $client:ident => $call:expr;)+) => {
        &[$(($name, act!($client => unless_cancelled($client.cancellable(async { $call.await }).await)))),+]
    };
}

/// Takes a lock, gives the grant away, and goes on with it.
macro_rules! resumed {
    ($lock:expr, $attempt:ident, $resume:ident) => {
        async {
            let lock = $lock;
            let Some(guard) = lock.$attempt().await? else { return Ok(()) };
            lock.$resume(&guard.into_token()).await.map(drop)
        }
    };
}

mod others;

/// Waiting in vain is no error.
fn unless_cancelled<T>(done: Option<Result<T, Error>>) -> Result<(), ActorError> {
    match done {
        None | Some(Err(Error::TimedOut { .. })) => Ok(()),
        Some(done) => Ok(done.map(drop)?),
    }
}

fn connection(client: &Client) -> Connection {
    Connection::subscribing(client.connection())
}

/// The lock with grants that are renewed.
fn renewed<L>(builder: Builder<L>, client: &Client) -> L {
    builder.env(client.env()).lease(LEASE).renew(true).retry(LEASE).build().unwrap()
}

fn mutex(client: &Client) -> Mutex {
    renewed(Mutex::builder(connection(client), "lock"), client)
}

fn reentrant(client: &Client) -> ReentrantMutex {
    renewed(ReentrantMutex::builder(connection(client), "lock"), client)
}

fn semaphore(client: &Client) -> Semaphore {
    renewed(Semaphore::builder(connection(client), "lock", 2), client)
}

fn rw_lock(client: &Client) -> RwLock {
    renewed(RwLock::builder(connection(client), "lock"), client)
}

fn multi_lock(client: &Client) -> MultiLock {
    renewed(MultiLock::builder(connection(client), ["{lock}1", "{lock}2"]), client)
}

fn redlock(client: &Client) -> Redlock {
    let connections = (0..3).map(|server| Connection::new(client.connection_to(server)));
    renewed(Redlock::builder(connections, "lock"), client)
}

const MUTEX: Futures = Futures {
    before: beside!(client => mutex(&client).try_lock()),
    cancelled: cancelled! {
        "Mutex::lock": client => mutex(&client).lock();
        "Mutex::lock_timeout": client => mutex(&client).lock_timeout(MOMENT);
        "Mutex::try_lock": client => mutex(&client).try_lock();
        "Mutex::resume": client => resumed!(mutex(&client), try_lock, resume);
    },
    other: beside!(client => mutex(&client).try_lock()),
    fresh: tries!(client => mutex(&client).try_lock()),
    wanted: 1,
    servers: 1,
};

const GUARD: Futures = Futures {
    cancelled: &[
        (
            "Guard::lost",
            act!(client => {
                let builder = Mutex::builder(connection(&client), "lock").env(client.env());
                if let Some(guard) = builder.lease(LEASE).build()?.try_lock().await? {
                    _ = client.cancellable(guard.lost()).await;
                }
                Ok(())
            }),
        ),
        (
            "Guard::extend",
            act!(client => {
                if let Some(guard) = mutex(&client).try_lock().await? {
                    _ = client.cancellable(guard.extend()).await;
                }
                Ok(())
            }),
        ),
        (
            "Guard::release",
            act!(client => {
                if let Some(guard) = mutex(&client).try_lock().await? {
                    _ = client.cancellable(guard.release()).await;
                }
                Ok(())
            }),
        ),
    ],
    ..MUTEX
};

const REENTRANT_MUTEX: Futures = Futures {
    before: beside!(client => mutex(&client).try_lock()),
    cancelled: &[
        (
            "ReentrantMutex::lock",
            act!(client => {
                let owner = reentrant(&client);
                let twice = async {
                    let _outer = owner.lock().await?;
                    owner.lock().await
                };
                unless_cancelled(client.cancellable(twice).await)
            }),
        ),
        (
            "ReentrantMutex::lock_timeout",
            act!(client => {
                let owner = reentrant(&client);
                let twice = async {
                    let _outer = owner.lock_timeout(MOMENT).await?;
                    owner.lock_timeout(MOMENT).await
                };
                unless_cancelled(client.cancellable(twice).await)
            }),
        ),
        (
            "ReentrantMutex::try_lock",
            act!(client => {
                let owner = reentrant(&client);
                let twice = async {
                    let _outer = owner.try_lock().await?;
                    owner.try_lock().await
                };
                unless_cancelled(client.cancellable(twice).await)
            }),
        ),
        (
            "ReentrantGuard::release",
            act!(client => {
                let owner = reentrant(&client);
                let Some(outer) = owner.try_lock().await? else { return Ok(()) };
                let inner = owner.try_lock().await?.unwrap();
                unless_cancelled(client.cancellable(inner.release()).await)?;
                unless_cancelled(client.cancellable(outer.release()).await)
            }),
        ),
    ],
    other: beside!(client => mutex(&client).try_lock()),
    fresh: tries!(client => reentrant(&client).try_lock()),
    wanted: 1,
    servers: 1,
};

const SEMAPHORE: Futures = Futures {
    before: beside!(client => semaphore(&client).try_acquire()),
    cancelled: cancelled! {
        "Semaphore::acquire": client => semaphore(&client).acquire();
        "Semaphore::acquire_many": client => semaphore(&client).acquire_many(2);
        "Semaphore::acquire_timeout": client => semaphore(&client).acquire_timeout(MOMENT);
        "Semaphore::try_acquire": client => semaphore(&client).try_acquire();
        "Semaphore::try_acquire_many": client => semaphore(&client).try_acquire_many(2);
        "Semaphore::resume": client => resumed!(semaphore(&client), try_acquire, resume);
    },
    other: beside!(client => semaphore(&client).try_acquire_many(2)),
    fresh: tries!(client => semaphore(&client).try_acquire()),
    wanted: 2,
    servers: 1,
};

const RW_LOCK: Futures = Futures {
    before: act!(client => {
        let guard = rw_lock(&client).try_read().await?.unwrap();
        guard.extend().await?;
        guard.release().await?;
        let guard = rw_lock(&client).try_write().await?.unwrap();
        guard.extend().await?;
        guard.release().await?;
        Ok(())
    }),
    cancelled: cancelled! {
        "RwLock::read": client => rw_lock(&client).read();
        "RwLock::write": client => rw_lock(&client).write();
        "RwLock::read_timeout": client => rw_lock(&client).read_timeout(MOMENT);
        "RwLock::write_timeout": client => rw_lock(&client).write_timeout(MOMENT);
        "RwLock::try_read": client => rw_lock(&client).try_read();
        "RwLock::try_write": client => rw_lock(&client).try_write();
        "RwLock::resume_read": client => resumed!(rw_lock(&client), try_read, resume_read);
        "RwLock::resume_write": client => resumed!(rw_lock(&client), try_write, resume_write);
    },
    other: beside!(client => rw_lock(&client).try_write()),
    fresh: tries!(client => rw_lock(&client).try_write()),
    wanted: 1,
    servers: 1,
};

const MULTI_LOCK: Futures = Futures {
    before: beside!(client => multi_lock(&client).try_lock()),
    cancelled: cancelled! {
        "MultiLock::lock": client => multi_lock(&client).lock();
        "MultiLock::lock_timeout": client => multi_lock(&client).lock_timeout(MOMENT);
        "MultiLock::try_lock": client => multi_lock(&client).try_lock();
        "MultiLock::resume": client => resumed!(multi_lock(&client), try_lock, resume);
    },
    other: beside!(client => multi_lock(&client).try_lock()),
    fresh: tries!(client => multi_lock(&client).try_lock()),
    wanted: 1,
    servers: 1,
};

const REDLOCK: Futures = Futures {
    before: beside!(client => redlock(&client).try_lock()),
    cancelled: cancelled! {
        "Redlock::lock": client => redlock(&client).lock();
        "Redlock::lock_timeout": client => redlock(&client).lock_timeout(MOMENT);
        "Redlock::try_lock": client => redlock(&client).try_lock();
        "Redlock::resume": client => resumed!(redlock(&client), try_lock, resume);
    },
    other: beside!(client => redlock(&client).try_lock()),
    fresh: tries!(client => redlock(&client).try_lock()),
    wanted: 1,
    servers: 3,
};

const ALL: &[Futures] = &[
    MUTEX,
    GUARD,
    REENTRANT_MUTEX,
    SEMAPHORE,
    RW_LOCK,
    MULTI_LOCK,
    REDLOCK,
    LATCH,
    LIMITER,
    ELECTION,
    IDEMPOTENCY_KEYS,
];

#[test]
fn a_mutex_can_be_cancelled() {
    MUTEX.explore();
    GUARD.explore();
}

#[test]
fn a_reentrant_mutex_can_be_cancelled() {
    REENTRANT_MUTEX.explore();
}

#[test]
fn a_semaphore_can_be_cancelled() {
    SEMAPHORE.explore();
}

#[test]
fn a_read_write_lock_can_be_cancelled() {
    RW_LOCK.explore();
}

#[test]
fn a_lock_with_several_names_can_be_cancelled() {
    MULTI_LOCK.explore();
}

#[test]
fn a_lock_on_several_servers_can_be_cancelled() {
    REDLOCK.explore();
}

#[test]
fn a_latch_can_be_cancelled() {
    LATCH.explore();
}

#[test]
fn a_rate_limiter_can_be_cancelled() {
    LIMITER.explore();
}

#[test]
fn an_election_can_be_cancelled() {
    ELECTION.explore();
}

#[test]
fn idempotency_keys_can_be_cancelled() {
    IDEMPOTENCY_KEYS.explore();
}

/// The names of all public futures in a file, as `Type::method`.
fn futures(text: &str) -> BTreeSet<String> {
    let mut owner = "";
    let mut names = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("impl ") {
            owner = name.split([' ', '<']).next().unwrap();
        } else if let Some(method) = line.trim_start().strip_prefix("pub async fn ") {
            names.insert(format!("{owner}::{}", method.split(['(', '<']).next().unwrap()));
        }
    }
    names
}

#[test]
fn each_public_future_is_cancelled() {
    let mut public = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.file_name().and_then(|name| name.to_str()) {
                // The published locks can break, and connections hold nothing.
                Some("published" | "subscribe.rs") => {}
                Some(_) if path.is_dir() => folders.push(path),
                _ => public.extend(futures(&fs::read_to_string(path).unwrap())),
            }
        }
    }
    let cancelled = ALL.iter().flat_map(|futures| futures.cancelled);
    let cancelled: BTreeSet<String> = cancelled.map(|(name, _)| (*name).to_owned()).collect();
    assert!(!cancelled.is_empty());
    assert_eq!(public, cancelled);
}
