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
//! | `script` | Lua scripts that several algorithms share |
//! | `spec` | what an algorithm states about itself, and how it is opened by its name |
//! | `error` | the errors of the locks for use |
//! | `name` | the keys of a lock |
//! | `queue` | the waiting clients of a lock, in Lua |
//! | `lease` | settings, attempts, waiting, renewal and guards of the locks for use |
//! | `row` | a lock for use as a row of the registry |
//! | `mutex`, `semaphore` | the locks for use: their scripts and their methods |
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
mod error;
mod name;
mod queue;
mod lease;
mod row;
mod mutex;
mod semaphore;
pub mod published;
pub mod registry;

pub use connection::Connection;
pub use env::{Env, Source};
pub use error::{Error, Operation};
pub use lease::{Builder, Guard};
pub use lock::{Lock, Record, Release, Terms};
pub use mutex::Mutex;
pub use semaphore::Semaphore;
pub use subscribe::{Messages, PubSubConnection, Subscribe, Subscription};
