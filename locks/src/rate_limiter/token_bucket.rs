//! The token bucket: permits are tokens in a bucket that fills up at a steady rate.
//!
//! A hash: the level of the bucket, and the time to which the level belongs, in microseconds of the
//! server's clock. No bucket is a full one. One script:
//!
//! 1. If our token is among those of recent grants, the request has been granted: say so again.
//! 2. Raise the level by what flowed in since its time, at most to that of a full bucket.
//! 3. If the level is high enough for the request, lower it, write both, and remember our token.
//!    The keys live until the bucket would be full.
//! 4. Otherwise the reply says when the level will be high enough.
//!
//! In any time t, at most `capacity + refill * t / per` permits are granted.
//!
//! All numbers are integers below 2^53, which Lua represents exactly. The unit of the level is the
//! part of a permit that makes this possible: if 3 permits flow in within 7 microseconds, a unit is
//! a seventh of one, and 3 units flow in each microsecond. So nothing is rounded, and nothing
//! drifts.
//!
//! If the server's clock goes back, nothing flows in until it has come to the last time again.
//!
//! A token is remembered for as long as an empty bucket takes to fill up.
//!
//! Source: Jonathan Turner, "New directions in communications (or which way to the information
//! age?)" (1986); Stripe, "Scaling your API with rate limiters" (2017) has a script with floats.

use std::time::Duration;

use super::algorithm::{Algorithm, micros};
use crate::name::Name;
use crate::script::{Script, lua_raise};

/// The most units of a full bucket, and of what flows into it at once. Their sum is exact in Lua.
const UNITS_MAX: u64 = 1 << 52;

/// `ARGV[3]` is the number of units of a permit, `ARGV[4]` that of a full bucket, and `ARGV[5]`
/// that which flows in each microsecond. `ARGV[6]` is the time in which an empty bucket fills up,
/// and `ARGV[7]` the same in milliseconds, rounded up.
pub(super) const ACQUIRE: &str = concat!(
    "-- acquire\n",
    lua_raise!(),
    "\
local token, permits, unit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local full, rate, fill, ttl = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local state = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(state[1] or full), tonumber(state[2] or now)
if now - at >= fill then
  level, at = full, now
elseif now > at then
  level, at = math.min(level + (now - at) * rate, full), now
end
local granted_at = redis.call('ZSCORE', KEYS[2], token)
if granted_at and tonumber(granted_at) > at - fill then
  return {1, math.floor(level / unit)}
end
level = level - permits * unit
if level < 0 then
  return {0, math.ceil(-level / rate) + at - now}
end
redis.call('HSET', KEYS[1], 'level', level, 'at', at)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', at - fill))
redis.call('ZADD', KEYS[2], at, token)
for _, key in ipairs(KEYS) do
  raise(key, ttl)
end
return {1, math.floor(level / unit)}"
);

static SCRIPT: Script = Script::new(ACQUIRE);

/// The algorithm with this bucket, or why that makes no sense.
pub(super) fn algorithm(name: &Name, capacity: u32, refill: u32, per: Duration) -> Result<Algorithm, String> {
    if capacity == 0 || refill == 0 {
        return Err("the capacity and the refill of a token bucket are at least one".into());
    }
    let per_us = micros(per)?;
    let divisor = greatest_common_divisor(per_us, u64::from(refill));
    let (unit, rate) = (per_us / divisor, u64::from(refill) / divisor);
    let full = u64::from(capacity).saturating_mul(unit);
    if full.saturating_add(rate) > UNITS_MAX {
        return Err(format!(
            "a bucket of {capacity} permits with {refill} more in {per:?} is too large to be exact: choose a shorter span"
        ));
    }
    let fill_us = full.div_ceil(rate);
    // At its very end, a key still exists.
    let ttl_ms = fill_us.div_ceil(1000) + 1;
    let keys = vec![name.key.clone(), name.side_key("recent")];
    let more = vec![unit, full, rate, fill_us, ttl_ms];
    Ok(Algorithm { script: &SCRIPT, keys, more, permits_max: capacity })
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(capacity: u32, refill: u32, per: Duration) -> Result<Vec<u64>, String> {
        algorithm(&Name::new("", "bucket").unwrap(), capacity, refill, per).map(|algorithm| algorithm.more)
    }

    #[test]
    fn a_unit_is_the_part_of_a_permit_that_flows_in_whole() {
        let second = Duration::from_secs(1);
        // A permit of 1000 units each millisecond: a unit each microsecond.
        assert_eq!(units(5, 1000, second), Ok(vec![1000, 5000, 1, 5000, 6]));
        assert_eq!(units(1, 3, Duration::from_micros(7000)), Ok(vec![7000, 7000, 3, 2334, 4]));
        assert_eq!(units(1, 1, Duration::from_nanos(1_000_001)), Ok(vec![1001, 1001, 1, 1001, 3]));
        let day = 24 * 3600 * second;
        assert!(units(1_000_000, 1_000_000, day).is_ok());
        assert!(units(1_000_000, 999_983, day).unwrap_err().contains("choose a shorter span"));
    }
}
