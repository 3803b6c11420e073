//! What happened in one execution, in order. Oracles see this and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use emulator::Timestamp;

use super::{LocalState, StepFootprint};
use crate::actor::Actor;
use crate::fault::Fault;
use crate::schedule::Step;

/// The events of one execution.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In order.
    pub events: Vec<Event>,
    /// The steps that were taken.
    pub steps: Vec<Step>,
    /// What each of them touched.
    pub footprints: Vec<StepFootprint>,
    /// Clients of which it is not known whether they have a timer: after how many steps, and in what state.
    pub(crate) unknown: Vec<(usize, Actor, LocalState)>,
    /// What happened at least once.
    pub reached: Reached,
    /// On real servers: the keys that commands named and may have written, each with its server.
    pub(crate) named: BTreeSet<(usize, Vec<u8>)>,
    /// What a real server's clock showed at the start; `None` on the emulator, where it is always the same.
    pub started_at: Option<Timestamp>,
}

impl History {
    /// The first client whose code ended with an error, or never: who, how, and after how many steps.
    pub fn failure(&self) -> Option<(Actor, String, usize)> {
        self.events.iter().find_map(|event| match &event.kind {
            EventKind::Failed { actor, error } => Some((*actor, format!("failed: {error}"), event.step)),
            EventKind::Stuck { actor } => {
                Some((*actor, "waits for something that never comes".into(), event.step))
            }
            _ => None,
        })
    }
}

/// What must have happened for a pass to mean something: a lock that nobody ever contended for has not been tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// A client tried to enter while another was inside.
    pub contention: bool,
    /// A lease ran out while its holder was inside.
    pub overrun: bool,
    /// A client crashed.
    pub crash: bool,
    /// A message was lost, or came too late.
    pub lost: bool,
    /// A client's operation was cancelled.
    pub cancel: bool,
    /// A client with a wrong clock sent a command.
    pub skew: bool,
    /// Something happened to a server while a client was inside.
    pub server: bool,
}

impl Reached {
    /// What happened in either.
    pub fn or(self, other: Reached) -> Reached {
        Reached {
            contention: self.contention || other.contention,
            overrun: self.overrun || other.overrun,
            crash: self.crash || other.crash,
            lost: self.lost || other.lost,
            cancel: self.cancel || other.cancel,
            skew: self.skew || other.skew,
            server: self.server || other.server,
        }
    }

