//! `rw_hash`: a hash with one field for readers and one for writers, each with the time at which somebody last took it.
//!
//! With `now` from the client's clock and `L` the lease:
//!
//! 1. Read, one script: if there is no field `write`, or its time is more than L ago, `HSET k read now`, `PEXPIRE k L`, and the
//!    lock
//!    is ours.
//! 2. Write, one script: if the same holds of `read` and of `write`, `HSET k write now`, `PEXPIRE k L`, and the lock is ours.
//! 3. Release, one script: `HDEL` of the field, if its value is our time.
//!
//! Source: "Distributed read-write locks on Redis" (in Chinese).
//!
//! Who breaks it: two readers. The second one's time replaces the first one's: when the second leaves, a writer enters beside the
//! first, which finds its own time gone and releases nothing. In the same millisecond both have the same time, and whichever leaves
//! first ends the grant of the other.
//!
//! With one reader at a time it takes a clock that is wrong by more than L: one that is ahead takes a lock that lives, and what
//! one that is behind has taken is anybody's. An error of L and no more does no harm by itself. Or it takes a release that is
//! sent twice, because its reply was lost: of whoever took the lock in the same millisecond it ends the grant.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};

const READ: &str = "\
local write = redis.call('HGET', KEYS[1], 'write')
if write and ARGV[1] - write <= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'read', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

const WRITE: &str = "\
for _, field in ipairs({'read', 'write'}) do
  local time = redis.call('HGET', KEYS[1], field)
  if time and ARGV[1] - time <= tonumber(ARGV[2]) then
    return 0
  end
end
redis.call('HSET', KEYS[1], 'write', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

const RELEASE: &str = "\
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0";

static READ_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(READ));
static WRITE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(WRITE));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE));

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "rw_hash",
    spec: &Spec {
        kind: Kind::ReadWrite,
        guarantees: "a writer alone, as long as no two read at once",
        assumes: "one reader at a time, no two clients in one millisecond, clocks that agree to within a lease, and nobody slower than \
                  that",
        objection: "the readers share one field, which the last that came has written and removes under all others",
        breaks: &[
            (Property::WriterAlone, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Order),
        ],
    },
    scripts: &[READ, WRITE, RELEASE],
    open: Open::One(|connection, env, terms| Box::new(RwHash::new(connection, env, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct RwHash<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    /// What the last attempt wrote, and where.
    field: &'static str,
    time_ms: i64,
}

impl<C: ConnectionLike + Send> RwHash<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> RwHash<C> {
        let (key, lease_ms) = (terms.key.clone(), terms.lease_ms());
        RwHash { connection, env, key, lease_ms, field: "write", time_ms: 0 }
    }

    async fn run(&mut self, script: &Script, field: &'static str) -> RedisResult<bool> {
        (self.field, self.time_ms) = (field, self.env.now_ms());
        let mut script = script.key(&self.key);
        script.arg(self.time_ms).arg(self.lease_ms).invoke_async(&mut self.connection).await
    }
}

impl<C: ConnectionLike + Send> Lock for RwHash<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.run(&WRITE_SCRIPT, "write").await
    }

    async fn try_read(&mut self) -> RedisResult<bool> {
        self.run(&READ_SCRIPT, "read").await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let mut script = RELEASE_SCRIPT.key(&self.key);
        script
            .arg(self.field)
            .arg(self.time_ms)
            .invoke_async(&mut self.connection)
            .await
            .map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Field(self.key.clone(), self.field.into())
    }
}
