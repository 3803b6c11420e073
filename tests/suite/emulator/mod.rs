//! The emulator, and what a real server says beside it.

pub(crate) mod conformance;
mod front_ends;
mod control;
mod waiting;
mod config_effects;
mod script_limits;
mod pipelines;
mod busy_scripts;
