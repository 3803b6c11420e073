//! Restarts of servers with persistence: scripts are lost, and the last writes may be lost. A
//! replica gets them again.

use super::budget::Budget;
use super::row::{Amounts, Description, Effect, Fault, FaultRow, Unit};
use super::target::TargetKind;

pub(super) const RELOAD: FaultRow = FaultRow {
    word: "reload",
    summary: "a server restarts without scripts and without the given number of last writes",
    target: TargetKind::Node,
    needs_operation: false,
    respawns: false,
    unit: Unit::Writes,
    set_by: &["reloads", "unsynced", "outage"],
    budget: Some(Budget("reloads")),
    limit: |faults| faults.reloads,
    amounts: Amounts::Of(|faults| (0..=faults.unsynced.into()).collect()),
    effect: Effect::Act(|execution, fault| {
        let Some(server) = fault.target.server() else { return fault };
        execution.stop_server(server);
        let lost = execution.lose_writes(server, fault.amount as usize);
        execution.execute(server, &["SCRIPT FLUSH"]);
        execution.begin_log(server);
        Fault { amount: lost as i64, ..fault }
    }),
    describe: |fault, _| {
        let without = match fault.amount {
            0 => "with all data and without scripts".into(),
            1 => "without scripts and without what the last write changed".into(),
            lost => format!("without scripts and without what the last {lost} writes changed"),
        };
        Description::Outside(format!("server {} restarts, {without}", fault.target))
    },
};
