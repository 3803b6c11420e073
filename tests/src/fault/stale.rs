//! Reads from replicas that have not got the last writes.
//!
//! Source: "Redis replication",
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>.

use super::budget::Budget;
use super::lost_writes::LostWrites;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

pub(super) const STALE_READ: FaultRow = FaultRow {
    word: "stale",
    summary: "a replica runs a request before it has got the last writes of these clients",
    target: TargetKind::Connection,
    needs_operation: false,
    respawns: false,
    unit: Unit::LostWrites,
    set_by: &["behind"],
    budget: Some(Budget("behind")),
    limit: |faults| if faults.behind > 0 { u32::MAX } else { 0 },
    amounts: Amounts::Stale,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::Answered,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        let without = LostWrites(fault.amount).in_words().unwrap_or_default();
        Description::Remark(format!("The replica has not got {without}."))
    },
};
