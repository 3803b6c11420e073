//! Runs any redis-rs code under every order of commands, clock and fault, and checks what must hold.

mod fault;
mod schedule;
pub mod history;
pub mod oracle;
mod idle;
mod world;
mod link;
mod scenario;
mod execution;
pub mod explorer;
mod shrink;
mod timeline;
mod report;
pub mod strategy;
pub mod verdict;

pub use execution::{Choice, Policy, Runner, STEPS_MAX};
pub use explorer::{Exploration, Finding, explore_all, explore_random, replay};
pub use fault::Faults;
pub use link::{Client, Hold, Link};
pub use report::{Problem, Report, draw, exhaustive, run, sample};
pub use scenario::{ActorError, Scenario};
pub use schedule::{ACTORS_MAX, Actor, ParseError, Schedule, Step};
pub use shrink::shrink;
pub use world::{Recording, Server};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
