//! Lua that several algorithms share. A script runs as one atomic step.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::lock::Release;

/// The longest span of time in a script. The server's times have to be exact in Lua.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The Lua function `raise`, which raises the time to live of a key to at least `ms` milliseconds.
macro_rules! lua_raise {
    () => {
        "\
local function raise(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end
"
    };
}

pub(crate) use lua_raise;

/// If the value of `KEYS[1]` is `ARGV[1]`, sets its time to live to `ARGV[2]` milliseconds and
/// returns 1. Otherwise returns 0.
pub(crate) const COMPARE_AND_EXTEND: &str = "\
-- extend
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// Deletes `KEYS[1]` if its value is `ARGV[1]`, and returns the number of deleted keys.
///
/// Source: <https://redis.io/docs/latest/commands/set/#patterns>.
pub(crate) const COMPARE_AND_DELETE: &str = "\
-- release
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
