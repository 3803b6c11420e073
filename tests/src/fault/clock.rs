//! Wrong clocks: skew from the start, drift, and jumps.
//!
//! The clock of a client is that of [`Client::now`](crate::Client::now) and
//! [`Client::env`](crate::Client::env). The clock of a server is
//! the one by which its keys expire.

use std::time::Duration;

use super::budget::Budget;
use super::row::{Amounts, Description, Effect, Effects, Fault, FaultRow, Unit};
use super::target::TargetKind;

pub(super) const SKEW: FaultRow = FaultRow {
    word: "skew",
    summary: "the clock of a client is wrong from the start",
    target: TargetKind::Client,
    needs_operation: false,
    respawns: false,
    unit: Unit::Millis,
    set_by: &["skew"],
    budget: None,
    limit: |faults| u32::from(!faults.skew.is_zero()),
    amounts: Amounts::Of(|faults| both_ways(millis(faults.skew))),
    effect: Effect::Act(shift),
    describe: describe_skew,
};

pub(super) const DRIFT: FaultRow = FaultRow {
    word: "drift",
    summary: "the clock of a client is too fast or too slow",
    unit: Unit::Ppm,
    set_by: &["drift"],
    limit: |faults| u32::from(faults.drift_ppm != 0),
    amounts: Amounts::Of(|faults| both_ways(faults.drift_ppm.into())),
    effect: Effect::Act(drift),
    describe: describe_drift,
    ..SKEW
};

pub(super) const SERVER_SKEW: FaultRow = FaultRow {
    summary: "the clock of a server is wrong from the start",
    target: TargetKind::Server,
    set_by: &["server_skew"],
    limit: |faults| u32::from(!faults.server_skew.is_zero()),
    amounts: Amounts::Of(|faults| both_ways(millis(faults.server_skew))),
    ..SKEW
};

pub(super) const SERVER_DRIFT: FaultRow = FaultRow {
    summary: "the clock of a server is too fast or too slow",
    target: TargetKind::Server,
    set_by: &["server_drift"],
    limit: |faults| u32::from(faults.server_drift_ppm != 0),
    amounts: Amounts::Of(|faults| both_ways(faults.server_drift_ppm.into())),
    ..DRIFT
};

pub(super) const JUMP: FaultRow = FaultRow {
    word: "jump",
    summary: "the clock of a client jumps",
    set_by: &["jump"],
    budget: Some(Budget("jump")),
    limit: |faults| u32::from(!faults.jump.is_zero()),
    amounts: Amounts::Of(|faults| both_ways(millis(faults.jump))),
    describe: describe_jump,
    ..SKEW
};

/// A jump shares its budget with [`Faults::restarts`](super::Faults::restarts).
pub(super) const SERVER_JUMP: FaultRow = FaultRow {
    summary: "the clock of a server jumps ahead",
    target: TargetKind::Server,
    set_by: &["server_jump"],
    budget: Some(super::restart::BUDGET),
    limit: |faults| u32::from(!faults.server_jump.is_zero()),
    amounts: Amounts::Of(|faults| vec![millis(faults.server_jump)]),
    ..JUMP
};

fn shift(execution: &mut dyn Effects, fault: Fault) -> Fault {
    execution.shift_clock(fault.target, fault.amount);
    fault
}

fn drift(execution: &mut dyn Effects, fault: Fault) -> Fault {
    execution.drift_clock(fault.target, fault.amount);
    fault
}

fn describe_skew(fault: Fault, _: &str) -> Description {
    let direction = if fault.amount > 0 { "ahead" } else { "behind" };
    Description::Outside(format!("{} is {} ms {direction}", fault.target.clock(), fault.amount.abs()))
}

fn describe_drift(fault: Fault, _: &str) -> Description {
    let speed = if fault.amount > 0 { "fast" } else { "slow" };
    Description::Outside(format!("{} runs {} ppm too {speed}", fault.target.clock(), fault.amount.abs()))
}

fn describe_jump(fault: Fault, _: &str) -> Description {
    Description::Outside(format!("{} jumps by {} ms", fault.target.clock(), fault.amount))
}

fn both_ways(by: i64) -> Vec<i64> {
    vec![by, -by]
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
