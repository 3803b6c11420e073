//! The locks of the `locks` crate, and bugs that others had.

pub(crate) mod algorithms;
mod renewals;
mod verdicts;
mod known_bugs;
