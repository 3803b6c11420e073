//! If a text is a saved schedule, it must be equal after it is written and read again. A schedule
//! of an algorithm is also replayed. The replay must end, and a second replay must give the same
//! result.
//!
//! An input is its mode (one byte), and then the text of a schedule, or choices from which one is
//! made.

use std::cell::RefCell;

use harness::check::scenario_of;
use harness::execution::Runner;
use harness::replay::Subject;
use harness::{SavedSchedule, replay_saved};

use crate::commands::take;

/// More clients, permits and steps take longer, but give no other kinds of schedules.
const CLIENTS_MAX: usize = 4;
const PERMITS_MAX: u32 = 4;
const STEPS_MAX: usize = 64;

const NUMBERS: [&str; 8] = ["1", "2", "3", "0", "4", "26", "27", "x"];
const SPANS: [&str; 10] = [
    "1ms",
    "+5ms",
    "10000ms",
    "+10001ms",
    "-5ms",
    "-10000ms",
    "0ms",
    "+86400000ms",
    "9223372036854775807ms",
    "-9223372036854775808ms",
];
const CLASSES: [&str; 9] =
    ["order", "skew", "crash", "slow", "lost", "server", "failover", "cluster", "cancel"];
const PROPERTIES: [&str; 10] = [
    "exclusive-fact",
    "exclusive-belief",
    "over-issue",
    "owner-safe",
    "recovers",
    "no-leak",
    "writer-alone",
    "no-lost-wake-up",
    "success",
    "x",
];
const ACTORS: [&str; 6] = ["A", "B", "C", "A.2", "B.2", "before"];
/// The starts of steps. `@` stands for an actor, `$` for a number, `%` for a span of time.
const STEPS: [&str; 37] = [
    "@",
    "@",
    "@",
    "@ $ SET lock",
    "start @",
    "crash @",
    "cancel @",
    "cancel-after @",
    "late @",
    "skew @ %",
    "skew $ %",
    "drift @ +200ppm",
    "drift $ -200ppm",
    "jump @ %",
    "jump $ %",
    "restart $",
    "reload $",
    "reload $ -$",
    "flush $",
    "failover $",
    "failover $ -AAB",
    "split-brain $ -B",
    "planned-failover $",
    "unacknowledged @ $",
    "begin-move $ 1234",
    "end-move $ 1234",
    "time %",
    "wait",
    "lose-request @",
    "lose-reply @",
    "resend @",
    "drop-before @",
    "drop-after @",
    "partition @",
    "partition-after @",
    "one-way @",
    "delay @",
];

thread_local! {
    static RUNNER: RefCell<Runner> = RefCell::new(Runner::new());
}

pub fn check(data: &[u8]) {
    let Some((mode, mut choices)) = data.split_first() else { return };
    let text = if mode % 4 == 0 {
        String::from_utf8_lossy(choices).into_owned()
    } else {
        text(&mut choices).unwrap_or_default()
    };
    let Ok(saved) = text.parse::<SavedSchedule>() else { return };
    let written = saved.to_string();
    let again = written.parse::<SavedSchedule>();
    assert_eq!(again.as_ref(), Ok(&saved), "{text:?} is written as {written:?}");

    if is_small(&saved)
        && let Some(scenario) = scenario_of(&saved, saved.lease)
    {
        let replay = || {
            let replayed = RUNNER.with_borrow_mut(|runner| replay_saved(runner, &scenario, &saved));
            replayed.map(|replayed| replayed.to_string())
        };
        assert_eq!(replay(), replay(), "another replay of {written:?}");
    }
}

fn is_small(saved: &SavedSchedule) -> bool {
    matches!(saved.subject, Subject::Algorithm { permits, .. } if permits <= PERMITS_MAX)
        && saved.clients <= CLIENTS_MAX
        && saved.steps.len() <= STEPS_MAX
}

/// The text of a schedule with its header.
fn text(choices: &mut &[u8]) -> Option<String> {
    let mut text = String::from("lockstep schedule 1\n");
    let algorithms = locks::registry::ALGORITHMS;
    text += &format!("algorithm {}\n", algorithms[usize::from(take(choices)?) % algorithms.len()].name);
    text += &format!("class {}\n", pick(&CLASSES, choices)?);
    text += &format!("permits {}\n", pick(&NUMBERS[..5], choices)?);
    text += &format!("clients {}\n", pick(&NUMBERS, choices)?);
    if take(choices)? % 4 == 0 {
        text += &format!("readers {}\n", pick(&NUMBERS, choices)?);
    }
    text += match take(choices)? % 4 {
        0 => "lease 1ms\n",
        1 => "lease 9223372036854775807ms\n",
        _ => "lease 10000ms\n",
    };
    text +=
        &format!("property {}\nmust {}\n", pick(&PROPERTIES, choices)?, pick(&["fail", "pass"], choices)?);
    while let Some(step) = pick(&STEPS, choices) {
        for letter in step.chars() {
            match letter {
                '@' => text += pick(&ACTORS, choices)?,
                '$' => text += pick(&NUMBERS, choices)?,
                '%' => text += pick(&SPANS, choices)?,
                letter => text.push(letter),
            }
        }
        text.push('\n');
    }
    Some(text)
}

fn pick<'a>(of: &[&'a str], choices: &mut &[u8]) -> Option<&'a str> {
    take(choices).map(|choice| of[usize::from(choice) % of.len()])
}
