//! The servers that keep a lock.

use crate::connection::Connection;

/// The fewest servers of a lock on several: two of them tolerate no failure.
const MANY_MIN: usize = 3;

/// The servers of a lock.
#[derive(Clone, Debug)]
pub(crate) enum Servers {
    One(Connection),
    /// Independent servers. Most of them have to grant the lock.
    Many(Vec<Connection>),
}

impl Servers {
    /// Why these servers make no sense, if so.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Servers::Many(connections) if connections.len() < MANY_MIN => {
                Some(format!("a lock on several servers needs at least {MANY_MIN} of them"))
            }
            _ => None,
        }
    }
}
