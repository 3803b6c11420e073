//! The program `lockstep` and its documentation.

pub(crate) mod cli;
mod command_line;
mod explain;
#[cfg(unix)]
mod tty;
mod terminal;
mod shards;
mod explorations;
mod pages;
mod pictures;
mod browser;
mod serve;
#[cfg(unix)]
mod leader;
#[cfg(unix)]
mod first_test;
#[cfg(unix)]
mod many_clients;
pub(crate) mod readme;
#[cfg(unix)]
mod guide;
mod chapters;
mod growth_rows;
mod tidy;
