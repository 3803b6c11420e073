//! Changes a schedule to another lease, with slack around every end of a key's time to live.
//!
//! A real clock cannot hit the exact millisecond in which a lease ends, nor the one after it.

use std::time::Duration;

use emulator::Emulator;

use crate::execution::{Choice, Policy};
use crate::fault::Fault;
use crate::replay::Follow;
use crate::schedule::Step;
use crate::sim::START;
use crate::trace::{EventKind, History};

/// The largest number of keys whose ends are considered.
const KEYS_MAX: usize = 16;

/// Follows a schedule on emulators, and records at each step which times to live are about to end.
pub(crate) struct Rescale {
    follow: Follow,
    emulators: Vec<Emulator>,
    /// The targets of the steps of time. If this is `None`, the steps stay as they are.
    plan: Option<Plan>,
    moments: Vec<Moment>,
}

/// The targets of all steps of time in a schedule.
#[derive(Clone, Debug)]
struct Plan {
    /// For each step of the schedule, its target if it is a step of time.
    aims: Vec<Option<Aim>>,
    /// The slack before and after the end of a key's time to live.
    slack: Duration,
    edge: Edge,
    /// The lease of the original schedule, and the new lease.
    leases: (Duration, Duration),
}

/// Where a step of time leads, if the original led to the exact millisecond in which a key's time
/// to live ends. In that millisecond the server still has the key, but a script or a client may
/// count otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge {
    Before,
    Past,
}

/// The target of a step of time.
#[derive(Clone, Copy, Debug)]
struct Aim {
    /// How many of the coming ends have passed after the step.
    over: usize,
    /// Whether the step leads to the exact millisecond of the next end.
    is_at: bool,
    span: Duration,
}

/// The ends that are about to come after some steps.
#[derive(Clone, Debug)]
struct Moment {
    steps: usize,
    now: Duration,
    /// The ends in order.
    ends: Vec<End>,
}

/// The end of a key's time to live, of a client's lease, or of both.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Duration,
    /// Whether the server uses this end, and not only a client.
    is_of_key: bool,
}

impl Rescale {
    /// Follows the steps as they are.
    pub(crate) fn survey(emulators: &[Emulator], steps: Vec<Step>) -> Rescale {
        Rescale { follow: Follow::new(steps), emulators: emulators.to_vec(), plan: None, moments: Vec::new() }
    }

    /// The schedule for the second of two leases. This one was for the first.
    pub(crate) fn rescaled(&self, leases: (Duration, Duration), slack: Duration, edge: Edge) -> Rescale {
        let steps = self.follow.steps();
        let places = self.follow.taken().iter().copied().chain(std::iter::repeat(None));
        let aims = steps.iter().zip(places).map(|(&step, place)| self.aim(step, place?)).collect();
        let scaled = steps.iter().map(|&step| match step {
            Step::Fault(fault) if fault.millis().is_some() => {
                let millis = fault.amount;
                let millis = i128::from(millis) * leases.1.as_millis() as i128 / leases.0.as_millis() as i128;
                Step::Fault(Fault { amount: millis as i64, ..fault })
            }
            _ => step,
        });
        let plan = Some(Plan { aims, slack, edge, leases });
        Rescale { plan, ..Rescale::survey(&self.emulators, scaled.collect()) }
    }

    /// The steps, with the spans of steps of time as they were executed.
    pub(crate) fn steps(&self) -> &[Step] {
        self.follow.steps()
    }

    /// The steps that were possible, each with its number in the execution.
    pub(crate) fn taken_steps(&self) -> impl Iterator<Item = (Step, usize)> {
        let places = self.follow.taken().iter().copied();
        self.follow.steps().iter().zip(places).filter_map(|(&step, place)| Some((step, place?)))
    }

    /// The next end of a key's time to live, after this many steps of the execution.
    pub(crate) fn next_end(&self, steps: usize) -> Option<Duration> {
        let moment = self.moments.iter().find(|moment| moment.steps >= steps).or(self.moments.last())?;
        moment.ends.iter().find(|end| end.is_of_key).map(|end| end.at)
    }

    fn aim(&self, step: Step, place: usize) -> Option<Aim> {
        let span = step.time_moved()?;
        let moment = self.moments.iter().find(|moment| moment.steps + 1 == place)?;
        let then = moment.now + span;
        let over = moment.ends.iter().filter(|end| end.at < then).count();
        Some(Aim { over, is_at: moment.ends.iter().any(|end| end.at == then), span })
    }
}

