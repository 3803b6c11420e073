//! What servers show of themselves to a Sentinel that asks them.

use std::time::Duration;

use super::address::Address;

/// The answer of another server.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It cannot be reached.
    Gone,
    /// It is reached, and answers nothing: `DEBUG SLEEP`.
    Silent,
    /// Something else has it at this moment, so there is nothing new of it.
    Busy,
    /// A server with data.
    Server(Report),
    /// Another Sentinel.
    Sentinel(Opinion),
}

/// The state of a server with data, as `INFO` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The identity of the server: another one after each start.
    pub run_id: String,
    /// The primary that it follows, and for how long the link has been down if it is. `None` if the
    /// server is a primary.
    pub upstream: Option<(Address, Option<Duration>)>,
    /// `replica-priority`: 0 is never promoted, a smaller number is promoted first.
    pub priority: u64,
    /// The offset up to which it has the stream of its primary.
    pub offset: u64,
    /// The addresses of its replicas.
    pub followers: Vec<Address>,
}

/// What a Sentinel tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// Its identity.
    pub id: String,
    /// The greatest epoch that it knows.
    pub epoch: u64,
    /// What it knows of each primary that it watches.
    pub views: Vec<View>,
}

/// What a Sentinel knows of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The name of the primary and its replicas.
    pub name: Vec<u8>,
    /// The address of the primary.
    pub primary: Address,
    /// The epoch of the failover that has made it the primary.
    pub config_epoch: u64,
    /// Whether the Sentinel does not reach it.
    pub is_down: bool,
    /// The epoch of the failover for which the Sentinel asks the others for their votes.
    pub candidacy: Option<u64>,
}
