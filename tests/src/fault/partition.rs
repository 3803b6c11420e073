//! Partitions of the network: a client and a server do not reach each other for a while.
//!
//! A partition begins at a request or a message that it keeps from arriving. Earlier, nobody would
//! notice it.

use super::budget::Budget;
use super::kind::FaultKind;
use super::row::{Amounts, Delivery, Description, Effect, FaultRow, RequestFault, RequestOutcome, Unit};
use super::target::TargetKind;

/// What passes between a client and a server that are parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    Nothing,
    /// The partition is one-way.
    Requests,
}

impl Passing {
    /// What passes after a fault of this kind. `None` if that begins no partition.
    pub(crate) fn after(kind: FaultKind) -> Option<Passing> {
        match kind {
            FaultKind::Partition | FaultKind::PartitionAfter => Some(Passing::Nothing),
            FaultKind::OneWay => Some(Passing::Requests),
            _ => None,
        }
    }
}

pub(super) const PARTITION: FaultRow = FaultRow {
    word: "partition",
    summary: "from this request or message on, nothing passes between its client and its server",
    target: TargetKind::Connection,
    needs_operation: false,
    respawns: false,
    unit: Unit::None,
    set_by: &["partitions", "parted_for"],
    budget: Some(Budget("partitions")),
    limit: |faults| faults.partitions,
    amounts: Amounts::NONE,
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Never,
        outcome: RequestOutcome::TimedOut,
        strikes_messages: true,
    }),
    describe: |fault, request| {
        let client = fault.client();
        Description::OfClient(format!("{client}: {request} is lost. {client} and its server are parted"))
    },
};

pub(super) const PARTITION_AFTER: FaultRow = FaultRow {
    word: "partition-after",
    summary: "a request runs, and from its reply on, nothing passes between its client and its server",
    effect: Effect::Request(RequestFault {
        delivery: Delivery::Now,
        outcome: RequestOutcome::TimedOut,
        strikes_messages: false,
    }),
    describe: |fault, _| {
        let client = fault.client();
        Description::Remark(format!("The reply is lost. {client} and its server are parted."))
    },
    ..PARTITION
};

pub(super) const ONE_WAY: FaultRow = FaultRow {
    word: "one-way",
    summary: "from this reply on, requests pass between a client and a server, and no replies",
    describe: |fault, _| {
        let client = fault.client();
        Description::Remark(format!("The reply is lost. Nothing from this server reaches {client}."))
    },
    ..PARTITION_AFTER
};
