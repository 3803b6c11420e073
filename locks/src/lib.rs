//! Redis locks, semaphores and read-write locks over redis-rs: correct ones to use, and [the published ones](published) exactly
//! as published.
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
//! Every algorithm is generic over [`redis::aio::ConnectionLike`], and over [`Subscribe`] if it waits for messages. [`registry`] lists all
//! algorithms with what they guarantee; `lockstep check` tests each guarantee.
//!
//! # Architecture
//!
//! | module | what it has |
//! | --- | --- |
//! | `env` | the wall clock of a client, and names that no other client has |
//! | `subscribe` | connections that can subscribe |
//! | `lock` | the trait [`Lock`] and its values |
//! | `script` | Lua scripts that several algorithms share |
//! | `mutex`, `semaphore` | the correct ones to use |
//! | [`published`] | a file for every published algorithm, exactly as published |
//! | [`registry`] | all of them by their names, and what each states about itself |
//!
//! A lock does not know that it is tested. Time and unique names come from [`Env`] alone, so that a harness can control them.

mod env;
mod subscribe;
mod lock;
mod script;
mod mutex;
mod semaphore;
pub mod published;
pub mod registry;

pub use env::{Env, Source};
pub use lock::{Lock, Record, Release, Terms};
pub use mutex::Mutex;
pub use semaphore::Semaphore;
pub use subscribe::{Messages, PubSubConnection, Subscribe, Subscription};
