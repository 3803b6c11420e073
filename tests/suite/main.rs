//! All suites in one binary: one link, one run.

mod redis_server;
mod conformance;
mod doors;
mod control;
mod waiting;
mod settings;
mod budgets;
mod pipelines;
mod busy;
mod executions;
mod servers;
mod subscriptions;
mod fidelity;
mod faults;
mod oracles;
mod zoo;
mod algorithms;
mod renewals;
mod traces;
mod sampling;
mod shrinking;
mod verdicts;
mod properties;
mod schedules;
mod replays;
mod program;
mod terminal;
mod shards;
mod linear;
mod serve;
#[cfg(unix)]
mod crowd;
mod readme;
