//! What is wrong with an exploration, or with one execution.

use super::determinism;
use super::exploration::Exploration;
use super::report::{Problem, Report};
use super::shard::Shard;
use super::vacuous::without_oracle;
use crate::execution::Runner;
use crate::replay::replay;
use crate::scenario::Scenario;
use crate::shrink::Finding;
use crate::sim::Recording;
use crate::trace::History;

/// Returns what is wrong with an exploration. Only a whole one can be vacuous.
pub(super) fn judge_all(
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
            let are_replies_prompt = scenario.are_replies_prompt();
            Ok(Exploration { is_overrun_unjudged, are_replies_prompt, ..exploration })
        }
    }
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
