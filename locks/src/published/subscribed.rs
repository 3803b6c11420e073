//! `subscribed`: the client that is alone on a channel holds the lock. There is no key and no
//! lease: the lock is free as soon as the connection of its holder is closed.
//!
//! 1. `PUBSUB NUMSUB c`: if anybody has subscribed, the lock is taken.
//! 2. `SUBSCRIBE c`, on a connection of its own.
//! 3. `PUBSUB NUMSUB c`: if the client is alone, it holds the lock. Otherwise it unsubscribes.
//! 4. Release: `UNSUBSCRIBE c`, and close the connection.
//!
//! Source: the code of [portalocker], class `RedisLock`, which calls the lock extremely reliable:
//! it frees itself when its holder dies. There, a client also asks a holder for a sign of life, and
//! disconnects one that does not answer within a second. The step 3 follows the `SUBSCRIBE` after
//! 10 ms there, and here after its reply.
//!
//! How it breaks:
//! - Two clients subscribe at once. Each sees the other and unsubscribes, and nobody has the lock.
//!   [Issue 139] tells more such races, among them two holders if the `SUBSCRIBE` takes longer than
//!   10 ms.
//! - The server restarts, or the connection of a holder breaks. The lock is free at once, and its
//!   holder does not know it. No lease tells it when to stop, and it has no fencing token.
//!
//! A holder that stands still keeps the lock, however long that takes.
//!
//! [portalocker]: https://github.com/wolph/portalocker
//! [Issue 139]: https://github.com/wolph/portalocker/issues/139

use redis::{RedisResult, cmd};

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::subscribe::{Subscribe, Subscription};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "subscribed",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Persists, Ability::Subscribes],
        guarantees: "one holder at a time, however slow it is, and a free lock when the connection of its holder is closed",
        assumes: "connections that do not break, and one server that does not restart",
        objection: "a holder whose connection breaks has lost the lock and does not know it; two clients that try at once both give up",
        breaks: &[
            (Property::Progress, FaultClass::Order),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, _, terms| Box::new(Subscribed::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct Subscribed<C> {
    connection: C,
    channel: String,
    subscription: Option<Subscription>,
}

impl<C: Subscribe + Send> Subscribed<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> Subscribed<C> {
        Subscribed { connection, channel: terms.key.clone(), subscription: None }
    }

    async fn subscribers(&mut self) -> RedisResult<usize> {
        let asked = cmd("PUBSUB").arg("NUMSUB").arg(&self.channel).to_owned();
        let (_, subscribers): (String, usize) = asked.query_async(&mut self.connection).await?;
        Ok(subscribers)
    }
}

impl<C: Subscribe + Send + Sync> Lock for Subscribed<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        if self.subscribers().await? > 0 {
            return Ok(false);
        }
        self.subscription = Some(self.connection.subscribe(&self.channel).await?);
        if self.subscribers().await? == 1 {
            return Ok(true);
        }
        self.release().await?;
        Ok(false)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let Some(subscription) = self.subscription.take() else { return Ok(Release::NotHeld) };
        subscription.unsubscribe().await?;
        Ok(Release::Released)
    }

    /// A key that never exists: the server keeps the lock in no key.
    fn record(&self) -> Record {
        Record::Key(self.channel.clone())
    }
}
