//! `redlock`: a token on the majority of independent servers. It has five servers, as published, or
//! three, as `redlock_3`.
//!
//! 1. Read the clock. On one server after the other: `SET k token NX PX L`. A server that does not
//!    answer in time counts as refused.
//! 2. Read the clock again. If most servers replied `OK`, and that took less than L, the client
//!    holds the lock for the rest of L.
//! 3. Otherwise, and for a release: on every server, whatever it replied, a script that deletes the
//!    key if its value is our token.
//!
//! Source: <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>; described by
//! Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese).
//!
//! How it breaks: by server faults. If the clock of one server jumps past a lease, or the server
//! restarts without its data, its vote is free again. Then a second client can get a majority. For
//! example, B gets the first server, A gets the other two, and one of these loses A's key. B then
//! gets that server's vote as well. If a server that lost its data stays away for longer than the
//! longest lease, its lost votes have expired, and it does no harm.
//!
//! Time also breaks it, as it breaks every lock without fencing. A holder that stalls after it has
//! won does not know when its lease ends.
//!
//! The objection: Martin Kleppmann, "How to do distributed locking" (2016). Salvatore Sanfilippo's
//! answer: "Is Redlock safe?".

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::set_nx_px_cad::set_nx_px;
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of the registry for five servers.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "redlock",
    spec: SPEC,
    scripts: &[COMPARE_AND_DELETE],
    open: Open::Many(5, |connections, env, terms| Box::new(Redlock::new(connections, env, terms))),
};

/// The row of the registry for three servers.
pub const ALGORITHM_OF_THREE: Algorithm = Algorithm {
    name: "redlock_3",
    open: Open::Many(3, |connections, env, terms| Box::new(Redlock::new(connections, env, terms))),
    ..ALGORITHM
};

const SPEC: &Spec = &Spec {
    kind: AlgorithmKind::Mutex,
    abilities: &[],
    guarantees: "one unexpired grant at a time, as long as most servers answer",
    assumes: "servers whose clocks never jump, and which either keep their data or stay down for a lease after losing it",
    objection: "clocks and restarts of servers decide whether it is safe, and a holder that outlives its lease is not fenced off",
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::ExclusiveFact, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
        (Property::Progress, FaultClass::Order),
        (Property::ExclusiveFact, FaultClass::Failover),
        (Property::ExclusiveBelief, FaultClass::Failover),
    ],
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct Redlock<C> {
    connections: Vec<C>,
    env: Env,
    key: String,
    lease_ms: i64,
    token: String,
}

impl<C: ConnectionLike + Send> Redlock<C> {
    /// A client that holds nothing, with a connection to each server.
    pub fn new(connections: Vec<C>, env: Env, terms: &Terms) -> Redlock<C> {
        let (key, lease_ms) = (terms.key.clone(), terms.lease_ms());
        Redlock { connections, env, key, lease_ms, token: String::new() }
    }

    fn is_majority(&self, servers: usize) -> bool {
        2 * servers > self.connections.len()
    }
}

impl<C: ConnectionLike + Send> Lock for Redlock<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.token = self.env.unique();
        let began_ms = self.env.now_ms();
        let mut granted = 0;
        for connection in &mut self.connections {
            let answer = set_nx_px(connection, &self.key, &self.token, self.lease_ms).await;
            granted += usize::from(answer.unwrap_or(false));
        }
        let took_ms = self.env.now_ms() - began_ms;
        if self.is_majority(granted) && took_ms < self.lease_ms {
            return Ok(true);
        }
        self.release().await?;
        Ok(false)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let mut released = 0;
        for connection in &mut self.connections {
            let answer = compare_and_delete(connection, &self.key, &self.token).await;
            released += usize::from(answer == Ok(Release::Released));
        }
        Ok(if self.is_majority(released) { Release::Released } else { Release::NotHeld })
    }

    fn record(&self) -> Record {
        Record::Majority(self.key.clone(), self.token.clone())
    }
}
