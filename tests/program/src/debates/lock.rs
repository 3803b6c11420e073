//! The lock of most debates: `SET NX PX`, and a release by a script.
//!
//! The script is sent whole (`EVAL`), so that every server knows it.

use harness::Client;
use redis::RedisResult;
use redis::aio::ConnectionLike;

/// Releases the lock `KEYS[1]`, if its holder is `ARGV[1]`.
pub(super) const RELEASE: &str = "-- release
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// Takes the lock on one server, unless somebody has it there.
pub(super) async fn take(client: &Client, link: &mut impl ConnectionLike) -> RedisResult<bool> {
    let mut set = redis::cmd("SET");
    set.arg("lock").arg(client.name()).arg("NX").arg("PX").arg(client.lease().as_millis() as u64);
    set.query_async(link).await
}

/// Releases the lock on one server, if it is the client's there.
pub(super) async fn release(client: &Client, link: &mut impl ConnectionLike) -> RedisResult<()> {
    redis::cmd("EVAL").arg(RELEASE).arg(1).arg("lock").arg(client.name()).exec_async(link).await
}
