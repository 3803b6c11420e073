//! The code that all versions of the fair semaphore share. They differ in one command.
//!
//! There are two sorted sets. In `time`, the score is the client's clock, and shows which holders
//! are too old. In `owner`, the score is a counter, and shows which client came first. With `now`
//! from the client's clock, `E` the lease and `N` the permits:
//!
//! 1. `c = INCR counter`.
//! 2. In one pipeline, which is not atomic: `ZREMRANGEBYSCORE time 0 now-E`; **`ZINTERSTORE`, to
//!    clean one set by the other**; `ZADD time now id`; `ZADD owner c id`; `ZRANK owner id`.
//! 3. If the rank is below N, the client has a permit. Otherwise `ZREM` from both sets.
//! 4. Release: `ZREM` from both sets.
//!
//! Source: canglin, "Distributed rate limiting: how a distributed semaphore on Redis works" (in
//! Chinese), built on Josiah Carlson, "Redis in Action", chapter 6.3.2. The `ZINTERSTORE` is wrong
//! in the article, and its comments discuss it.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};

/// The keys of one fair semaphore.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) time: String,
    pub(super) owner: String,
    counter: String,
}

/// One client's side of the semaphore.
#[derive(Debug)]
pub(super) struct FairSemaphore<C> {
    pub(super) connection: C,
    env: Env,
    keys: Keys,
    lease_ms: i64,
    permits: u32,
    clean: fn(&Keys) -> redis::Cmd,
    id: String,
}

impl<C: ConnectionLike + Send> FairSemaphore<C> {
    pub(super) fn new(
        connection: C,
        env: Env,
        terms: &Terms,
        clean: fn(&Keys) -> redis::Cmd,
    ) -> FairSemaphore<C> {
        let key = |part: &str| format!("{}:{part}", terms.key);
        let keys = Keys { time: key("time"), owner: key("owner"), counter: key("counter") };
        let (lease_ms, permits) = (terms.lease_ms(), terms.permits);
        FairSemaphore { connection, env, keys, lease_ms, permits, clean, id: String::new() }
    }

    /// Removes the client from both sets. Returns how many of the two entries existed.
    async fn remove_both(&mut self) -> RedisResult<i64> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZREM").arg(&self.keys.time).arg(&self.id);
        pipeline.cmd("ZREM").arg(&self.keys.owner).arg(&self.id);
        let (from_time, from_owner): (i64, i64) = pipeline.query_async(&mut self.connection).await?;
        Ok(from_time + from_owner)
    }
}

impl<C: ConnectionLike + Send> Lock for FairSemaphore<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.id = self.env.unique();
        let now = self.env.now_ms();
        let count: i64 = redis::cmd("INCR").arg(&self.keys.counter).query_async(&mut self.connection).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZREMRANGEBYSCORE").arg(&self.keys.time).arg(0).arg(now - self.lease_ms).ignore();
        pipeline.add_command((self.clean)(&self.keys)).ignore();
        pipeline.cmd("ZADD").arg(&self.keys.time).arg(now).arg(&self.id).ignore();
        pipeline.cmd("ZADD").arg(&self.keys.owner).arg(count).arg(&self.id).ignore();
        pipeline.cmd("ZRANK").arg(&self.keys.owner).arg(&self.id);
        let (rank,): (Option<u32>,) = pipeline.query_async(&mut self.connection).await?;
        let is_ours = rank.is_some_and(|rank| rank < self.permits);
        if !is_ours {
            self.remove_both().await?;
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        self.remove_both().await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Member(self.keys.owner.clone(), self.id.clone())
    }
}
