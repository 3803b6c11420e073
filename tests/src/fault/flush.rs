//! Servers that lose their scripts, as after `SCRIPT FLUSH`.

use super::budget::Budget;
use super::row::{Amounts, Description, Effect, FaultRow, Unit};
use super::target::TargetKind;

pub(super) const FLUSH: FaultRow = FaultRow {
    word: "flush",
    summary: "a server forgets its scripts",
    target: TargetKind::Server,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["flushes"],
    budget: Some(Budget("flushes")),
    limit: |faults| faults.flushes,
    amounts: Amounts::NONE,
    effect: Effect::Act(|execution, fault| {
        fault.target.server().into_iter().for_each(|server| execution.execute(server, &["SCRIPT FLUSH"]));
        fault
    }),
    describe: |fault, _| Description::Outside(format!("server {} forgets its scripts", fault.target)),
};
