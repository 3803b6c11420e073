//! Redis locks, semaphores and read-write locks over redis-rs: correct ones for use, and [the
//! published ones](published) exactly as published.
//!
//! ```no_run
//! use std::time::Duration;
//! use locks::{Env, Lock as _, Mutex, Terms};
//!
//! # async fn example() -> redis::RedisResult<()> {
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let connection = client.get_multiplexed_async_connection().await?;
//! let terms = Terms { key: "report".into(), lease: Duration::from_secs(10), permits: 1 };
//! let mut mutex = Mutex::new(connection, Env::system(), &terms);
//! if mutex.try_acquire().await? {
//!     // Ours for ten seconds.
//!     mutex.release().await?;
//! }
//! # Ok(()) }
//! ```
//!
//! Every algorithm is generic over [`redis::aio::ConnectionLike`], and over [`Subscribe`] if it
//! waits for messages. [`registry`] lists all algorithms and their guarantees. `lockstep check`
//! tests each guarantee.
//!
//! # Architecture
//!
//! | module | content |
//! | --- | --- |
//! | `env` | the wall clock of a client, and unique names |
//! | `subscribe` | connections that can subscribe |
//! | `connection` | one type for every connection |
//! | `lock` | the trait [`Lock`] and its values |
//! | `script` | Lua scripts that several algorithms share |
//! | `spec` | what an algorithm states about itself, and how it is opened by its name |
//! | `mutex`, `semaphore` | the correct locks, for use |
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
mod spec;
mod mutex;
mod semaphore;
pub mod published;
pub mod registry;

pub use connection::Connection;
pub use env::{Env, Source};
pub use lock::{Lock, Record, Release, Terms};
pub use mutex::Mutex;
pub use semaphore::Semaphore;
pub use subscribe::{Messages, PubSubConnection, Subscribe, Subscription};
