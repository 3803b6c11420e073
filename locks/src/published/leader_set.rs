//! `leader_set` and `leader_set_checked`: a leader, by a key with a lease. Its process checks once
//! in a while whether it still leads.
//!
//! 1. Campaign: `SET k id NX EX L`: the reply `OK` means that the process leads.
//! 2. Check, by a leader: `GET k`. If there is a value, `EXPIRE k L`. If there is none, it does
//!    nothing. In both cases it still leads.
//! 3. Resign: `DEL k`.
//!
//! The second row has the remedy of the report: a check compares the value with our id. If it is
//! ours, `EXPIRE k L`. Otherwise the process no longer leads.
//!
//! Here a check is one more acquire by the holder, so the table says whether the process has led
//! since the last one.
//!
//! Source: [n8n-io/n8n#7964], a report about such an election, with the remedy. `SETNX` and
//! `EXPIRE` were two commands there, until [n8n-io/n8n#14702].
//!
//! How it breaks: a leader stalls for longer than its lease, and B is elected. The check of the
//! leader finds B's key, and takes it for its own. It prolongs B's lease, and both lead. Its
//! resignation then deletes B's key. If the key is gone when the leader checks, it leads on without
//! one.
//!
//! The remedy compares in a command of its own. The lease can end between `GET` and `EXPIRE`, and
//! nobody reads the reply. A leader that stalls after its last check still deletes B's key.
//!
//! A lost reply breaks both rows. If the reply to `DEL` is lost, the client's library sends it
//! again. It then deletes B's key.
//!
//! [n8n-io/n8n#7964]: https://github.com/n8n-io/n8n/pull/7964
//! [n8n-io/n8n#14702]: https://github.com/n8n-io/n8n/pull/14702

use redis::aio::ConnectionLike;
use redis::{RedisResult, cmd};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of the algorithm that checks whether there is a leader.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "leader_set",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Reenters],
        guarantees: "one leader at a time, as long as each checks in time",
        assumes: "that no leader stalls for a lease, and one server that keeps its data",
        objection: "a leader asks whether there is one, and not who it is, so it prolongs the lease of another one",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OwnerSafe, FaultClass::Slow),
            (Property::Unbroken, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::OwnerSafe, FaultClass::Lost),
            (Property::Unbroken, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Unbroken, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Unbroken, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| {
        Box::new(LeaderSet::new(connection, &env, terms, Check::Presence))
    }),
};

/// The row of the algorithm that checks who leads.
pub const ALGORITHM_CHECKED: Algorithm = Algorithm {
    name: "leader_set_checked",
    spec: &Spec {
        objection: "comparing the id and prolonging the lease are two commands, and so are the check and DEL",
        ..*ALGORITHM.spec
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(LeaderSet::new(connection, &env, terms, Check::Name))),
};

/// What a leader looks at to see whether it still leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Whether there is a leader.
    Presence,
    /// Who leads.
    Name,
}

/// One process's side of the election.
#[derive(Debug)]
pub struct LeaderSet<C> {
    connection: C,
    key: String,
    id: String,
    lease_seconds: u64,
    check: Check,
    /// How often the process found that it leads, and has not resigned.
    depth: u32,
}

impl<C: ConnectionLike + Send> LeaderSet<C> {
    /// A process that does not lead.
    pub fn new(connection: C, env: &Env, terms: &Terms, check: Check) -> LeaderSet<C> {
        let (key, lease_seconds) = (terms.key.clone(), terms.lease_seconds());
        LeaderSet { connection, key, id: env.unique(), lease_seconds, check, depth: 0 }
    }

    async fn campaign(&mut self) -> RedisResult<bool> {
        let mut set = cmd("SET");
        set.arg(&self.key).arg(&self.id).arg("NX").arg("EX").arg(self.lease_seconds);
        set.query_async(&mut self.connection).await
    }

    /// Returns whether the process still leads.
    async fn check(&mut self) -> RedisResult<bool> {
        let leader: Option<String> = cmd("GET").arg(&self.key).query_async(&mut self.connection).await?;
        match (leader, self.check) {
            (None, Check::Presence) => Ok(true),
            (leader, Check::Name) if leader.as_ref() != Some(&self.id) => Ok(false),
            _ => {
                let expire = cmd("EXPIRE").arg(&self.key).arg(self.lease_seconds).to_owned();
                () = expire.query_async(&mut self.connection).await?;
                Ok(true)
            }
        }
    }
}

impl<C: ConnectionLike + Send> Lock for LeaderSet<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let leads = if self.depth == 0 { self.campaign().await? } else { self.check().await? };
        self.depth = if leads { self.depth + 1 } else { 0 };
        Ok(leads)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        match self.depth {
            0 => return Ok(Release::NotHeld),
            1 => self.depth = 0,
            _ => {
                self.depth -= 1;
                return Ok(Release::Inner);
            }
        }
        cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.id.clone())
    }
}
