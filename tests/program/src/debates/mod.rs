//! The debates about locks that people know from articles, as scenarios. Each claim is a scenario
//! of its own, and says whether it holds.

mod debate;
mod lock;
mod pauses;
mod fencing;
mod failover;
mod wait;
mod promotion;
mod cluster;

use std::time::Duration;

use harness::replay::Subject;
use harness::{SavedSchedule, Scenario, check};

pub(crate) use debate::{Claim, Debate};

pub(crate) const DEBATES: &[Debate] =
    &[pauses::DEBATE, fencing::DEBATE, failover::DEBATE, wait::DEBATE, promotion::DEBATE, cluster::DEBATE];

/// The debate of this name.
pub(crate) fn find(name: &str) -> Option<&'static Debate> {
    DEBATES.iter().find(|debate| debate.name == name)
}

/// The claim that a saved schedule belongs to.
pub(crate) fn claim_of(saved: &SavedSchedule) -> Option<&'static Claim> {
    let Subject::Scenario(name) = &saved.subject else { return None };
    DEBATES.iter().flat_map(|debate| debate.claims).find(|claim| claim.scenario == name)
}

/// The scenario of a saved schedule, of an algorithm or of a claim, with this lease.
pub(crate) fn scenario_of(saved: &SavedSchedule, lease: Duration) -> Option<Scenario> {
    check::scenario_of(saved, lease).or_else(|| Some(claim_of(saved)?.scenario(lease)))
}
