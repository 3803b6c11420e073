//! A deterministic machine in the same state, given the same input, does the same.
//!
//! An exploration asks the same machines the same questions again and again. Their answers are
//! remembered, so that most of them run only once:
//!
//! - A client is a machine whose state is all that it was told. It answers with its next turn, and
//!   with the time at which its next timer fires (`memory.rs`).
//! - A server is a machine whose state is its data, its subscribers and the commands that wait
//!   there. It is given a request, and the time that its clock shows. It answers with a reply, a
//!   footprint, messages, replies to commands that waited, and its next state (`servers.rs`).
//! - Fresh clients that probe at the end of an execution are one machine with the servers.
//!
//! Each answer is kept in a table (`Memo`), and all tables together are the memory of a runner
//! (`Memory`). A second, different answer is nondeterminism: it is reported, and nothing of that
//! code is remembered any more. One in 61 executions runs again with every machine running, which
//! shows answers that are remembered wrongly.
//!
//! States are known by hashes of 64 bits. If n states are remembered, the probability that any two
//! of them have the same hash is about n² / 2⁶⁵. With the 50,000 states of a full memory, that is
//! less than one in ten thousand million. TLC states the probability for its fingerprints in the
//! same way.

mod table;
mod codes;
mod servers;
mod memory;

pub(crate) use codes::{CodeId, Key, ScenarioTimers, Thresholds, TimerCache, UnknownTimer};
pub(crate) use memory::{Difference, Memory, Timer};
pub(crate) use servers::{
    BeforeJudgement, BeforeProbes, Judgement, Probes, Reply, ServerState, Subscriber, Touches, Transition,
    Waiter,
};
use table::Memo;
