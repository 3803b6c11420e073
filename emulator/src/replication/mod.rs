//! Replication: what a server sends to its replicas, and the part of each server in it.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>
//!
//! A primary sends the effects of its commands, not the commands. The module knows no client and
//! runs nothing: `engine/effects.rs` collects effects, `command/replicate.rs` applies them, and
//! `engine/replication.rs` changes the role of a server.

mod address;
mod effect;
mod outgoing;
mod link;
mod copy;
mod journal;
mod report;
mod network;
mod role;

pub use crate::cluster::Node;
pub use address::{Address, default_address, is_same};
pub use copy::Copy;
pub use effect::{Effect, Unit};
pub use journal::{Journal, Past};
pub use link::{Lag, Link, ReplicaEnd, Sent};
pub use network::{Network, Order, Peer, Replica};
pub use outgoing::Outgoing;
pub use report::{Answer, Opinion, Report, View};
pub use role::{Failover, Follower, Replication, Upstream};
