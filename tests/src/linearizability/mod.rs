//! Linearizability: whether the replies to concurrent calls could also be those of calls made one
//! after the other.
//!
//! [`Linearizable`](crate::oracle::Linearizable) judges the operations of a scenario's clients by
//! it. A [`Log`] is for runs that no schedule orders, for example many concurrent tasks against a
//! real server.
//!
//! Sources: Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects"
//! (1990). The search is that of Wing and Gong, with Lowe's cache of states that were tried,
//! "Testing for linearizability" (2017).

mod model;
mod objects;
mod permits;
mod log;
mod search;

pub use log::Log;
pub use model::{Model, Operation};
pub use objects::{Call, Counter, Map, Must, Object, Queue, Register, Set};
pub use permits::{LockCall, Permits};
pub use search::{NotLinearizable, linearize};
