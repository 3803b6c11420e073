//! The scripts of a latch.
//!
//! `KEYS[1]` is a hash: the count that is left, and the token that set it, which names the round.
//! `KEYS[2]` is a sorted set of the tokens of recent requests: the score says until when a token is
//! remembered. Both keys expire. Times are in milliseconds, and are the server's.

use crate::script::{Script, lua_raise};

/// A script of a request that counts once, however often it is sent. `ARGV[1]` is its token,
/// `ARGV[2]` the time to live of the count, and `ARGV[3]` how long the token is remembered.
macro_rules! once {
    ($name:literal, $script:literal) => {
        concat!(
            "-- ",
            $name,
            "\n\
local token, ttl, memory = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local count = tonumber(redis.call('HGET', KEYS[1], 'count') or 0)
local is_known = redis.call('ZSCORE', KEYS[2], token)
",
            lua_raise!(),
            "\
local function remember()
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  redis.call('ZADD', KEYS[2], now + memory, token)
  raise(KEYS[2], memory)
end
",
            $script
        )
    };
}

/// `ARGV[4]` is the count. 1 if this request has set it, 0 if another count runs.
pub(super) static SET_COUNT: Script = Script::new(once!(
    "set-count",
    "\
if is_known then
  return 1
end
if count > 0 then
  return 0
end
remember()
redis.call('HSET', KEYS[1], 'count', ARGV[4], 'round', token)
raise(KEYS[1], ttl)
return 1"
));

/// `ARGV[4]` is the channel of messages to the clients that wait. Returns the count that is left.
pub(super) static COUNT_DOWN: Script = Script::new(once!(
    "count-down",
    "\
if is_known then
  return count
end
remember()
if count > 0 then
  count = redis.call('HINCRBY', KEYS[1], 'count', -1)
  raise(KEYS[1], ttl)
  if count == 0 then
    redis.pcall('PUBLISH', ARGV[4], count)
  end
end
return count"
));

/// `ARGV[1]` is the time to live of the count. `{count, round}`, or nil if there is none.
pub(super) static LOOK: Script = Script::new(concat!(
    "-- look\n",
    lua_raise!(),
    "\
local found = redis.call('HMGET', KEYS[1], 'count', 'round')
if not found[1] then
  return nil
end
raise(KEYS[1], tonumber(ARGV[1]))
return {tonumber(found[1]), found[2]}",
));
