//! The way of effects from a primary to one replica.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::effect::Unit;
use crate::clock::{Clock, Timestamp};

/// A link ends when the replica has not taken more than this, in bytes of the stream. It is the
/// default of `client-output-buffer-limit` for replicas.
const WAITING_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The way of effects from a primary to one replica. Both ends hold it, and each takes its lock
/// only for a moment.
///
/// A replica takes what has arrived when something looks at it, so a link without a delay costs no
/// time: its primary counts all effects as acknowledged.
#[derive(Debug)]
pub struct Link {
    /// The primary's clock.
    clock: Clock,
    /// Notified when an end has to look: the primary's end first, then the replica's.
    ends: [Arc<Notify>; 2],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sent: VecDeque<Sent>,
    /// The offset after everything that was sent.
    end: u64,
    delay: Delay,
    /// Since when nothing arrives, if that is so.
    silent_since: Option<Timestamp>,
    is_cut: bool,
    /// The replica is to take over as a primary.
    takes_over: bool,
}

/// The replica's end of a link. The link ends with it.
#[derive(Debug)]
pub struct ReplicaEnd(pub Arc<Link>);

impl Drop for ReplicaEnd {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// How late a replica gets effects, whatever its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lag {
    /// At once.
    #[default]
    None,
    /// After this time on the primary's clock.
    By(Duration),
    /// Not at all.
    Hold,
}

/// A unit on its way.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The effects.
    pub unit: Arc<Unit>,
    /// The offset after it.
    pub end: u64,
    at: Timestamp,
}

/// How late effects arrive over one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delay {
    /// At once.
    None,
    /// After this time on the primary's clock.
    By(Duration),
    /// Not at all, from this offset on.
    From(u64),
}

impl Link {
    /// A link without a delay. Everything up to the offset has arrived.
    pub(crate) fn new(clock: Clock, ends: [Arc<Notify>; 2], end: u64) -> Link {
        let state = State {
            sent: VecDeque::new(),
            end,
            delay: Delay::None,
            silent_since: None,
            is_cut: false,
            takes_over: false,
        };
        Link { clock, ends, state: Mutex::new(state) }
    }

    /// Sends a unit, which ends at this offset. Returns how many units the replica has not taken.
    pub(crate) fn send(&self, unit: Arc<Unit>, end: u64) -> usize {
        let at = self.clock.now();
        let mut state = self.state();
        state.sent.push_back(Sent { unit, end, at });
        state.end = end;
        let waiting = state.sent.len();
        let first = state.sent.front().map_or(end, |first| first.end);
        if end - first > WAITING_BYTES_MAX {
            (state.sent, state.is_cut) = (VecDeque::new(), true);
        }
        drop(state);
        self.ends[1].notify_waiters();
        waiting
    }

    /// Takes the units that have arrived.
    pub(crate) fn receive(&self) -> Vec<Sent> {
        let now = self.clock.now();
        let mut state = self.state();
        let arrived = state.sent.iter().take_while(|sent| state.delay.lets_through(sent, now)).count();
        state.sent.drain(..arrived).collect()
    }

    /// The offset that the replica has acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        let now = self.clock.now();
        let state = self.state();
        let is_late = |sent: &&Sent| !state.delay.lets_through(sent, now);
        state.sent.iter().find(is_late).map_or(state.end, |late| late.end - late.unit.stream_bytes())
    }

    /// How long it takes until the next unit arrives, if time decides that.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let now = self.clock.now();
        let state = self.state();
        let Delay::By(span) = state.delay else { return None };
        let arrival = state.sent.iter().map(|sent| sent.at + span).find(|&arrival| arrival > now)?;
        Some(arrival.since(now))
    }

    /// For how long the primary has heard nothing of the replica.
    pub(crate) fn silence(&self) -> Duration {
        let now = self.clock.now();
        let state = self.state();
        match state.delay {
            Delay::None => Duration::ZERO,
            Delay::By(span) => span,
            Delay::From(_) => state.silent_since.map_or(Duration::ZERO, |since| now.since(since)),
        }
    }

    /// Changes the delay. What has arrived stays arrived.
    pub(crate) fn set_lag(&self, lag: Lag) {
        let now = self.clock.now();
        let delay = match lag {
            Lag::None => Delay::None,
            Lag::By(span) => Delay::By(span),
            Lag::Hold => Delay::From(self.acknowledged()),
        };
        let mut state = self.state();
        state.delay = delay;
        state.silent_since = matches!(delay, Delay::From(_)).then_some(now);
        drop(state);
        self.notify();
    }

    /// Ends the link.
    pub(crate) fn cut(&self) {
        self.state().is_cut = true;
        self.notify();
    }

    /// Whether the link has ended.
    pub(crate) fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Tells the replica to take over as a primary: `FAILOVER`.
    pub(crate) fn hand_over(&self) {
        self.state().takes_over = true;
        self.notify();
    }

    /// Whether the primary has told the replica to take over.
    pub(crate) fn takes_over(&self) -> bool {
        self.state().takes_over
    }

    fn notify(&self) {
        self.ends.iter().for_each(|end| end.notify_waiters());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Delay {
    fn lets_through(self, sent: &Sent, now: Timestamp) -> bool {
        match self {
            Delay::None => true,
            Delay::By(span) => sent.at + span <= now,
            Delay::From(offset) => sent.end <= offset,
        }
    }
}
