//! Two checks for every scenario: no actor fails or waits for ever, and equal schedules give equal
//! executions.

use std::sync::Arc;
use std::time::Duration;

use super::report::{Problem, Report};
use super::stop::Stop;
use crate::execution::{Executed, Mode, Runner};
use crate::memo::Difference;
use crate::oracle::{Oracle, Success};
use crate::render::{timeline, without_numbers};
use crate::replay::replay;
use crate::scenario::{Limits, Scenario};
use crate::schedule::Schedule;
use crate::shrink::{holds_of_whole, shrink};
use crate::sim::Recording;
use crate::trace::{EventKind, History};

/// Most real time for finding out what code without an end repeats.
const REPLAY_TIME_MAX: Duration = Duration::from_secs(2);

/// Checks that every actor ended without an error. If one did not, the execution tested nothing,
/// and the test itself is wrong. After a fault, the client may end with the error that it caused.
///
/// # Errors
/// The code of an actor failed, or never ended.
pub fn expect_success(
    runner: &mut Runner,
    scenario: &Scenario,
    history: &History,
    schedules: u64,
) -> Result<(), Box<Report>> {
    let report = |problem| Err(Box::new(Report::new(scenario, problem, schedules)));
    let Some((actor, what, step)) = history.failure() else { return Ok(()) };
    if let Some(problem) = endless(runner, scenario, history) {
        return report(problem);
    }
    let schedule = Schedule { steps: history.steps[..step].to_vec() };
    let success: Arc<dyn Oracle> = Arc::new(Success);
    let schedule = shrink(runner, scenario, &schedule, &success).map_or(schedule, |finding| finding.schedule);
    let history = replay(runner, scenario, &schedule, Recording::Full);
    let (actor, what, step) = history.failure().unwrap_or((actor, what, step));
    let timeline = timeline::render(&history, scenario.actors.len(), None, timeline::ANY);
    let saved = scenario.saved(&Success, &history, step);
    report(Problem::Failed { actor, what, schedule, timeline, saved })
}

/// Whether the code of an actor failed or never ended only because others did not start that the
/// scenario demands.
pub(super) fn fails_as_part(runner: &mut Runner, scenario: &Scenario, history: &History) -> bool {
    let failure = history.failure().filter(|_| scenario.is_part());
    failure.is_some_and(|(.., step)| !holds_of_whole(runner, scenario, &history.steps[..step], &Success))
}

/// The report of an execution that reached a limit. It is not shrunk: a shorter schedule would say
/// no more, and each attempt would reach the limit again.
fn endless(runner: &mut Runner, scenario: &Scenario, history: &History) -> Option<Problem> {
    let (actor, limit) = history.events.iter().find_map(|event| match &event.kind {
        EventKind::Endless { actor, limit } => Some((*actor, limit.clone())),
        _ => None,
    })?;
    // Commands are recorded only in full, and a limit of real time would take as long again.
    let limits = Limits { wall_time: scenario.limits.wall_time.min(REPLAY_TIME_MAX), ..scenario.limits };
    let schedule = Schedule { steps: history.steps.clone() };
    let full = replay(runner, &scenario.clone().limits(limits), &schedule, Recording::Full);
    let commands = full.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { actor: sender, text, script, reply, .. } if *sender == actor => {
            Some(format!("{} → {reply}", full.request_text(text, script.as_ref())))
        }
        _ => None,
    });
    Some(Problem::Endless { actor, limit, commands: repeated(&commands.collect::<Vec<_>>()) })
}

/// The commands at the end that come again and again, or the last ones. Numbers are no difference.
fn repeated(commands: &[String]) -> Vec<String> {
    const TIMES: usize = 3;
    const PERIOD_MAX: usize = 32;
    const SHOWN_WITHOUT: usize = 5;
    let alike: Vec<String> = commands.iter().map(|command| without_numbers(command)).collect();
    let repeats = |period: &usize| {
        let tail = alike.len().checked_sub(TIMES * period).map(|start| &alike[start..]);
        tail.is_some_and(|tail| tail[*period..] == tail[..tail.len() - period])
    };
    let shown = (1..=PERIOD_MAX).find(repeats).unwrap_or(SHOWN_WITHOUT.min(commands.len()));
    commands[commands.len() - shown..].to_vec()
}

