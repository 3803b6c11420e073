//! Replays a saved schedule on the emulator. The result states whether it meets its expectation,
//! and where the code diverged.

use std::fmt;
use std::sync::Arc;

use crate::execution::Runner;
use crate::oracle::{Oracle, Success, Violation};
use crate::render::{on_one_line, printable, timeline};
use crate::replay::{Expectation, Follow, SavedSchedule, Subject};
use crate::scenario::Scenario;
use crate::sim::Recording;
use crate::trace::History;

/// The result of a saved schedule.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The saved schedule.
    pub saved: SavedSchedule,
    /// The history of the replay.
    pub history: History,
    /// The violation of the property, if there was one.
    pub violation: Option<Violation>,
    /// The places at which the code diverged from the saved schedule, in sentences.
    pub divergences: Vec<String>,
    /// The first client whose code ended with an error, or never ended.
    pub failure: Option<String>,
    /// Whether the history contains anything that the property can judge.
    pub is_judged: bool,
    /// How many steps of the schedule were not possible, and were skipped. It is zero if that is
    /// allowed: [`replay_loosely`].
    pub skipped: usize,
}

impl Replayed {
    /// Whether the replay meets its expectation, no step was skipped, and all clients ended without
    /// an error.
    ///
    /// If the property must break, there is a violation. If it must hold, there is none, and the
    /// property had something to judge.
    pub fn is_as_stated(&self) -> bool {
        self.skipped == 0 && self.is_outcome_as_stated()
    }

    fn is_outcome_as_stated(&self) -> bool {
        let is_over = self.failure.is_none() || self.saved.property == Success.name();
        is_over
            && match self.saved.expectation {
                Expectation::Fail => self.violation.is_some(),
                Expectation::Pass => self.violation.is_none() && self.is_judged,
            }
    }
}

/// Replays a saved schedule of the scenario.
///
/// # Errors
/// The schedule is of a scenario with another name, the scenario has fewer actors than the
/// schedule, or it does not have the property.
pub fn replay_saved(
    runner: &mut Runner,
    scenario: &Scenario,
    saved: &SavedSchedule,
) -> Result<Replayed, MismatchError> {
    let (scenario, oracle) = match_scenario(scenario, saved)?;
    let follow = || Follow::new(saved.schedule().steps);
    let (history, follow) = runner.run_with_thresholds(&scenario, follow, Recording::Full);
    Ok(Replayed {
        violation: oracle.check(&history),
        divergences: saved.divergences(&history, follow.taken()),
        failure: Success.check(&history).map(|violation| violation.what),
        is_judged: oracle.judges(&history),
        skipped: saved.skipped(follow.taken()),
        saved: saved.clone(),
        history: history.into_history(),
    })
}

/// Replays a saved schedule that need not fit, as [`replay_saved`] does: the scenario may have
/// another name, and steps that are not possible are skipped.
///
/// # Errors
/// The scenario has fewer actors than the schedule, or does not have the property.
pub fn replay_loosely(
    runner: &mut Runner,
    scenario: &Scenario,
    saved: &SavedSchedule,
) -> Result<Replayed, MismatchError> {
    let subject = match &saved.subject {
        Subject::Scenario(_) => Subject::Scenario(scenario.name.clone()),
        algorithm => algorithm.clone(),
    };
    let replayed = replay_saved(runner, scenario, &SavedSchedule { subject, ..saved.clone() })?;
    Ok(Replayed { skipped: 0, ..replayed })
}

/// Why a schedule does not belong to this scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MismatchError {
    /// The schedule is of another scenario.
    #[error(
        "the schedule is of the scenario {wanted:?}, and this one is {name:?}: correct the line `scenario`, \
         or allow other names by `harness::replay::replay_loosely`"
    )]
    Name {
        /// The scenario's name.
        name: String,
        /// The name in the schedule.
        wanted: String,
    },
    /// The schedule has too many actors.
    #[error(
        "the schedule has {wanted} clients, and the scenario {name:?} has only {actors}: change `clients`"
    )]
    Clients {
        /// The scenario's name.
        name: String,
        /// The number of its actors.
        actors: usize,
        /// The number of actors in the schedule.
        wanted: usize,
    },
    /// The scenario does not have the property.
    #[error("the scenario {name:?} has no property {wanted:?}; it has {}", printable(known))]
    Property {
        /// The scenario's name.
        name: String,
        /// The property in the schedule.
        wanted: String,
        /// The properties of the scenario.
        known: String,
    },
}

/// The scenario with as many actors as the schedule has, and the oracle for the property.
pub(crate) fn match_scenario(
    scenario: &Scenario,
    saved: &SavedSchedule,
) -> Result<(Scenario, Arc<dyn Oracle>), MismatchError> {
    let (name, actors, wanted) = (scenario.name.clone(), scenario.actors.len(), saved.clients);
    if let Subject::Scenario(of) = &saved.subject
        && on_one_line(of) != on_one_line(&name)
    {
        return Err(MismatchError::Name { name, wanted: of.clone() });
    }
    if wanted > actors {
        return Err(MismatchError::Clients { name, actors, wanted });
    }
    let success: Arc<dyn Oracle> = Arc::new(Success);
    let mut oracles = scenario.oracles.iter().chain([&success]);
    let Some(oracle) = oracles.find(|oracle| oracle.name() == saved.property) else {
        let known: Vec<_> = scenario.oracles.iter().map(|oracle| oracle.name()).collect();
        let (wanted, known) = (saved.property.clone(), known.join(", "));
        return Err(MismatchError::Property { name, wanted, known });
    };
    Ok((scenario.with_actors(wanted), oracle.clone()))
}

/// Prints the divergences, the timeline, and the verdict. With a width, as in `{:80}`, the timeline
/// is wrapped to it.
impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replayed { saved, history, violation, divergences, failure, is_judged, skipped } = self;
        divergences.iter().try_for_each(|sentence| writeln!(f, "{}", printable(sentence)))?;
        if !divergences.is_empty() {
            writeln!(f)?;
        }
        let width = f.width().unwrap_or(timeline::ANY);
        writeln!(f, "{}", timeline::render(history, saved.clients, violation.as_ref(), width))?;
        failure.iter().try_for_each(|sentence| writeln!(f, "{}.", printable(sentence)))?;
        let seen = match violation {
            Some(_) => "is violated",
            None if *is_judged => "holds",
            None => "had nothing to judge",
        };
        let property = printable(&saved.property);
        match (self.is_outcome_as_stated(), saved.expectation) {
            (true, _) if *skipped > 0 => {
                let steps = if *skipped == 1 { "1 step was".into() } else { format!("{skipped} steps were") };
                writeln!(
                    f,
                    "{property} {seen}, as expected, but {steps} skipped: the schedule does not fit the code."
                )
            }
            (true, _) => writeln!(f, "{property} {seen}, as expected."),
            (false, Expectation::Pass) => writeln!(f, "{property} {seen}, but must hold."),
            (false, Expectation::Fail) => writeln!(f, "{property} {seen}, but must be violated."),
        }
    }
}