    /// What is wanted and has not happened, in words; `None` if nothing is missing.
    pub fn missing(self, wanted: Reached) -> Option<&'static str> {
        let goals = [
            (wanted.contention && !self.contention, "nobody ever contended"),
            (wanted.overrun && !self.overrun, "no lease ever ran out under its holder"),
            (wanted.crash && !self.crash, "nobody ever crashed"),
            (wanted.lost && !self.lost, "no message was ever lost"),
            (wanted.cancel && !self.cancel, "nothing was ever cancelled"),
            (wanted.skew && !self.skew, "no client with a wrong clock ever sent a command"),
            (wanted.server && !self.server, "nothing ever happened to a server while a client was inside"),
        ];
        goals.into_iter().find_map(|(is_missing, words)| is_missing.then_some(words))
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// How many steps had been taken, this one included.
    pub step: usize,
    /// True time since the start, which is the server's.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// Identifies a stay in a section: a client may have several at once.
pub type HoldId = usize;

/// What can happen.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// A command ran. Only recorded when a person will read the history.
    Command {
        /// Who sent it.
        actor: Actor,
        /// To which server.
        server: usize,
        /// As one would type it.
        text: String,
        /// Its name and its first key, which tell it apart from others even when the code has changed a little.
        brief: String,
        /// As `redis-cli` would print it, on one line.
        reply: String,
        /// The keys that it changed, with what they hold now.
        changed: Vec<String>,
        /// On a real server: how much later the reply came than the schedule's time says.
        late: Duration,
    },
    /// A client heard a message of a channel. Only recorded when a person will read the history.
    Message {
        /// Who.
        actor: Actor,
        /// The channel, and what was published.
        text: String,
        /// `message` and the channel.
        brief: String,
    },
    /// A client was granted a section and is inside.
    Enter {
        /// Which of all stays of clients in sections this is.
        hold: HoldId,
        /// Who.
        actor: Actor,
        /// Which section.
        section: &'static str,
        /// When its lease ends, counted from before its first request was sent.
        until: Duration,
        /// It is known where the server keeps the grant.
        is_recorded: bool,
    },
    /// A client that is inside was granted the section once more.
    Extended {
        /// Which of all stays of clients in sections this is.
        hold: HoldId,
        /// Who.
        actor: Actor,
        /// Which section.
        section: &'static str,
        /// When its lease ends now, counted from before its latest request was sent.
        until: Duration,
    },
    /// The client is no longer inside: the first command of its release ran, or it crashed.
    Leave {
        /// Which of all stays of clients in sections this is.
        hold: HoldId,
        /// Who.
        actor: Actor,
        /// Which section.
        section: &'static str,
    },
    /// The server's record of a client's unexpired grant was ended by another client.
    Ended {
        /// Whose grant it was.
        holder: Actor,
        /// Who ended it.
        by: Actor,
    },
    /// A resource that is guarded by a lock accepted a client's write.
    Accepted {
        /// Whose write it was.
        actor: Actor,
        /// Which resource.
        resource: &'static str,
        /// The fencing token that came with it.
        token: i64,
    },
    /// A step of the clock passed the end of the lease of a client that is inside.
    Overrun {
        /// Who is still inside.
        actor: Actor,
    },
    /// Something went wrong, right after the command if it struck one that ran. Of requests and messages only recorded when a person
    /// will read the history.
    Fault {
        /// What.
        fault: Fault,
        /// Of a request the command as one would type it, of a message the channel and what was published; or else nothing.
        request: String,
    },
    /// Time moved.
    Advanced {
        /// By this much.
        by: Duration,
    },
    /// The command that just ran was one that its client had given up.
    Late {
        /// Who.
        actor: Actor,
    },
    /// The client started and stalled before its first command.
    Started {
        /// Who.
        actor: Actor,
    },
    /// The client's code ended with an error or a panic.
    Failed {
        /// Who.
        actor: Actor,
        /// What it said.
        error: String,
    },
    /// The connection on which the client listened was closed at the server's end, and the client has been told.
    Deafened {
        /// Who.
        actor: Actor,
        /// To which channel it listened.
        channel: String,
    },
    /// The client's code ended with an error, after a fault that it was told of by an error: that is what code does.
    GaveUp {
        /// Who.
        actor: Actor,
        /// What it said.
        error: String,
    },
    /// Nothing can happen any more, and the client still waits.
    Stuck {
        /// Who.
        actor: Actor,
    },
    /// All was over, and fresh clients tried to get everything.
    Probed {
        /// How many of them were granted.
        granted: u32,
        /// How many should have been.
        wanted: u32,
        /// One lease and some grace had passed, because somebody had crashed, a message was lost, or something was cancelled.
        after_lease: bool,
    },
}

impl EventKind {
    /// Oracles judge by its place among other events, so that steps with such events are dependent.
    pub(crate) fn is_judged(&self) -> bool {
        match self {
            EventKind::Enter { .. }
            | EventKind::Extended { .. }
            | EventKind::Leave { .. }
            | EventKind::Ended { .. }
            | EventKind::Accepted { .. }
            | EventKind::Overrun { .. } => true,
            // Some are texts for people; faults and time have their own footprint; the others end one client, or come after the steps.
            EventKind::Command { .. }
            | EventKind::Message { .. }
            | EventKind::Late { .. }
            | EventKind::Fault { .. }
            | EventKind::Advanced { .. }
            | EventKind::Started { .. }
            | EventKind::Failed { .. }
            | EventKind::GaveUp { .. }
            | EventKind::Stuck { .. }
            | EventKind::Deafened { .. }
            | EventKind::Probed { .. } => false,
        }
    }
}
