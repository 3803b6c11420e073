//! Checks an algorithm of the `locks` crate: the scenario of each fault class, and the verdict on
//! each property.

mod sizes;
mod bounds;
mod code;
mod work;
mod scenario;
mod membership;

use std::time::Duration;

use locks::registry::{ALGORITHMS, Algorithm, FaultClass, Property};

pub use bounds::{Bound, bounds, properties};
pub use membership::{ForeignStep, match_class};
pub use scenario::{scenario, scenario_of_lease};
use sizes::{CLIENTS_MAX, sizes};
pub use sizes::{LEASE, Participants, terms};

use crate::execution::Runner;
use crate::explore::{Exploration, Report, explore_few, explore_random};
use crate::replay::{Expectation, SavedSchedule, SavedStep, Subject, replay};
use crate::scenario::{LateReplies, Scenario};
use crate::shrink::Finding;
use crate::sim::Recording;
use crate::trace::Reached;

/// The part of the effort for three clients that bounds with fewer clients get. If replies can be
/// late, they get all of it.
const PART: u64 = 10;

/// How much a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Most schedules that are run one by one, for each number of clients. If there may be more, a
    /// sample of all is run, too.
    pub limit: u64,
    /// How many schedules a sample has.
    pub samples: u64,
    /// The seed of the samples.
    pub seed: u64,
}

impl Default for Effort {
    /// About a minute for all algorithms on two cores.
    fn default() -> Effort {
        Effort { limit: 10_000, samples: 2_000, seed: 0 }
    }
}

impl Effort {
    /// Some minutes for all algorithms on two cores.
    pub const THOROUGH: Effort = Effort { limit: 300_000, samples: 20_000, seed: 0 };

    /// A bound for an algorithm, and the effort for the explorations within it.
    fn within(self, bound: Bound, algorithm: &Algorithm) -> (Bound, Effort) {
        let Effort { limit, samples, seed } = self;
        let for_algorithm = bound.of(algorithm.spec);
        // Among late replies, a stall at the right place is rare. So is a failover of the right one
        // of several servers.
        let is_rare = for_algorithm.has_late_replies || algorithm.servers() > 1 && bound.faults.behind > 0;
        let effort = match (bound, is_rare) {
            (Bound { clients: CLIENTS_MAX, .. } | Bound { has_late_replies: true, .. }, _) => self,
            (_, true) => Effort { limit: limit / PART, ..self },
            (_, false) => Effort { limit: limit / PART, samples: (samples / PART).max(1), seed },
        };
        (for_algorithm, effort)
    }
}

/// The verdict on one property of one algorithm in one fault class.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// The property.
    pub property: Property,
    /// The faults that could happen.
    pub class: FaultClass,
    /// The result.
    pub outcome: Outcome,
    /// How many schedules were run.
    pub schedules: u64,
    /// How many more executions ended early because other executions cover all that could follow.
    pub blocked: u64,
    /// The explorations of the class, the same for all of its properties.
    pub parts: Vec<Part>,
}

/// One exploration of a class.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its faults and its largest number of clients.
    pub bound: Bound,
    /// The clients.
    pub size: Participants,
    /// How many schedules were run.
    pub schedules: u64,
    /// Whether a number of clients has more schedules than `limit`, so that a sample was run.
    pub is_sampled: bool,
    /// Most schedules that were run one by one, for each number of clients.
    pub limit: u64,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// No schedule violates the property.
    Holds,
    /// The shortest violation that was found, with the size of its scenario. No completely explored
    /// scenario has a shorter one.
    Violated(Box<Finding>, Participants),
    /// No schedule violates the property, and none could: this event never happened.
    Vacuous(&'static str),
}

impl Verdict {
    /// Whether the algorithm's `SPEC` states that the property holds.
    pub fn is_expected_to_hold(&self) -> bool {
        self.algorithm.spec.holds(self.property, self.class)
    }

    /// Whether the verdict is the one that the `SPEC` states.
    pub fn is_as_stated(&self) -> bool {
        match self.outcome {
            Outcome::Holds => self.is_expected_to_hold(),
            Outcome::Violated(..) => !self.is_expected_to_hold(),
            Outcome::Vacuous(_) => false,
        }
    }

    /// Whether a sample of some schedules was run, and not all of them.
    pub fn is_sampled(&self) -> bool {
        self.parts.iter().any(|part| part.is_sampled)
    }
}