/// Runs the schedule of an execution again with everything running. Compares the executions.
///
/// # Errors
/// - The executions differ. The report shows the first difference.
/// - They differ, but those in which everything runs do not. Then what was learned is used no more,
///   and the exploration begins again. If it finds nothing, this difference is its report.
pub(super) fn expect_the_same_again(
    runner: &mut Runner,
    scenario: &Scenario,
    executed: &Executed,
    schedules: u64,
) -> Result<(), Stop> {
    let Executed { history, mode, .. } = executed;
    let schedule = Schedule { steps: history.steps.clone() };
    let again = replay(runner, scenario, &schedule, scenario.recording());
    if again == **history {
        return Ok(());
    }
    let [one, other] = [(); 2].map(|()| replay(runner, scenario, &schedule, Recording::Full));
    let render = |one: &History, other: &History| {
        let difference = timeline::render_difference(one, other, scenario.actors.len());
        difference.or_else(|| touched_otherwise(one, other))
    };
    let difference = timeline::render_difference(&one, &other, scenario.actors.len());
    // The first of three may have been the one that differs.
    let is_certain =
        difference.is_some() || replay(runner, scenario, &schedule, scenario.recording()) != again;
    let what = difference.or_else(|| render(history, &again)).or_else(|| touched_otherwise(history, &one));
    let what = what.unwrap_or_else(|| "These steps had other effects when they ran again.\n".into());
    if !is_certain && *mode != Mode::Real {
        runner.note_difference(scenario, Difference { what, schedule });
        return Err(Stop::KnowsMore);
    }
    let problem = Problem::Nondeterminism { what, schedule };
    Err(Box::new(Report::new(scenario, problem, schedules)).into())
}

