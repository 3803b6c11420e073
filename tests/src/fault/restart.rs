//! Restarts of servers without persistence: all data and scripts are lost. A replica copies its
//! primary again.

use super::budget::Budget;
use super::row::{Amounts, Description, Effect, FaultRow, Unit};
use super::target::TargetKind;

/// The budget of faults that strike servers and their data.
pub(super) const BUDGET: Budget = Budget("restarts");

pub(super) const RESTART: FaultRow = FaultRow {
    word: "restart",
    summary: "a server restarts without data and scripts",
    target: TargetKind::Node,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["restarts", "outage"],
    budget: Some(BUDGET),
    limit: |faults| faults.restarts,
    amounts: Amounts::NONE,
    effect: Effect::Act(|execution, fault| {
        if let Some(server) = fault.target.server() {
            execution.stop_server(server);
            execution.lose_data(server);
            execution.begin_log(server);
        }
        fault
    }),
    describe: |fault, _| {
        Description::Outside(format!("server {} restarts, without data and scripts", fault.target))
    },
};
