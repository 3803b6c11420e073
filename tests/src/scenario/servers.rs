//! The servers of a scenario.

use super::Scenario;
use crate::fault::SERVERS_MAX;
use crate::interned::interned;

impl Scenario {
    /// The number of independent servers; one by default. [`Client::connection_to`] connects to
    /// each.
    ///
    /// # Panics
    /// There is no server, or there are more than 100.
    ///
    /// [`Client::connection_to`]: crate::Client::connection_to
    #[track_caller]
    pub fn servers(self, servers: usize) -> Scenario {
        assert!(
            (1..=SERVERS_MAX).contains(&servers),
            "a scenario has from 1 to {SERVERS_MAX} servers, not {servers}"
        );
        Scenario { servers, server_names: Vec::new(), ..self }
    }

    /// A server for each of these names, such as `["locks", "storage"]`. Timelines and pages name
    /// them in place of their numbers.
    ///
    /// # Panics
    /// There is no name, or there are more than 100.
    #[track_caller]
    pub fn servers_named(self, names: impl IntoIterator<Item = impl Into<String>>) -> Scenario {
        let server_names: Vec<_> = names.into_iter().map(|name| interned(&name.into())).collect();
        let scenario = self.servers(server_names.len());
        Scenario { server_names, ..scenario }
    }
}
