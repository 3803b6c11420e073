//! Runs any redis-rs code under every order of commands, clock and fault, and checks what must hold.

mod show;
mod fault;
mod schedule;
mod touch;
mod trail;
pub mod history;
pub mod trace;
pub mod oracle;
mod idle;
mod pace;
mod server;
mod tape;
mod world;
mod link;
mod fidelity;
mod scenario;
mod execution;
mod replay;
mod shrink;
mod timeline;
mod saved;
mod replayed;
mod likeness;
mod stretch;
mod claim;
mod on_redis;
mod report;
pub mod explorer;
pub mod strategy;
pub mod verdict;
pub mod linear;

pub use claim::ClaimError;
pub use execution::{Choice, Policy, Runner, STEPS_MAX};
pub use explorer::{Exploration, exhaustive, explore_all, explore_random, run, sample};
pub use fault::{Budget, Faults, Mishap};
pub use link::{Client, Hold, Link, Stay};
pub use on_redis::{Comparison, OnRedis, OnRedisError, replay_on_redis};
pub use replay::{Follow, Replay, replay};
pub use replayed::{MisfitError, Replayed, replay_saved};
pub use report::{Problem, Report, draw};
pub use saved::{Expected, Must, Saved, SavedError, SavedStep, Subject};
pub use scenario::{ActorError, RESPONSE_TIMEOUT, Scenario};
pub use schedule::{ACTORS_MAX, Actor, ParseError, SPAN_MAX, Schedule, Step, Whose};
pub use server::Server;
pub use show::{printable, show_url};
pub use shrink::{Cost, Finding, shrink};
pub use touch::Touch;
pub use world::Recording;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
