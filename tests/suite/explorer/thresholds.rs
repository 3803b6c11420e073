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

/// Takes these steps, and lists the spans by which time can move then.
struct Spans(std::vec::IntoIter<Step>, Vec<Duration>);

impl Policy for Spans {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        if let Some(step) = self.0.next() {
            return Choice::Move(step);
        }
        let spans = enabled.iter().filter_map(|step| match step {
            Step::Advance(span) => Some(*span),
            _ => None,
        });
        self.1 = spans.collect();
        Choice::Abort
    }
}

/// The spans in milliseconds after these steps of a client that sends commands, and is inside a
/// section after the first one.
fn spans(commands: &'static [&'static str], steps: &str) -> Vec<u128> {
    let scenario = Scenario::new("instants").faults(Faults::none().stalls(5)).lease(Duration::from_secs(5));
    let scenario = scenario.actors(1, move |client| async move {
        let mut link = client.connection();
        for (nth, command) in commands.iter().enumerate() {
            let words: Vec<&str> = command.split(' ').collect();
            send::<redis::Value>(&mut link, &words).await?;
            if nth == 1 {
                std::mem::forget(client.hold("cs").enter());
            }
        }
        Ok(())
    });
    spans_after(&mut Runner::new(), &scenario, steps)
}

/// The spans in milliseconds after these steps of a scenario.
fn spans_after(runner: &mut Runner, scenario: &Scenario, steps: &str) -> Vec<u128> {
    let mut policy = Spans(steps.parse::<Schedule>().unwrap().steps.into_iter(), Vec::new());
    runner.run(scenario, &mut policy, Recording::Lean);
    policy.1.iter().map(Duration::as_millis).collect()
}

/// Time moves to the end of a key, and to the millisecond after it.
#[test]
fn instants_that_matter() {
    const KEYS: &[&str] = &["SET a 1 PX 2000", "PING", "PING"];
    assert_eq!(spans(KEYS, "A"), [2000, 2001]);
    assert_eq!(spans(KEYS, "A\ntime +2000ms"), [1]);
    // If nothing ends, the clock that a client has read may grow old.
    assert_eq!(spans(KEYS, "A\ntime +2001ms"), [1, 7000]);
    // The lease of a client that is inside.
    assert_eq!(spans(KEYS, "A\nA"), [2000, 2001, 5000, 5001]);
    assert_eq!(spans(KEYS, "A\nA\ntime +5000ms"), [1]);
    // As far as a step can lead, from now on, and no further.
    const FAR: &[&str] = &["SET a 1 PX 315360000000", "PING"];
    assert_eq!(spans(FAR, "A"), [315_360_000_000]);
    assert_eq!(spans(FAR, "A\ntime +1000ms"), [315_359_999_000, 315_359_999_001]);
}

/// Sixteen ends of keys are enough.
#[test]
fn instants_are_limited() {
    const KEYS: &[&str] = &["EVAL for\ti=1,20\tdo\tredis.call('SET',i,1,'PX',1000*i)\tend 0", "PING"];
    assert_eq!(spans(KEYS, "A").len(), 2 * 16);
}

/// A client that sends a second command at some ages of its first one, in milliseconds.
fn aged(command_at: fn(u128) -> Option<&'static str>) -> Scenario {
    let scenario = Scenario::new("aged").faults(Faults::none().stalls(1)).lease(Duration::from_secs(2));
    scenario.actors(1, move |client| async move {
        let (mut link, since) = (client.connection(), client.now());
        send::<()>(&mut link, &["PING"]).await?;
        match command_at((client.now() - since).as_millis()) {
            Some(command) => Ok(send::<()>(&mut link, &[command]).await?),
            None => Ok(()),
        }
    })
}

/// The spans after the first step of a scenario that code distinguishes. Without any, time moves
/// by one millisecond and by four seconds.
fn learned_spans(runner: &mut Runner, scenario: &Scenario) -> Vec<u128> {
    let mut spans = spans_after(runner, scenario, "A");
    spans.retain(|span| ![1, 4000].contains(span));
    spans
}

/// Code may do nothing at one of the known instants, and something between them.
#[test]
fn code_that_acts_in_a_short_span_only_is_found() {
    let acts = |age| match age {
        1000..1100 => Some("TIME"),
        6000.. => Some("DBSIZE"),
        _ => None,
    };
    let (mut runner, scenario) = (Runner::new(), aged(acts));
    runner.learn_thresholds(&scenario);
    assert_eq!(learned_spans(&mut runner, &scenario), [999, 1000, 1099, 1100, 5999, 6000]);
}

/// Time does not move to thresholds in an exploration without stalls.
#[test]
fn thresholds_are_searched_for_where_time_can_move() {
    let acts = |age| (age >= 3000).then_some("TIME");
    let (mut runner, scenario) = (Runner::new(), aged(acts));
    runner.learn_thresholds(&scenario.clone().faults(Faults::none()));
    assert_eq!(learned_spans(&mut runner, &scenario), []);
    runner.learn_thresholds(&scenario);
    assert_eq!(learned_spans(&mut runner, &scenario), [2999, 3000]);
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
