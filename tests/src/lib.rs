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
//! [`guide::architecture`] follows a schedule and a client through the files, and has the
//! invariants.
//!
//! The modules, in the order in which they may import each other, a later one from an earlier one:
//!
//! | module | what it has |
//! | --- | --- |
//! | `fingerprint` | hashes that are equal in all processes |
//! | `interned` | the names of sections, resources and operations |
//! | [`linearizability`] | whether calls one after the other explain the answers to concurrent ones |
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
//! | [`guide`] | no code: how to use all this, chapter by chapter |

mod fingerprint;
mod interned;
pub mod linearizability;
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
pub mod guide;

pub use client::Client;
pub use explore::{Exploration, Report, exhaustive, sample};
pub use fault::Faults;
pub use locks::Record;
pub use replay::{SavedSchedule, replay, replay_saved};
pub use scenario::{ActorError, Limits, Scenario, from_fn};
pub use schedule::Schedule;
pub use sim::ServerData;
pub use trace::Ended;

/// The examples of the front page are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
