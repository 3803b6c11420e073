//! `redlock`: a token on the majority of independent servers. Five of them, as published, and three, as `redlock_3`.
//!
//! 1. Note the time. On one server after the other, `SET k token NX PX L`; a server that does not answer in time has said no.
//! 2. Note the time again. If most servers said OK, and that took less than L, the lock is ours for what is left of L.
//! 3. Otherwise, and to release it: on every server, whatever it said, a script that deletes the key if its value is our token.
//!
//! Source: <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>; told by Huyan Shi, "Redis series 13:
//! distributed locks" (2020-01, in Chinese).
//!
//! Who breaks it: servers. Each keeps its promise alone: when the clock of one jumps past a lease, or one comes back without its
//! data, its vote is free again, and with it another client has a majority, too: B gets the first server, A the other two, one of
//! these forgets A, and B's next vote is enough. A server that stays away for longer than the longest lease after it lost its
//! data gives nothing away. And time, as it breaks all locks without fencing: a holder that stalls after it has won does not know
//! when its lease is over. Martin Kleppmann, "How to do distributed locking" (2016); Salvatore Sanfilippo's answer, "Is Redlock
//! safe?".

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::set_nx_px_cad::set_nx_px;
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};

/// The registry's row for five servers.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "redlock",
    spec: SPEC,
    scripts: &[COMPARE_AND_DELETE],
    open: Open::Many(5, |connections, env, terms| Box::new(Redlock::new(connections, env, terms))),
};

/// The registry's row for three.
pub const ALGORITHM_OF_THREE: Algorithm = Algorithm {
    name: "redlock_3",
    open: Open::Many(3, |connections, env, terms| Box::new(Redlock::new(connections, env, terms))),
    ..ALGORITHM
};

const SPEC: &Spec = &Spec {
    kind: Kind::Mutex,
    guarantees: "one unexpired grant at a time, as long as most servers answer",
    assumes: "servers that keep their data, or stay away for a lease when they have lost it, and whose clocks never jump",
    objection: "clocks and restarts of servers decide whether it is safe, and a holder that outlives its lease is not fenced off",
    breaks: &[
        (Property::ExclusiveBelief, FaultClass::Slow),
        (Property::ExclusiveFact, FaultClass::Server),
        (Property::ExclusiveBelief, FaultClass::Server),
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
