//! Text for people: requests, replies, keys, and the timeline of an execution.

mod format;
pub mod story;
pub(crate) mod teller;
pub(crate) mod timeline;

pub(crate) use format::*;
pub use format::{format_url, printable};
