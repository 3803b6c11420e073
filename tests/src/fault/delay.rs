//! Requests that run after their clients have stopped waiting, as after the response timeout of
//! redis-rs.

use super::budget::Budget;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const DELAY: FaultRow = FaultRow {
    word: "delay",
    summary: "a client gives up a request, and the request runs later (`late A`)",
    target: TargetKind::Connection,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["delays"],
    budget: Some(Budget("delays")),
    limit: |faults| faults.delays,
    amounts: Amounts::NONE,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Later,
        outcome: RequestOutcome::TimedOut,
        strikes_messages: false,
    }),
    describe: |fault, request| {
        let client = fault.client();
        Description::OfClient(format!(
            "{client}: {request} is still on its way, and {client} gives up waiting"
        ))
    },
};
