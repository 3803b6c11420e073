//! The servers that `lockstep serve` starts: primaries, their replicas, and the Sentinels that
//! watch them, or a cluster. It does not know sockets.

use anyhow::{Context as _, Result, bail};
use emulator::{Clock, Emulator};

/// How many servers of each kind there are.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Topology {
    /// Serve a cluster with this many primaries, on consecutive ports
    #[arg(long, value_name = "PRIMARIES", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    #[arg(conflicts_with_all = ["databases", "masters", "sentinel"])]
    cluster: Option<u16>,
    /// The number of independent primaries, on consecutive ports
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=100))]
    masters: u16,
    /// The number of replicas of each primary, on the ports after those of the primaries
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(0..=100))]
    replicas: u16,
    /// The number of Sentinels, on ports 20000 above; the primaries are mymaster, mymaster2, …
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=100))]
    sentinel: Option<u16>,
}

/// One of the servers.
pub(crate) struct Member {
    pub(crate) emulator: Emulator,
    /// What it is, for people. It is empty for the first primary.
    pub(crate) note: String,
    /// How far its port is above that of the first primary.
    pub(crate) port_offset: u16,
}

/// The first Sentinel of Redis listens on 26379, and the first server on 6379.
const SENTINEL_PORT_OFFSET: u16 = 20_000;

impl Topology {
    /// Creates the servers: primaries, then the replicas of each, then Sentinels.
    ///
    /// # Errors
    /// The numbers contradict each other.
    pub(crate) fn members(&self, clock: Clock, databases: usize) -> Result<Vec<Member>> {
        let replicas = usize::from(self.replicas);
        if let (Some(sentinels), 0) = (self.sentinel, replicas) {
            bail!(
                "--sentinel {sentinels} without --replicas: no server could take over from the primary, \
                 so add --replicas 2"
            );
        }
        let count = usize::from(self.cluster.unwrap_or(self.masters));
        let servers = match self.cluster {
            Some(_) => Emulator::cluster(&clock, count, replicas)
                .context("choose fewer for --cluster or --replicas")?,
            None => independent(clock, databases, count, replicas),
        };
        let sentinels = match self.sentinel {
            Some(sentinels) => sentinels_of(&servers[..count], sentinels.into()),
            None => Vec::new(),
        };
        let members = servers.into_iter().zip(0..).map(|(emulator, port_offset)| {
            let note = note(port_offset.into(), count, replicas);
            Member { emulator, note, port_offset }
        });
        let sentinels = sentinels.into_iter().zip(SENTINEL_PORT_OFFSET..);
        let sentinels = sentinels.map(|(emulator, port_offset)| {
            let note = "sentinel".to_owned();
            Member { emulator, note, port_offset }
        });
        Ok(members.chain(sentinels).collect())
    }
}

/// Independent primaries, and then the replicas of each.
fn independent(clock: Clock, databases: usize, count: usize, replicas: usize) -> Vec<Emulator> {
    let first = Emulator::with_databases(clock, databases);
    let others = (1..count).map(|_| first.neighbour());
    let mut servers: Vec<Emulator> = std::iter::once(first.clone()).chain(others).collect();
    for nth in 0..count {
        servers.extend((0..replicas).map(|_| servers[nth].replica()).collect::<Vec<_>>());
    }
    servers
}

/// Sentinels of these primaries, which are mymaster, mymaster2 and so on.
fn sentinels_of(primaries: &[Emulator], count: usize) -> Vec<Emulator> {
    let name = |nth| if nth == 1 { "mymaster".to_owned() } else { format!("mymaster{nth}") };
    let names: Vec<String> = (1..=primaries.len()).map(name).collect();
    let watched: Vec<_> = names.iter().map(String::as_str).zip(primaries).collect();
    Emulator::sentinels_of(&watched, count)
}

/// What the server with this index is, among so many primaries with replicas.
fn note(index: usize, primaries: usize, replicas: usize) -> String {
    match index.checked_sub(primaries) {
        None if index == 0 => String::new(),
        None => format!("master {}", index + 1),
        Some(_) if primaries == 1 => "replica".to_owned(),
        Some(nth) => format!("replica of master {}", nth / replicas + 1),
    }
}
