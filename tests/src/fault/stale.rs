//! Reads from replicas that have not got the last writes.
//!
//! Source: "Redis replication",
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>.

use super::lost_writes::LostWrites;
use super::row::{Amounts, Description, FaultRow, Unit};
use super::unacknowledged::UNACKNOWLEDGED;

pub(super) const STALE_READ: FaultRow = FaultRow {
    word: "stale",
    summary: "a replica runs a request before it has got the last writes of these clients",
    unit: Unit::LostWrites,
    amounts: Amounts::Stale,
    describe: |fault, _| {
        let without = LostWrites(fault.amount).in_words().unwrap_or_default();
        Description::Remark(format!("The replica has not got {without}."))
    },
    ..UNACKNOWLEDGED
};
