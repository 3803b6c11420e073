//! A host for tests of scripts.

use super::{Host, Rules};
use crate::error::Error;
use crate::log::LogLevel;
use crate::reply::Reply;

/// A host whose only command is this function. It knows all commands but `unknown`.
pub(super) struct Fixture(pub(super) fn(&[&[u8]], Rules) -> Reply);

impl Host for Fixture {
    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply {
        (self.0)(argv, rules)
    }

    fn may_be_busy(&self) -> bool {
        false
    }

    fn yield_to_clients(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn has_footprint_over(&mut self, _: usize) -> bool {
        false
    }

    fn log(&self, _: LogLevel, _: Vec<u8>) {}

    fn knows(&self, argv: &[&[u8]]) -> bool {
        argv[0] != b"unknown"
    }
}
