//! What is known of an execution that has run: what happened, what each step touched, and which steps depend on each other.

mod footprint;
mod local_state;
mod history;
mod happens_before;

pub use footprint::Touch;
pub(crate) use footprint::changes;
pub use happens_before::{Agent, Causes};
pub use history::{Event, History, Seen, StayId, What};
pub(crate) use local_state::{Timers, Trail};
