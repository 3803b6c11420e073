//! Runs many schedules of a scenario and judges them. Each strategy is a policy in its own file;
//! the other files serve them all.

mod report;
mod summary;
mod determinism;
mod vacuous;
mod access_profile;
mod timer_probe;
mod retry_probe;
mod livelock_search;
mod coverage;
mod brute_force;
mod dpor;
mod random_walk;
mod pct;
mod pos;
mod uniform_walk;
mod sampler;
mod shard;
mod results;
mod failure;
mod journal;
mod progress;
mod parallel;
mod series;
mod division;
mod lints;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use access_profile::AccessProfile;
pub use brute_force::DepthFirst;
pub use coverage::Coverage;
pub use division::{
    Division, DivisionError, JOBS_VARIABLE, RESULTS_VARIABLE, SHARD_VARIABLE, exhaustive_shard, sample_shard,
};
pub use dpor::Dpor;
pub use failure::Failure;
pub use lints::lints;
pub use parallel::explore_all;
pub(crate) use parallel::explore_few;
pub use pct::Pct;
pub use pos::Pos;
pub use random_walk::RandomWalk;
pub use report::{Problem, Report, render_finding};
pub use results::{BranchId, BranchResult, Ending, Origin, Plan, RESULTS_EXTENSION, Results, ResultsError};
pub use sampler::{Method, Sampler};
pub use series::explore_random;
pub use shard::{Shard, ShardError};
pub use timer_probe::probe_timers;
pub use uniform_walk::UniformWalk;

use crate::execution::{Executed, Mode, Policy, Runner};
use crate::fault::{Fault, Target};
use crate::lint::{Allowance, Warning};
use crate::memo::Difference;
use crate::oracle::Oracle;
use crate::replay::replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::shrink::{Finding, ScheduleSize};
use crate::sim::{Recording, Retry, Tries};
use crate::trace::{EventKind, History, Reached};
use journal::Journal;

/// Most seeming livelocks that are examined.
const LIVELOCKS_MAX: usize = 16;
/// The number of schedules from which on an exploration searches for livelocks by patterns, too. A
/// smaller exploration comes to them by itself.
const PATTERNS_AFTER: u64 = 500;

/// The result of an exploration.
#[derive(Clone, Debug, Default)]
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
    /// Habits of the code that break locks sooner or later. Empty unless [`exhaustive`] or
    /// [`sample`] has looked for them.
    pub lints: Vec<Warning>,
    /// The lints that the scenario allows, if `lints` is known.
    pub allowances: Vec<Allowance>,
    /// The scripts that clients had to load, if `lints` is known. With
    /// [`Scenario::script`](crate::Scenario::script), there are fewer schedules.
    pub unloaded: Vec<String>,
    /// The clients that tried in vain in an execution, and do so for ever.
    retrying: BTreeSet<Tries>,
    /// The rounds of seeming livelocks that came to an end.
    livelocks: BTreeSet<Vec<Step>>,
    /// Simple patterns have been tried that may lead to a livelock.
    has_tried_patterns: bool,
    /// The oracles that had something to judge in at least one execution. Two may have one name.
    judged: BTreeSet<(usize, &'static str)>,
    /// The sections that clients entered, until every oracle had something to judge.
    entered: BTreeSet<String>,
    /// A client was inside after its lease had ended, and no oracle of the scenario judges that.
    is_overrun_unjudged: bool,
    /// How many schedules were run until each oracle was violated first.
    found_after: BTreeMap<usize, u64>,
    /// The branch at which it ended, because an oracle was violated there.
    ended_at: Option<BranchId>,
}

/// Why an exploration stops before its end.
enum Stop {
    Report(Box<Report>),
    /// Code that repeats commands in vain gives up by itself, after some tries or some time, and
    /// that was not known. Or the code of a client cannot be learned. The exploration begins again.
    KnowsMore,
}

