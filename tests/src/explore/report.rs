//! A failed test as a value: what failed, the schedule, the timeline.

use std::fmt;

use super::failure::{Failure, counted};
use super::shard::BranchId;
use crate::actor::Actor;
use crate::execution::Runner;
use crate::lint::{Allowance, Warning};
use crate::oracle::{Oracle, Violation, list};
use crate::page::Counterexample;
use crate::render::{printable, timeline};
use crate::replay::{SavedSchedule, replay};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::Finding;
use crate::sim::{Livelock, Recording};
use crate::trace::History;

/// Why a scenario does not pass.
#[derive(Clone)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The problem.
    pub problem: Problem,
    /// How many schedules were run.
    pub schedules: u64,
    /// How many of them were run until the problem showed first.
    pub found_after: u64,
    /// Habits of the code that break locks sooner or later.
    pub lints: Vec<Warning>,
    /// The lints that the scenario allows.
    pub allowances: Vec<Allowance>,
    /// The branch at which the exploration ended, and how many of its schedules were run if it has
    /// no result.
    pub(super) ended_at: Option<(BranchId, u64)>,
}

/// A problem of a scenario.
#[derive(Clone, Debug)]
pub enum Problem {
    /// An oracle found a violation.
    Violated {
        /// The oracle's name.
        property: &'static str,
        /// The violation, as the oracle describes it.
        what: String,
        /// The shortest known schedule that shows it.
        schedule: Schedule,
        /// The timeline of that schedule.
        timeline: String,
        /// The schedule with its scenario and the command of each step. Its text can be stored and
        /// replayed.
        saved: SavedSchedule,
        /// Everything that happened, as data.
        counterexample: Box<Counterexample>,
        /// The scenario of the schedule.
        of: Box<Scenario>,
    },
    /// The code of an actor ended with an error or a panic, or waits for something that never
    /// happens.
    Failed {
        /// The actor.
        actor: Actor,
        /// How it ended.
        what: String,
        /// A schedule that shows it.
        schedule: Schedule,
        /// The timeline of that schedule.
        timeline: String,
        /// The schedule in a form to store and replay.
        saved: SavedSchedule,
    },
    /// The code of an actor still ran when the execution reached a limit.
    Endless {
        /// The actor.
        actor: Actor,
        /// The limit in words.
        limit: String,
        /// The commands that the actor repeats, or its last ones, each with its reply.
        commands: Vec<String>,
    },
    /// Actors try again and again, and keep each other from getting on: a livelock. Equal steps
    /// come again and again until the execution reaches its limit of steps.
    Livelock {
        /// The actors. All others have ended.
        actors: Vec<Actor>,
        /// A schedule that leads there. Its last steps are two equal rounds.
        schedule: Schedule,
        /// The number of steps of one round.
        round: usize,
        /// The timeline of that schedule.
        timeline: String,
    },
    /// One schedule led to two different executions. Something besides the schedule decides what
    /// the code does.
    Nondeterminism {
        /// The timeline of the first difference.
        what: String,
        /// The schedule.
        schedule: Schedule,
    },
    /// Nothing was violated, but something that must happen never did. The pass means nothing.
    Vacuous(String),
    /// The exploration cannot be divided among processes as they ask, or not be resumed. The text
    /// says why, and what to do.
    Undivided(String),
}

impl std::error::Error for Report {}

/// Equal to `Display`, because people read what `unwrap` prints in a test.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.text()))
    }
}

impl Report {
    /// A report of a problem that is found after `schedules` schedules.
    pub(super) fn new(scenario: &Scenario, problem: Problem, schedules: u64) -> Report {
        let (scenario, found_after) = (scenario.name.clone(), schedules);
        let (lints, allowances) = (Vec::new(), Vec::new());
        Report { scenario, problem, schedules, found_after, lints, allowances, ended_at: None }
    }

    /// How a shard fails that has this report.
    pub(super) fn failure(&self) -> Failure {
        let violation = match &self.problem {
            Problem::Violated { property, schedule, of, .. } => {
                let place = of.oracles.iter().position(|oracle| oracle.name() == *property);
                place.map(|place| (place, schedule.steps.len()))
            }
            _ => None,
        };
        let (at, schedules) = self.ended_at.map_or((None, 0), |(at, schedules)| (Some(at), schedules));
        Failure { at, schedules, violation, text: self.parts() }
    }

    /// The schedule of a violation.
    pub(super) fn schedule(&self) -> Option<&Schedule> {
        match &self.problem {
            Problem::Violated { schedule, .. } => Some(schedule),
            _ => None,
        }
    }

    /// The violation as data, with the number of schedules that were explored, and with the
    /// schedules beside it, which are run now. `None` if the problem is another one.
    pub fn counterexample(&self) -> Option<Counterexample> {
        let Problem::Violated { counterexample, property, schedule, of, .. } = &self.problem else {
            return None;
        };
        let found = Counterexample { explored: Some(self.schedules), ..(**counterexample).clone() };
        let oracle = of.oracles.iter().find(|oracle| oracle.name() == *property);
        Some(match oracle {
            Some(oracle) => found.with_neighbours(&mut Runner::new(), of, &**oracle, &schedule.steps),
            None => found,
        })
    }

    /// Writes the violation as an HTML page. A report of another problem is written as plain text.
    /// The folder of the file is made.
    ///
    /// # Errors
    /// The file cannot be written.
    #[cfg(feature = "pages")]
    pub fn write_html(&self, file: impl AsRef<std::path::Path>) -> std::io::Result<()> {
        match self.counterexample() {
            Some(counterexample) => counterexample.write_html(file),
            None => crate::page::write(file.as_ref(), &self.to_string()),
        }
    }

