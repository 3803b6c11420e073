//! The kinds of faults, and sets of them.

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// `clock::SKEW`
    Skew,
    /// `clock::DRIFT`
    Drift,
    /// `clock::SERVER_SKEW`
    ServerSkew,
    /// `clock::SERVER_DRIFT`
    ServerDrift,
    /// `lost::LOSE_REQUEST`
    LoseRequest,
    /// `lost::LOSE_REPLY`
    LoseReply,
    /// `lost::RESEND`
    Resend,
    /// `drop::DROP_BEFORE`
    DropBefore,
    /// `drop::DROP_AFTER`
    DropAfter,
    /// `partition::PARTITION`
    Partition,
    /// `partition::PARTITION_AFTER`
    PartitionAfter,
    /// `partition::ONE_WAY`
    OneWay,
    /// `delay::DELAY`
    Delay,
    /// `cancel::CANCEL_AFTER`
    CancelAfter,
    /// `cancel::CANCEL`
    Cancel,
    /// `crash::CRASH`
    Crash,
    /// `crash::CRASH_AFTER`
    CrashAfter,
    /// `crash::RESPAWN`
    Respawn,
    /// `crash::RESPAWN_AFTER`
    RespawnAfter,
    /// `pause::PAUSE`
    Pause,
    /// `clock::JUMP`
    Jump,
    /// `clock::SERVER_JUMP`
    ServerJump,
    /// `restart::RESTART`
    Restart,
    /// `reload::RELOAD`
    Reload,
    /// `flush::FLUSH`
    Flush,
    /// `failover::FAILOVER`
    Failover,
    /// `failover::SPLIT_BRAIN`
    SplitBrain,
    /// `failover::PLANNED_FAILOVER`
    PlannedFailover,
    /// `unacknowledged::UNACKNOWLEDGED`
    Unacknowledged,
    /// `stale::STALE_READ`
    StaleRead,
    /// `moves::BEGIN_MOVE`
    BeginMove,
    /// `moves::END_MOVE`
    EndMove,
}

impl FaultKind {
    /// All kinds, in the order in which they are tried.
    pub const ALL: &[FaultKind] = &[
        FaultKind::Skew,
        FaultKind::Drift,
        FaultKind::ServerSkew,
        FaultKind::ServerDrift,
        FaultKind::LoseRequest,
        FaultKind::LoseReply,
        FaultKind::Resend,
        FaultKind::DropBefore,
        FaultKind::DropAfter,
        FaultKind::Partition,
        FaultKind::PartitionAfter,
        FaultKind::OneWay,
        FaultKind::Delay,
        FaultKind::CancelAfter,
        FaultKind::Cancel,
        FaultKind::Crash,
        FaultKind::CrashAfter,
        FaultKind::Respawn,
        FaultKind::RespawnAfter,
        FaultKind::Pause,
        FaultKind::Jump,
        FaultKind::ServerJump,
        FaultKind::Restart,
        FaultKind::Reload,
        FaultKind::Flush,
        FaultKind::Failover,
        FaultKind::SplitBrain,
        FaultKind::PlannedFailover,
        FaultKind::Unacknowledged,
        FaultKind::StaleRead,
        FaultKind::BeginMove,
        FaultKind::EndMove,
    ];
}

/// A set of kinds of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultKinds(u32);

const _: () = assert!(FaultKind::ALL.len() <= 32, "a bit for each kind");

impl FaultKinds {
    /// Whether it has this kind.
    pub fn has(self, kind: FaultKind) -> bool {
        self.0 >> kind as u32 & 1 == 1
    }

    pub(super) fn with(self, kind: FaultKind) -> FaultKinds {
        FaultKinds(self.0 | 1 << kind as u32)
    }
}
