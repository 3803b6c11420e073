//! Redis locks, semaphores and read-write locks over redis-rs: correct ones for use, and [the
//! published ones](published) exactly as published.
//!
//! ```no_run
//! use std::time::Duration;
//! use locks::{Connection, Mutex};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let connection = Connection::new(client.get_multiplexed_async_connection().await?);
//! let mutex = Mutex::builder(connection, "report").lease(Duration::from_secs(10)).build()?;
//! let guard = mutex.lock().await?;
//! // Ours for ten seconds.
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Which lock
//!
//! | type | holders | row of `lockstep check` |
//! | --- | --- | --- |
//! | [`Mutex`] | one | `mutex`, `mutex_renewed`, `mutex_waiting`, `mutex_fair` |
//! | [`ReentrantMutex`] | one, which can lock again | `reentrant_mutex` |
//! | [`MultiLock`] | one, of several names at once | `multi_lock`, `multi_lock_renewed`, `multi_lock_waiting` |
//! | [`Redlock`] | one, on most of several servers | `redlock_for_use` |
//! | [`RwLock`] | any number of readers, or one writer | `rw_lock`, `rw_lock_renewed`, `rw_lock_waiting` |
//! | [`Semaphore`] | up to N permits | `semaphore`, `semaphore_renewed`, `semaphore_waiting`, `semaphore_fair` |
//! | [`Election`] | one leader, whose term and name everyone can read | none: it is a fenced `mutex` |
//! | [`IdempotencyKeys`] | one caller of an operation, until its result is kept | none |
//!
//! [`CountDownLatch`] and [`RateLimiter`] are no locks, and have no row. The suite of the crate
//! explores what has no row.
//!
//! Each attempt, extension and release is one script: one round trip, as long as the server knows
//! the script. [`Redlock`] sends it to all servers at once. A client that waits also subscribes to
//! a channel, on a connection of its own. For [`Redlock`] and [`MultiLock`], it only looks again.
//! Every key has a time to live, so that nothing stays when all clients are gone.
//!
//! | key | holds | lives for |
//! | --- | --- | --- |
//! | `NAME` | the grant of the mutex or writer, or the permits | one lease after the last grant |
//! | `{NAME}:readers` | the readers of a read-write lock | one lease after the last grant |
//! | `{NAME}:queue`, `{NAME}:alive` | the clients that wait | two seconds after the last look |
//! | `{NAME}:fence` | the last fencing token | one day |
//! | `{NAME}:leader` | the leader of an election | one lease after the last grant |
//! | `NAME:KEY` | the claim or the result of an idempotency key | one lease after the last grant; the retention |
//!
//! # Guarantees
//!
//! `lockstep check` runs each lock in the orders of commands of two or three clients, with the
//! faults of one class at a time. It runs all orders within its bounds, or a sample of them, and
//! says which. The locks for use then do as follows.
//!
//! | class | faults | what breaks |
//! | --- | --- | --- |
//! | `order`, `skew`, `crash`, `lost`, `cancel`, `cluster` | wrong clocks of clients, crashes, lost messages, cancelled calls, slots of a cluster that move | nothing, but for [`Redlock`]: clients that try at once may all fail |
//! | `slow` | a client stalls past its lease | it may be inside together with the next one; nobody ends the grant of another, and fencing tokens rise; a client that waits for a [`MultiLock`] may look late |
//! | `server` | a server loses data, or its clock jumps | two clients may have the lock, a fencing token may occur twice, and a released lock may be free only after a lease |
//! | `failover` | a replica takes over without the last write or with another clock, or the old primary still serves some clients | the same as in `server`; a [`ReentrantMutex`] may be somebody else's in between, and a client that waits may look late; for [`Redlock`] only that two clients may have the lock |
//!
//! If two clients inside together do lasting harm, and the resource cannot check fencing tokens,
//! use none of these: use a transaction of the resource, or a system with consensus.
//!
//! # Leases and fencing
//!
//! Every grant has a lease: without one, a crashed holder would keep the lock for ever. So a client
//! that stalls for longer than its lease still believes that it holds the lock, while another one
//! does. No lock on a server can change that. There are three remedies:
//!
//! - A task renews the lease while the client works: [`Builder::renew`]. It stalls together with
//!   its process.
//! - The client stops when its grant is lost: [`Guard::lost`]. Its earlier requests still
//!   arrive.
//! - The resource refuses old tokens: [`Guard::fencing_token`]. Only this keeps a late client out.
//!
//! A lock without the third is advice: it saves work that would be done twice, and does not keep
//! data correct. Source: Martin Kleppmann, [How to do distributed locking][fencing] (2016).
//!
//! [fencing]: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
//!
//! # Connections
//!
//! A [`Connection`] wraps any connection of redis-rs. With [`Connection::new`], a client that waits
//! asks again and again. With [`Connection::subscribing`], as over a [`PubSubConnection`], it is
//! notified when it may try.
//!
//! The emulator's connections are connections of redis-rs, too, so nothing else changes on the way
//! to a real server. `cargo run --example leader` elects a leader on the emulator, or on the server
//! whose URL it is given.
//!
//! ```
//! use locks::{Connection, Mutex};
//!
//! # async fn example() -> Result<(), locks::Error> {
//! let server = emulator::Emulator::new();
//! let mutex = Mutex::builder(Connection::new(server.connection()), "report").build()?;
//! assert!(mutex.try_lock().await?.is_some());
//! # Ok(()) }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(example()).unwrap();
//! ```
//!
//! # From one process to another
//!
//! [`Guard::into_token`] ends a guard without a release, and `resume` of the same lock makes a
//! guard of its text, in any process. So a web request can take a lock that a worker releases.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `blocking` | the module `blocking`: locks for code without async |
//! | `tokio-util` | `Guard::cancellation_token`, for work in many tasks |
//! | `tracing` | spans and events of that crate |
//!
//! # Metrics and logs
//!
//! [`Counters`] count attempts, grants, renewals and losses, for any metrics exporter. Each builder
//! takes them. With the feature `tracing`, each of them is an event of that crate, too. Operations
//! are spans: `acquire`, `extend`, `release`; `set_count`, `count_down` and `wait` of a latch.
//! Their field `lock` is the name of the lock. Losses and errors are warnings. No token is shown.
//!
//! # The registry
//!
//! [`registry`] lists all algorithms and their guarantees. `lockstep check` tests each guarantee.
//! The published ones are generic over [`redis::aio::ConnectionLike`], and over [`Subscribe`] if
//! they wait for messages.
//!
//! # Architecture
//!
//! | module | content |
//! | --- | --- |
//! | `env` | the clocks of a client, unique names, and chance |
//! | `subscribe` | connections that can subscribe |
//! | `connection` | one type for every connection |
//! | `lock` | the trait [`Lock`] and its values |
//! | `script` | Lua that several algorithms share |
//! | `spec` | what an algorithm states about itself, and how it is opened by its name |
//! | `error` | the errors of the locks for use |
//! | `counters` | the events of locks: counters, and events and spans for `tracing` |
//! | `name` | the keys of a lock |
//! | `request` | requests to the server, which are sent again |
//! | `wait` | the time for which a client waits |
//! | `bell` | the notification of a client that waits |
//! | `queue` | the waiting clients of a lock, in Lua |
//! | `lease` | settings, attempts, waiting, renewal and guards of the locks for use |
//! | `row` | a lock for use as a row of the registry |
//! | `mutex`, `reentrant_mutex`, `semaphore`, `rw_lock`, `multi_lock`, `redlock` | the locks for use: their scripts and their methods |
//! | `election` | [`Election`]: a mutex that says who holds it |
//! | `idempotency` | [`IdempotencyKeys`]: an operation runs once per key, and its result is remembered |
//! | `latch` | [`CountDownLatch`]: clients wait until others have lowered a count to zero |
//! | `rate_limiter` | [`RateLimiter`]: its two algorithms, and how clients wait for it |
//! | `blocking` | locks for code without async |
//! | [`published`] | one file for every published algorithm, exactly as published |
//! | [`registry`] | all algorithms by name, and what each one states about itself |
//!
//! A lock contains no code for tests. Time and unique names come only from [`Env`], so that a
//! harness can control them.

mod env;
mod subscribe;
mod connection;
mod lock;
mod script;
mod task;
mod spec;
mod error;
mod counters;
mod name;
mod request;
mod wait;
mod bell;
mod queue;
mod lease;
mod row;
mod mutex;
mod reentrant_mutex;
mod semaphore;
mod rw_lock;
mod multi_lock;
mod redlock;
mod election;
mod idempotency;
mod latch;
mod rate_limiter;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod published;
pub mod registry;

pub use connection::Connection;
pub use counters::Counters;
pub use election::{Election, Leader, Leadership};
pub use env::{Env, Source};
pub use error::{Error, Operation};
pub use idempotency::{Begin, IdempotencyClaim, IdempotencyKeys};
pub use latch::{CountDownLatch, CountDownLatchBuilder};
pub use lease::{Builder, Guard};
pub use lock::{Lock, Record, Release, Terms};
pub use multi_lock::MultiLock;
pub use mutex::Mutex;
pub use rate_limiter::{Decision, RateLimiter, RateLimiterBuilder};
pub use redlock::Redlock;
pub use reentrant_mutex::{ReentrantGuard, ReentrantMutex};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use subscribe::{Messages, PubSubConnection, Subscribe, Subscription};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
