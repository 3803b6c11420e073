//! The tries of clients that send the same commands again and again.

use crate::actor::Actor;
use crate::schedule::Step;
use crate::trace::History;

/// A command and its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// A hash of the server, the command's name and its first key.
    pub(super) request: u64,
    /// A hash of the reply.
    pub(super) reply: u64,
    /// The number of the step in which the command ran, from 1. Zero if it ran outside of steps.
    pub(super) step: usize,
    /// A hash of what the servers then hold at the keys that the tries write, if the command ends
    /// equal tries.
    pub(super) data: Option<u64>,
}

impl Exchange {
    /// Whether both are equal replies to equal requests.
    pub(super) fn equals(&self, other: &Exchange) -> bool {
        (self.request, self.reply) == (other.request, other.reply)
    }
}

/// Tries in vain of a client. Its code can have several loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tries {
    pub(crate) actor: Actor,
    /// A hash of the request that each try begins with.
    pub(crate) request: u64,
    /// The number of commands of one try.
    pub(crate) commands: usize,
    /// A hash of one try and of the client's stage.
    pub(crate) hash: u64,
}

/// The first time at which a client was about to try once more what it had tried in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// The number of steps before.
    pub(crate) steps: usize,
    /// The number of different times of the steps before.
    pub(crate) times: usize,
}

/// All clients try again and again, each in the same way, and none of them gets on. The last steps
/// are one round of it.
#[derive(Clone, Debug)]
pub(crate) struct Livelock {
    /// The number of steps so far.
    pub(crate) steps: usize,
    /// The number of steps of the round.
    pub(crate) round: usize,
    pub(crate) actors: Vec<Actor>,
}

impl Livelock {
    /// The steps of one round.
    pub(crate) fn last_round<'a>(&self, history: &'a History) -> &'a [Step] {
        &history.steps[self.steps - self.round..self.steps]
    }
}
