//! The sliding window: at most `limit` permits within any span of a given length.
//!
//! A sorted set of granted permits. The score of each is the time of its grant, in microseconds of
//! the server's clock. One script:
//!
//! 1. Count the members whose time is less than one span ago. Older ones are out of the window.
//! 2. If our token is among them, the request has been granted: say so again.
//! 3. If the window has room for the request, remove the older members, and add those of the
//!    request. The key lives for one more span.
//! 4. Otherwise find the member that has to leave the window before there is room. The reply says
//!    how long that takes.
//!
//! The window is exact: for any time t, at most `limit` permits are granted from t until just
//! before t and one span. It costs memory for one member a permit. A refused request writes
//! nothing.
//!
//! If the server's clock goes back, grants seem to lie in the future and stay in the window for
//! longer: fewer permits are granted, never more.
//!
//! Source: the sliding window log of Figma, "An alternative approach to rate limiting" (2017), and
//! of Peter Hayes, "Better Rate Limiting With Redis Sorted Sets" (2015). Both take the client's
//! time, and add refused requests, too.

use std::time::Duration;

use super::algorithm::{Algorithm, micros};
use crate::name::Name;
use crate::script::{Script, lua_raise};

/// Each permit is a member of a sorted set, and one script adds those of a request.
const LIMIT_MAX: u32 = 100_000;

/// `ARGV[3]` is the limit, `ARGV[4]` the span in microseconds, and `ARGV[5]` the same in
/// milliseconds, rounded up.
///
/// A number in a string has fourteen digits in Lua, and the times have sixteen. Therefore
/// `string.format` writes them.
pub(super) const ACQUIRE: &str = concat!(
    "-- acquire\n",
    lua_raise!(),
    "\
local token, permits = ARGV[1], tonumber(ARGV[2])
local limit, per, ttl = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local start = string.format('%.0f', now - per)
local used = redis.call('ZCOUNT', KEYS[1], '(' .. start, '+inf')
local granted_at = redis.call('ZSCORE', KEYS[1], token)
if granted_at and tonumber(granted_at) > now - per then
  return {1, math.max(limit - used, 0)}
end
local excess = used + permits - limit
if excess > 0 then
  local last = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. start, '+inf', 'WITHSCORES', 'LIMIT', excess - 1, 1)
  return {0, last[2] + per - now}
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', start)
redis.call('ZADD', KEYS[1], now, token)
for nth = 2, permits do
  redis.call('ZADD', KEYS[1], now, token .. ':' .. nth)
end
raise(KEYS[1], ttl)
return {1, -excess}"
);

static SCRIPT: Script = Script::new(ACQUIRE);

/// The algorithm with this limit for each span, or why that makes no sense.
pub(super) fn algorithm(name: &Name, limit: u32, per: Duration) -> Result<Algorithm, String> {
    if limit == 0 {
        return Err("the limit of a sliding window is at least one".into());
    }
    if limit > LIMIT_MAX {
        return Err(format!(
            "the limit of a sliding window is at most {LIMIT_MAX}, and not {limit}: use a token bucket"
        ));
    }
    let per_us = micros(per)?;
    // At its very end, a key still exists.
    let ttl_ms = per_us.div_ceil(1000) + 1;
    let more = vec![u64::from(limit), per_us, ttl_ms];
    Ok(Algorithm { script: &SCRIPT, keys: vec![name.key.clone()], more, permits_max: limit })
}
