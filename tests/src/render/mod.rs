//! Text for people: how requests, replies and keys are shown, and the timeline of an execution.

mod format;
pub(crate) mod timeline;

pub(crate) use format::*;
pub use format::{format_url, printable};