impl Policy for Rescale {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let moment = Moment::of(&self.emulators, history);
        if let Some(plan) = &self.plan
            && let Some((idx, step)) = self.follow.next_of_time()
            && let Some(Some(aim)) = plan.aims.get(idx)
        {
            *step = step.with_time_moved(plan.span(*aim, &moment));
        }
        self.moments.push(moment);
        self.follow.choose(enabled, history)
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

impl Plan {
    fn span(&self, aim: Aim, Moment { now, ends, .. }: &Moment) -> Duration {
        let over = aim.over.checked_sub(1).and_then(|last| ends.get(last)).map(|end| end.at);
        let next = ends.get(aim.over);
        let before_next = |from: Duration, at: Duration| next.map_or(at, |next| at.min((from + next.at) / 2));
        let then = match (over, next) {
            (_, Some(next)) if aim.is_at && next.is_of_key => match self.edge {
                Edge::Before => next.at.saturating_sub(self.slack),
                Edge::Past => next.at + self.slack,
            },
            (_, Some(next)) if aim.is_at => next.at,
            (Some(over), _) => before_next(over, over + self.slack),
            // No lease and no key ends meanwhile. But ends that are set before and after this step
            // must be far enough apart.
            (None, _) => {
                let (old, new) = (self.leases.0.as_secs_f64(), self.leases.1.as_secs_f64());
                before_next(*now, *now + aim.span.mul_f64(new / old).max(2 * self.slack))
            }
        };
        // All times in a schedule are whole milliseconds.
        Duration::from_millis(then.saturating_sub(*now).as_millis() as u64).max(Duration::from_millis(1))
    }
}

impl Moment {
    fn of(emulators: &[Emulator], history: &History) -> Moment {
        const MILLI: Duration = Duration::from_millis(1);
        let now = history.events.last().map_or(Duration::ZERO, |event| event.at);
        let mut ends = Vec::new();
        for emulator in emulators {
            // A key whose end is this very millisecond has passed only in the next one.
            let mut after = START + now.saturating_sub(MILLI);
            while let Some(end) = emulator.next_deadline(after).filter(|_| ends.len() < KEYS_MAX) {
                ends.push(End { at: end.since(START), is_of_key: true });
                after = end;
            }
        }
        let mut inside = Vec::new();
        for event in &history.events {
            match event.kind {
                EventKind::Enter { hold, until, .. } => inside.push((hold, until)),
                EventKind::Leave { hold, .. } => inside.retain(|&(other, _)| other != hold),
                _ => {}
            }
        }
        let of_clients = inside.into_iter().map(|(_, until)| End { at: until, is_of_key: false });
        ends.extend(of_clients.filter(|end| end.at >= now));
        ends.sort_by_key(|end| (end.at, !end.is_of_key));
        ends.dedup_by_key(|end| end.at);
        Moment { steps: history.steps.len(), now, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Checks the length of a step that begins at 100 ms, with 200 ms of slack. The lease is a
    /// tenth of the original one.
    #[track_caller]
    fn check(edge: Edge, (over, is_at, span): (usize, bool, u64), ends: &[(u64, bool)], expected: u64) {
        let plan = Plan { aims: Vec::new(), slack: ms(200), edge, leases: (ms(10_000), ms(1_000)) };
        let ends = ends.iter().map(|&(at, is_of_key)| End { at: ms(at), is_of_key }).collect();
        let moment = Moment { steps: 0, now: ms(100), ends };
        assert_eq!(plan.span(Aim { over, is_at, span: ms(span) }, &moment), ms(expected));
    }

    #[test]
    fn steps_of_time_get_room() {
        use Edge::{Before, Past};
        // Past the end of a key's time to live, or half-way to the next end.
        check(Before, (1, false, 10_001), &[(1_000, true)], 1_100);
        check(Before, (1, false, 10_001), &[(1_000, true), (1_300, true)], 1_050);
        // To the exact end, which a real clock cannot hit. If only a client uses that end, it can.
        check(Before, (0, true, 10_000), &[(1_000, true)], 700);
        check(Past, (0, true, 10_000), &[(1_000, true)], 1_100);
        check(Before, (0, true, 10_000), &[(1_000, false)], 900);
        // Between ends: scaled like the lease, long enough to separate two ends, and not beyond the
        // next one.
        check(Before, (0, false, 5_000), &[], 500);
        check(Before, (0, false, 1), &[(1_000, true)], 400);
        check(Before, (0, false, 1), &[(500, true)], 200);
        // There are fewer ends than in the original.
        check(Before, (2, false, 10_000), &[(1_000, true)], 1_000);
    }
}
