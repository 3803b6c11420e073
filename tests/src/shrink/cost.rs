//! Compares schedules by how simple they are, and changes none. The passes in `pass.rs` change
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::fault::{Fault, Target};
use crate::schedule::Step;
use crate::trace::{EventKind, History};

/// The measures by which schedules are compared, in order of importance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The number of faults of all kinds, and of the steps of time that stall a client.
    pub faults: usize,
    /// The number of actors that take steps.
    pub actors: usize,
    /// The number of steps of all kinds.
    pub steps: usize,
    /// How often the next step is of another actor.
    switches: usize,
    /// By how much time moves, and by how much clocks are wrong, in total.
    clock: Duration,
    /// Breaks ties by the order of steps, so that equal bugs get equal schedules.
    order: Vec<Step>,
}

impl Cost {
    /// The cost of the first `count` steps of an execution.
    pub fn of(history: &History, count: usize) -> Cost {
        let steps = &history.steps[..count];
        // A step of time is no client's turn, even if a client stands still in it.
        let turn = |step: Step| step.actor().filter(|_| step.time_moved().is_none());
        Cost {
            faults: (0..count).filter(|&place| is_fault(history, place)).count(),
            actors: actors(steps).len(),
            steps: count,
            switches: steps.windows(2).filter(|pair| turn(pair[0]) != turn(pair[1])).count(),
            clock: clock(history, count),
            order: steps.to_vec(),
        }
    }
}

/// The size of a schedule. Fewer steps come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ScheduleSize {
    steps: usize,
    faults: usize,
    actors: usize,
}

impl ScheduleSize {
    /// The least size to which these steps of an execution can shrink by leaving out needless
    /// starts and arrivals. A start is needless if the actor's first command can follow at once. An
    /// arrival is needless if it can follow its command at once.
    pub(crate) fn least(history: &History, places: &[usize]) -> ScheduleSize {
        let is_time = |step: Step| step == Step::Wait || step.time_moved().is_some();
        let is_needless = |(nth, &place): (usize, &usize)| {
            let actor = match history.steps[place] {
                Step::Start(actor) => actor,
                Step::Receive(actor, connection) => {
                    let earlier = places[..nth].iter().rev().map(|&place| history.steps[place]);
                    let mut since = earlier.take_while(|step| *step != Step::Send(actor, connection));
                    return !since.any(is_time);
                }
                _ => return false,
            };
            let later = places[nth + 1..].iter().map(|&place| history.steps[place]);
            let begins = |step| match step {
                Step::Run(other, _)
                | Step::Send(other, _)
                | Step::Fault(Fault { target: Target::Connection(other, _), .. }) => other == actor,
                _ => false,
            };
            later.take_while(|&step| !is_time(step)).any(begins)
        };
        let needless = places.iter().enumerate().filter(|&step| is_needless(step)).count();
        let steps: Vec<Step> = places.iter().map(|&place| history.steps[place]).collect();
        let faults = places.iter().filter(|&&place| is_fault(history, place)).count();
        ScheduleSize { steps: steps.len() - needless, faults, actors: actors(&steps).len() }
    }
}

impl From<&Cost> for ScheduleSize {
    fn from(cost: &Cost) -> ScheduleSize {
        ScheduleSize { steps: cost.steps, faults: cost.faults, actors: cost.actors }
    }
}

/// To wait is a fault only if a client had a command to send.
fn is_fault(history: &History, place: usize) -> bool {
    matches!(history.steps[place], Step::Fault(fault) if fault.is_setup())
        || history.footprints[place].budget.is_some()
}

fn clock(history: &History, count: usize) -> Duration {
    let wrong = |step: &Step| {
        let millis = step.fault().and_then(Fault::millis).unwrap_or(0);
        Duration::from_millis(millis.unsigned_abs())
    };
    let mut last = 0;
    // Time that passes after the steps is not counted.
    let moved = history.events.iter().filter_map(|event| match event.kind {
        EventKind::Advanced { by, .. } if last < event.step && event.step <= count => {
            last = event.step;
            let is_of_time = matches!(history.steps[event.step - 1], Step::Advance(_) | Step::Wait);
            is_of_time.then_some(by)
        }
        _ => None,
    });
    moved.sum::<Duration>() + history.steps[..count].iter().map(wrong).sum()
}

