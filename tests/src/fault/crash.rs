//! Clients that end between any two of their steps, or before the reply to a command arrives. Their
//! grants stay on the servers.

use super::budget::Budget;
use super::row::{Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit, no_amount};
use super::target::TargetKind;

pub(super) const CRASH: FaultRow = FaultRow {
    word: "crash",
    summary: "a client ends without releasing anything",
    target: TargetKind::Client,
    needs_operation: false,
    unit: Unit::None,
    set_by: &["crashes"],
    budget: Some(Budget("crashes")),
    limit: |faults| faults.crashes,
    amounts: no_amount,
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
