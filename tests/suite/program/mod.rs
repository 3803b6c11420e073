//! The program `lockstep`, and what is written about it.

pub(crate) mod cli;
mod terminal;
mod shards;
mod serve;
#[cfg(unix)]
mod many_clients;
mod readme;
