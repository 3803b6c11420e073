//! The record of an execution: its events, its step footprints, and the order between dependent
//! steps.

mod ended;
mod footprint;
mod local_state;
mod event;
mod history;
mod happens_before;
mod recorder;

pub use ended::Ended;
pub use event::{CallId, Event, EventKind, HoldId, KeyChange, LeftBy, Script, Sent, Struck};
pub(crate) use footprint::changes;
pub use footprint::{StepFootprint, StepResource};
pub use happens_before::{HappensBefore, Process};
pub(crate) use history::HistoryMark;
pub use history::{History, Reached};
pub(crate) use local_state::LocalState;
pub(crate) use recorder::Recorder;
