//! Claims databases of a real server for one replay, and leaves them empty.
//!
//! The claim is the name of a connection, not a key. `KEYS` and `DBSIZE` do not see it, and it ends
//! with the connection, however the program ends. Nothing is flushed. Only keys that the replay may
//! have written are deleted. If another client has written keys meanwhile, they stay, and the
//! replay is an error.

use std::collections::BTreeSet;

use redis::{Client, Connection, RedisError};

use crate::render::printable;
use crate::sim::connect;

/// Why a replay cannot have a database for itself.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The database is not empty.
    #[error(
        "the database holds {keys} keys, and a replay needs an empty one: name another, for example redis://host:6379/9"
    )]
    NotEmpty {
        /// The number of its keys.
        keys: usize,
    },
    /// Another replay uses the database.
    #[error(
        "another replay runs in database {database}: wait for its end, or name another database, as in redis://host:6379/9"
    )]
    Claimed {
        /// The number of the database.
        database: i64,
    },
    /// Another client has written keys meanwhile, so the replay means nothing.
    #[error(
        "database {database} holds {keys} keys that this replay did not write and does not delete, for example \"{example}\": \
         name a database without other clients"
    )]
    Foreign {
        /// The number of the database.
        database: i64,
        /// The number of such keys.
        keys: usize,
        /// One of them.
        example: String,
    },
    /// The server does not answer.
    #[error("the server does not answer: check its URL, and that it runs: {}", printable(&.0.to_string()))]
    Redis(#[from] RedisError),
}

/// Claimed databases. The claim ends when this is dropped.
pub(crate) struct Claim {
    databases: Vec<Database>,
}

struct Database {
    number: i64,
    connection: Connection,
}

impl Claim {
    /// Claims the selected database and those after it, one for each server of the scenario. For a
    /// client, each database is a server of its own. All must be empty.
    pub(crate) fn of(client: &Client, count: usize) -> Result<(Claim, Vec<Client>), ClaimError> {
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        let (mut claim, mut clients) = (Claim { databases: Vec::new() }, Vec::new());
        for number in (settings.db()..).take(count) {
            let info = info.clone().set_redis_settings(settings.clone().set_db(number));
            let client = Client::open(info)?;
            claim.databases.push(Database::claimed(&client, number)?);
            clients.push(client);
        }
        claim.empty(&BTreeSet::new()).map_err(|error| match error {
            ClaimError::Foreign { keys, .. } => ClaimError::NotEmpty { keys },
            error => error,
        })?;
        Ok((claim, clients))
    }

    /// Deletes these keys, each in the database with that index, and nothing else. Checks that the
    /// databases are then empty.
    pub(crate) fn empty(&mut self, keys: &BTreeSet<(usize, Vec<u8>)>) -> Result<(), ClaimError> {
        for (place, Database { number, connection }) in self.databases.iter_mut().enumerate() {
            let keys: Vec<&[u8]> = keys.iter().filter(|key| key.0 == place).map(|key| &key.1[..]).collect();
            let mut pipeline = redis::pipe();
            pipeline.atomic();
            if !keys.is_empty() {
                pipeline.cmd("DEL").arg(&keys).ignore();
            }
            let left: (usize, Option<Vec<u8>>) = pipeline.cmd("DBSIZE").cmd("RANDOMKEY").query(connection)?;
            if let (keys @ 1.., example) = left {
                let example = example.unwrap_or_default().escape_ascii().to_string();
                return Err(ClaimError::Foreign { database: *number, keys, example });
            }
        }
        Ok(())
    }
}

impl Database {
    /// Checks for another claim and sets this one, in one transaction.
    fn claimed(client: &Client, number: i64) -> Result<Database, ClaimError> {
        let mut database = Database { number, connection: connect(client)? };
        let name = format!("lockstep-replay-{number}");
        let mut pipeline = redis::pipe();
        pipeline.atomic().cmd("CLIENT").arg("LIST").cmd("CLIENT").arg("SETNAME").arg(&name).ignore();
        let (clients,): (String,) = pipeline.query(&mut database.connection)?;
        if clients.split_whitespace().any(|word| word.strip_prefix("name=") == Some(&name)) {
            return Err(ClaimError::Claimed { database: number });
        }
        Ok(database)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server may process the end of this connection after the next claim, so the claim is
        // removed here. If the server does not answer, the claim has ended anyway.
        _ = redis::cmd("CLIENT").arg("SETNAME").arg("").exec(&mut self.connection);
    }
}
