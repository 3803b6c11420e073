//! What the server remembers about one connection.

use bytes::Bytes;

use crate::resp::Protocol;

/// Identifies a connection, counted from 1 as `CLIENT ID` does.
pub type ClientId = u64;

/// The state of one connection: never shared, so commands change it freely.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// What `CLIENT ID` answers.
    pub id: ClientId,
    /// The selected database.
    pub db: usize,
    /// Set by `HELLO`.
    pub protocol: Protocol,
    /// Set by `CLIENT SETNAME` and `HELLO … SETNAME`.
    pub name: Bytes,
    /// The commands queued since `MULTI`, and whether one of them was refused.
    pub transaction: Option<Transaction>,
    /// The connection is to be closed once the reply is written (`QUIT`).
    pub closing: bool,
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Each command's arguments, its name first.
    pub queue: Vec<Vec<Bytes>>,
    /// A command was refused when it was queued: `EXEC` will abort.
    pub is_refused: bool,
}

impl Client {
    /// A client as it is when its connection opens.
    pub fn new(id: ClientId) -> Client {
        Client { id, ..Client::default() }
    }
}
