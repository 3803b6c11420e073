//! Explores again when more is known of the clients' code.

use super::exploration::Exploration;
use super::journal::Journal;
use super::report::{Problem, Report};
use super::stop::Stop;
use crate::execution::Runner;
use crate::memo::Difference;
use crate::scenario::Scenario;

/// Explores a scenario. If some code gives up tries in vain, explores again with all of its tries.
/// If nothing is found, but some code did something else than before, that is the report.
pub(super) fn with_all_tries<R>(
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
pub(super) fn with_journal(
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
