//! Runs known schedules: as they are, as saved ones, or on a real server.

mod follow;
mod saved;
mod replayed;
mod comparison;
mod rescale;
mod claim;
mod redis_process;
mod redis_servers;
mod failovers;
mod on_redis;
mod real_redis;

pub(crate) use claim::Claim;
pub use claim::ClaimError;
pub(crate) use comparison::{ReplyComparison, are_enough};
pub(crate) use follow::ReplayWithAll;
pub use follow::{Follow, Replay, replay};
pub use on_redis::{Comparison, OnRedis, OnRedisError};
pub use real_redis::{replay_on_redis, replay_on_servers};
pub use redis_process::RedisServersError;
pub use redis_servers::RedisServers;
pub(crate) use replayed::match_scenario;
pub use replayed::{MismatchError, Replayed, replay_loosely, replay_saved};
pub(crate) use rescale::{Edge, Rescale};
pub use saved::{Expectation, ExpectedCommand, SavedError, SavedSchedule, SavedStep, Subject};
