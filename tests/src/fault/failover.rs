//! Failovers: a replica takes over from its primary.
//!
//! What it has not got by then is lost, and it knows no scripts. Source: "Redis replication",
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>.

use super::budget::Budget;
use super::lost_writes::LostWrites;
use super::row::{Amounts, Description, Effect, Effects, Fault, FaultRow, Unit};
use super::target::TargetKind;

pub(super) const FAILOVER: FaultRow = FaultRow {
    word: "failover",
    summary: "a replica takes over from its primary, which is gone, without the last writes of these clients",
    target: TargetKind::Replica,
    needs_operation: false,
    respawns: false,
    unit: Unit::LostWrites,
    set_by: &["failovers", "behind"],
    budget: Some(Budget("failovers")),
    limit: |faults| faults.failovers,
    amounts: Amounts::LostWrites,
    effect: Effect::Act(|execution, fault| fail_over(execution, fault, false)),
    describe: |fault, _| took_over(fault, ""),
};

pub(super) const SPLIT_BRAIN: FaultRow = FaultRow {
    word: "split-brain",
    summary: "a replica takes over, and the old primary still serves the connections that are open",
    set_by: &["failovers", "old_primary_writable", "behind"],
    limit: |faults| faults.old_primary_writable.min(faults.failovers),
    effect: Effect::Act(|execution, fault| fail_over(execution, fault, true)),
    describe: |fault, _| took_over(fault, "; the old primary still serves the connections that are open"),
    ..FAILOVER
};

pub(super) const PLANNED_FAILOVER: FaultRow = FaultRow {
    word: "planned-failover",
    summary: "a replica takes over when it has everything, as after `FAILOVER`",
    unit: Unit::None,
    set_by: &["planned_failovers"],
    budget: Some(Budget("planned_failovers")),
    limit: |faults| faults.planned_failovers,
    amounts: Amounts::NONE,
    ..FAILOVER
};

/// Returns the fault as it happened. If nothing is to be lost, nothing is.
fn fail_over(execution: &mut dyn Effects, fault: Fault, stays: bool) -> Fault {
    let Some(node) = fault.target.server() else { return fault };
    let LostWrites(amount) = execution.fail_over(node, LostWrites(fault.amount), stays);
    Fault { amount, ..fault }
}

fn took_over(fault: Fault, old_primary: &str) -> Description {
    let without = LostWrites(fault.amount).in_words();
    let without = without.map_or(String::new(), |lost| format!(", without {lost}"));
    Description::Outside(format!("server {}, a replica, takes over{without}{old_primary}", fault.target))
}
