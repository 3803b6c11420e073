//! Slots of a cluster that move to another server while clients work.
//!
//! A slot is on its way from `CLUSTER SETSLOT MIGRATING` to `CLUSTER SETSLOT NODE`. Meanwhile, its
//! old server serves the keys that it still has. For others, it sends clients to the new one.
//! Source: "Redis cluster specification",
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

use super::budget::Budget;
use super::row::{Amounts, Description, Effect, FaultRow, Unit};
use super::target::TargetKind;

pub(super) const BEGIN_MOVE: FaultRow = FaultRow {
    word: "begin-move",
    summary: "a slot of a cluster begins to move to this server, and its keys stay where they are",
    target: TargetKind::Server,
    needs_operation: false,
    respawns: false,
    unit: Unit::Slot,
    set_by: &["moves"],
    budget: Some(Budget("moves")),
    limit: |faults| faults.moves,
    amounts: Amounts::SlotsElsewhere,
    effect: Effect::Act(|execution, fault| {
        let to = fault.target.server();
        to.into_iter().for_each(|to| execution.begin_move(fault.amount as u16, to));
        fault
    }),
    describe: |fault, _| {
        Description::Outside(format!("slot {} begins to move to server {}", fault.amount, fault.target))
    },
};

pub(super) const END_MOVE: FaultRow = FaultRow {
    word: "end-move",
    summary: "the keys of a slot that moves come to this server, which owns the slot from now on",
    budget: Some(Budget("ends of moves")),
    amounts: Amounts::SlotsOnTheirWay,
    effect: Effect::Act(|execution, fault| {
        execution.end_move(fault.amount as u16);
        fault
    }),
    describe: |fault, _| {
        Description::Outside(format!("slot {} has moved to server {}", fault.amount, fault.target))
    },
    ..BEGIN_MOVE
};
