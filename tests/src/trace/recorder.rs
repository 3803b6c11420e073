//! Writes the history of an execution while it runs. A step may read or change servers and other
//! things; a method of [`Recorder`] records each of them. A missing record would hide a dependency
//! from the explorer.

use std::sync::Arc;
use std::time::Duration;

use emulator::{Access, Footprint, Timestamp};
use locks::Record;

use super::{Event, EventKind, History, HistoryMark, Process, Reached, StepFootprint, StepResource};
use crate::actor::{ACTORS_MAX, Actor};
use crate::fault::Budget;
use crate::schedule::Step;

/// The history so far, and the step that is being taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    history: History,
    /// A step is being taken. Records at other times belong to no step: while an execution heals,
    /// and when fresh clients probe.
    is_in_step: bool,
}

impl Recorder {
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Ends the recording.
    pub(crate) fn take(&mut self) -> History {
        std::mem::take(&mut self.history)
    }

    /// Continues another history from this place on.
    pub(crate) fn continue_with(&mut self, mut history: History, from: HistoryMark) {
        history.truncate(from);
        self.history = history;
    }

    /// Forgets the code that ran before the actors, unless it failed.
    pub(crate) fn forget_preparation(&mut self) {
        let History { mut events, .. } = self.take();
        events.retain(|event| matches!(event.kind, EventKind::Failed { .. } | EventKind::Endless { .. }));
        self.history = History { events, ..History::default() };
    }

    /// Begins with these events, in place of those so far.
    pub(crate) fn start_with(&mut self, events: &[Event]) {
        self.history.events = events.to_vec();
    }

    /// The clock of a real server showed this when the execution began.
    pub(crate) fn started_at(&mut self, at: Option<Timestamp>) {
        self.history.started_at = at;
    }

