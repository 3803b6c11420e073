//! Code that decides who works, and is no lock: limiters, queues, keys that make an operation
//! idempotent.

use std::future::Future;
use std::pin::Pin;

use redis::RedisResult;

use crate::connection::Connection;
use crate::env::Env;
use crate::lock::Terms;

/// One client's side of a [`Task`].
#[derive(Clone, Debug)]
pub struct Side {
    /// The connection to the server.
    pub connection: Connection,
    /// The clocks and the names of the client.
    pub env: Env,
    /// The key, and the prefix of all further keys. The lease is the window of a limiter, or for
    /// how long a client may work. The permits are the limit in a window.
    pub terms: Terms,
}

/// A future of a client.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = RedisResult<T>> + Send + 'a>>;

/// What a client does if it may: it answers a request, runs a job. It runs at most once.
pub type Work<'a> = Doing<'a, ()>;

/// Code that decides which client works.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Puts there what is there before any client begins: a job, an item in stock.
    pub prepare: fn(Side) -> Doing<'static, ()>,
    /// Looks once whether there is something to do, or whether the client may do it. If so, it
    /// works. Returns whether it has worked.
    pub run: for<'a> fn(Side, Work<'a>) -> Doing<'a, bool>,
}

/// Nothing is there before any client begins.
pub(crate) fn nothing(_: Side) -> Doing<'static, ()> {
    Box::pin(async { Ok(()) })
}

/// Works if the client may. Returns whether it has.
pub(crate) async fn work_if(may_work: bool, work: Work<'_>) -> RedisResult<bool> {
    if may_work {
        work.await?;
    }
    Ok(may_work)
}
