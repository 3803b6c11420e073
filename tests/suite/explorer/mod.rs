//! Executions, explorations, and schedules that are shrunk, saved and replayed.

pub(crate) mod executions;
mod failures;
mod nondeterminism;
mod known_code;
mod spin_loops;
mod livelocks;
mod thresholds;
mod lost_messages;
mod server_faults;
mod subscriptions;
mod multiplexed;
mod fault_matrix;
pub(crate) mod oracles;
mod oracle_boundaries;
mod grants;
mod vacuous;
mod first_use;
mod lints;
mod traces;
mod outcomes;
mod repeats;
mod sampling;
mod shrinking;
mod proptest;
pub(crate) mod saved_schedules;
mod replay_on_redis;
mod linearizability;