    /// The servers have these names.
    pub(crate) fn servers_named(&mut self, names: &[&'static str]) {
        self.history.server_names = names.to_vec();
    }

    /// A script of this SHA1 has this name.
    pub(crate) fn script_named(&mut self, sha: &str, name: String) {
        self.history.scripts.insert(sha.to_owned(), name);
    }

    /// Begins a step that takes from this budget.
    pub(crate) fn begin_step(&mut self, step: Step, budget: Option<Budget>) {
        self.is_in_step = true;
        self.history.steps.push(step);
        self.history.footprints.push(Arc::new(StepFootprint::begin(step, budget)));
        if Process::of(step) == Process::Servers {
            self.write(StepResource::ServerFaults);
        }
    }

    /// Ends the step.
    pub(crate) fn end_step(&mut self) {
        self.is_in_step = false;
    }

    /// Whether a step is being taken.
    pub(crate) fn is_in_step(&self) -> bool {
        self.is_in_step
    }

    /// Whether time passes in this step although clients have requests to send.
    pub(crate) fn is_in_stall(&self) -> bool {
        let last = self.history.footprints.last().filter(|_| self.is_in_step);
        last.is_some_and(|footprint| footprint.stalls())
    }

    /// Records that the time `by` has passed. `is_slow` says whether a request was slow meanwhile.
    pub(crate) fn advanced(&mut self, at: Duration, by: Duration, is_slow: bool) {
        let footprint = self.history.footprints.last().filter(|_| self.is_in_step);
        let is_wait =
            footprint.is_some_and(|footprint| footprint.waits && footprint.budget.is_none() && !is_slow);
        self.event(at, EventKind::Advanced { by, is_wait });
    }

    pub(crate) fn event(&mut self, at: Duration, kind: EventKind) {
        if kind.is_judged() {
            self.write(StepResource::Stays);
            self.read(StepResource::Time);
        }
        match kind {
            EventKind::Called { .. } => {
                (0..ACTORS_MAX).for_each(|other| self.read(StepResource::Returns(Actor(other))));
            }
            EventKind::Returned { call: (actor, _), .. } => self.write(StepResource::Returns(actor)),
            _ => {}
        }
        self.history.events.push(Event { step: self.history.steps.len(), at, kind });
    }

    /// The things that happened at least once, to be extended.
    pub(crate) fn reached(&mut self) -> &mut Reached {
        &mut self.history.reached
    }

    /// A command ran, and an oracle judges the order of all commands.
    pub(crate) fn command_ordered(&mut self) {
        self.touch(|footprint| footprint.is_in_order = true);
    }

    /// A command ran on this server, and an oracle judges by when it did.
    pub(crate) fn command_dated(&mut self, server: usize) {
        self.read(StepResource::Time);
        self.read(StepResource::ServerClock(server));
    }

    /// The code of a client ran.
    pub(crate) fn client_ran(&mut self, actor: Actor) {
        if actor.0 < ACTORS_MAX {
            self.write(StepResource::Client(actor));
        }
    }

    /// A server did this.
    pub(crate) fn server_access(&mut self, server: usize, access: Arc<Footprint>) {
        self.touch(|footprint| footprint.touch_server(server, access));
    }

    /// This was touched on a server, and not by a command.
    pub(crate) fn server_access_beside(&mut self, server: usize, access: Arc<Footprint>) {
        self.touch(|footprint| footprint.touch_beside(server, access));
    }

    /// A connection to this server was opened or closed.
    pub(crate) fn connection_changed(&mut self, server: usize) {
        self.read(StepResource::Connections(server));
    }

    /// Something was computed from the time, or the instants that matter have changed.
    pub(crate) fn time_read(&mut self) {
        self.read(StepResource::Time);
    }

    /// Time moved.
    pub(crate) fn time_moved(&mut self) {
        self.write(StepResource::Time);
    }

    /// A timer of a client fired.
    pub(crate) fn timer_fired(&mut self) {
        self.touch(|footprint| footprint.fires_timer = true);
    }

    /// A client that had a request to send has none now, or the other way about.
    pub(crate) fn readiness_changed(&mut self, actor: Actor) {
        self.touch(|footprint| footprint.changes_readiness = true);
        self.requests_changed(actor);
    }

    /// A request, or a message, came to its gate.
    pub(crate) fn requests_changed(&mut self, actor: Actor) {
        if actor.0 < ACTORS_MAX {
            self.write(StepResource::Requests(actor));
        }
    }

    /// A request that was slow has ended.
    pub(crate) fn slow_request_ended(&mut self, actor: Actor) {
        self.touch(|footprint| footprint.ends_slow = true);
        self.requests_changed(actor);
    }

    /// A client began to wait for something other than its turn.
    pub(crate) fn timer_awaited(&mut self) {
        self.touch(|footprint| footprint.awaits_timer = true);
    }

    /// Connections of clients lead to other servers from now on.
    pub(crate) fn roles_changed(&mut self, servers: impl IntoIterator<Item = usize>) {
        for server in servers {
            self.write(StepResource::Service(server));
            self.log_written(server);
        }
    }

    /// A client found out which server is the primary now.
    pub(crate) fn primary_found(&mut self, server: usize) {
        self.read(StepResource::Service(server));
    }

    /// The clock of a server was set, or jumped.
    pub(crate) fn clock_set(&mut self, server: usize) {
        self.write(StepResource::ServerClock(server));
        self.read(StepResource::Time);
    }

    /// The log of a server was written or cut.
    pub(crate) fn log_written(&mut self, server: usize) {
        self.write(StepResource::Log(server));
    }

    /// A write was added to the log of a server. That of a client that waits for replicas may have
    /// this one as its consequence, which counts for what a replica can lack.
    pub(crate) fn log_grew(&mut self, server: usize) {
        self.read(StepResource::Log(server));
    }

    /// A server refuses requests for a while, from now on.
    pub(crate) fn server_stopped(&mut self, server: usize) {
        self.write(StepResource::Service(server));
        self.read(StepResource::Time);
    }

    /// This server, or most servers, were checked for this grant: oracles judge by the result.
    pub(crate) fn grant_checked(&mut self, server: usize, record: Record) {
        self.touch(|footprint| footprint.records_checked.push((server, record)));
    }

    fn read(&mut self, resource: StepResource) {
        self.touch(|footprint| footprint.touch(Access::Read, resource));
    }

    fn write(&mut self, resource: StepResource) {
        self.touch(|footprint| footprint.touch(Access::Write, resource));
    }

    /// Changes the footprint of the current step, if there is one.
    fn touch(&mut self, change: impl FnOnce(&mut StepFootprint)) {
        if self.is_in_step
            && let Some(footprint) = self.history.footprints.last_mut()
        {
            change(Arc::make_mut(footprint));
        }
    }
}
