//! The same schedule for another lease, with room around every end of a key's time to live: neither the very millisecond in
//! which a lease ends nor the one after could be hit by a real clock.

use std::time::Duration;

use emulator::{Emulator, Timestamp};

use crate::execution::{Choice, Policy};
use crate::fault::Fault;
use crate::replay::Follow;
use crate::schedule::Step;
use crate::trace::{EventKind, History};

/// Most keys whose ends are looked at.
const KEYS_MAX: usize = 16;

/// Follows a schedule on emulators, and notes at each step what is about to end.
pub(crate) struct Rescale {
    follow: Follow,
    emulators: Vec<Emulator>,
    /// Where the steps of time are to lead to, and with how much room; they are followed as they are if this is `None`.
    plan: Option<Plan>,
    moments: Vec<Moment>,
}

/// Where the steps of time of a schedule lead to.
#[derive(Clone, Debug)]
struct Plan {
    /// Of each step of the schedule that is one of time.
    aims: Vec<Option<Aim>>,
    /// The room before and after the end of a key's time to live.
    slack: Duration,
    edge: Edge,
    /// The lease here, and where the aims were taken.
    leases: (Duration, Duration),
}

/// Where a step of time leads to that led to the very millisecond in which a key's time to live ends: for the server the key is
/// still there, but a script or a client may count otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge {
    Before,
    Past,
}

/// What a step of time means.
#[derive(Clone, Copy, Debug)]
struct Aim {
    /// How many of the ends that were to come are over after it.
    over: usize,
    /// It leads to the very millisecond of the next end.
    is_at: bool,
    span: Duration,
}

/// What was about to end after some steps.
#[derive(Clone, Debug)]
struct Moment {
    steps: usize,
    now: Duration,
    /// In order.
    ends: Vec<End>,
}

/// The end of a key's time to live or of a client's lease, or of both.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Duration,
    /// The server goes by it, and not only a client.
    is_of_key: bool,
}

impl Rescale {
    /// Follows the steps as they are.
    pub(crate) fn survey(emulators: &[Emulator], steps: Vec<Step>) -> Rescale {
        Rescale { follow: Follow::new(steps), emulators: emulators.to_vec(), plan: None, moments: Vec::new() }
    }

    /// The same schedule for the second of two leases, where this one was for the first.
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

    /// The steps, those of time as long as they were made.
    pub(crate) fn steps(&self) -> &[Step] {
        self.follow.steps()
    }

    /// When the next key's time to live ends, seen after this many steps of the execution.
    pub(crate) fn next_end(&self, steps: usize) -> Option<Duration> {
        let moment = self.moments.iter().find(|moment| moment.steps >= steps).or(self.moments.last())?;
        moment.ends.iter().find(|end| end.is_of_key).map(|end| end.at)
    }

    fn aim(&self, step: Step, place: usize) -> Option<Aim> {
        let Step::Advance(span) = step else { return None };
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
            && let Some((idx, span)) = self.follow.next_span()
            && let Some(Some(aim)) = plan.aims.get(idx)
        {
            *span = plan.span(*aim, &moment);
        }
        self.moments.push(moment);
        self.follow.choose(enabled, history)
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
            // Nothing ends meanwhile; but what is set before and after is to end far enough apart.
            (None, _) => {
                let (old, new) = (self.leases.0.as_secs_f64(), self.leases.1.as_secs_f64());
                before_next(*now, *now + aim.span.mul_f64(new / old).max(2 * self.slack))
            }
        };
        // Whole milliseconds, as all of a schedule's times.
        Duration::from_millis(then.saturating_sub(*now).as_millis() as u64).max(Duration::from_millis(1))
    }
}

impl Moment {
    fn of(emulators: &[Emulator], history: &History) -> Moment {
        const MILLI: Duration = Duration::from_millis(1);
        let now = history.events.last().map_or(Duration::ZERO, |event| event.at);
        let mut ends = Vec::new();
        for emulator in emulators {
            // What ends in this very millisecond is over in the next.
            let mut after = Timestamp::EPOCH + now.saturating_sub(MILLI);
            while let Some(end) = emulator.next_deadline(after).filter(|_| ends.len() < KEYS_MAX) {
                ends.push(End { at: end.since(Timestamp::EPOCH), is_of_key: true });
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

    /// How long a step becomes that begins at 100 ms, when there are 200 ms of slack and a lease is a tenth of what it was.
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
        // To the very end, which a real clock cannot hit; where only a client goes by it, it can.
        check(Before, (0, true, 10_000), &[(1_000, true)], 700);
        check(Past, (0, true, 10_000), &[(1_000, true)], 1_100);
        check(Before, (0, true, 10_000), &[(1_000, false)], 900);
        // In between: as long as the lease has become shorter, long enough to tell two ends apart, and not beyond the next.
        check(Before, (0, false, 5_000), &[], 500);
        check(Before, (0, false, 1), &[(1_000, true)], 400);
        check(Before, (0, false, 1), &[(500, true)], 200);
        // There are fewer ends than there were.
        check(Before, (2, false, 10_000), &[(1_000, true)], 1_000);
    }
}