/// The actors that the steps concern, in the order of their names.
pub(super) fn actors(steps: &[Step]) -> BTreeSet<Actor> {
    steps.iter().filter_map(|&step| concerned(step)).collect()
}

pub(super) fn concerned(step: Step) -> Option<Actor> {
    step.fault().map_or(step.actor(), |fault| fault.target.actor())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;
    use crate::trace::Event;
    use crate::trace::StepFootprint;

    /// An execution of a schedule in which every step is possible.
    fn executed(text: &str) -> History {
        let steps = text.parse::<Schedule>().unwrap().steps;
        let footprints = steps.iter().map(|step| StepFootprint::begin(*step, step.budget()).into()).collect();
        let events = steps.iter().enumerate().filter_map(|(place, step)| match *step {
            Step::Advance(by) => Some(Event {
                step: place + 1,
                at: Duration::ZERO,
                kind: EventKind::Advanced { by, is_wait: false },
            }),
            _ => None,
        });
        History { events: events.collect(), steps, footprints, ..History::default() }
    }

    /// The priorities: fewer faults before fewer actors, then steps, then switches, and time last.
    #[test]
    fn costs_are_ordered() {
        let simpler_first = [
            "A\nA\nB\nB",
            "A\nB\nA\nB",
            "A\nA\nB\nB\nA",
            "A\nB\nC",
            "A\ntime +5ms",
            "A\ntime +6ms",
            "A\nB\ncrash A",
            "A\ncrash A\ntime +5ms",
        ];
        let costs = simpler_first.map(executed).map(|history| Cost::of(&history, history.steps.len()));
        assert!(costs.is_sorted(), "{costs:?}");
    }

    fn least_size(text: &str) -> ScheduleSize {
        let history = executed(text);
        ScheduleSize::least(&history, &(0..history.steps.len()).collect::<Vec<_>>())
    }

    #[test]
    fn to_start_is_needless_unless_time_moves() {
        let size = least_size;
        assert_eq!(size("start A\nstart B\nA\nB"), ScheduleSize { steps: 2, faults: 0, actors: 2 });
        let crash = size("start A\ntime +5ms\nA\nstart B\ncrash B");
        assert_eq!(crash, ScheduleSize { steps: 5, faults: 2, actors: 2 });
    }

    /// A start is needless before any request of its actor, and an arrival before any time.
    #[test]
    fn needless_steps_do_not_count() {
        let steps = |text| least_size(text).steps;
        for (text, expected) in [
            ("start A\nsend A\nreceive A", 1),
            ("start A\nlose-reply A", 1),
            ("start A\nB", 2),
            ("start A\nwait\nA", 3),
            ("send A\nB\nreceive A", 2),
            ("send A\ntime +5ms\nreceive A", 3),
            ("time +5ms\nsend A\nreceive A", 2),
            ("send A\nwait\nsend B\nreceive B", 3),
        ] {
            assert_eq!(steps(text), expected, "{text}");
        }
    }

    /// The time of faults, of steps of time and of wrong clocks counts, and none after the last
    /// step.
    #[test]
    fn time_counts_once_for_each_step() {
        let mut history = executed("A\ntime +5ms\nskew A +7ms\ntime +6ms");
        let advanced = |step, millis| Event {
            step,
            at: Duration::ZERO,
            kind: EventKind::Advanced { by: Duration::from_millis(millis), is_wait: false },
        };
        // Time that belongs to a client's step, more of a step that has counted, and later time.
        history.events.insert(0, advanced(1, 100));
        history.events.insert(2, advanced(2, 200));
        history.events.push(advanced(5, 400));
        let millis = |count| Cost::of(&history, count).clock.as_millis();
        assert_eq!([1, 2, 3, 4].map(millis), [0, 5, 12, 18]);
    }
}
