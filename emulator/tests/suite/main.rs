//! The suite of the emulator, and its comparison with a real server.

#[expect(dead_code, reason = "the other suites use the rest")]
mod redis_server;
#[expect(dead_code, reason = "the other suites use the rest")]
#[path = "../../../tests/suite/bounds.rs"]
mod bounds;
mod conformance;
mod footprints;
mod front_ends;
mod control;
mod waiting;
mod config_effects;
mod script_limits;
mod pipelines;
mod prepared;
mod busy_scripts;
mod replication;
mod cluster;
mod sentinel;
mod restarts;
mod random_failovers;
#[cfg(target_os = "linux")]
mod dropped;
