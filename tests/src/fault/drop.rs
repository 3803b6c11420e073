//! Connections that break. The client's next request goes over a new connection.

use super::budget::Budget;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const DROP_BEFORE: FaultRow = FaultRow {
    word: "drop-before",
    summary: "a connection breaks before a request or a message arrives",
    target: TargetKind::Connection,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["drops"],
    budget: Some(Budget("drops")),
    limit: |faults| faults.drops,
    amounts: Amounts::NONE,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Never,
        outcome: RequestOutcome::Disconnected,
        strikes_messages: true,
    }),
    describe: |fault, request| {
        let client = fault.client();
        Description::OfClient(format!("{client}: {request} never arrives: the connection has broken"))
    },
};

pub(super) const DROP_AFTER: FaultRow = FaultRow {
    word: "drop-after",
    summary: "a request runs, and the connection breaks before its reply arrives",
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::Disconnected,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        Description::Remark(format!("The connection breaks before {} gets the reply.", fault.client()))
    },
    ..DROP_BEFORE
};
