//! Requests, each of which is one step: how they run, how they are shown, and how the reply log
//! identifies them.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;
use std::task::Poll;

use foldhash::quality::FixedState;
use redis::{Arg, Cmd, Pipeline, RedisResult, Value};

use super::Simulation;
use crate::render::{brief, brief_command, first_key, format_command};

/// One step of a client. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Command(Arc<Cmd>),
    /// Commands that run together. The reply is an array: of so many replies from `offset` on.
    Transaction {
        pipeline: Arc<Pipeline>,
        offset: usize,
        count: usize,
    },
}

impl From<&Cmd> for Request {
    fn from(cmd: &Cmd) -> Request {
        Request::Command(Arc::new(cmd.clone()))
    }
}

impl Request {
    /// The commands that it consists of.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Cmd> {
        let (command, pipeline) = match self {
            Request::Command(cmd) => (Some(&**cmd), None),
            Request::Transaction { pipeline, .. } => (None, Some(pipeline.cmd_iter())),
        };
        command.into_iter().chain(pipeline.into_iter().flatten())
    }

    /// The request as one would type it; and its name with its first key.
    pub(crate) fn text(&self) -> (String, String) {
        if let Request::Command(cmd) = self {
            return (format_command(cmd), brief_command(cmd));
        }
        let commands: Vec<_> = self.commands().map(format_command).collect();
        let key = self.commands().find_map(first_key);
        (format!("MULTI; {}; EXEC", commands.join("; ")), brief("MULTI", key))
    }

    /// A hash of the server, the name and the first key.
    pub(crate) fn hash_brief(&self, server: usize) -> u64 {
        let Request::Command(cmd) = self else {
            return FixedState::default().hash_one((server, self.text().1));
        };
        let mut words = cmd.args_iter().map(|arg| if let Arg::Simple(word) = arg { word } else { &[] });
        let (name, second, key) = (words.next(), words.next(), first_key(cmd));
        // Without a key, the second word tells commands apart: it is the script, if they run one.
        let second = second.filter(|_| key.is_none());
        FixedState::default().hash_one((server, name, key, second))
    }

    /// A hash of the server and of all words.
    fn hash(&self, server: usize) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        server.hash(&mut hasher);
        for command in self.commands() {
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
}

impl Simulation {
    /// Returns the reply from the reply log, if the log is replaying.
    pub(super) fn replay_reply(&self, server: usize, request: &Request) -> Option<Value> {
        let mut reply_log = self.reply_log();
        reply_log.server_changes(server);
        if !reply_log.is_replaying() {
            return None;
        }
        if reply_log.replay() != Some(request.hash(server)) {
            reply_log.invalidate();
        }
        reply_log.replay()
    }

    /// Appends the reply to the reply log, if a snapshot then has all that happened.
    pub(super) fn log_reply(&self, server: usize, request: &Request, reply: &Poll<RedisResult<Value>>) {
        let mut reply_log = self.reply_log();
        if reply_log.is_off() {
            return;
        }
        match reply {
            Poll::Ready(Ok(reply)) if self.is_snapshot_complete(server) => {
                reply_log.append(|| request.hash(server));
                reply_log.append(|| reply.clone());
            }
            _ => reply_log.invalidate(),
        }
    }
}

/// A hash of a reply, or of the error of a request that the server refused.
pub(super) fn hash_result(result: &RedisResult<Value>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    match result {
        Ok(reply) => hash_value(reply, &mut hasher),
        Err(error) => error.to_string().hash(&mut hasher),
    }
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
