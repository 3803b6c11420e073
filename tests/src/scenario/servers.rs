//! The servers of a scenario.

use super::Scenario;
use crate::fault::SERVERS_MAX;
use crate::interned::interned;

/// The largest number of servers in a scenario with replicas, these included: each is a bit.
const NODES_MAX: usize = 60;

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
        Scenario { servers, server_names: Vec::new(), is_cluster: false, ..self }
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

    /// Makes this many servers a cluster. At first, all slots are divided evenly among them.
    ///
    /// Clients reach the servers by [`Client::cluster_connection`], which finds the server of a key
    /// and follows redirections. [`Client::connection_to`] leads to one of them. Slots may move
    /// ([`Faults::moves`](crate::Faults::moves)), and if the servers have
    /// [`replicas`](Scenario::replicas), those may take over.
    ///
    /// A failover moves no slot and changes no address: redirections name the server, and its
    /// primary answers. `CLUSTER` subcommands know the primaries alone.
    ///
    /// # Panics
    /// There is no server, or there are more than 100.
    ///
    /// [`Client::cluster_connection`]: crate::Client::cluster_connection
    /// [`Client::connection_to`]: crate::Client::connection_to
    #[track_caller]
    pub fn cluster(self, servers: usize) -> Scenario {
        Scenario { is_cluster: true, ..self.servers(servers) }
    }

    /// Gives each server this many replicas; none by default. Their numbers follow those of all
    /// servers: with two servers and one replica each, server 3 follows server 1, and server 4
    /// follows server 2.
    ///
    /// Clients connect to primaries, and to replicas only if [`read_replicas`] says so. It matters
    /// what a replica has got when it takes over ([`Faults::failovers`]). It also matters when a
    /// client waits for the replica (`WAIT`), or reads from it. On a primary, `INFO`, `ROLE` and
    /// `min-replicas-to-write` know nothing of these replicas.
    ///
    /// [`Faults::failovers`]: crate::Faults::failovers
    /// [`read_replicas`]: Scenario::read_replicas
    ///
    /// # Panics
    /// There are more than 60 servers, all replicas included.
    #[track_caller]
    pub fn replicas(self, replicas: usize) -> Scenario {
        let scenario = Scenario { replicas, reads_replicas: false, ..self };
        let nodes = scenario.nodes();
        assert!(nodes <= NODES_MAX, "a scenario has at most {NODES_MAX} servers with replicas, not {nodes}");
        scenario
    }

    /// Lets clients connect to replicas, too: [`Client::replica`]. Then one replica is not like
    /// another, so that there are more schedules.
    ///
    /// A replica has everything that its primary has written, or lacks some of it if
    /// [`Faults::behind`](crate::Faults::behind) says so. That is decided when a request reads
    /// there. The reply to a request that finds less than everything is never late.
    ///
    /// # Panics
    /// There are no replicas, or the servers are a cluster.
    ///
    /// [`Client::replica`]: crate::Client::replica
    #[track_caller]
    pub fn read_replicas(self) -> Scenario {
        assert!(self.replicas > 0, "there are no replicas to read: say `Scenario::replicas` first");
        assert!(!self.is_cluster, "the replicas of a cluster cannot be read yet");
        Scenario { reads_replicas: true, ..self }
    }

    /// The number of servers, all replicas included.
    pub(crate) fn nodes(&self) -> usize {
        self.servers.saturating_mul(self.replicas.saturating_add(1))
    }
}
