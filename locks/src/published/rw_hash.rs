//! `rw_hash`: a hash with one field for readers and one for writers. Each value is the time of the
//! last acquire.
//!
//! With `now` from the client's clock and `L` the lease:
//!
//! 1. Read, one script: if there is no field `write`, or its time is more than L ago, `HSET k read
//!    now` and `PEXPIRE k L`: the client holds the lock.
//! 2. Write, one script: if that is true of `read` and of `write`, `HSET k write now` and `PEXPIRE
//!    k L`: the client holds the lock.
//! 3. Release, one script: `HDEL` of the field, if its value is our time.
//!
//! Source: "Distributed read-write locks on Redis" (in Chinese).
//!
//! How it breaks: by two readers. The second reader's time replaces the first one's. When the
//! second reader releases, a writer enters beside the first. The first reader's release then finds
//! another time and does nothing. If both acquire in one millisecond, both have the same time, and
//! the first release ends the other's grant.
//!
//! With one reader at a time, it breaks if a clock is wrong by more than L. A client whose clock is
//! ahead takes a live lock. If the clock of a holder is behind, any client can take its lock. An
//! error of exactly L does no harm by itself.
//!
//! A lost reply breaks it, too. The release is sent twice. If another client has taken the lock in
//! the same millisecond, the second release ends its grant.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

const READ: &str = "\
-- read
local write = redis.call('HGET', KEYS[1], 'write')
if write and ARGV[1] - write <= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'read', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

const WRITE: &str = "\
-- write
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
-- release
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0";

static READ_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(READ));
static WRITE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(WRITE));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "rw_hash",
    spec: &Spec {
        kind: AlgorithmKind::ReadWrite,
        abilities: &[],
        guarantees: "a writer is alone, as long as no two clients read at once",
        assumes: "one reader at a time, no two clients in one millisecond, clocks that agree to within a lease, and no client \
                  slower than a lease",
        objection: "the readers share one field, and the reader that acquired last removes it for all of them",
        breaks: &[
            (Property::WriterAlone, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Order),
            (Property::NoLeak, FaultClass::Server),
            (Property::NoLeak, FaultClass::Failover),
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
    /// The field that the last attempt wrote. Its value is `time_ms`.
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
