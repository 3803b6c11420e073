//! Pub/sub commands. <https://redis.io/docs/latest/develop/pubsub/>

use super::Row;

pub(super) const ROWS: &[Row] = &[];
