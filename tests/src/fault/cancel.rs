//! Operations that are dropped while they wait, as a `select!` or a timeout does.

use super::budget::Budget;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const CANCEL: FaultRow = FaultRow {
    word: "cancel",
    summary: "an operation inside `client.cancellable(…)` is dropped where it waits",
    target: TargetKind::Client,
    needs_operation: true,
    respawns: false,
    unit: Unit::None,
    set_by: &["cancels"],
    budget: Some(Budget("cancels")),
    limit: |faults| faults.cancels,
    amounts: Amounts::NONE,
    effect: Effect::Act(|execution, fault| {
        fault.target.actor().into_iter().for_each(|actor| execution.cancel(actor));
        fault
    }),
    describe: |fault, _| {
        Description::OfClient(format!("{} cancels the operation that it waits for", fault.client()))
    },
};

pub(super) const CANCEL_AFTER: FaultRow = FaultRow {
    word: "cancel-after",
    summary: "an operation is dropped when its request has run and the reply has not arrived",
    target: TargetKind::Connection,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::Cancelled,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        Description::Remark(format!("{} cancels its operation before the reply arrives.", fault.client()))
    },
    ..CANCEL
};
