//! Six real servers that form a cluster: three primaries, and a replica of each.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::conformance::wire::{Peer, Real};
use crate::redis_server::{self, ClusterServer};

pub const SERVERS: usize = 6;
pub const PRIMARIES: usize = 3;

/// The slots of each primary.
const RANGES: [[&str; 2]; PRIMARIES] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
/// How often the servers are asked whether they agree, and the time between two questions. Only
/// servers that hang never do.
const ASKED_MAX: usize = 600;
const SETTLED_MAX: usize = 60;
const BETWEEN: &str = "0.02";

pub struct RealCluster {
    servers: Vec<ClusterServer>,
    pub ids: Vec<String>,
    folder: PathBuf,
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.servers.clear();
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl RealCluster {
    /// `None` if no server is installed. `name` is that of the test.
    pub fn start(name: &str) -> Option<RealCluster> {
        let folder = std::env::temp_dir().join(format!("lockstep-cluster-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let servers = redis_server::start_cluster_servers(SERVERS, &folder);
        let mut cluster = RealCluster { servers, ids: Vec::new(), folder };
        if cluster.servers.len() < SERVERS {
            return None;
        }
        cluster.ids = (0..SERVERS).map(|nth| cluster.text(nth, &["CLUSTER", "MYID"])).collect();
        for (nth, [first, last]) in RANGES.into_iter().enumerate() {
            cluster.call(nth, &["CLUSTER", "ADDSLOTSRANGE", first, last]);
        }
        for nth in 0..SERVERS {
            cluster.call(nth, &["CLUSTER", "SET-CONFIG-EPOCH", &(nth + 1).to_string()]);
        }
        for ClusterServer(server, bus_port) in &cluster.servers[1..] {
            let port = server.addr().port().to_string();
            cluster.call(0, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port.to_string()]);
        }
        cluster.until("know each other", |cluster| {
            (0..SERVERS).all(|nth| cluster.text(nth, &["CLUSTER", "INFO"]).contains("cluster_known_nodes:6"))
        });
        for nth in PRIMARIES..SERVERS {
            cluster.call(nth, &["CLUSTER", "REPLICATE", &cluster.ids[nth - PRIMARIES]]);
        }
        cluster.until("agree", RealCluster::agrees);
        for (nth, key) in ["b", "c", "a"].into_iter().enumerate() {
            cluster.call(nth, &["SET", key, "v"]);
        }
        cluster.until("list each other", RealCluster::lists_all);
        Some(cluster)
    }

    pub fn ports(&self) -> [u16; SERVERS] {
        std::array::from_fn(|nth| self.servers[nth].0.addr().port())
    }

    pub fn connect(&self, nth: usize) -> Real {
        Real::over(self.servers[nth].0.connect())
    }

    pub fn call(&self, nth: usize, argv: &[&str]) -> String {
        String::from_utf8_lossy(&self.connect(nth).call(argv)).into_owned()
    }

    /// The text in a bulk string.
    fn text(&self, nth: usize, argv: &[&str]) -> String {
        let reply = self.call(nth, argv);
        reply.split_once("\r\n").map_or_else(String::new, |(_, text)| text.trim_end().to_owned())
    }

    /// Waits until something holds.
    fn until(&self, what: &str, holds: impl Fn(&RealCluster) -> bool) {
        assert!((0..ASKED_MAX).any(|_| holds(self) || rest()), "the servers do not {what}");
    }

    /// Waits until all servers have the same view, unless a transcript has let them disagree.
    pub fn settle(&self) {
        _ = (0..SETTLED_MAX).any(|_| self.agrees() || rest());
    }

    /// Waits until a replica has taken over, unless it was refused.
    pub fn settle_failover(&self, nth: usize) {
        _ = (0..SETTLED_MAX).any(|_| self.call(nth, &["ROLE"]).contains("master") || rest());
        self.settle();
    }

    /// Whether all servers have the same view, the cluster is up, and replicas have their links.
    fn agrees(&self) -> bool {
        let mut views = (0..SERVERS).map(|nth| {
            let nodes = self.text(nth, &["CLUSTER", "NODES"]);
            let mut lines: Vec<Vec<String>> = nodes.lines().map(view_of).collect();
            lines.sort_unstable();
            lines
        });
        let first = views.next().unwrap_or_default();
        let epochs: BTreeSet<&String> =
            first.iter().filter(|line| line.len() > FIELDS).map(|line| &line[FIELDS - 1]).collect();
        let is_up = |nth: usize| {
            self.text(nth, &["CLUSTER", "INFO"]).contains("cluster_state:ok")
                && !self.text(nth, &["INFO", "replication"]).contains("master_link_status:down")
        };
        // Equal epochs become different ones after a while.
        views.all(|view| view == first) && epochs.len() == PRIMARIES && (0..SERVERS).all(is_up)
    }

    /// Whether every server knows the primaries of the start with their slots, and none is on its
    /// way.
    fn has_first_slots(&self) -> bool {
        let views = (0..SERVERS).map(|nth| self.text(nth, &["CLUSTER", "NODES"]));
        let has = |nodes: &str| {
            (0..PRIMARIES).all(|nth| {
                let mut lines = nodes.lines().filter(|line| line.starts_with(&self.ids[nth]));
                lines.any(|line| line.ends_with(&format!("connected {}", RANGES[nth].join("-"))))
            })
        };
        views.into_iter().all(|nodes| has(&nodes))
    }

    /// Whether every server lists all others with their slots. A replica is in that list as soon as
    /// others know that it has data.
    fn lists_all(&self) -> bool {
        let lists = |nth: usize| {
            let slots = self.call(nth, &["CLUSTER", "SLOTS"]);
            self.ids.iter().all(|id| slots.contains(id))
        };
        (0..SERVERS).all(lists)
    }

    /// Makes the cluster what it was at first, and empty.
    pub fn restore(&self) {
        for nth in 0..PRIMARIES {
            if self.call(nth, &["ROLE"]).contains("slave") {
                self.call(nth, &["CLUSTER", "FAILOVER", "TAKEOVER"]);
                self.until("agree", RealCluster::agrees);
            }
        }
        for nth in 0..SERVERS {
            for (name, value) in SETTINGS {
                self.call(nth, &["CONFIG", "SET", name, value]);
            }
            self.call(nth, &["SCRIPT", "FLUSH"]);
        }
        for nth in 0..PRIMARIES {
            self.call(nth, &["FLUSHALL"]);
            self.call(nth, &["FUNCTION", "FLUSH"]);
        }
        if self.has_first_slots() {
            return;
        }
        for (owner, [first, last]) in RANGES.into_iter().enumerate() {
            let (first, last): (u16, u16) = (first.parse().expect("digits"), last.parse().expect("digits"));
            for slot in MOVED.into_iter().filter(|slot| (first..=last).contains(slot)) {
                for nth in 0..PRIMARIES {
                    self.call(nth, &["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
                    let argv = ["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &self.ids[owner]];
                    self.call(nth, &argv);
                }
            }
            self.call(owner, &["CLUSTER", "BUMPEPOCH"]);
        }
        self.until("agree", RealCluster::agrees);
    }
}

/// Lets a little time pass.
fn rest() -> bool {
    _ = std::process::Command::new("sleep").arg(BETWEEN).status();
    false
}

/// The number of fields before the slots in [`view_of`].
const FIELDS: usize = 4;

/// The slots that transcripts move.
const MOVED: [u16; 2] = [3300, 3168];

/// Settings that transcripts change, with their defaults.
const SETTINGS: [(&str, &str); 3] = [
    ("cluster-require-full-coverage", "yes"),
    ("cluster-allow-reads-when-down", "no"),
    ("cluster-allow-pubsubshard-when-down", "yes"),
];

/// What all servers must agree on: a server, its role, its epoch and its slots.
fn view_of(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let flags = words[2].trim_start_matches("myself,");
    let slots = words[8..].iter().filter(|slots| !slots.starts_with('['));
    [words[0], flags, words[3], words[6]].into_iter().chain(slots.copied()).map(ToOwned::to_owned).collect()
}

/// The time that transcripts let pass.
pub fn wait(cluster: &RealCluster, span: Duration) {
    crate::conformance::transcript::wait(&mut cluster.connect(0), span);
}
