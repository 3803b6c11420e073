//! Scripts, and Lua that several algorithms share. A script runs as one atomic step.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};

use crate::lock::Release;

/// A script of the locks for use. A published one is sent as redis-rs sends scripts.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(text: &'static str) -> Script {
        Script { text, hash: OnceLock::new() }
    }

    /// A call without keys and arguments.
    pub(crate) fn call(&self) -> Call<'_> {
        Call { script: self, keys: Vec::new(), args: Vec::new() }
    }

    fn hash(&self) -> &str {
        self.hash.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

/// A call of a script with its keys and arguments.
pub(crate) struct Call<'a> {
    script: &'a Script,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Call<'_> {
    pub(crate) fn key(&mut self, key: impl ToRedisArgs) -> &mut Self {
        key.write_redis_args(&mut self.keys);
        self
    }

    pub(crate) fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        arg.write_redis_args(&mut self.args);
        self
    }

    /// Runs the script by its hash. If the server does not know it, sends the text: that runs in
    /// any case, and only on the server of its keys.
    pub(crate) async fn invoke<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<T> {
        const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);
        match self.command("EVALSHA", self.script.hash()).query_async(connection).await {
            Err(error) if error.kind() == NO_SCRIPT => {
                self.command("EVAL", self.script.text).query_async(connection).await
            }
            result => result,
        }
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }
}

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

static COMPARE_AND_DELETE_SCRIPT: LazyLock<redis::Script> =
    LazyLock::new(|| redis::Script::new(COMPARE_AND_DELETE));

/// Runs [`COMPARE_AND_DELETE`].
pub(crate) async fn compare_and_delete<C: ConnectionLike + Send>(
    connection: &mut C,
    key: &str,
    token: &str,
) -> RedisResult<Release> {
    let mut script = COMPARE_AND_DELETE_SCRIPT.key(key);
    script.arg(token).invoke_async(connection).await.map(Release::from_count)
}
