//! Runs one execution of a scenario on one paused tokio runtime. Each actor is a task. At
//! quiescence the policy chooses the next step, and nothing else decides what happens.

mod policy;
mod known_code;
mod watchdog;
mod start;
mod lesson;
mod run;
mod teach;
mod tasks;
mod enabled;
mod time;
mod heal;
mod runner;
mod thresholds;

pub use known_code::KnownCode;
pub use policy::{Choice, Policy};
pub(crate) use runner::Mode;
pub use runner::{Executed, Learning, Runner, Stopper, cores};
