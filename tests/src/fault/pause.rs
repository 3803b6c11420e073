//! A whole process that stands still: while time moves it notices no reply and no timer.

use super::budget::Budget;
use super::row::{Amounts, Description, Effect, FaultRow, Unit};
use super::target::TargetKind;

pub(super) const PAUSE: FaultRow = FaultRow {
    word: "pause",
    summary: "time moves, and a client notices nothing meanwhile, not even its own timers",
    target: TargetKind::Client,
    needs_operation: false,
    respawns: false,
    unit: Unit::Millis,
    set_by: &["stalls"],
    budget: Some(Budget::STALLS),
    limit: |faults| faults.stalls,
    // The spans depend on the execution, as those of all steps of time do.
    amounts: Amounts::Of(|_| Vec::new()),
    effect: Effect::Pause,
    describe: |fault, _| {
        Description::Remark(format!("The process of {} stood still meanwhile.", fault.target))
    },
};
