//! A Redis 7.0 server inside your process: real RESP, real Lua 5.1, and a clock that you own.
//!
//! ```
//! use std::time::Duration;
//! use emulator::{Clock, Emulator};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> redis::RedisResult<()> {
//! let clock = Clock::manual();
//! let emulator = Emulator::with_clock(clock.clone());
//! let mut connection = emulator.connection();
//!
//! let set = redis::cmd("SET").arg(&["lock", "me", "NX", "PX", "10000"]).to_owned();
//! assert_eq!(set.query_async::<bool>(&mut connection).await?, true);
//! assert_eq!(set.query_async::<bool>(&mut connection).await?, false);
//!
//! clock.advance(Duration::from_millis(10_001)); // no waiting: the lease has run out
//! assert_eq!(set.query_async::<bool>(&mut connection).await?, true);
//! # Ok(()) }
//! ```
//!
//! One engine has three front ends:
//!
//! - [`Emulator::connection`] for redis-rs, with no bytes and no task. The feature `redis`, on by
//!   default, implements redis-rs's traits. Without it, this crate does not need redis-rs.
//! - [`Emulator::stream`] for any client that takes a stream.
//! - [`Emulator::listen`] for any client.
//!
//! Behind each front end, a command, a transaction and a script are atomic on any runtime. Each
//! leaves a [`Footprint`].
//!
//! # Architecture
//!
//! The way of a request, file by file:
//!
//! 1. `server` reads bytes from sockets; `stream` does the same in memory. `direct` gets the
//!    arguments from redis-rs, without bytes.
//! 2. `shared` hands the engine to one caller at a time. While a long script has it, others get
//!    their turn between two steps of the script, or `-BUSY` (`busy`).
//! 3. `connection` does no I/O. It decodes each request with [`resp`] and passes the arguments to
//!    `command::call`, which runs one execution (`Engine::execution` in `engine/mod.rs`).
//! 4. `command` strikes with a fault if a test placed one (`command/fault.rs`). It finds the row of
//!    the command and checks, in one fixed order (`command/perform.rs`): name and arity,
//!    `DEBUG` protection, authentication, `MULTI`, `command/redirection.rs` (cluster),
//!    `command/admission.rs` (memory, replicas), pub/sub mode, `MONITOR`, busy scripts, `CLIENT
//!    PAUSE`. It queues the command after `MULTI`, or runs the function of the row, such as that of
//!    `SET` in `command/string/set.rs`.
//! 5. The function reads and changes the `keyspace`, which records the `footprint` of whatever it
//!    touches, and returns a [`Reply`].
//! 6. `engine` ends the execution: it serves blocked clients, notices watched keys, and hands the
//!    outbox (`engine/outbox.rs`) to the clients.
//! 7. `resp` encodes the reply.
//!
//! `redis.call` of a script (`script/redis.rs`) reaches `command/run.rs` with the engine that was
//! lent to the script (`engine/loan.rs`). It checks the rules of scripts in place of those in step
//! 4; step 6 comes once, after the script.
//!
//! The modules, in the order in which they may import each other, a later one from an earlier one:
//!
//! | module | what it has |
//! | --- | --- |
//! | `parse` | spaces and integers, as strictly as Redis reads them |
//! | `error` | Redis's error texts, byte for byte |
//! | `reply` | what a command answers, before it is bytes |
//! | [`resp`] | requests from bytes, replies to bytes; knows no command |
//! | `clock` | the one source of time, and views of it that are wrong |
//! | `glob` | patterns of `KEYS` and `PSUBSCRIBE` |
//! | `log` | log lines, and who receives them |
//! | `long_double` | the floating point of `INCRBYFLOAT` |
//! | `topic` | channels, patterns and shard channels |
//! | `footprint` | what an execution read and changed, and which footprints conflict |
//! | `keyspace` | databases, values, deadlines; knows no client and reads no clock |
//! | `config` | the parameters of `CONFIG` |
//! | `stats` | counters for `INFO`, `LATENCY` and `SLOWLOG` |
//! | `script` | Lua: sandbox, budget, libraries, conversions; knows no command |
//! | `cluster` | who owns which slot, as one server of a cluster sees it |
//! | `client` | what the server knows of each connection |
//! | `fault` | faults that a test places before commands |
//! | `pubsub` | subscriptions |
//! | `tracking` | client-side caching |
//! | `busy` | the long script, as other clients see it |
//! | `replication` | what a server sends to its replicas, and the servers that it reaches |
//! | `sentinel` | what a Sentinel knows and decides; does nothing itself |
//! | `engine` | all of the above as one server |
//! | [`command`] | the table of commands, and the one path through it |
//! | `shared` | the engine behind its lock |
//! | `connection`, `direct`, `stream`, `server`, `background` | the front ends |
//! | `emulator` | the front door: [`Emulator`] |
//! | `group` | servers that reach each other |
//! | `inspect`, `prepare` | what tests read of the data, and what they put there |
//!
//! # Invariants
//!
//! - No command records by hand what it touched. The keyspace records keys. `engine/access.rs`
//!   records scripts, functions, channels and settings, and is the only way to them.
//! - One execution sees one instant. Requests that arrive together may share it.
//! - `connection` does no I/O, and only `server` and `background` know sockets.
//! - Only `script/c_api` has `unsafe` code, which calls Lua's C interface. Lua's own code is in C;
//!   `.github/SECURITY.md` says what that means.

mod parse;
mod error;
mod reply;
pub mod resp;
mod clock;
mod glob;
mod log;
mod long_double;
mod topic;
mod footprint;
mod keyspace;
mod config;
mod stats;
mod script;
mod cluster;
mod client;
mod fault;
mod pubsub;
mod tracking;
mod busy;
mod replication;
mod sentinel;
mod engine;
pub mod command;
mod shared;
mod connection;
mod direct;
mod stream;
mod server;
mod background;
mod emulator;
mod group;
mod inspect;
mod prepare;

pub use clock::{Clock, DRIFT_PPM, Timestamp};
pub use cluster::{HashSlot, SLOTS, SlotMap, key_slot};
pub use connection::Connection;
pub use direct::{BlockedCommand, DirectConnection};
pub use emulator::Emulator;
pub use engine::{DATABASES, Snapshot};
pub use error::Error;
pub use fault::{Effect, Fault};
pub use footprint::{Access, Footprint, Part, Place, Resource};
pub use inspect::Data;
pub use keyspace::Escaped;
pub use log::{LogHook, LogLevel, LogLine};
pub use replication::{Effect as ReplicatedEffect, Unit};
pub use reply::Reply;
pub use script::{ScriptBudget, ScriptCall};
pub use server::Server;
#[cfg(unix)]
pub use server::UnixServer;
pub use stream::Stream;
