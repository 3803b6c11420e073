//! The emulator, and its comparison with a real server.

pub(crate) mod conformance;
mod footprints;
mod front_ends;
mod control;
mod waiting;
mod config_effects;
mod script_limits;
mod pipelines;
mod prepared;
mod busy_scripts;
