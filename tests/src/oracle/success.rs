//! The oracle for code that fails or never ends.

use super::{Oracle, Violation};
use crate::trace::History;

/// The code of every client ends, and without an error unless a fault gave it one, or its grant was
/// lost. Every exploration checks this for every scenario.
///
/// A violation: a command gets an error that the client does not expect, or a client waits for a
/// message that nobody sends.
#[derive(Clone, Debug)]
pub struct Success;

impl Oracle for Success {
    fn name(&self) -> &'static str {
        "success"
    }

    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (actor, what, step) = history.failure()?;
        Some(Violation { step, what: format!("{actor} {what}") })
    }
}
