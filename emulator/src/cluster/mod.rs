//! Redis Cluster, as one of its servers sees it: who owns which slot, and who replicates whom.
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
//!
//! The module is plain data. It knows no client, no clock and no connection: `engine/cluster.rs`
//! changes the role of a server when its view changes, and `replication/network.rs` carries the
//! claims of servers to those that they reach.

mod slot;
mod claim;
mod slot_map;
mod view;

pub use claim::Claim;
pub use slot::{HashSlot, SLOTS, key_slot};
pub use slot_map::SlotMap;
pub use view::{Change, Cluster, NODES_MAX};

/// The index of a server among those of one process that reach each other.
pub type Node = usize;
