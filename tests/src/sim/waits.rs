//! Commands that wait on their servers: `BLPOP`, `WAIT` and others. The server answers them when
//! another command brings what they wait for, or at their timeouts.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use emulator::BlockedCommand;
use redis::{RedisResult, Value};

use super::gate::{Gate, GateState, Passage, Wait};
use super::session::Running;
use super::{Simulation, World};
use crate::live::{Answer, Request, Told};
use crate::memo::Waiter;

/// A command that has begun to wait on its server.
pub(super) struct Waiting {
    pub(super) command: Option<BlockedCommand>,
    /// The request, on a server that runs everything. If it is dropped, the command is withdrawn.
    pub(super) running: Option<Running>,
}

impl Simulation {
    /// A command waits on its server from now on.
    pub(super) fn block(&mut self, gate: usize, request: &Request, waiting: Waiting, passage: Passage) {
        let Gate { actor, nth, server, .. } = self.world.gates[gate];
        let Waiting { command, running } = waiting;
        let ends_at = command.as_ref().and_then(BlockedCommand::ends_at);
        match (running, command) {
            (Some(running), _) => self.waits.push((gate, running)),
            (None, Some(command)) => {
                let waiter = Waiter { actor, nth, request: request.hash, command };
                self.change_waiters(server, |waiters| waiters.push(waiter));
            }
            (None, None) => {}
        }
        let footprint = self.footprint(server);
        self.world.change_gate(gate, GateState::Blocked(Wait { passage, footprint, ends_at }));
        self.tell(actor, &Told::Answered { nth, answer: Answer::Waits });
    }

    /// Ends the waits of the commands that servers have answered.
    pub(crate) fn end_waits(&mut self) {
        let mut served = Vec::new();
        for ((actor, nth), result) in self.engines.iter_mut().flat_map(|engine| engine.served.drain(..)) {
            served.extend(self.world.gate(actor, nth).map(|gate| (gate, result)));
        }
        self.waits.retain_mut(|(gate, running)| {
            let poll = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let is_waiting = poll.is_pending();
            served.extend(if let Poll::Ready(result) = poll { Some((*gate, result)) } else { None });
            is_waiting
        });
        served.into_iter().for_each(|(gate, result)| self.end_wait(gate, result));
    }

    fn end_wait(&mut self, gate: usize, result: RedisResult<Value>) {
        let GateState::Blocked(Wait { passage, .. }) = self.world.gates[gate].gate_state else { return };
        self.world.note_awaited(gate);
        self.world.note_activity();
        self.finish(gate, result, passage);
    }

    /// If a command waits on its server, it is withdrawn.
    pub(super) fn stop_waiting(&mut self, gate: usize) {
        if !self.world.gates[gate].is_blocked() {
            return;
        }
        self.world.note_awaited(gate);
        self.waits.retain(|(of, _)| *of != gate);
        let Gate { actor, nth, server, .. } = self.world.gates[gate];
        let is_other = |waiter: &Waiter| (waiter.actor, waiter.nth) != (actor, nth);
        self.change_waiters(server, |waiters| waiters.retain(is_other));
    }

    /// Changes the commands that wait on a known server.
    fn change_waiters(&mut self, server: usize, change: impl FnOnce(&mut Vec<Waiter>)) {
        if let (Some(learned), Some(state)) = (self.clients.learned(), &mut self.world.servers[server]) {
            learned.known().servers.change_waiters(state, change);
        }
    }

    /// How long it takes until the next timeout of a command that waits on its server.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let gates = self.world.gates.iter();
        let timeouts = gates.filter_map(|gate| match &gate.gate_state {
            GateState::Blocked(wait) => self.clocks[gate.server].shows_in(wait.ends_at?),
            _ => None,
        });
        timeouts.filter(|after| !after.is_zero()).min()
    }
}

impl World {
    /// A command waits on its server, and ends: records once more what it waits for.
    fn note_awaited(&mut self, gate: usize) {
        let Gate { server, ref gate_state, .. } = self.gates[gate];
        if let GateState::Blocked(Wait { footprint: Some(footprint), .. }) = gate_state {
            let footprint = footprint.clone();
            self.recorder.server_access(server, footprint);
        }
    }
}