/// Returns the verdicts on all properties of an algorithm in a fault class.
///
/// Within each of the [`bounds`] of the class, it explores one client first, then two, up to the
/// number of the bound. If a number of clients has more schedules than the effort's limit, it stops
/// there, and draws a sample of the largest number. Bounds with two clients get a tenth of the
/// effort; all of it if replies can be late.
///
/// # Errors
/// The algorithm's code fails.
pub fn check(
    runner: &mut Runner,
    algorithm: &'static Algorithm,
    class: FaultClass,
    effort: Effort,
) -> Result<Vec<Verdict>, Box<Report>> {
    let asked = properties(algorithm, class);
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let kind = algorithm.spec.kind;
    let mut explorations: Vec<(Part, Exploration)> = Vec::new();
    // The code of the clients is the same within all bounds, so its thresholds are found once.
    let mut scenarios: Vec<(Participants, Scenario)> = Vec::new();
    for bound in bounds(class, LEASE) {
        let (bound, Effort { limit, samples, seed }) = effort.within(bound, algorithm);
        for size in sizes(kind, bound.clients) {
            let known = scenarios.iter().position(|&(other, _)| other == size);
            let nth = known.unwrap_or_else(|| {
                scenarios.push((size, scenario(algorithm, class, size)));
                scenarios.len() - 1
            });
            let mut scenario = scenarios[nth].1.clone().faults(bound.faults);
            // A bound of its own has them.
            scenario.late_replies = if bound.has_late_replies { LateReplies::All } else { LateReplies::None };
            let (mut explored, is_whole) = explore_few(runner, &scenario, limit)?;
            if !is_whole {
                explored.join(explore_random(runner, &scenario, samples, seed)?);
            }
            let part = Part { bound, size, schedules: explored.schedules, is_sampled: !is_whole, limit };
            explorations.push((part, explored));
        }
    }
    Ok(judge(algorithm, class, &asked, &explorations))
}

/// The verdicts that follow from all explorations of a class.
fn judge(
    algorithm: &'static Algorithm,
    class: FaultClass,
    asked: &[Property],
    explorations: &[(Part, Exploration)],
) -> Vec<Verdict> {
    let schedules = explorations.iter().map(|(_, exploration)| exploration.schedules).sum();
    let blocked = explorations.iter().map(|(_, exploration)| exploration.blocked).sum();
    let parts: Vec<Part> = explorations.iter().map(|&(part, _)| part).collect();
    let reached = |is_meant: &dyn Fn(&Part) -> bool| {
        let meant = explorations.iter().filter(|(part, _)| is_meant(part));
        meant.fold(Reached::default(), |seen, (_, explored)| seen.or(explored.reached))
    };
    let contention = algorithm.spec.kind.is_lock();
    let missing = reached(&|_| true).missing(Reached { contention, ..Reached::default() });
    let missing = missing.or_else(|| {
        // Each bound must take effect.
        let missing = |bound: Bound| {
            reached(&|part| part.bound == bound)
                .missing(bounds::must_reach(algorithm.spec.kind, &bound.faults))
        };
        parts.iter().find_map(|part| missing(part.bound))
    });
    let is_judged = |name| explorations.iter().any(|(_, exploration)| exploration.is_judged(name));
    let verdict = |&property: &Property| {
        let unjudged = (!is_judged(property.name())).then_some("there was nothing to judge");
        let found =
            explorations.iter().filter_map(|(part, e)| Some((e.finding(property.name())?, part.size)));
        let shortest = found.min_by_key(|(finding, _)| (finding.violation.step, finding.actors));
        let outcome = match (shortest, missing.or(unjudged)) {
            (Some((finding, size)), _) => {
                Outcome::Violated(Box::new(finding.clone()), size.first(finding.actors))
            }
            (None, Some(missing)) => Outcome::Vacuous(missing),
            (None, None) => Outcome::Holds,
        };
        Verdict { algorithm, property, class, outcome, schedules, blocked, parts: parts.clone() }
    };
    asked.iter().map(verdict).collect()
}

/// The counterexample of a verdict as a saved schedule; `None` if the verdict has none.
pub fn save(runner: &mut Runner, verdict: &Verdict) -> Option<SavedSchedule> {
    let Outcome::Violated(finding, size) = &verdict.outcome else { return None };
    let scenario = scenario(verdict.algorithm, verdict.class, *size).faults(finding.faults);
    let history = replay(runner, &scenario, &finding.schedule, Recording::Full);
    Some(SavedSchedule {
        subject: Subject::Algorithm {
            name: verdict.algorithm.name.into(),
            class: verdict.class,
            permits: size.permits,
            readers: size.readers,
            outage: finding.faults.outage,
        },
        clients: size.clients,
        lease: LEASE,
        property: verdict.property.name().into(),
        expectation: Expectation::Fail,
        steps: SavedStep::of(&history, finding.violation.step),
    })
}

/// The scenario of a saved schedule of an algorithm, with the given lease; `None` if there is no
/// such algorithm.
pub fn scenario_of(saved: &SavedSchedule, lease: Duration) -> Option<Scenario> {
    let Subject::Algorithm { name, class, permits, readers, outage } = &saved.subject else { return None };
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name)?;
    let size = Participants { clients: saved.clients, permits: *permits, readers: *readers };
    // Steps name their faults, so a scenario with all of them replays every schedule of the class.
    let faults = bounds::faults_of(*class, lease).outage(*outage);
    Some(scenario_of_lease(algorithm, *class, size, lease).faults(faults))
}
