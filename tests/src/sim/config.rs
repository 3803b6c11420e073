//! The settings of executions, and the times that they have in common.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use emulator::{Emulator, Timestamp};

use super::server_data::Invariant;
use crate::fault::Faults;
use crate::live::Terms;
use crate::memo::CodeId;

/// When every execution on emulators begins. It is no whole second, so that code which rounds to
/// seconds shows what that does.
pub(crate) const START: Timestamp = Timestamp::from_millis(Timestamp::EPOCH.millis() + AFTER_EPOCH_MS);
pub(super) const AFTER_EPOCH_MS: i64 = 500;

/// The time after the last lease before fresh clients try. It is longer than the second that
/// careful algorithms add.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The longest wait for a timer of an actor.
pub(crate) const TIMER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How much a history records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Everything that oracles need.
    Lean,
    /// Commands, replies and changed keys, too.
    Full,
}

/// The settings that all executions of a scenario share.
#[derive(Clone, Debug)]
pub(crate) struct SimulationConfig {
    pub(crate) terms: Terms,
    pub(crate) faults: Faults,
    /// How many replicas each server has.
    pub(crate) replicas: usize,
    /// Clients may connect to replicas.
    pub(crate) reads_replicas: bool,
    /// The servers are a cluster.
    pub(crate) is_cluster: bool,
    /// The numbers of the actors that are services.
    pub(crate) services: BTreeSet<usize>,
    /// The code of each actor, of each client that judges the end, and of the probes.
    pub(crate) codes: Vec<CodeId>,
    pub(crate) final_codes: Vec<CodeId>,
    pub(crate) probe_code: CodeId,
    pub(crate) invariants: Vec<Invariant>,
    pub(crate) invariant_codes: Vec<CodeId>,
    /// The spans of time that the code distinguishes, as far as they are known.
    pub(crate) thresholds: Arc<[Duration]>,
    /// An oracle judges by the order of all commands.
    pub(crate) judges_commands: bool,
    /// An oracle judges by when commands ran.
    pub(crate) judges_times: bool,
}

impl SimulationConfig {
    /// Whether the effects of what servers do are needed: their replicas get them, and so do the
    /// other servers of a cluster if they are messages.
    pub(super) fn needs_effects(&self) -> bool {
        self.replicas > 0 || self.is_cluster
    }

    /// An emulator has been reset.
    pub(super) fn keep_effects(&self, emulator: &Emulator) {
        if self.needs_effects() {
            emulator.keep_effects();
        }
    }
}
