//! What a replica gets when its link begins.

use super::link::ReplicaEnd;
use crate::keyspace::Keyspace;
use crate::script::Libraries;

/// A copy of a primary's data, with the link that goes on from there.
pub struct Copy {
    /// The data.
    pub keyspace: Keyspace,
    /// The functions.
    pub libraries: Libraries,
    /// The name of the primary's history.
    pub history: String,
    /// The offset up to which the copy has everything.
    pub offset: u64,
    /// The way of what comes after.
    pub link: ReplicaEnd,
}
