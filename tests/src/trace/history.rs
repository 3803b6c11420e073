//! The events of one execution, in order. Oracles see this and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use emulator::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Event, EventKind, Script, StepFootprint};
use crate::actor::Actor;
use crate::schedule::Step;

/// The events of one execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// All events, in order.
    pub events: Vec<Event>,
    /// The steps that were taken.
    pub steps: Vec<Step>,
    /// The footprint of each step.
    pub footprints: Vec<Arc<StepFootprint>>,
    /// The things that happened at least once.
    pub reached: Reached,
    /// The time of a real server's clock at the start. `None` on the emulator, whose clock always
    /// starts at the same time.
    pub started_at: Option<Timestamp>,
    /// The names of scripts by their SHA1: of those that a server knew at the start, and of those
    /// that a client sent. They are recorded only in a full recording.
    pub scripts: BTreeMap<String, String>,
    /// The names of the servers, if they have names. They are recorded only in a full recording.
    pub server_names: Vec<&'static str>,
}

/// A place in a history, between two steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryMark {
    /// The number of steps before it.
    pub(crate) steps: usize,
    events: usize,
    reached: Reached,
}

impl History {
    /// The place at its end.
    pub(crate) fn mark(&self) -> HistoryMark {
        HistoryMark { steps: self.steps.len(), events: self.events.len(), reached: self.reached }
    }

    /// Removes what came after this place.
    pub(crate) fn truncate(&mut self, to: HistoryMark) {
        self.events.truncate(to.events);
        self.steps.truncate(to.steps);
        self.footprints.truncate(to.steps);
        self.reached = to.reached;
    }

    /// The name of a server, or its number from 1.
    pub(crate) fn server(&self, server: usize) -> String {
        self.server_names.get(server).map_or_else(|| (server + 1).to_string(), |name| (*name).into())
    }

    /// A request in words, with this text. A call of a script is shown by the script's name.
    pub(crate) fn request_text(&self, text: &str, script: Option<&Script>) -> String {
        let name = script.and_then(|script| script.name.as_ref().or_else(|| self.scripts.get(&script.sha)));
        match (name, script) {
            (Some(name), Some(script)) => {
                let what = if script.sha.is_empty() { "function" } else { "script" };
                format!("{what} {name} {}", script.arguments).trim_end().to_owned()
            }
            _ => text.to_owned(),
        }
    }

    /// Whether the code of a client still ran when the execution reached a limit.
    pub fn is_endless(&self) -> bool {
        self.events.iter().any(|event| matches!(event.kind, EventKind::Endless { .. }))
    }

    /// The first client whose code ended with an error or never: the client, a text, and the number
    /// of steps before.
    pub fn failure(&self) -> Option<(Actor, String, usize)> {
        self.events.iter().find_map(|event| match &event.kind {
            EventKind::Failed { actor, error } => Some((*actor, format!("failed: {error}"), event.step)),
            EventKind::Endless { actor, limit } => {
                Some((*actor, format!("does not come to its end: {limit}"), event.step))
            }
            EventKind::Stuck { actor } => {
                Some((*actor, "waits for something that never comes".into(), event.step))
            }
            _ => None,
        })
    }
}

/// The things that must have happened for a pass to mean something. A lock that no two clients
/// contended for has not been tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reached {
    /// A client tried to enter while another was inside.
    pub contention: bool,
    /// A lease ran out while its holder was inside.
    pub overrun: bool,
    /// A client crashed.
    pub crash: bool,
    /// A message was lost or came too late, a connection broke, a server refused a request, or a
    /// failover lost a write.
    pub lost: bool,
    /// A client's operation was cancelled.
    pub cancel: bool,
    /// A client with a wrong clock sent a command, or a server has a wrong clock.
    pub skew: bool,
    /// A fault struck a server while a client was inside.
    pub server: bool,
}

impl Reached {
    /// The things that happened in at least one of the two.
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

    /// The first thing that is wanted and has not happened, in words. `None` if nothing is missing.
    pub fn missing(self, wanted: Reached) -> Option<&'static str> {
        let goals = [
            (wanted.contention && !self.contention, "no two clients ever contended"),
            (wanted.overrun && !self.overrun, "no lease ever ended while its holder was inside"),
            (wanted.crash && !self.crash, "no client ever crashed"),
            (wanted.lost && !self.lost, "no message was ever lost"),
            (wanted.cancel && !self.cancel, "no operation was ever cancelled"),
            (wanted.skew && !self.skew, "no clock was ever wrong when a command was sent"),
            (wanted.server && !self.server, "no fault ever struck a server while a client was inside"),
        ];
        goals.into_iter().find_map(|(is_missing, words)| is_missing.then_some(words))
    }
}

/// `contention, crash`, or nothing.
impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reached { contention, overrun, crash, lost, cancel, skew, server } = *self;
        let all = [
            (contention, "contention"),
            (overrun, "overrun"),
            (crash, "crash"),
            (lost, "lost"),
            (cancel, "cancel"),
            (skew, "skew"),
            (server, "server"),
        ];
        let reached: Vec<&str> = all.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
        f.write_str(&reached.join(", "))
    }
}
