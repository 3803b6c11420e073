//! The code of an algorithm in its scenarios: what its clients do.

use locks::registry::Algorithm;
use redis::RedisResult;

use crate::client::Client;
use crate::scenario::{Act, Judge};

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
    for server in 0..algorithm.servers() {
        let mut connection = client.connection_to(server);
        for script in algorithm.scripts {
            () = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?;
        }
    }
    Ok(())
}
