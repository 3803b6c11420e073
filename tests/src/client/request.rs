//! Requests, each of which is one step: how they run, how they are shown, and how the reply log
//! identifies them.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::task::Poll;

use foldhash::quality::FixedState;
use redis::{Arg, Cmd, Pipeline, RedisResult, Value};

use super::session::Session;
use crate::render::{Format, brief, brief_command, first_key, format_command};
use crate::sim::{Logged, Simulation};

/// One step of a client: a command or a transaction.
pub(super) trait Request: Sync {
    type Reply: Format + Logged + Send;
    /// A copy that outlives the client's wait.
    type Owned: Request + Send + 'static;

    fn run(&self, session: &Session) -> impl Future<Output = RedisResult<Self::Reply>> + Send;
    /// The commands that it consists of.
    fn commands(&self) -> impl Iterator<Item = &Cmd>;
    /// The request as one would type it; and its name with its first key.
    fn text(&self) -> (String, String);
    fn owned(&self) -> Self::Owned;
    /// A hash of the reply.
    fn hash_reply(reply: &Self::Reply) -> u64;

    /// A hash of the server, the name and the first key.
    fn hash_brief(&self, server: usize) -> u64;
}

impl Request for Cmd {
    type Reply = Value;
    type Owned = Cmd;

    async fn run(&self, session: &Session) -> RedisResult<Value> {
        session.request(self).await
    }

    fn commands(&self) -> impl Iterator<Item = &Cmd> {
        std::iter::once(self)
    }

    fn text(&self) -> (String, String) {
        (format_command(self), brief_command(self))
    }

    fn owned(&self) -> Cmd {
        self.clone()
    }

    fn hash_reply(reply: &Value) -> u64 {
        hash_values(std::slice::from_ref(reply))
    }

    fn hash_brief(&self, server: usize) -> u64 {
        let mut words = self.args_iter().map(|arg| if let Arg::Simple(word) = arg { word } else { &[] });
        let (name, second, key) = (words.next(), words.next(), first_key(self));
        // Without a key, the second word tells commands apart: it is the script, if they run one.
        let second = second.filter(|_| key.is_none());
        FixedState::default().hash_one((server, name, key, second))
    }
}

pub(super) struct Transaction<'a> {
    pub(super) pipeline: Cow<'a, Pipeline>,
    pub(super) offset: usize,
    pub(super) count: usize,
}

impl Request for Transaction<'_> {
    type Reply = Vec<Value>;
    type Owned = Transaction<'static>;

    async fn run(&self, session: &Session) -> RedisResult<Vec<Value>> {
        session.request_all(&self.pipeline, self.offset, self.count).await
    }

    fn commands(&self) -> impl Iterator<Item = &Cmd> {
        self.pipeline.cmd_iter()
    }

    fn text(&self) -> (String, String) {
        let commands: Vec<_> = self.commands().map(format_command).collect();
        let key = self.commands().find_map(first_key);
        (format!("MULTI; {}; EXEC", commands.join("; ")), brief("MULTI", key))
    }

    fn owned(&self) -> Transaction<'static> {
        let Transaction { offset, count, .. } = *self;
        Transaction { pipeline: Cow::Owned(self.pipeline.clone().into_owned()), offset, count }
    }

    fn hash_reply(replies: &Vec<Value>) -> u64 {
        hash_values(replies)
    }

    fn hash_brief(&self, server: usize) -> u64 {
        FixedState::default().hash_one((server, self.text().1))
    }
}

/// Returns the reply from the reply log, if the log is replaying.
pub(super) fn replay_reply<R: Request>(sim: &Simulation, server: usize, request: &R) -> Option<R::Reply> {
    let mut reply_log = sim.reply_log();
    reply_log.server_changes(server);
    if !reply_log.is_replaying() {
        return None;
    }
    if reply_log.replay() != Some(hash(server, request)) {
        reply_log.invalidate();
    }
    reply_log.replay()
}

/// Appends the reply to the reply log, if a snapshot then has all that happened.
pub(super) fn log_reply<R: Request>(
    sim: &Simulation,
    server: usize,
    request: &R,
    reply: &Poll<RedisResult<R::Reply>>,
) {
    let mut reply_log = sim.reply_log();
    if reply_log.is_off() {
        return;
    }
    match reply {
        Poll::Ready(Ok(reply)) if sim.is_snapshot_complete(server) => {
            reply_log.append(|| hash(server, request));
            reply_log.append(|| reply.clone());
        }
        _ => reply_log.invalidate(),
    }
}

fn hash(server: usize, request: &impl Request) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    server.hash(&mut hasher);
    for command in request.commands() {
        for arg in command.args_iter() {
            match arg {
                Arg::Simple(bytes) => bytes.hash(&mut hasher),
                _ => 0_u8.hash(&mut hasher),
            }
        }
        hasher.write_u8(0);
    }
    hasher.finish()
}

fn hash_values(values: &[Value]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    values.iter().for_each(|value| hash_value(value, &mut hasher));
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut impl std::hash::Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Int(number) => number.hash(hasher),
        Value::BulkString(bytes) => bytes.hash(hasher),
        Value::Array(values) => {
            values.len().hash(hasher);
            values.iter().for_each(|value| hash_value(value, hasher));
        }
        Value::SimpleString(text) => text.hash(hasher),
        Value::Nil | Value::Okay => {}
        _ => format!("{value:?}").hash(hasher),
    }
}