/// Describes the first step with different footprints, or what was reached if that differs.
fn touched_otherwise(one: &History, other: &History) -> Option<String> {
    let pairs = one.footprints.iter().zip(&other.footprints);
    let Some(place) = pairs.into_iter().position(|(one, other)| one != other) else {
        let differ = one.reached != other.reached;
        return differ.then(|| {
            format!(
                "The executions reached: {}.\nWhen the steps ran again: {}.\n",
                one.reached, other.reached
            )
        });
    };
    let [first, again] = [one, other].map(|history| &*history.footprints[place]);
    let (nth, step) = (place + 1, one.steps[place]);
    let [first, again] = if first.servers == again.servers {
        let [first, again] = [first, again].map(|footprint| format!("{footprint:#?}"));
        let besides = |lines: &str, others: &str| {
            let others: Vec<&str> = others.lines().collect();
            let own = lines.lines().filter(|line| !others.contains(line));
            own.map(|line| format!("{line}\n")).collect::<String>()
        };
        [besides(&first, &again), besides(&again, &first)]
    } else {
        [first, again].map(|footprint| {
            let servers = footprint.servers.iter();
            servers.map(|(server, touched)| format!("On server {}:\n{touched}", server + 1)).collect()
        })
    };
    Some(format!("The footprints of step {nth}, {step}, differ:\n{first}When the steps ran again:\n{again}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use locks::Subscribe as _;
    use redis::{Cmd, cmd};

    use super::*;
    use crate::Faults;
    use crate::execution::Learning;
    use crate::explore::{Exploration, explore_all};
    use crate::oracle::{ExclusiveFact, Rate, Success};

    fn take(lease_ms: u32) -> Cmd {
        cmd("SET").arg("k").arg("v").arg("NX").arg("PX").arg(lease_ms).to_owned()
    }

    fn release(keys: &[&str]) -> Cmd {
        cmd("DEL").arg(keys).to_owned()
    }

    /// If a request that is remembered is not the one that the code sends, that is noticed, even if
    /// the server replies as before.
    #[test]
    fn a_wrong_remembered_request_is_noticed() {
        let scenario = lock();
        for (right, wrong) in [(take(10_000), take(60_000)), (release(&["k"]), release(&["k", "other"]))] {
            let mut runner = Runner::new();
            let sound = explore_all(&mut runner, &scenario).unwrap();
            assert_eq!(runner.best_mode(&scenario), Mode::Learned);
            assert!(runner.remember_wrongly(&right, &wrong) > 0);
            expect_difference(&mut runner, &scenario, &sound);
        }
    }

    /// An exploration reports that the clients differ from what is remembered of them. The next one
    /// lets everything run, and has the right result.
    #[track_caller]
    fn expect_difference(runner: &mut Runner, scenario: &Scenario, sound: &Exploration) {
        let report = explore_all(runner, scenario).unwrap_err();
        assert!(matches!(report.problem, Problem::Nondeterminism { .. }), "{report}");
        assert_ne!(runner.best_mode(scenario), Mode::Learned, "what was learned is used no more");
        assert_eq!(counts(&explore_all(runner, scenario).unwrap()), counts(sound));
    }

    fn counts(found: &Exploration) -> (u64, u64, usize) {
        (found.schedules, found.blocked, found.findings.len())
    }

    /// A message that arrives while the client waits for it is nothing that its code notices, so
    /// the code has no turn. A task of the client may have one at that moment.
    #[test]
    fn a_message_that_arrives_is_not_told() {
        let scenario = Scenario::new("messages")
            .always(Success)
            .faults(Faults::none().stalls(1))
            .actors(1, |client| async move {
                let mut subscription = client.connection().subscribe("c").await?;
                let mut link = client.connection();
                tokio::spawn(async move { cmd("PUBLISH").arg("c").arg("own").exec_async(&mut link).await });
                _ = tokio::time::timeout(Duration::from_secs(1), subscription.message()).await;
                Ok(())
            })
            .actors(1, |client| async move {
                Ok(cmd("PUBLISH").arg("c").arg("other").exec_async(&mut client.connection()).await?)
            });
        expect_learned(&scenario);
    }

    /// The timers of a process that stands still find it awake after the first of them.
    #[test]
    fn later_timers_of_a_process_that_stands_still_are_not_learned() {
        let scenario = Scenario::new("timers")
            .always(Success)
            .response_timeout(Duration::from_millis(50))
            .faults(Faults::none().stalls(1))
            .actors(2, |client| async move {
                let [mut one, mut other] = [client.connection(), client.connection()];
                let get = cmd("GET").arg("k").to_owned();
                let late = async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    get.exec_async(&mut other).await
                };
                // Each of them may time out.
                _ = tokio::join!(get.exec_async(&mut one), late);
                Ok(())
            });
        expect_learned(&scenario);
    }

    /// What probes did for one scenario is repeated for another one with the same code. Its history
    /// has no times.
    #[test]
    fn probes_are_remembered_with_their_times() {
        let untimed = lock().probe(1, |client| async move {
            let is_free = take(10_000).query_async(&mut client.connection()).await?;
            client.did("probe");
            Ok(is_free)
        });
        let timed = untimed.clone().always(Rate::of("probe", 1, Duration::from_secs(1)));
        let mut runner = Runner::new().learning(Learning::Eager);
        for scenario in [&timed, &untimed, &timed] {
            explore_all(&mut runner, scenario).unwrap();
            assert_eq!(runner.best_mode(scenario), Mode::Learned, "everything is as it was remembered");
        }
    }

    /// Large values are not remembered again and again: from some point on, everything runs.
    #[test]
    fn large_values_are_not_learned() {
        let scenario = Scenario::new("large").always(Success).actors(3, |client| async move {
            let mut link = client.connection();
            let value = vec![b'x'; 512 << 10];
            cmd("SET").arg("k").arg(value).exec_async(&mut link).await?;
            Ok(cmd("APPEND").arg("k").arg(client.name()).exec_async(&mut link).await?)
        });
        let mut runner = Runner::new().learning(Learning::Eager);
        explore_all(&mut runner, &scenario).unwrap();
        assert_eq!(runner.best_mode(&scenario), Mode::Real);
    }

    #[track_caller]
    fn expect_learned(scenario: &Scenario) {
        let mut runner = Runner::new().learning(Learning::Eager);
        explore_all(&mut runner, scenario).unwrap();
        assert_eq!(runner.best_mode(scenario), Mode::Learned);
    }

    fn lock() -> Scenario {
        let scenario =
            Scenario::new("lock").always(ExclusiveFact::of("cs")).faults(Faults::none().crashes(2));
        // Clients of one code would be explored with fewer clients, too, and with all code.
        let scenario = (0..3).fold(scenario, |scenario, _| {
            scenario.actors(1, |client| async move {
                let mut connection = client.connection();
                if take(10_000).query_async(&mut connection).await? {
                    client.hold("cs").until(release(&["k"]).exec_async(&mut connection)).await?;
                }
                Ok(())
            })
        });
        scenario
            .probe(1, |client| async move { Ok(take(10_000).query_async(&mut client.connection()).await?) })
    }
}
