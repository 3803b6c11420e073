//! What a server of a cluster tells the others about itself.

use std::ops::RangeInclusive;

use super::Node;
use super::slot::HashSlot;

/// The part of a server in a cluster. If two servers claim a slot, the higher epoch wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The server.
    pub node: Node,
    /// The server that it replicates. `None` if it is a primary.
    pub primary: Option<Node>,
    /// When it got its slots, in the order of such events.
    pub epoch: u64,
    /// The highest epoch that is known where the claim was made.
    pub last_epoch: u64,
    /// The slots that it owns.
    pub slots: Vec<RangeInclusive<HashSlot>>,
}
