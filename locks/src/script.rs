//! The Lua scripts that several algorithms share. Each runs as one atomic step.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::lock::Release;

/// Deletes `KEYS[1]` if its value is `ARGV[1]`, and returns the number of deleted keys.
///
/// Source: <https://redis.io/docs/latest/commands/set/#patterns>.
pub(crate) const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

static COMPARE_AND_DELETE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(COMPARE_AND_DELETE));

/// Runs [`COMPARE_AND_DELETE`].
pub(crate) async fn compare_and_delete<C: ConnectionLike + Send>(
    connection: &mut C,
    key: &str,
    token: &str,
) -> RedisResult<Release> {
    let mut script = COMPARE_AND_DELETE_SCRIPT.key(key);
    script.arg(token).invoke_async(connection).await.map(Release::from_count)
}
