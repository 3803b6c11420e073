//! The result of a replay on a real server, and why a schedule is not replayed there.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use redis::RedisError;

use crate::oracle::Violation;
use crate::render::printable;
use crate::replay::{ClaimError, MismatchError, RedisServersError};
use crate::schedule::Step;

/// The result of a replay on a real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRedis {
    /// The lease that was used.
    pub lease: Duration,
    /// How many replies were compared.
    pub replies: usize,
    /// The result of the comparison.
    pub comparison: Comparison,
}

/// The result of a comparison with the emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// All replies and the violation are equal; `None` if there is no violation on either.
    Same(Option<Violation>),
    /// The servers differ in this step.
    Different {
        /// The step.
        step: usize,
        /// The difference.
        what: String,
    },
    /// The executions cannot be compared, because real time interfered.
    Inconclusive {
        /// The step.
        step: usize,
        /// The interference.
        what: String,
    },
}

/// Why a schedule is not replayed on a real server.
#[derive(Debug, thiserror::Error)]
pub enum OnRedisError {
    /// The schedule does not belong to this scenario.
    #[error(transparent)]
    Mismatch(#[from] MismatchError),
    /// The databases are not available, or not empty.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The schedule has server faults which a replay cannot cause on a real server.
    #[error(
        "{what}: a replay on real servers sets no clocks of theirs, restarts nothing, flushes no scripts, and delays no replica but one that takes over"
    )]
    Servers {
        /// The step or the setting that asks for them.
        what: String,
    },
    /// The servers of the scenario are a cluster, and the real server is none.
    #[error("the scenario is of a cluster, and a replay uses a real server that is in no cluster")]
    Cluster,
    /// The schedule has failovers, or clients read from replicas, and a given server has none for
    /// that.
    #[error(
        "{what}, which needs servers with replicas that only the replay uses: name no URL, and it starts them \
         (`harness::replay::RedisServers`)"
    )]
    NeedsServers {
        /// The step or the setting that asks for them.
        what: String,
    },
    /// The servers that the replay starts do not do what they should.
    #[error(transparent)]
    OwnServers(#[from] RedisServersError),
    /// A link to a replica stops between two steps. In every equivalent order of the schedule, some
    /// writes before that place are lost, or some behind it are not.
    #[error(
        "step {step}: no link to a real replica loses these writes alone, because a part of a step is lost"
    )]
    Interleaved {
        /// The step of the failover.
        step: usize,
    },
    /// A [`Stopper`](crate::execution::Stopper) has ended the replay.
    #[error("the replay was stopped; nothing that it wrote is left")]
    Stopped,
    /// The server no longer answers, so keys of the replay may remain.
    #[error(
        "the server no longer answers: {}; when it runs again, delete what the replay may have left there: DEL {keys}",
        printable(&error.to_string())
    )]
    Left {
        /// The keys that the replay may have written.
        keys: String,
        /// The error of the attempt to delete them.
        #[source]
        error: RedisError,
    },
    /// A command may block. The gate lets the next command through only after the previous reply.
    #[error(
        "step {step}: {command} may block, and a replay on a real server runs only commands that reply at once"
    )]
    Waits {
        /// The step.
        step: usize,
        /// The command.
        command: String,
    },
}

impl OnRedisError {
    pub(super) fn servers_of(step: Step) -> OnRedisError {
        OnRedisError::Servers { what: format!("the schedule has the step `{step}`") }
    }

    pub(super) fn left(named: &BTreeSet<(usize, Vec<u8>)>, error: RedisError) -> OnRedisError {
        let keys: BTreeSet<String> = named.iter().map(|(_, key)| key.escape_ascii().to_string()).collect();
        OnRedisError::Left { keys: Vec::from_iter(keys).join(" "), error }
    }
}

/// Prints, for example, `same violation; 14 replies are the same`.
impl fmt::Display for OnRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {} ms: ", self.lease.as_millis())?;
        match &self.comparison {
            Comparison::Same(violation) => {
                let seen =
                    if violation.is_some() { "same violation" } else { "no violation on both servers" };
                write!(f, "{seen}; {} replies are the same", self.replies)
            }
            Comparison::Different { step, what } => {
                write!(f, "different in step {step}: {}", printable(what))
            }
            Comparison::Inconclusive { step, what } => {
                write!(f, "inconclusive in step {step}: {}", printable(what))
            }
        }
    }
}
