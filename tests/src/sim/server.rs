//! A server of a scenario, in this process or real, and whether it still has a grant.

use emulator::{Data, Emulator};
use locks::Record;
use redis::{ConnectionLike as _, RedisError};

use crate::render::{format_url, printable};

/// Where the commands of a scenario run.
#[derive(Clone, Debug)]
pub enum Server {
    /// In this process.
    Emulator(Emulator),
    /// On a real server, in the selected database.
    Redis(redis::Client),
}

/// Whether a server with this data has a grant.
pub(super) fn holds(data: Data<'_>, record: &Record) -> bool {
    match record {
        Record::Key(key) => data.exists(key),
        Record::Value(key, value) | Record::Majority(key, value) => {
            data.get(key).is_some_and(|held| held == value.as_bytes())
        }
        Record::Member(key, member) => data.score(key, member).is_some(),
        Record::Field(key, field) => data.field(key, field).is_some(),
    }
}

/// Whether a real server has a grant, by its answer on a connection of its own. If it does not
/// answer, it has lost everything.
pub(super) fn asks(client: &redis::Client, record: &Record) -> bool {
    client.clone().req_command(&question(record)).is_ok_and(|answer| match record {
        Record::Value(_, value) | Record::Majority(_, value) => {
            answer == redis::Value::BulkString(value.clone().into_bytes())
        }
        Record::Key(_) | Record::Field(..) => answer == redis::Value::Int(1),
        Record::Member(..) => answer != redis::Value::Nil,
    })
}

/// The message for a real server that fails during an execution.
pub(crate) fn no_answer(client: &redis::Client, error: &RedisError) -> String {
    let url = format_url(client.get_connection_info().clone());
    format!("{url} does not answer: {}", printable(&error.to_string()))
}

fn question(record: &Record) -> redis::Cmd {
    match record {
        Record::Key(key) => redis::cmd("EXISTS").arg(key).to_owned(),
        Record::Value(key, _) | Record::Majority(key, _) => redis::cmd("GET").arg(key).to_owned(),
        Record::Member(key, member) => redis::cmd("ZSCORE").arg(key).arg(member).to_owned(),
        Record::Field(key, field) => redis::cmd("HEXISTS").arg(key).arg(field).to_owned(),
    }
}