impl Stop {
    /// It comes after other schedules, which count, too.
    fn after(self, earlier: &Exploration) -> Stop {
        match self {
            Stop::Report(mut report) => {
                report.schedules += earlier.schedules;
                report.found_after += earlier.schedules;
                Stop::Report(report)
            }
            Stop::KnowsMore => Stop::KnowsMore,
        }
    }

    /// It comes in this branch. Its report also counts `before` schedules from before the branch.
    fn within(self, branch: BranchId, before: u64) -> Stop {
        match self {
            Stop::Report(mut report) => {
                report.ended_at.get_or_insert((branch, report.schedules - before));
                Stop::Report(report)
            }
            Stop::KnowsMore => Stop::KnowsMore,
        }
    }
}

impl From<Box<Report>> for Stop {
    fn from(report: Box<Report>) -> Stop {
        Stop::Report(report)
    }
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
    fn count(&mut self, runner: &mut Runner, scenario: &Scenario, executed: &Executed) -> Result<(), Stop> {
        self.schedules += 1;
        let Executed { history, mode, retries, livelock, .. } = executed;
        let is_reported = livelock.is_some() || history.failure().is_some();
        if runner.is_due_for_check() || is_reported && *mode != Mode::Real {
            determinism::expect_the_same_again(runner, scenario, executed, self.schedules)?;
        }
        let is_small = self.schedules < PATTERNS_AFTER || scenario.actors.len() < 2;
        if !is_small && !self.has_tried_patterns && !retries.is_empty() {
            self.has_tried_patterns = true;
            if let Some((history, livelock)) = livelock_search::find_livelock(runner, scenario) {
                let problem = Problem::livelock(runner, scenario, &history, &livelock);
                return Err(self.report(scenario, problem).into());
            }
        }
        // The probe is as good for one execution as for another, unless the code differs.
        for (&tries, &Retry { steps, .. }) in retries {
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
        determinism::expect_success(runner, scenario, history, self.schedules)?;
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
    fn note_sections(&mut self, history: &History) {
        for event in &history.events {
            if let EventKind::Enter { section, .. } = event.kind
                && !self.entered.contains(section)
            {
                self.entered.insert(section.to_owned());
            }
        }
    }

    /// An exploration that has run nothing, and does not probe again what this one has probed.
    fn continued(&self) -> Exploration {
        let (retrying, livelocks) = (self.retrying.clone(), self.livelocks.clone());
        let has_tried_patterns = self.has_tried_patterns;
        Exploration { retrying, livelocks, has_tried_patterns, ..Exploration::default() }
    }

    /// The oracle at this place of the scenario is violated in the last execution.
    fn note_find(&mut self, oracle: usize) {
        self.found_after.entry(oracle).or_insert(self.schedules);
    }

    /// Adds the counts of another exploration, but not its findings.
    fn add(&mut self, other: &Exploration) {
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
    fn keep(&mut self, finding: Finding) -> bool {
        let is_same = |known: &&mut Finding| Arc::ptr_eq(&known.oracle, &finding.oracle);
        match self.findings.iter_mut().find(is_same) {
            Some(known) if known.rank() <= finding.rank() => return false,
            Some(known) => *known = finding,
            None => self.findings.push(finding),
        }
        true
    }

    /// A violation that did not happen again when its schedule ran again.
    fn vanished(&self, scenario: &Scenario, oracle: &Arc<dyn Oracle>, schedule: Schedule) -> Box<Report> {
        let what = format!("It violated {}. When it ran again, it did not.\n", oracle.name());
        self.report(scenario, Problem::Nondeterminism { what, schedule })
    }

    fn report(&self, scenario: &Scenario, problem: Problem) -> Box<Report> {
        let report = Report::new(scenario, problem, self.schedules);
        Box::new(Report { ended_at: self.ended_at.map(|branch| (branch, 0)), ..report })
    }

    /// The first thing without which a pass means nothing.
    fn missing(&self, scenario: &Scenario) -> Option<String> {
        let mut oracles = scenario.oracles.iter().enumerate();
        let unjudged = oracles.find(|(place, oracle)| !self.judged.contains(&(*place, oracle.name())));
        let missing = self.reached.missing(scenario.must_reach).map(str::to_owned);
        let missing = missing.or(without_oracle(scenario));
        missing.or_else(|| unjudged.map(|(_, oracle)| vacuous::unjudged(&**oracle, &self.entered)))
    }

    /// Whether a violation of this oracle of at least the size `least` can be smaller than the
    /// known one.
    fn lacks(&self, oracle: &Arc<dyn Oracle>, least: ScheduleSize) -> bool {
        let known = self.findings.iter().find(|finding| Arc::ptr_eq(&finding.oracle, oracle));
        known.is_none_or(|known| least < known.size())
    }
}

/// Runs every trace of the scenario within its fault budgets, or until an oracle is violated.
///
/// A trace is all schedules that differ only in the order of independent steps. One schedule of
/// each trace is run. If `LOCKSTEP_SHARD` is set, it runs one shard of them, and `LOCKSTEP_JOBS`
/// sets how many run at the same time: see [`Division::from_env`].
///
/// If all actors run the same code, it begins with one actor, and adds others. It ends at the
/// number of actors at which an oracle is violated. If a number of actors has more than a thousand
/// schedules, it ends at the first violation after those. Shards do the same, and `lockstep merge`
/// reports what one process would.
///
/// If standard error is a terminal and the exploration takes long, it prints there how far it is.
///
/// # Errors
/// - An oracle is violated. The report holds the first such oracle, and the shortest of its
///   violations that were found.
/// - Something that had to happen never happened. If no schedule can make it happen, none is run.
/// - The code of an actor fails, waits for ever, or is nondeterministic.
pub fn exhaustive(scenario: &Scenario) -> Result<Exploration, Box<Report>> {
    exhaustive_shard(scenario, &Division::of_process(scenario)?)
}

/// Runs this many random schedules, drawn from a seed, with the methods of [`Method::PORTFOLIO`] in
/// turn. If `LOCKSTEP_SHARD` is set, it runs one shard of them: see [`Division::from_env`].
///
/// # Errors
/// See [`exhaustive`].
pub fn sample(scenario: &Scenario, schedules: u64, seed: u64) -> Result<Exploration, Box<Report>> {
    sample_shard(scenario, schedules, seed, &Division::of_process(scenario)?)
}

/// Runs one execution and judges it, without shrinking. It serves callers with schedules of their
/// own, such as `proptest`.
///
/// # Errors
/// - An oracle is violated. The report names the first one.
/// - The code of an actor fails or waits for ever.
pub fn run(
    runner: &mut Runner,
    scenario: &Scenario,
    policy: &mut dyn Policy,
) -> Result<History, Box<Report>> {
    let executed = runner.run(scenario, policy, Recording::Full);
    judge_one(runner, scenario, executed.into_history())
}

/// Judges one execution.
pub(crate) fn judge_one(
    runner: &mut Runner,
    scenario: &Scenario,
    history: History,
) -> Result<History, Box<Report>> {
    determinism::expect_success(runner, scenario, &history, 1)?;
    let violated = scenario.oracles.iter().find_map(|oracle| Some((oracle, oracle.check(&history)?)));
    if let Some(missing) = without_oracle(scenario) {
        return Err(Box::new(Report::new(scenario, Problem::Vacuous(missing), 1)));
    }
    match violated {
        Some((oracle, violation)) => {
            let problem = Problem::violated(scenario, &**oracle, violation, &history);
            Err(Box::new(Report::new(scenario, problem, 1)))
        }
        None => Ok(history),
    }
}

/// Explores a scenario. If some code gives up tries in vain, explores again with all of its tries.
/// If nothing is found, but some code did something else than before, that is the report.
fn with_all_tries<R>(
    runner: &mut Runner,
    scenario: &Scenario,
    exploration: impl Fn(&R) -> &Exploration,
    mut explore: impl FnMut(&mut Runner) -> Result<R, Stop>,
) -> Result<R, Box<Report>> {
    runner.take_difference();
    loop {
        match explore(runner) {
            Ok(result) => {
                let difference = runner.take_difference();
                let Exploration { schedules, findings, .. } = exploration(&result);
                return match difference.filter(|_| findings.is_empty()) {
                    Some(Difference { what, schedule }) => {
                        let problem = Problem::Nondeterminism { what, schedule };
                        Err(Box::new(Report::new(scenario, problem, *schedules)))
                    }
                    None => Ok(result),
                };
            }
            Err(Stop::Report(report)) => return Err(report),
            Err(Stop::KnowsMore) => {}
        }
    }
}

/// Explores the shard of a journal. Everything that shards know of the code is used from the start.
fn with_journal(
    runner: &mut Runner,
    scenario: &Scenario,
    journal: &mut Journal,
    mut explore: impl FnMut(&mut Runner, &mut Journal) -> Result<Exploration, Stop>,
) -> Result<Exploration, Box<Report>> {
    runner.limit_learned();
    runner.learn_thresholds(scenario);
    journal.tell(runner, scenario)?;
    with_all_tries(
        runner,
        scenario,
        |found| found,
        |runner| {
            journal.begin(runner, scenario)?;
            explore(runner, journal)
        },
    )
}

/// The steps that are not two steps in one. If an actor can start by a step of its own, its start
/// together with its first command is left out. If a reply can be late, a command together with the
/// arrival of its reply is left out.
fn single(enabled: &[Step]) -> impl Iterator<Item = Step> {
    let starting = enabled.iter().fold(0, |actors, step| match step {
        Step::Start(actor) => actors | 1 << actor.0,
        _ => actors,
    });
    let can_send = enabled.iter().any(|step| matches!(step, Step::Send(..)));
    let is_single = move |step: &Step| match step {
        Step::Run(actor, connection) if can_send && enabled.contains(&Step::Send(*actor, *connection)) => {
            false
        }
        Step::Run(actor, _) | Step::Fault(Fault { target: Target::Connection(actor, _), .. }) => {
            starting >> actor.0 & 1 == 0
        }
        _ => true,
    };
    enabled.iter().copied().filter(is_single)
}

/// The text of a pass that means nothing, if the scenario has no oracle.
fn without_oracle(scenario: &Scenario) -> Option<String> {
    scenario.oracles.is_empty().then(|| {
        "no oracle judged anything. Add one by `Scenario::always`; `Success` asks only that every client ends without an error"
            .into()
    })
}

/// Returns what is wrong with an exploration. Only a whole one can be vacuous.
fn judge(
    runner: &mut Runner,
    scenario: &Scenario,
    exploration: Exploration,
    shard: Shard,
) -> Result<Exploration, Box<Report>> {
    let oracles = scenario.oracles.iter().enumerate();
    let violated = oracles.map(|(place, oracle)| (place, exploration.finding(oracle.name())));
    let violated = violated.into_iter().find_map(|(place, finding)| Some((place, finding?)));
    if let Some((place, Finding { oracle, actors, schedule, violation, .. })) = violated {
        let scenario = scenario.with_actors(*actors);
        let history = replay(runner, &scenario, schedule, Recording::Full);
        let problem = Problem::violated(&scenario, &**oracle, violation.clone(), &history);
        let found_after = exploration.found_after.get(&place).copied();
        let report = exploration.report(&scenario, problem);
        return Err(Box::new(Report { found_after: found_after.unwrap_or(report.schedules), ..*report }));
    }
    let missing = match shard {
        Shard::WHOLE => exploration.missing(scenario),
        _ => without_oracle(scenario),
    };
    match missing {
        Some(missing) => Err(exploration.report(scenario, Problem::Vacuous(missing))),
        None => {
            let is_overrun_unjudged = exploration.reached.overrun
                && !scenario.oracles.iter().any(|oracle| oracle.judges_overruns());
            Ok(Exploration { is_overrun_unjudged, ..exploration })
        }
    }
}
