//! What a client that judges the end is told of the others.

use crate::actor::Actor;

/// How the actors of an execution ended, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ended {
    /// Their code came to its end.
    pub finished: Vec<Actor>,
    /// Their code ended with an error that a fault explains, or the end of a lease.
    pub failed: Vec<Actor>,
    /// They crashed.
    pub crashed: Vec<Actor>,
}
