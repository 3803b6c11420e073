//! Spans of time that only the code distinguishes: trials find them, and then time moves to them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use harness::execution::{Choice, Learning, Policy, Runner};
use harness::explore::{DepthFirst, probe_timers};
use harness::oracle::ExclusiveFact;
use harness::schedule::Step;
use harness::sim::Recording;
use harness::trace::History;
use harness::{Faults, Scenario, Schedule, replay};

use super::oracles::{SOUND, expect_violation, send};
use super::outcomes::{judged, outcome, reduced};
use super::traces::kinds::kinds;
use crate::bounds;

/// If brute force needs more schedules than this, the program is left out.
const SCHEDULES_MAX: usize = 20_000;

/// A holder goes wrong if it notices between these ages that its grant has grown old. It is right
/// before and after.
fn goes_wrong(from_ms: u64, to_ms: u64, by_tokio: bool) -> Scenario {
    let stalls = Faults::none().stalls(1);
    let scenario = Scenario::new("goes wrong").faults(stalls).always(ExclusiveFact::of("cs"));
    scenario.actors(2, move |client| async move {
        let mut link = client.connection();
        #[expect(clippy::disallowed_methods, reason = "the paused clock of the code under test")]
        let (since, instant) = (client.now(), tokio::time::Instant::now());
        if send(&mut link, SOUND.take).await? {
            let hold = client.hold("cs").enter();
            send::<()>(&mut link, &["PING"]).await?;
            let age = if by_tokio { instant.elapsed() } else { client.now() - since };
            if (from_ms..to_ms).contains(&(age.as_millis() as u64)) {
                send::<()>(&mut link, &["DEL", "lock"]).await?;
            }
            hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        }
        Ok(())
    })
}

#[test]
fn code_that_goes_wrong_in_a_short_span_is_found() {
    for (from_ms, to_ms) in [(6_000, 6_400), (3_000, 3_200), (500, 600)] {
        for by_tokio in [false, true] {
            println!("{from_ms} to {to_ms} ms, by tokio's clock: {by_tokio}");
            expect_violation(&goes_wrong(from_ms, to_ms, by_tokio), "exclusive-fact", 5);
        }
    }
}

/// Lets time move by every number of milliseconds up to a greatest one, and not only to instants
/// that matter.
struct Dense<'a>(&'a mut DepthFirst);

const SPAN_MS_MAX: u64 = 30;

impl Policy for Dense<'_> {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let is_instant = |step: &&Step| matches!(step, Step::Advance(_));
        let mut steps: Vec<Step> = enabled.iter().filter(|step| !is_instant(step)).copied().collect();
        if steps.len() < enabled.len() {
            steps.extend((1..=SPAN_MS_MAX).map(|ms| Step::Advance(Duration::from_millis(ms))));
        }
        match self.0.choose(&steps, history) {
            Choice::Take(idx) => Choice::Move(steps[idx]),
            choice => choice,
        }
    }
}

/// An outcome without its numbers and their units: most of them depend on the time.
fn without_numbers(outcome: &str) -> String {
    let (mut text, mut rest) = (String::new(), outcome);
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        text.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        rest = rest.strip_prefix("ms").or(rest.strip_prefix('s')).unwrap_or(rest);
    }
    text + rest
}

/// The outcomes, without numbers, of all orders in which time moves by every number of
/// milliseconds. `None` if there are too many.
fn dense(runner: &mut Runner, scenario: &Scenario) -> Option<BTreeMap<String, Vec<Step>>> {
    let (mut outcomes, mut depth_first) = (BTreeMap::new(), DepthFirst::default());
    for _ in 0..SCHEDULES_MAX {
        if !depth_first.next_schedule(usize::MAX) {
            return Some(outcomes);
        }
        let executed = runner.run(scenario, &mut Dense(&mut depth_first), Recording::Full);
        let has_news = probe_timers(runner, scenario, &executed);
        let mut history = executed.into_history();
        if has_news {
            history = replay(runner, scenario, &Schedule { steps: history.steps }, Recording::Full);
        }
        outcomes.entry(without_numbers(&outcome(scenario, &history))).or_insert(history.steps);
    }
    None
}

/// If time moves by any number of milliseconds, clients, servers and oracles see nothing else than
/// if it moves to the instants that matter.
#[test]
fn no_other_instant_matters() {
    let programs = bounds::DENSE.get();
    for (nth, (name, kind)) in (0..).zip(kinds()).filter(|(_, (_, kind))| kind.faults.stalls > 0) {
        let (mut compared, mut missed) = (0, Vec::new());
        for seed in 0..programs {
            let program = judged(kind.program(seed + 10_000_000 * (nth + 1))).prompt_replies();
            let mut runner = Runner::new().learning(Learning::Off);
            let reduced: BTreeSet<String> =
                reduced(&mut runner, &program).keys().map(|outcome| without_numbers(outcome)).collect();
            let Some(dense) = dense(&mut runner, &program) else { continue };
            compared += 1;
            if let Some((outcome, steps)) = dense.iter().find(|(outcome, _)| !reduced.contains(*outcome)) {
                missed.push(format!("{program:?}\n{steps:?}\n{outcome}"));
            }
        }
        println!("{name}: {compared} of {programs} programs compared");
        assert!(missed.is_empty(), "{} programs: {}", missed.len(), missed.join("\n"));
        assert!(2 * compared > programs, "{name}: most programs are too large");
    }
}
