//! `rw_two_keys`: one key means that a client reads, another key means that a client writes.
//!
//! 1. Read, one script: if the writers' key `w` exists, 0. Otherwise `SET r 1 EX L`, and the client
//!    holds the lock.
//! 2. Write, one script: if the readers' key `r` exists, 0. Otherwise `SET w 1 EX L NX`: the reply
//!    `OK` means that the client holds the lock.
//! 3. Release: `DEL` of the key.
//!
//! Source: "Distributed read-write locks on Redis" (in Chinese).
//!
//! How it breaks: by two readers. They share one key. The first release deletes the key of the
//! other reader, and a writer enters beside it.
//!
//! With one reader at a time it breaks as `set_nx_ex_del` does. A client that is slower than its
//! lease, or sends its `DEL` twice, deletes the key of the next holder. The two keys also have
//! different slots, so a cluster refuses the scripts.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// `KEYS[1]` is the readers' key, and `KEYS[2]` is the writers' key.
const READ: &str = "\
-- read
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('SET', KEYS[1], 1, 'EX', ARGV[1])
return 1";

const WRITE: &str = "\
-- write
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
return redis.call('SET', KEYS[2], 1, 'EX', ARGV[1], 'NX')";

static READ_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(READ));
static WRITE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(WRITE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "rw_two_keys",
    spec: &Spec {
        kind: AlgorithmKind::ReadWrite,
        abilities: &[Ability::SpansSlots],
        guarantees: "a writer is alone, as long as no two clients read at once",
        assumes: "one reader at a time, that no holder outlives its lease, and that no release is sent twice",
        objection: "the readers share one key, and the first release deletes it for all of them",
        breaks: &[
            (Property::WriterAlone, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Order),
            (Property::NoLeak, FaultClass::Server),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Progress, FaultClass::Cluster),
        ],
    },
    scripts: &[READ, WRITE],
    open: Open::One(|connection, _, terms| Box::new(RwTwoKeys::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct RwTwoKeys<C> {
    connection: C,
    readers: String,
    writers: String,
    lease_seconds: u64,
    is_reader: bool,
}

impl<C: ConnectionLike + Send> RwTwoKeys<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> RwTwoKeys<C> {
        let (readers, writers) = (format!("{}:r", terms.key), format!("{}:w", terms.key));
        RwTwoKeys { connection, readers, writers, lease_seconds: terms.lease_seconds(), is_reader: false }
    }

    async fn run(&mut self, script: &Script) -> RedisResult<bool> {
        let mut script = script.key(&self.readers);
        script.key(&self.writers).arg(self.lease_seconds).invoke_async(&mut self.connection).await
    }

    /// The key that a release deletes.
    fn key(&self) -> &String {
        if self.is_reader { &self.readers } else { &self.writers }
    }
}

impl<C: ConnectionLike + Send> Lock for RwTwoKeys<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.is_reader = false;
        self.run(&WRITE_SCRIPT).await
    }

    async fn try_read(&mut self) -> RedisResult<bool> {
        self.is_reader = true;
        self.run(&READ_SCRIPT).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let del = redis::cmd("DEL").arg(self.key()).to_owned();
        del.query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Key(self.key().clone())
    }
}
