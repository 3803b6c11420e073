//! A server of a scenario, in this process or real, and whether it still has a grant.

use std::sync::Arc;
use std::time::Duration;

use emulator::{Data, DirectConnection, Emulator, Footprint, SlotMap, Unit};
use locks::Record;
use redis::{ConnectionLike as _, RedisResult, Value};

use crate::actor::Actor;
use crate::memo::ServerState;

/// Longest time that a real server may take to answer.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// Where the commands of a scenario run.
#[derive(Clone, Debug)]
pub enum Server {
    /// In this process.
    Emulator(Emulator),
    /// On a real server, in the selected database.
    Redis(redis::Client),
}

/// The part of a server that runs what is not known of it.
#[derive(Default)]
pub(super) struct Engine {
    /// The footprint of its last deed.
    pub(super) footprint: Arc<Footprint>,
    /// The effects of its last deed, if they are kept.
    pub(super) units: Vec<Arc<Unit>>,
    /// The state whose snapshot its emulator has. `None` if that comes from another execution.
    pub(super) loaded: Option<ServerState>,
    /// Which servers have which slots, as its emulator knows.
    pub(super) shown: Option<Arc<SlotMap>>,
    /// The node that it follows, as its emulator knows.
    pub(super) followed: Option<usize>,
    /// The connections of the subscribers, while something runs there.
    pub(super) listeners: Vec<((Actor, usize), DirectConnection)>,
    /// The connections of the commands that wait, while something runs there.
    pub(super) waiters: Vec<((Actor, usize), DirectConnection)>,
    /// The replies to commands that waited, until their clients get them.
    pub(super) served: Vec<((Actor, usize), RedisResult<Value>)>,
}

/// Whether a server with this data has a grant.
pub(super) fn holds(data: Data<'_>, record: &Record) -> bool {
    match record {
        Record::Key(key) => data.exists(key),
        Record::Value(key, value) | Record::Majority(key, value) => {
            data.get(key).is_some_and(|held| held == value.as_bytes())
        }
        Record::Member(key, member) | Record::MajorityMember(key, member) => {
            data.score(key, member).is_some()
        }
        Record::Field(key, field) => data.field(key, field).is_some(),
    }
}

/// Connects to a real server. Neither this nor a reply takes longer than [`REPLY_MAX`].
///
/// # Errors
/// The server does not answer.
pub(crate) fn connect(client: &redis::Client) -> RedisResult<redis::Connection> {
    let connection = client.get_connection_with_timeout(REPLY_MAX)?;
    connection.set_read_timeout(Some(REPLY_MAX))?;
    connection.set_write_timeout(Some(REPLY_MAX))?;
    Ok(connection)
}

/// Whether a real server has a grant, by its answer on a connection of its own. If it does not
/// answer, it has lost everything.
pub(super) fn asks(client: &redis::Client, record: &Record) -> bool {
    let answer = connect(client).and_then(|mut connection| connection.req_command(&question(record)));
    answer.is_ok_and(|answer| match record {
        Record::Value(_, value) | Record::Majority(_, value) => {
            answer == Value::BulkString(value.clone().into_bytes())
        }
        Record::Key(_) | Record::Field(..) => answer == Value::Int(1),
        Record::Member(..) | Record::MajorityMember(..) => answer != Value::Nil,
    })
}

fn question(record: &Record) -> redis::Cmd {
    match record {
        Record::Key(key) => redis::cmd("EXISTS").arg(key).to_owned(),
        Record::Value(key, _) | Record::Majority(key, _) => redis::cmd("GET").arg(key).to_owned(),
        Record::Member(key, member) | Record::MajorityMember(key, member) => {
            redis::cmd("ZSCORE").arg(key).arg(member).to_owned()
        }
        Record::Field(key, field) => redis::cmd("HEXISTS").arg(key).arg(field).to_owned(),
    }
}
