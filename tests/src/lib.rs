//! Runs any redis-rs code under every order of commands, clock and fault, and checks what must
//! hold.
//!
//! A [`Scenario`] names actors, [`Faults`] and oracles. [`exhaustive`] runs one schedule of every
//! trace, [`sample`] draws schedules by chance, [`replay()`] runs one. If an oracle finds a
//! violation, the [`Report`] has the shortest schedule that shows it, and its timeline.
//!
//! The [`guide`] begins with a first test.
//!
//! # Architecture
//!
//! The way of a schedule, file by file:
//!
//! 1. [`exhaustive`] calls `explore/parallel.rs`. That runs `explore/dpor.rs` with one actor, two,
//!    and so on, if all run the same code, and divides large explorations among the cores.
//!    [`sample`] calls `explore/series.rs` and `explore/sampler.rs` instead. `explore/division.rs`
//!    finds the shard of the process, and `explore/journal.rs` keeps what is done.
//! 2. `execution/runner.rs` runs one execution. Clients and servers that are known run nowhere:
//!    `memo` has what they did before. If a client is not known, all clients run on a paused tokio
//!    runtime (`live`). A [`Policy`](execution::Policy) chooses the
//!    steps: `dpor`, or one of the ways to draw them.
//! 3. When no task can run (`live/quiescence.rs`), `execution/enabled.rs` lists the steps that are
//!    possible, and the policy chooses.
//! 4. `execution/mod.rs` takes the step. An actor starts, a request that waits at a gate
//!    (`sim/gate.rs`) passes, time moves, or a fault strikes (`fault`).
//! 5. `sim/serve.rs` serves the request. If nobody knows the reply, `sim/session.rs` asks the
//!    emulator. `trace/recorder.rs` writes events and footprints.
//! 6. `execution/heal.rs` lets every client run to its end without further faults, and then probes.
//! 7. `explore/parallel.rs` gives each history to the oracles. `trace/happens_before.rs` finds the
//!    races, from which `dpor` plans other orders.
//! 8. `shrink` makes a violation as simple as it gets. `explore/mod.rs` replays it in full and
//!    makes the [`Report`] (`explore/report.rs`) with its timeline (`render/timeline.rs`).
//!
//! Tests use `explore/brute_force.rs`, which runs every schedule, to judge `dpor`.
//!
//! The modules, in the order in which they may import each other, a later one from an earlier one:
//!
//! | module | what it has |
//! | --- | --- |
//! | `actor` | the names of clients |
//! | `fault` | what may go wrong: one row each, and the budgets |
//! | `schedule` | steps, and schedules as text |
//! | [`trace`] | what happened in an execution: history, step footprints, happens-before |
//! | [`oracle`] | what must hold; sees a history and nothing else |
//! | [`lint`] | habits that break locks, found in the commands of a few executions |
//! | `render` | text for people: commands, replies, timelines |
//! | `live` | clients whose code runs: what they are told, and what they do in their turns |
//! | `memo` | what clients and servers did before, so that it need not run again |
//! | `sim` | one execution: its world as a value, and what carries that on |
//! | `client` | a client's side: gated connections, subscriptions, holds |
//! | `scenario` | what is tested |
//! | `execution` | runs one schedule |
//! | `replay` | schedules that are known: followed, saved, rescaled, on a real server |
//! | [`page`] | counterexamples as data and as pages |
//! | `shrink` | simpler schedules with the same violation |
//! | [`explore`] | many schedules: reduction, brute force, samples, reports |
//! | [`proptest`] | strategies for `proptest` |
//! | [`check`] | the verdict table of the `locks` crate |
//! | [`linearizability`] | the judge of runs that no schedule orders |
//! | [`guide`] | no code: how to use all this, chapter by chapter |
//!
//! # Invariants
//!
//! - Equal schedules give equal executions: nothing but the policy decides. One execution of 61,
//!   and six of the first 61, are replayed to make sure.
//! - The code of a client runs from its start, once for each local state. A server runs a request
//!   once for each of its own states. Later executions repeat what both did there, and an
//!   exploration begins them where they differ from the execution before. One execution of 61 is
//!   compared with one in which everything runs, and so is all that is reported.
//! - Brute force and the reduction share the execution, but not the choice of schedules; brute
//!   force judges the reduction.
//! - On a real server no footprint is known, so schedules are only replayed there, never explored.

pub mod actor;
pub mod fault;
pub mod schedule;
pub mod trace;
pub mod oracle;
pub mod lint;
pub mod render;
pub mod live;
mod memo;
pub mod sim;
pub mod client;
pub mod scenario;
pub mod execution;
pub mod replay;
pub mod page;
pub mod shrink;
pub mod explore;
#[cfg(feature = "proptest")]
pub mod proptest;
pub mod check;
pub mod linearizability;
pub mod guide;

pub use client::Client;
pub use explore::{Exploration, Report, exhaustive, sample};
pub use fault::Faults;
pub use locks::Record;
pub use replay::{SavedSchedule, replay, replay_saved};
pub use scenario::{ActorError, Limits, Scenario, from_fn};
pub use schedule::Schedule;

/// The examples of the front page are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
