//! The interface through which a simulation has clients whose code runs, wherever it runs.

use std::time::Duration;

use emulator::Timestamp;

use super::{Noticed, Told};
use crate::actor::Actor;

/// The clients of an execution whose code runs.
///
/// The simulation tells a client what happens to it, lets the code run as far as it can, and takes
/// what the clients did. How code starts is not said here: it depends on where the code is.
pub(crate) trait Code: Send + Sync {
    /// The true time of day at the start is this.
    fn start_at(&self, start: Timestamp);

    /// True time since the start.
    fn now(&self) -> Duration;

    /// Tells a client something. Returns `false` if there is nothing that could be told this.
    fn deliver(&self, actor: Actor, told: &Told) -> bool;

    /// A client stands still.
    fn pause(&self, actor: Actor);

    /// Lets a client go on.
    fn resume(&self, actor: Actor);

    /// The code of a client is to end.
    fn end(&self, actor: Actor);

    /// The code of a client is to end, and nothing that it does from now on counts.
    fn crash(&self, actor: Actor);

    /// Lets the code run as far as it can. Time stands still meanwhile.
    fn run(&self);

    /// Moves time to `until`, and ends before that when a client acts. Timers fire on the way.
    fn move_time(&self, until: Duration) -> Moved;

    /// Everything that the clients did since this was last called. The turn of one that was told
    /// something has begun, if it `can_run`. Those whose turns began come first, in that order.
    fn take_noticed(&self, can_run: &dyn Fn(Actor) -> bool) -> Vec<Noticed>;

    /// Whether a client was told something since what they did was last taken.
    fn has_told(&self) -> bool;

    /// The number of tasks of all clients, those of the actors' own code included.
    fn tasks(&self) -> usize;

    /// Whether the execution has taken too much real time, or is to stop.
    fn is_expired(&self) -> bool;
}

/// How far time moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// To its end.
    There,
    /// Until a client acted.
    UntilAct,
    /// Clients have acted too often in this execution.
    TooOften,
}
