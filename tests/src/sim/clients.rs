//! Whether the clients of an execution run, or are remembered.

use crate::actor::Actor;
use crate::memo::Memory;

/// How the clients of an execution run.
pub(crate) enum Clients {
    /// As tasks, and all servers run everything.
    Tasks,
    /// As tasks, from which is learned. Servers run what is not known.
    Teachers(Memory),
    /// As far as they are known, without tasks. Servers run what is not known.
    Learned(Memory),
}

impl Clients {
    /// Everything that is known of clients and servers. `None` if all of them run.
    pub(super) fn learned(&self) -> Option<&Memory> {
        match self {
            Clients::Tasks => None,
            Clients::Teachers(learned) | Clients::Learned(learned) => Some(learned),
        }
    }
}

/// This client reached a local state in which it has not been seen, or it is not known when its
/// next timer fires.
#[derive(Debug)]
pub(crate) struct Unknown(pub(crate) Actor);
