//! Messages that are lost on their way. A reply that arrives after the client's timeout counts as
//! lost, too.

use super::budget::Budget;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const LOSE_REQUEST: FaultRow = FaultRow {
    word: "lose-request",
    summary: "a request never arrives",
    target: TargetKind::Connection,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["lost"],
    budget: Some(Budget("lost")),
    limit: |faults| faults.lost,
    amounts: Amounts::NONE,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Never,
        outcome: RequestOutcome::TimedOut,
        strikes_messages: false,
    }),
    describe: |fault, request| {
        let client = fault.client();
        Description::OfClient(format!(
            "{client}: {request} is lost on its way, and {client} gives up waiting"
        ))
    },
};

pub(super) const LOSE_REPLY: FaultRow = FaultRow {
    word: "lose-reply",
    summary: "a request runs, and its reply never arrives",
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::TimedOut,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        Description::Remark(format!("The reply is lost, and {} gives up waiting for it.", fault.client()))
    },
    ..LOSE_REQUEST
};

pub(super) const RESEND: FaultRow = FaultRow {
    word: "resend",
    summary: "a reply never arrives, and the client's library sends the request again",
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::Resent,
        strikes_messages: false,
    }),
    describe: |_, _| Description::Remark("The reply is lost, and the request is sent again.".into()),
    ..LOSE_REQUEST
};
