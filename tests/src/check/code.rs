//! The code of an algorithm in its scenarios: what its clients do.

use locks::Connection;
use locks::registry::Algorithm;
use redis::{RedisError, RedisResult};

use crate::client::Client;
use crate::scenario::{Act, ActorError, Judge};

/// How the clients of an algorithm act.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manner {
    /// In several rounds.
    pub(super) has_rounds: bool,
    /// With a cluster.
    pub(super) is_cluster: bool,
}

impl Manner {
    /// Connects a client to one of the servers, or to the cluster.
    pub(super) fn connect(self, client: &Client, server: usize) -> Connection {
        match self.is_cluster {
            // A move may last for longer than a client tries.
            true => Connection::subscribing(client.cluster_connection().retries(0)),
            false => Connection::subscribing(client.connection_to(server)),
        }
    }

    /// The result of an attempt. If no server of a cluster runs a request, because its keys are in
    /// several slots, nothing is granted.
    ///
    /// # Errors
    /// The attempt has failed for another reason.
    pub(super) fn unless_refused<T: Default, E: Into<ActorError>>(
        self,
        result: Result<T, E>,
    ) -> Result<T, ActorError> {
        let is_refusal = |error: &ActorError| {
            let error = error.downcast_ref::<RedisError>();
            self.is_cluster && error.is_some_and(|error| error.code() == Some("CROSSSLOT"))
        };
        result
            .map_err(Into::into)
            .or_else(|error| if is_refusal(&error) { Ok(T::default()) } else { Err(error) })
    }
}

/// The code of an algorithm in its scenarios.
#[derive(Clone)]
pub(super) struct Code {
    pub(super) before: Act<()>,
    /// A client that reads, of a read-write lock.
    pub(super) reads: Act<()>,
    pub(super) takes: Act<()>,
    pub(super) probes: Act<bool>,
    /// A client that tries after the end to do what is to be done once: unless it is done, or in
    /// any case.
    pub(super) last: Option<[Judge; 2]>,
}

/// Loads the scripts of an algorithm on all of its servers.
pub(super) async fn load_scripts(client: &Client, algorithm: &Algorithm) -> RedisResult<()> {
    for server in 0..client.servers() {
        let mut connection = client.connection_to(server);
        for script in algorithm.scripts {
            () = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?;
        }
    }
    Ok(())
}
