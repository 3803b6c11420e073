//! One type for every connection of redis-rs.

use std::fmt;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisFuture, Value};

use crate::subscribe::{Subscribe, Subscription};

/// Any connection of redis-rs. With it, the registry can open every algorithm over any of them.
#[derive(Clone)]
pub struct Connection(Box<dyn Client>);

trait Client: Subscribe + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Client>;
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Client for C {
    fn boxed_clone(&self) -> Box<dyn Client> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Client> {
    fn clone(&self) -> Box<dyn Client> {
        (**self).boxed_clone()
    }
}

impl Connection {
    /// Wraps a connection that cannot subscribe: a subscription returns an error.
    pub fn new(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Connection {
        Connection::subscribing(CommandsOnly(connection))
    }

    /// Wraps a connection that can subscribe.
    pub fn subscribing(connection: impl Subscribe + Clone + Send + Sync + 'static) -> Connection {
        Connection(Box::new(connection))
    }
}

impl Subscribe for Connection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        self.0.subscribe(channel)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// A connection without subscriptions.
#[derive(Clone)]
struct CommandsOnly<C>(C);

impl<C: ConnectionLike> Subscribe for CommandsOnly<C> {
    fn subscribe<'a>(&'a self, _: &'a str) -> RedisFuture<'a, Subscription> {
        Box::pin(std::future::ready(Err((
            ErrorKind::Client,
            "this connection cannot subscribe: make it with Connection::subscribing",
        )
            .into())))
    }
}

impl<C: ConnectionLike> ConnectionLike for CommandsOnly<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
