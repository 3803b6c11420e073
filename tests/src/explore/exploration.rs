//! The result of an exploration: counts each execution, and keeps the smallest violations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::coverage::Coverage;
use super::report::{Problem, Report};
use super::shard::BranchId;
use super::stop::Stop;
use super::{determinism, livelock_search, retry_probe, vacuous};
use crate::execution::{Executed, Mode, Runner};
use crate::lint::{Allowance, Warning};
use crate::oracle::Oracle;
use crate::scenario::{LateReplies, Scenario};
use crate::schedule::{Schedule, Step};
use crate::shrink::{Finding, ScheduleSize};
use crate::sim::{Retry, Tries};
use crate::trace::{EventKind, History, Reached};

/// Most seeming livelocks that are examined.
const LIVELOCKS_MAX: usize = 16;
/// The number of schedules from which on an exploration searches for livelocks by patterns, too. A
/// smaller exploration comes to them by itself.
const PATTERNS_AFTER: u64 = 500;

/// The result of an exploration.
#[derive(Clone, Default)]
pub struct Exploration {
    /// How many schedules were run.
    pub schedules: u64,
    /// How many more executions ended early because other executions cover all that could follow.
    pub blocked: u64,
    /// The different traces of a sample. It is empty after an exploration that runs every trace
    /// once.
    pub coverage: Coverage,
    /// For each oracle that was violated, the shortest schedule that violates it.
    pub findings: Vec<Finding>,
    /// Everything that happened in at least one execution.
    pub reached: Reached,
    /// Habits of the code that break locks sooner or later. Empty unless
    /// [`exhaustive`](super::exhaustive) or [`sample`](super::sample) has looked for them.
    pub lints: Vec<Warning>,
    /// The lints that the scenario allows, if `lints` is known.
    pub allowances: Vec<Allowance>,
    /// The scripts that clients had to load, if `lints` is known. With
    /// [`Scenario::script`](crate::Scenario::script), there are fewer schedules.
    pub unloaded: Vec<String>,
    /// The clients that tried in vain in an execution, and do so for ever.
    pub(super) retrying: BTreeSet<Tries>,
    /// The rounds of seeming livelocks that came to an end.
    pub(super) livelocks: BTreeSet<Vec<Step>>,
    /// Simple patterns have been tried that may lead to a livelock.
    pub(super) has_tried_patterns: bool,
    /// The oracles that had something to judge in at least one execution. Two may have one name.
    pub(super) judged: BTreeSet<(usize, &'static str)>,
    /// The sections that clients entered, until every oracle had something to judge.
    pub(super) entered: BTreeSet<String>,
    /// A client was inside after its lease had ended, and no oracle of the scenario judges that.
    pub(super) is_overrun_unjudged: bool,
    /// The scenario leaves out what can happen between a reply and its arrival.
    pub(super) are_replies_prompt: bool,
    /// How many schedules were run until each oracle was violated first.
    pub(super) found_after: BTreeMap<usize, u64>,
    /// The branch at which it ended, because an oracle was violated there.
    pub(super) ended_at: Option<BranchId>,
}

impl Exploration {
    /// Whether an oracle of this name had something to judge in at least one execution.
    pub fn is_judged(&self, oracle: &str) -> bool {
        self.judged.iter().any(|&(_, name)| name == oracle)
    }

    /// The finding for the oracle of this name, if there is one.
    pub fn finding(&self, oracle: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.oracle.name() == oracle)
    }

    /// Counts an execution, and records what happened in it. One in 61 executions is checked for
    /// nondeterminism, and so is one that is to be reported.
    pub(super) fn count(
        &mut self,
        runner: &mut Runner,
        scenario: &Scenario,
        executed: &Executed,
    ) -> Result<(), Stop> {
        self.schedules += 1;
        let Executed { history, mode, retries, readings_inside, livelock, .. } = executed;
        let is_reported = livelock.is_some() || history.failure().is_some();
        if runner.is_due_for_check() || is_reported && *mode != Mode::Real {
            determinism::expect_the_same_again(runner, scenario, executed, self.schedules)?;
        }
        // Others may let them get on that have not started.
        let livelock = livelock.as_ref().filter(|_| !scenario.is_part());
        let is_small = self.schedules < PATTERNS_AFTER || scenario.actors.len() < 2 || scenario.is_part();
        if !is_small && !self.has_tried_patterns && !retries.is_empty() {
            self.has_tried_patterns = true;
            if let Some((history, livelock)) = livelock_search::find_livelock(runner, scenario) {
                let problem = Problem::livelock(runner, scenario, &history, &livelock);
                return Err(self.report(scenario, problem).into());
            }
        }
        if scenario.late_replies == LateReplies::BeforeReadings
            && runner.note_readings_inside(scenario, readings_inside)
        {
            return Err(Stop::KnowsMore);
        }
        // The probe is as good for one execution as for another, unless the code differs.
        // A service need not come to its end.
        let may_end = |(tries, _): &(&Tries, &Retry)| !scenario.services.contains(&tries.actor.0);
        for (&tries, &Retry { steps, .. }) in retries.iter().filter(may_end) {
            let is_new = self.retrying.insert(tries);
            if is_new && retry_probe::gives_up(runner, scenario, history, tries.actor, steps) {
                runner.timers.gives_up(scenario, tries.actor, tries.hash);
                return Err(Stop::KnowsMore);
            }
            if is_new && runner.find_thresholds(scenario) {
                return Err(Stop::KnowsMore);
            }
        }
        if let Some(livelock) = livelock
            && self.livelocks.len() < LIVELOCKS_MAX
            && self.livelocks.insert(livelock.last_round(history).to_vec())
            && retry_probe::never_ends(runner, scenario, history, livelock)
        {
            let problem = Problem::livelock(runner, scenario, history, livelock);
            return Err(self.report(scenario, problem).into());
        }
        if !determinism::fails_as_part(runner, scenario, history) {
            determinism::expect_success(runner, scenario, history, self.schedules)?;
        }
        self.reached = self.reached.or(history.reached);
        if self.judged.len() < scenario.oracles.len() {
            self.note_sections(history);
        }
        for (nth, oracle) in scenario.oracles.iter().enumerate() {
            let oracle_id = (nth, oracle.name());
            if !self.judged.contains(&oracle_id) && oracle.judges(history) {
                self.judged.insert(oracle_id);
            }
        }
        Ok(())
    }

