//! A connection to a cluster, which finds the server of each key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use emulator::{HashSlot, SlotMap, key_slot};
use locks::{Subscribe, Subscription};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, ServerError, Value};
use tokio::time::sleep;

use super::connection::replies_of_transaction;
use super::{Client, GatedConnection};
use crate::live::{Loss, Request, RequestKind};
use crate::render::{bytes_of, first_key};

/// How many redirections of a request are followed. A slot that moves causes fewer.
const REDIRECTIONS_MAX: usize = 5;
/// How long a client sleeps before it tries again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The port of the first server in redirections. Those of the others follow.
const FIRST_PORT: usize = 6379;

/// A connection to a [cluster](crate::Scenario::cluster), for code over redis-rs's
/// `ClusterConnection`. Like that, it implements [`redis::aio::ConnectionLike`].
///
/// A command goes to the server that had the slot of its first key when the connection last heard
/// of it. Without a key it goes to the first server, and `SCRIPT` to all. `MOVED` and `ASK` are
/// followed at once. After `TRYAGAIN` and `CLUSTERDOWN` the client sleeps for 100 ms and tries
/// again, three times by default ([`retries`](ClusterConnection::retries)). Then the code gets the
/// error. As in redis-rs, a transaction is not sent again: its `EXECABORT` is an error.
///
/// Each request is a step, as on a [`GatedConnection`], and so is each that follows a redirection.
///
/// A subscription is one at the server that has the slot of its channel's name. It stays there if
/// the slot moves: in a cluster, all servers have all messages.
pub struct ClusterConnection {
    client: Client,
    /// The connections to the servers, as far as there are any.
    links: BTreeMap<usize, GatedConnection>,
    /// The servers of slots, as they were at first.
    at_first: SlotMap,
    /// The servers of slots that have moved, as far as the client knows.
    moved: BTreeMap<HashSlot, usize>,
    retries: usize,
}

/// What a server replies in place of running a request.
enum Refusal {
    /// Another server has the slot, or only this once.
    Redirection { slot: HashSlot, to: usize, is_once: bool },
    /// A slot is on its way, or the cluster is down.
    TryAgain,
}

impl Client {
    /// A new connection to the cluster: [`Scenario::cluster`](crate::Scenario::cluster).
    pub fn cluster_connection(&self) -> ClusterConnection {
        ClusterConnection {
            client: self.clone(),
            links: BTreeMap::new(),
            at_first: SlotMap::new(self.servers()),
            moved: BTreeMap::new(),
            retries: 3,
        }
    }
}

impl ClusterConnection {
    /// Sets how often a request is tried again after `TRYAGAIN` and `CLUSTERDOWN`. Each time makes
    /// schedules longer, and few of them show anything else.
    pub fn retries(self, retries: usize) -> ClusterConnection {
        ClusterConnection { retries, ..self }
    }

    /// The server that has a key, as far as the client knows.
    fn server_of(&self, key: &[u8]) -> usize {
        let slot = key_slot(key);
        self.moved.get(&slot).copied().unwrap_or_else(|| self.at_first.owner(slot))
    }

    fn link(&mut self, server: usize) -> &mut GatedConnection {
        self.links.entry(server).or_insert_with(|| self.client.connection_to(server))
    }

    /// Sends a request to the server that has this key, and on to where that leads.
    async fn send(&mut self, request: Request, key: Option<&[u8]>) -> Result<RedisResult<Value>, Loss> {
        let server_of_key = |own: &Self| key.map_or(0, |key| own.server_of(key));
        let mut server = server_of_key(self);
        let mut next = request.clone();
        let (mut redirections, mut retries) = (0, 0);
        loop {
            let result = self.link(server).step(next).await?;
            next = request.clone();
            match refusal(&result) {
                Some(Refusal::Redirection { slot, to, is_once }) if redirections < REDIRECTIONS_MAX => {
                    redirections += 1;
                    server = to;
                    if is_once {
                        next = request.asking();
                    } else {
                        self.moved.insert(slot, to);
                    }
                }
                Some(Refusal::TryAgain) if retries < self.retries => {
                    retries += 1;
                    sleep(RETRY_AFTER).await;
                    server = server_of_key(self);
                }
                _ => return Ok(result),
            }
        }
    }

    async fn send_command(&mut self, cmd: &Cmd) -> Result<RedisResult<Value>, Loss> {
        let is_for_all = |name: Arg<&[u8]>| bytes_of(&name).eq_ignore_ascii_case(b"script");
        if !cmd.args_iter().next().is_some_and(is_for_all) {
            return self.send(cmd.into(), first_key(cmd).as_deref()).await;
        }
        let mut last = Ok(Value::Nil);
        for server in 0..self.client.servers() {
            last = self.link(server).step(cmd.into()).await?;
        }
        Ok(last)
    }
}

/// Why the server has not run a request, if it has not.
fn refusal(result: &RedisResult<Value>) -> Option<Refusal> {
    let error: RedisError = match result {
        Ok(Value::ServerError(error)) => ServerError::clone(error).into(),
        Ok(_) => return None,
        Err(error) => error.clone(),
    };
    let code = error.code()?;
    if let "TRYAGAIN" | "CLUSTERDOWN" = code {
        return Some(Refusal::TryAgain);
    }
    let (address, slot) = error.redirect_node()?;
    let port: usize = address.rsplit_once(':')?.1.parse().ok()?;
    Some(Refusal::Redirection { slot, to: port.checked_sub(FIRST_PORT)?, is_once: code == "ASK" })
}

/// A clone has connections of its own, and knows what this one knows.
impl Clone for ClusterConnection {
    fn clone(&self) -> ClusterConnection {
        let ClusterConnection { client, at_first, moved, retries, .. } = self;
        let (client, at_first, moved) = (client.clone(), at_first.clone(), moved.clone());
        ClusterConnection { client, links: BTreeMap::new(), at_first, moved, retries: *retries }
    }
}

impl ConnectionLike for ClusterConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { self.send_command(cmd).await??.extract_error() })
    }

    /// All commands of a transaction go to one server. Those of another pipeline go one by one.
    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            if pipeline.is_transaction() {
                let key = pipeline.cmd_iter().find_map(first_key);
                let pipeline = Arc::new(pipeline.clone());
                let request = RequestKind::Transaction { pipeline, offset, count }.into();
                return replies_of_transaction(self.send(request, key.as_deref()).await??);
            }
            let mut replies = Vec::with_capacity(pipeline.len());
            for cmd in pipeline.cmd_iter() {
                replies.push(self.send_command(cmd).await??);
            }
            Ok(replies.into_iter().skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

impl Subscribe for ClusterConnection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        let server = self.server_of(channel.as_bytes());
        self.client.connection_to(server).listen(channel)
    }
}
