//! The locks of the `locks` crate, and known bugs of other locks.

pub(crate) mod algorithms;
mod blocking;
mod cancellations;
mod guards;
mod multi_locks;
mod redlocks;
mod rewritten;
mod mutants;
mod judged;
mod latches;
mod rate_limits;
mod renewals;
mod stress;
mod verdicts;
mod known_bugs;
