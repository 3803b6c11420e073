//! The waiting clients of a lock, in Lua. A release wakes one of them and not all.
//!
//! `KEYS[2]` is a list of tokens: the oldest waiter comes first. `KEYS[3]` is a sorted set of the
//! same tokens: the score says until when the waiter counts as alive, in the server's time. Every
//! look of a waiter raises that. A waiter that is dead is passed over, and one that comes back is
//! the last. Both keys expire when their last waiter is dead.

/// A script with these functions before it. Its first arguments are the token, the lease, the
/// patience, and the channel of messages to waiters. The patience is how long a waiter counts as
/// alive after a look, or 0 if the client does not wait. Times are in milliseconds.
macro_rules! with_queue {
    ($name:literal, $($script:literal),+) => {
        concat!(
            "-- ",
            $name,
            "\n\
local token, lease, patience = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function first()
  local waiter = redis.call('LINDEX', KEYS[2], 0)
  while waiter do
    local until_ms = redis.call('ZSCORE', KEYS[3], waiter)
    if until_ms and tonumber(until_ms) > now then
      return waiter, tonumber(until_ms)
    end
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], waiter)
    waiter = redis.call('LINDEX', KEYS[2], 0)
  end
end
local function wake()
  local waiter = first()
  if waiter then
    redis.pcall('PUBLISH', ARGV[4], waiter)
  end
end
",
            $crate::script::lua_raise!(),
            "\
local function enqueue()
  if patience > 0 then
    if redis.call('ZADD', KEYS[3], now + patience, token) == 1 then
      redis.call('RPUSH', KEYS[2], token)
    end
    raise(KEYS[2], patience)
    raise(KEYS[3], patience)
  end
end
local function dequeue()
  if redis.call('ZREM', KEYS[3], token) == 1 then
    redis.call('LREM', KEYS[2], 1, token)
  end
end
",
            $($script),+
        )
    };
}

pub(crate) use with_queue;
