//! A counterexample as data, as a page to send to people, and as a picture for READMEs.

mod neighbours;
#[cfg(feature = "pages")]
mod view;
#[cfg(feature = "pages")]
mod html;
#[cfg(feature = "pages")]
mod svg;

use locks::registry::{ALGORITHMS, Ability, Algorithm, AlgorithmKind};
use serde::Serialize;

use neighbours::neighbours;
pub use neighbours::{Alternative, Decisive, Neighbours};

use crate::actor::Actor;
use crate::execution::Runner;
use crate::oracle::{Oracle, Violation};
use crate::render::story::{Entry, Strikes};
use crate::render::teller::tell;
use crate::replay::{MismatchError, Replayed, SavedSchedule, Subject, match_scenario};
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::trace::History;

/// The version of the data. Programs that read it should refuse others.
const VERSION: u32 = 1;

/// A counterexample: the claim that is broken, and everything that happened until then. It
/// serializes to the JSON of `lockstep explain --format json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counterexample {
    /// The version of this format: 1.
    pub version: u32,
    /// The name of the scenario or of the algorithm.
    pub name: String,
    /// For an algorithm: what it guarantees.
    pub guarantees: Option<String>,
    /// For an algorithm: what it assumes.
    pub assumes: Option<String>,
    /// For an algorithm: what is said against it.
    pub objection: Option<String>,
    /// For an algorithm: the fault class.
    pub class: Option<String>,
    /// The property that is violated.
    pub property: String,
    /// The violation, in a sentence.
    pub violation: String,
    /// The names of the clients.
    pub clients: Vec<String>,
    /// How many servers the clients asked, or a fault has struck.
    pub servers: usize,
    /// Their names, if they have names.
    pub server_names: Vec<String>,
    /// For a lock of the table: whether a grant ends by itself. If not, it lasts until its holder
    /// releases it.
    pub has_lease: Option<bool>,
    /// What bounds the clients, such as `a lease of 10000 ms`.
    pub bounds: String,
    /// How long a grant lasts, in milliseconds. Properties that need a lease are judged by this
    /// one, even if the lock has none.
    pub lease_ms: u64,
    /// Each fault and each stall, with the number of its step.
    pub faults: Vec<FaultInStep>,
    /// How many schedules were explored in all, if that is known.
    pub explored: Option<u64>,
    /// The number of the step that pages and pictures stress, if there is one.
    pub stressed: Option<usize>,
    /// The schedules beside it, if they were run.
    pub neighbours: Option<Neighbours>,
    /// The schedule, as `lockstep replay` and `harness::replay_saved` read it.
    pub schedule: String,
    /// Everything that happened, in order.
    pub entries: Vec<Entry>,
}

/// A fault or a stall that a schedule has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultInStep {
    /// The number of its step, from 1.
    pub step: usize,
    /// The fault as in the schedule.
    pub fault: String,
    /// A description of such a fault.
    pub summary: String,
}

impl Counterexample {
    /// The counterexample of a schedule that was replayed in full.
    pub fn new(saved: &SavedSchedule, history: &History, violation: &Violation) -> Counterexample {
        let entries = tell(history, saved.clients, violation.step);
        let (name, class) = match &saved.subject {
            Subject::Algorithm { name, class, .. } => (name.clone(), Some(class.name().to_owned())),
            Subject::Scenario(name) => (name.clone(), None),
        };
        let of_name = ALGORITHMS.iter().find(|algorithm| class.is_some() && algorithm.name == name);
        let asked = entries.iter().flat_map(|entry| &entry.messages).map(|message| message.server);
        let struck = entries.iter().filter_map(|entry| match entry.strikes {
            Some(Strikes::Server(server)) => Some(server),
            _ => None,
        });
        let steps = history.steps.iter().take(violation.step).enumerate();
        let faults = steps.filter_map(|(nth, step)| {
            let summary = match step {
                Step::Advance(_) => "time passes while clients have something to do",
                step => step.fault()?.kind.documentation().1,
            };
            Some(FaultInStep { step: nth + 1, fault: step.to_string(), summary: summary.into() })
        });
        Counterexample {
            version: VERSION,
            guarantees: of_name.map(|algorithm| algorithm.spec.guarantees.into()),
            assumes: of_name.map(|algorithm| algorithm.spec.assumes.into()),
            objection: of_name.map(|algorithm| algorithm.spec.objection.into()),
            name,
            class,
            property: saved.property.clone(),
            violation: violation.what.clone(),
            clients: (0..saved.clients).map(|n| Actor(n).to_string()).collect(),
            servers: asked.chain(struck).max().map_or(1, |last| last + 1),
            server_names: history.server_names.iter().map(|name| (*name).into()).collect(),
            has_lease: of_name
                .filter(|algorithm| algorithm.spec.kind.is_lock())
                .map(|algorithm| !algorithm.spec.can(Ability::Persists)),
            bounds: bounds(of_name, saved),
            lease_ms: saved.lease.as_millis() as u64,
            faults: faults.collect(),
            explored: None,
            stressed: None,
            neighbours: None,
            schedule: saved.to_string(),
            entries,
        }
    }

    /// Runs the schedules beside this one, which violates this oracle. Adds which order of two
    /// steps decides it, and which other steps were possible.
    pub(crate) fn with_neighbours(
        self,
        runner: &mut Runner,
        scenario: &Scenario,
        oracle: &dyn Oracle,
        schedule: &[Step],
    ) -> Counterexample {
        Counterexample { neighbours: neighbours(runner, scenario, oracle, schedule), ..self }
    }

    /// The counterexample as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("it has no maps with other keys than texts")
    }
}

/// What bounds the clients of a schedule.
fn bounds(algorithm: Option<&Algorithm>, saved: &SavedSchedule) -> String {
    let lease_ms = saved.lease.as_millis();
    let permits = match saved.subject {
        Subject::Algorithm { permits, .. } => permits,
        Subject::Scenario(_) => 1,
    };
    match algorithm.map(|algorithm| (algorithm.spec.kind, algorithm.spec.can(Ability::Persists))) {
        Some((AlgorithmKind::Limiter, _)) => format!("a limit of {permits} in a window of {lease_ms} ms"),
        Some((AlgorithmKind::Once, _)) => format!("{lease_ms} ms for their work"),
        Some((AlgorithmKind::Semaphore, _)) => {
            let permits = if permits == 1 { "a permit".into() } else { format!("{permits} permits") };
            format!("{permits}, and a lease of {lease_ms} ms")
        }
        Some((_, true)) => "no lease: a grant lasts until its holder releases it".into(),
        _ => format!("a lease of {lease_ms} ms"),
    }
}

impl Replayed {
    /// The violation that the replay shows, as data, with the schedules beside it. `None` if there
    /// is no violation.
    ///
    /// # Errors
    /// As for [`replay_saved`](crate::replay_saved): the scenario is another one.
    pub fn counterexample(
        &self,
        runner: &mut Runner,
        scenario: &Scenario,
    ) -> Result<Option<Counterexample>, MismatchError> {
        let Some(violation) = &self.violation else { return Ok(None) };
        let (scenario, oracle) = match_scenario(scenario, &self.saved)?;
        let counterexample = Counterexample::new(&self.saved, &self.history, violation);
        Ok(Some(counterexample.with_neighbours(runner, &scenario, &*oracle, &self.saved.schedule().steps)))
    }
}

/// Writes a file, and makes its folder.
#[cfg(feature = "pages")]
pub(crate) fn write(file: &std::path::Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text)
}
