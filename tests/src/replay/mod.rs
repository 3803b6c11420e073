//! Runs schedules that are known: as they are, as saved ones were, or on a real server.

mod follow;
mod saved;
mod replayed;
mod comparison;
mod rescale;
mod claim;
mod real_redis;

pub(crate) use claim::Claim;
pub use claim::ClaimError;
pub(crate) use comparison::Likeness;
pub use follow::{Follow, Replay, replay};
pub use real_redis::{Comparison, OnRedis, OnRedisError, replay_on_redis};
pub(crate) use replayed::fit;
pub use replayed::{MisfitError, Replayed, replay_saved};
pub(crate) use rescale::{Edge, Stretch};
pub use saved::{Expected, Must, Saved, SavedError, SavedStep, Subject};
