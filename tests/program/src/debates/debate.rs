//! What a debate is, and a source that several debates share.

use std::time::Duration;

use harness::Scenario;

pub(super) const KLEPPMANN: &str = "Martin Kleppmann, \"How to do distributed locking\" (2016), \
    https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html";

/// A debate: what it is about, and the claims in it.
pub(crate) struct Debate {
    pub(crate) name: &'static str,
    /// The question, in a sentence.
    pub(crate) about: &'static str,
    pub(crate) sources: &'static [&'static str],
    pub(crate) claims: &'static [Claim],
}

/// One claim of a debate.
pub(crate) struct Claim {
    /// The name of its scenario.
    pub(crate) scenario: &'static str,
    /// The claim, in a sentence.
    pub(crate) says: &'static str,
    /// Whether the scenario passes.
    pub(crate) passes: bool,
    /// Makes the scenario from its name and a lease.
    pub(super) make: fn(&'static str, Duration) -> Scenario,
}

impl Claim {
    /// The scenario of the claim.
    pub(crate) fn scenario(&self, lease: Duration) -> Scenario {
        (self.make)(self.scenario, lease)
    }
}
