//! Runs any redis-rs code under every order of commands, clock and fault, and checks what must hold.

mod actor;
mod fault;
mod schedule;
pub mod trace;
mod render;
pub mod oracle;
mod sim;
mod client;
mod scenario;
mod execution;
mod replay;
mod shrink;
pub mod explore;
pub mod proptest;
pub mod check;
pub mod linearizability;

pub use actor::{ACTORS_MAX, Actor};
pub use client::{Client, GatedConnection, Hold, HoldGuard};
pub use execution::{Choice, Policy, Runner, STEPS_MAX};
pub use explore::{
    Exploration, Problem, Report, exhaustive, explore_all, explore_random, render_finding, run, sample,
};
pub use fault::{Budget, Fault, FaultKind, Faults, Target};
pub use render::{format_url, printable};
pub use replay::{
    ClaimError, Comparison, Expectation, ExpectedCommand, Follow, MismatchError, OnRedis, OnRedisError,
    Replay, Replayed, SavedError, SavedSchedule, SavedStep, Subject, replay, replay_on_redis, replay_saved,
};
pub use scenario::{ActorError, RESPONSE_TIMEOUT, Scenario};
pub use schedule::{ParseError, SPAN_MAX, Schedule, Step};
pub use shrink::{Cost, Finding, shrink};
pub use sim::{Recording, Server};
pub use trace::StepFootprint;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
