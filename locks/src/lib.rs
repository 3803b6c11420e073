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
//! Every algorithm is generic over [`redis::aio::ConnectionLike`], and where it waits to be told something over [`Subscribe`];
//! takes time and unique names from [`Env`] alone, and states in its [`Spec`] what it guarantees. [`ALGORITHMS`] lists them all;
//! `lockstep check` holds each to its word.

mod env;
mod subscribe;
mod lock;
mod script;
pub mod published;
mod mutex;
mod semaphore;

pub use env::{Env, Source};
pub use lock::{
    Algorithm, AnyConnection, DynLock, FaultClass, Kind, Lock, Open, Property, Record, Release, Spec, Terms,
};
pub use mutex::Mutex;
pub use semaphore::Semaphore;
pub use subscribe::{Messages, PubSubConnection, Subscribe, Subscription};

/// Every algorithm: the published ones in the order of their history, then the correct ones.
pub const ALGORITHMS: &[Algorithm] = &[
    published::exists_set::ALGORITHM,
    published::setnx::ALGORITHM,
    published::setnx_expire::ALGORITHM,
    published::del_setnx_takeover::ALGORITHM,
    published::getset_takeover::ALGORITHM,
    published::lua_setnx_expire::ALGORITHM,
    published::lua_token::ALGORITHM,
    published::set_nx_ex_del::ALGORITHM,
    published::set_nx_get_del::ALGORITHM,
    published::set_nx_px_cad::ALGORITHM,
    published::redlock::ALGORITHM,
    published::redlock::ALGORITHM_OF_THREE,
    published::reentrant_hash::ALGORITHM,
    published::renewed_hash::ALGORITHM,
    published::local_reentrant::ALGORITHM,
    published::redisson::ALGORITHM,
    published::rw_two_keys::ALGORITHM,
    published::rw_hash::ALGORITHM,
    published::zset_semaphore::ALGORITHM,
    published::fair_semaphore_posted::ALGORITHM,
    published::fair_semaphore_comment::ALGORITHM,
    published::fair_semaphore_weighted::ALGORITHM,
    published::fair_semaphore_locked::ALGORITHM,
    mutex::ALGORITHM,
    semaphore::ALGORITHM,
];