    /// Writes the violation as an SVG picture. The folder of the file is made.
    ///
    /// # Errors
    /// The file cannot be written, or the problem is not a violation, and has no picture.
    #[cfg(feature = "pages")]
    pub fn write_svg(&self, file: impl AsRef<std::path::Path>) -> std::io::Result<()> {
        let counterexample = self.counterexample().ok_or_else(|| {
            std::io::Error::other("no picture is written: the report has no violation; print it as text")
        })?;
        counterexample.write_svg(file)
    }

    /// The report of an exploration that cannot be divided, or not be resumed.
    pub(super) fn undivided(scenario: &str, why: String) -> Report {
        let (scenario, problem) = (scenario.into(), Problem::Undivided(why));
        let (lints, allowances) = (Vec::new(), Vec::new());
        Report { scenario, problem, schedules: 0, found_after: 0, lints, allowances, ended_at: None }
    }

    fn text(&self) -> String {
        let (head, rest) = self.parts();
        match rest {
            Some(rest) => head + &counted(self.found_after, self.schedules) + &rest,
            None => head,
        }
    }

    /// The text before the number of schedules, and after it. `None` if the text does not have it.
    fn parts(&self) -> (String, Option<String>) {
        let Report { scenario, problem, .. } = self;
        let found = |what: &str, rest: String| {
            (format!("{scenario}: {what} (found after "), Some(format!(")\n\n{rest}")))
        };
        match problem {
            Problem::Vacuous(what) if self.schedules == 0 => {
                (format!("{scenario}: vacuous: {what}. Without that, a pass would mean nothing"), None)
            }
            Problem::Vacuous(what) => {
                (format!("{scenario}: vacuous: in "), Some(format!(" {what}, so the pass means nothing")))
            }
            Problem::Undivided(why) => (format!("{scenario}: {why}"), None),
            Problem::Nondeterminism { what, schedule } => (
                format!(
                    "{scenario}: the schedule led to two different executions. Something besides the schedule decides what the code does: \
                 its own random names and numbers (take names from `client.env().unique()`), the machine's clock (read `client.now()`), \
                 the order of a HashMap, or `select!` without `biased`.\n\n\
                 {what}\nschedule:\n{schedule}"
                ),
                None,
            ),
            Problem::Livelock { actors, round, timeline, .. } => found(
                &format!("livelock: {} try again and again, and none of them gets on", list(actors)),
                format!("{timeline}\nThe last {round} steps come again and again."),
            ),
            Problem::Endless { actor, limit, commands } => {
                let commands = if commands.is_empty() {
                    "It sends no commands.".into()
                } else {
                    format!("It repeats:\n  {}", commands.join("\n  "))
                };
                found(
                    &format!("actor {actor} does not come to its end: {limit}"),
                    format!("{commands}\n\nIf the code needs more, raise the limit by `Scenario::limits`."),
                )
            }
            Problem::Failed { actor, what, timeline, saved, .. } => {
                let what = what.lines().next().unwrap_or_default();
                found(&format!("actor {actor} {what}"), to_replay(timeline, saved))
            }
            Problem::Violated { property, timeline, saved, .. } => {
                found(&format!("{property} is violated"), to_replay(timeline, saved))
            }
        }
    }
}

fn to_replay(timeline: &str, saved: &SavedSchedule) -> String {
    format!("{timeline}\nSave this schedule, and replay it with harness::replay_saved:\n\n{saved}")
}

impl Problem {
    /// The clients keep each other from getting on for ever.
    pub(super) fn livelock(
        runner: &mut Runner,
        scenario: &Scenario,
        history: &History,
        livelock: &Livelock,
    ) -> Problem {
        let schedule = Schedule { steps: history.steps[..livelock.steps].to_vec() };
        let mut shown = replay(runner, scenario, &schedule, Recording::Full);
        // Later events are not part of it.
        shown.events.retain(|event| event.step <= livelock.steps);
        let timeline = timeline::render(&shown, scenario.actors.len(), None, timeline::ANY);
        Problem::Livelock { actors: livelock.actors.clone(), schedule, round: livelock.round, timeline }
    }

    /// A violation, with the execution that shows it.
    pub(crate) fn violated(
        scenario: &Scenario,
        oracle: &dyn Oracle,
        violation: Violation,
        history: &History,
    ) -> Problem {
        let saved = scenario.saved(oracle, history, violation.step);
        let shown = until_broken(oracle, history, &violation);
        Problem::Violated {
            property: oracle.name(),
            timeline: timeline::render(&shown, scenario.actors.len(), Some(&violation), timeline::ANY),
            counterexample: Box::new(Counterexample::new(&saved, &shown, &violation)),
            saved,
            of: Box::new(scenario.clone()),
            schedule: Schedule { steps: history.steps[..violation.step].to_vec() },
            what: violation.what,
        }
    }
}

/// The history until the event that breaks the property. What comes after it in the same step does
/// not belong to the violation.
fn until_broken(oracle: &dyn Oracle, history: &History, violation: &Violation) -> History {
    let mut shown = history.clone();
    let later = shown.events.split_off(history.events.partition_point(|event| event.step < violation.step));
    for event in later {
        shown.events.push(event);
        if oracle.check(&shown).is_some_and(|broken| broken.step == violation.step) {
            break;
        }
    }
    shown
}

/// Renders the timeline of a finding, wrapped to `width` columns. The fault budgets are those of
/// the finding.
pub fn render_finding(runner: &mut Runner, scenario: &Scenario, finding: &Finding, width: usize) -> String {
    let scenario = scenario.with_actors(finding.actors).faults(finding.faults);
    let history = replay(runner, &scenario, &finding.schedule, Recording::Full);
    timeline::render(&history, finding.actors, Some(&finding.violation), width)
}
