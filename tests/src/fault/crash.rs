//! Clients that end between any two of their steps. Their grants stay on the servers.

use super::{Budget, Description, Effect, Row, TargetKind, Unit, no_amount};

pub(super) const CRASH: Row = Row {
    word: "crash",
    summary: "a client ends without releasing anything",
    target: TargetKind::Client,
    needs_operation: false,
    unit: Unit::None,
    set_by: &["crashes"],
    budget: Some(Budget("crashes")),
    limit: |faults| faults.crashes,
    amounts: no_amount,
    effect: Effect::Act(|execution, fault| {
        fault.target.actor().into_iter().for_each(|actor| execution.crash(actor));
        fault
    }),
    describe: |fault, _| Description::EndOfClient(format!("{} crashes", fault.target)),
};
