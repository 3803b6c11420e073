//! The locks of the `locks` crate, and known bugs of other locks.

pub(crate) mod algorithms;
mod guards;
mod mutants;
mod renewals;
mod verdicts;
mod known_bugs;
