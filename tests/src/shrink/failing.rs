//! A schedule that is shrunk.

use super::cost::Cost;
use crate::oracle::Violation;
use crate::schedule::Step;
use crate::trace::History;

/// A schedule that violates the oracle.
pub(super) struct Failing {
    /// The steps up to the violation.
    pub(super) steps: Vec<Step>,
    pub(super) cost: Cost,
    pub(super) violation: Violation,
    pub(super) history: History,
    /// The shorter steps of time that were possible, each with its place.
    pub(super) shorter: Vec<(usize, Step)>,
}
