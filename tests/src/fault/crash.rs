//! Clients that end between any two of their steps, or before the reply to a command arrives. Their
//! grants stay on the servers.

use super::budget::Budget;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const CRASH: FaultRow = FaultRow {
    word: "crash",
    summary: "a client ends without releasing anything",
    target: TargetKind::Client,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["crashes"],
    budget: Some(Budget("crashes")),
    limit: |faults| faults.crashes,
    amounts: Amounts::NONE,
    effect: Effect::Act(|execution, fault| {
        fault.target.actor().into_iter().for_each(|actor| execution.crash(actor));
        fault
    }),
    describe: |fault, _| Description::EndOfClient(format!("{} crashes", fault.target)),
};

pub(super) const CRASH_AFTER: FaultRow = FaultRow {
    word: "crash-after",
    summary: "a client ends when its request has run and the reply has not arrived",
    target: TargetKind::Connection,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::Crashed,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        Description::EndOfClient(format!("{} crashes before the reply arrives", fault.client()))
    },
    ..CRASH
};

pub(super) const RESPAWN: FaultRow = FaultRow {
    word: "respawn",
    summary: "a service ends without releasing anything, and starts anew",
    respawns: true,
    set_by: &["respawns"],
    budget: Some(Budget("respawns")),
    limit: |faults| faults.respawns,
    effect: Effect::Act(|execution, fault| {
        if let Some(actor) = fault.target.actor() {
            execution.crash(actor);
            execution.respawn(actor);
        }
        fault
    }),
    describe: |fault, _| Description::OfClient(format!("{} crashes, and is to start anew", fault.target)),
    ..CRASH
};

pub(super) const RESPAWN_AFTER: FaultRow = FaultRow {
    word: "respawn-after",
    summary: "a service ends when its request has run and the reply has not arrived, and starts anew",
    target: TargetKind::Connection,
    effect: CRASH_AFTER.effect,
    describe: |fault, _| {
        let client = fault.client();
        Description::OfClient(format!("{client} crashes before the reply arrives, and is to start anew"))
    },
    ..RESPAWN
};
