//! The part of a server in replication: a primary or a replica.

use std::sync::Arc;

use bytes::Bytes;

use super::address::Address;
use super::journal::Journal;
use super::link::{Lag, Link, ReplicaEnd};
use super::network::Network;
use crate::clock::Timestamp;
use crate::cluster::Node;

/// The state of replication of one server.
#[derive(Debug, Default)]
pub struct Replication {
    /// What it follows. `None` if it is a primary.
    pub upstream: Option<Upstream>,
    /// The replicas that follow it.
    pub followers: Vec<Follower>,
    /// The offset after the last effect.
    pub offset: u64,
    /// How often it has become a primary. Each time, its history gets a new name.
    pub promotions: u64,
    /// The name of the history that it got from a primary.
    pub inherited: Option<String>,
    /// The name of the history before the last promotion, and the offset up to which it holds.
    pub previous: Option<(String, u64)>,
    /// The running `FAILOVER`.
    pub failover: Option<Failover>,
    /// How late it gets effects as a replica.
    pub lag: Lag,
    /// What a restart can restore, if a client may restart the server.
    pub journal: Option<Journal>,
    /// The servers that it reaches, and its index among them.
    pub place: Option<(Network, Node)>,
}

/// The primary that a replica follows.
#[derive(Debug)]
pub struct Upstream {
    /// The host, as `REPLICAOF` named it.
    pub host: Bytes,
    /// The port.
    pub port: u16,
    /// The link. `None` while there is no connection.
    pub link: Option<ReplicaEnd>,
    /// Since when there has been no connection.
    pub down_since: Timestamp,
    /// Whether it has ever had data from this primary.
    pub has_synced: bool,
}

/// A replica of a server.
#[derive(Debug)]
pub struct Follower {
    /// Its address.
    pub address: Address,
    /// The way to it.
    pub link: Arc<Link>,
}

/// A planned failover, which waits until a replica has everything.
#[derive(Debug)]
pub struct Failover {
    /// The replica that is to take over. `None` is any.
    pub target: Option<Address>,
    /// When it is over: it is given up, or the target takes over with what it has.
    pub deadline: Option<Timestamp>,
    /// Whether the target takes over at the deadline.
    pub is_forced: bool,
}

impl Upstream {
    /// Its address.
    pub(crate) fn address(&self) -> Address {
        (String::from_utf8_lossy(&self.host).into_owned(), self.port)
    }
}

impl Replication {
    /// Whether the link to the primary is missing.
    pub(crate) fn is_stale(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.link.is_none())
    }

    /// How many replicas have acknowledged this offset.
    pub(crate) fn acknowledged_by(&self, offset: u64) -> usize {
        self.followers.iter().filter(|follower| follower.link.acknowledged() >= offset).count()
    }
}