    /// Records the sections that clients entered.
    pub(super) fn note_sections(&mut self, history: &History) {
        for event in &history.events {
            if let EventKind::Enter { section, .. } = event.kind
                && !self.entered.contains(section)
            {
                self.entered.insert(section.to_owned());
            }
        }
    }

    /// An exploration that has run nothing, and does not probe again what this one has probed.
    pub(super) fn continued(&self) -> Exploration {
        let (retrying, livelocks) = (self.retrying.clone(), self.livelocks.clone());
        let has_tried_patterns = self.has_tried_patterns;
        Exploration { retrying, livelocks, has_tried_patterns, ..Exploration::default() }
    }

    /// The oracle at this place of the scenario is violated in the last execution.
    pub(super) fn note_find(&mut self, oracle: usize) {
        self.found_after.entry(oracle).or_insert(self.schedules);
    }

    /// Adds the counts of another exploration, but not its findings.
    pub(super) fn add(&mut self, other: &Exploration) {
        for (&oracle, after) in &other.found_after {
            self.found_after.entry(oracle).or_insert(self.schedules + after);
        }
        self.schedules += other.schedules;
        self.blocked += other.blocked;
        self.reached = self.reached.or(other.reached);
        self.judged.extend(&other.judged);
        self.entered.extend(other.entered.iter().cloned());
        self.retrying.extend(&other.retrying);
        self.livelocks.extend(other.livelocks.iter().cloned());
        self.has_tried_patterns |= other.has_tried_patterns;
        self.ended_at = self.ended_at.or(other.ended_at);
    }

    /// Adds another exploration of the same scenario, with its findings.
    pub(crate) fn join(&mut self, other: Exploration) {
        self.add(&other);
        for finding in other.findings {
            self.keep(finding);
        }
    }

    /// Keeps a violation if its schedule is the shortest so far. Returns whether it is.
    pub(super) fn keep(&mut self, finding: Finding) -> bool {
        let is_same = |known: &&mut Finding| Arc::ptr_eq(&known.oracle, &finding.oracle);
        match self.findings.iter_mut().find(is_same) {
            Some(known) if known.rank() <= finding.rank() => return false,
            Some(known) => *known = finding,
            None => self.findings.push(finding),
        }
        true
    }

    /// A violation that did not happen again when its schedule ran again.
    pub(super) fn vanished(
        &self,
        scenario: &Scenario,
        oracle: &Arc<dyn Oracle>,
        schedule: Schedule,
    ) -> Box<Report> {
        let what = format!("It violated {}. When it ran again, it did not.\n", oracle.name());
        self.report(scenario, Problem::Nondeterminism { what, schedule })
    }

    pub(super) fn report(&self, scenario: &Scenario, problem: Problem) -> Box<Report> {
        let report = Report::new(scenario, problem, self.schedules);
        Box::new(Report { ended_at: self.ended_at.map(|branch| (branch, 0)), ..report })
    }

    /// The first thing without which a pass means nothing.
    pub(super) fn missing(&self, scenario: &Scenario) -> Option<String> {
        let mut oracles = scenario.oracles.iter().enumerate();
        let unjudged = oracles.find(|(place, oracle)| !self.judged.contains(&(*place, oracle.name())));
        let missing = self.reached.missing(scenario.must_reach).map(str::to_owned);
        let missing = missing.or(vacuous::without_oracle(scenario));
        missing.or_else(|| unjudged.map(|(_, oracle)| vacuous::unjudged(&**oracle, &self.entered)))
    }

    /// Whether a violation of this oracle of at least the size `least` can be smaller than the
    /// known one.
    pub(super) fn lacks(&self, oracle: &Arc<dyn Oracle>, least: ScheduleSize) -> bool {
        let known = self.findings.iter().find(|finding| Arc::ptr_eq(&finding.oracle, oracle));
        known.is_none_or(|known| least < known.size())
    }
}

#[cfg(test)]
mod tests {
    use crate::actor::Actor;
    use crate::execution::Runner;
    use crate::scenario::Scenario;

    /// Only actors of the scenario count. Those that judge its end come after them.
    #[test]
    fn a_reading_inside_a_section_is_new_once() {
        let scenario = Scenario::new("one").actors(1, |_| async { Ok(()) });
        let runner = Runner::new();
        let note = |readings: &[(Actor, u64)]| {
            runner.note_readings_inside(&scenario, &readings.iter().copied().collect())
        };
        assert!(!note(&[(Actor(1), 8)]));
        assert!(note(&[(Actor(0), 8), (Actor(1), 8)]));
        assert!(!note(&[(Actor(0), 8)]));
        assert!(note(&[(Actor(0), 9)]));
    }
}
