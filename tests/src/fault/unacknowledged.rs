//! Replicas that have not acknowledged the writes for which a client waits.
//!
//! Source: <https://redis.io/docs/latest/commands/wait/>.

use super::budget::Budget;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const UNACKNOWLEDGED: FaultRow = FaultRow {
    word: "unacknowledged",
    summary: "`WAIT` ends while these replicas have not acknowledged the client's writes",
    target: TargetKind::Connection,
    needs_operation: false,
    respawns: false,
    unit: Unit::Servers,
    set_by: &["behind"],
    budget: Some(Budget("behind")),
    limit: |faults| if faults.behind > 0 { u32::MAX } else { 0 },
    amounts: Amounts::Unacknowledged,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::Answered,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        let servers = Unit::servers(fault.amount);
        Description::Remark(format!("The writes have not arrived at server {servers}."))
    },
};
