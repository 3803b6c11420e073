//! The data of the servers, and the code that judges it. The code only reads.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use emulator::command::{self, Flag};
use emulator::{DirectConnection, Emulator, Footprint};
use redis::{Cmd, ConnectionLike, ErrorKind, RedisError, RedisResult, Value};

use crate::render::bytes_of;

/// Code that judges the data of the servers. An error is a violation.
pub(crate) type Judges =
    Arc<dyn Fn(&mut ServerData) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;

/// What must hold always.
#[derive(Clone)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
    pub(crate) judges: Judges,
}

impl fmt::Debug for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Invariant").field(&self.name).finish()
    }
}

/// The data of the servers at one instant. It takes any command that only reads, by redis-rs's
/// traits: `data.get("stock")` with `redis::Commands` in scope, or `redis::cmd(…).query(data)`.
///
/// These reads are none of a client: no command is recorded, no schedule orders them, and no key
/// ends by them.
///
/// # Errors
/// A command may write: the error names it.
pub struct ServerData {
    servers: Vec<Link>,
    server: usize,
    reads: Vec<(usize, Arc<Footprint>)>,
}

/// A way to the data of a server.
pub(super) enum Link {
    /// An emulator that has a copy of it.
    Copy(Emulator, DirectConnection),
    Redis(redis::Connection),
}

impl ServerData {
    pub(super) fn new(servers: Vec<Link>) -> ServerData {
        ServerData { servers, server: 0, reads: Vec::new() }
    }

    /// Reads this server from now on, instead of the first one.
    ///
    /// # Panics
    /// There is no such server.
    #[track_caller]
    pub fn on(&mut self, server: usize) -> &mut ServerData {
        let servers = self.servers.len();
        assert!(server < servers, "there are {servers} servers, and none of the number {server}");
        self.server = server;
        self
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Everything that was read, by the number of the server.
    pub(super) fn into_reads(self) -> Vec<(usize, Arc<Footprint>)> {
        self.reads
    }
}

impl ConnectionLike for ServerData {
    fn req_command(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        expect_read(cmd)?;
        match &mut self.servers[self.server] {
            Link::Copy(emulator, connection) => {
                let reply = connection.req_command(cmd);
                self.reads.push((self.server, Arc::new(emulator.footprint())));
                reply
            }
            Link::Redis(connection) => connection.req_command(cmd),
        }
    }

    fn req_packed_command(&mut self, _: &[u8]) -> RedisResult<Value> {
        Err(one_by_one())
    }

    fn req_packed_commands(&mut self, _: &[u8], _: usize, _: usize) -> RedisResult<Vec<Value>> {
        Err(one_by_one())
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        true
    }

    fn is_open(&self) -> bool {
        true
    }
}

/// Whether a command only reads, and does not wait.
fn expect_read(cmd: &Cmd) -> RedisResult<()> {
    let argv: Vec<&[u8]> = cmd.args_iter().map(|arg| bytes_of(&arg)).collect();
    let row = argv.first().and_then(|name| command::lookup(name)).map(|(row, _)| row);
    if row.is_some_and(|row| row.flags.contains(&Flag::ReadOnly)) {
        return Ok(());
    }
    let name = argv.first().copied().unwrap_or_default().escape_ascii().to_string().to_uppercase();
    let what = format!("{name} may write, or is no command");
    Err(RedisError::from((ErrorKind::Client, "a judgement of the servers only reads", what)))
}

fn one_by_one() -> RedisError {
    RedisError::from((ErrorKind::Client, "a judgement of the servers reads by one command at a time"))
}
