//! Transcripts of a cluster, compared with real servers.
//!
//! `data/cluster/*.txt` have the form of other transcripts. The first letter of a client names its
//! server: `a`, `b` and `c` are the primaries, and `d`, `e` and `f` their replicas. `{a}` stands
//! for the port of a server, and forty times `a` for its name. Epochs, times and offsets are
//! hidden, and servers are sorted, because Redis does not promise their order.

use std::path::Path;
use std::time::Duration;

use emulator::{Clock, Emulator};

use super::real::{PRIMARIES, RealCluster, SERVERS, wait};
use crate::conformance::servers;
use crate::conformance::transcript::{Servers, Transcript};
use crate::conformance::wire::{Emulated, Peer, Real, Wire, parse};

const NAMES: [char; SERVERS] = ['a', 'b', 'c', 'd', 'e', 'f'];

/// The server of a client.
fn place(client: &str) -> usize {
    servers::place(&NAMES, client).unwrap_or(0)
}

struct EmulatedCluster {
    clock: Clock,
    servers: Vec<Emulator>,
}

impl EmulatedCluster {
    fn new() -> EmulatedCluster {
        let clock = Clock::manual();
        let servers = Emulator::cluster(&clock, PRIMARIES, 1).expect("it is a cluster");
        EmulatedCluster { clock, servers }
    }
}

impl Servers for EmulatedCluster {
    type Peer = Named<Emulated>;
    const IS_EMULATOR: bool = true;

    fn begin_section(&mut self) {
        *self = EmulatedCluster::new();
    }

    fn advance(&mut self, span: Duration) {
        servers::advance(&self.clock, &self.servers, span);
    }

    fn connect(&self, client: &str) -> Named<Emulated> {
        let ids = self.servers.iter().map(|server| {
            let id = Emulated::open(server).call(&["CLUSTER", "MYID"]);
            String::from_utf8_lossy(&id).split("\r\n").nth(1).unwrap_or_default().to_owned()
        });
        let ports = std::array::from_fn(|nth| 6379 + nth as u16);
        Named { peer: Emulated::open(&self.servers[place(client)]), ports, ids: ids.collect() }
    }

    fn read(&mut self, _: &str) {}
}

impl Servers for RealCluster {
    type Peer = Named<Real>;
    const IS_EMULATOR: bool = false;

    fn begin_section(&mut self) {
        self.restore();
    }

    fn advance(&mut self, span: Duration) {
        wait(self, span);
    }

    fn connect(&self, client: &str) -> Named<Real> {
        Named { peer: RealCluster::connect(self, place(client)), ports: self.ports(), ids: self.ids.clone() }
    }

    fn read(&mut self, client: &str) {
        Servers::connect(self, client).call(&["PING"]);
    }

    /// What changes the cluster has reached all servers, before the next command.
    fn settle(&self, client: &str, argv: &[Vec<u8>]) {
        let argv: Vec<String> =
            argv.iter().map(|arg| String::from_utf8_lossy(arg).to_ascii_lowercase()).collect();
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        match words[..] {
            ["cluster", "failover", ..] => self.settle_failover(place(client)),
            ["cluster", "replicate" | "addslots", ..] | ["cluster", "setslot", _, "node", ..] => {
                RealCluster::settle(self);
            }
            ["set" | "publish" | "eval", ..] => {
                (0..PRIMARIES).for_each(|nth| _ = self.call(nth, &["WAIT", "1", "200"]));
            }
            _ => {}
        }
    }
}

/// A connection that writes and reads names in place of ports and identifiers.
pub struct Named<P> {
    peer: P,
    ports: [u16; SERVERS],
    ids: Vec<String>,
}

impl<P> Named<P> {
    /// Shows names in place of ports and identifiers, and hides what is not promised.
    fn hide(&self, wire: Wire) -> Wire {
        match wire {
            Wire::Items(marker, items) => {
                let mut hides_next = false;
                let items = items.into_iter().map(|item| {
                    let is_hidden = std::mem::replace(&mut hides_next, item == offset());
                    if is_hidden { Wire::Line(b'+', b"{n}".into()) } else { self.hide(item) }
                });
                Wire::Items(marker, items.collect())
            }
            Wire::Line(b':', text) => {
                let port = self.ports.iter().position(|port| port.to_string().as_bytes() == text);
                match port {
                    Some(nth) => Wire::Line(b'+', format!("{{{}}}", NAMES[nth]).into()),
                    None => Wire::Line(b':', text),
                }
            }
            Wire::Line(marker, text) => Wire::Line(marker, self.hide_text(&text)),
            Wire::Bulk(text) => Wire::Bulk(self.hide_text(&text)),
            Wire::Nil => Wire::Nil,
        }
    }

    fn hide_text(&self, text: &[u8]) -> Vec<u8> {
        let mut text = String::from_utf8_lossy(text).into_owned();
        for ((name, port), id) in NAMES.iter().zip(self.ports).zip(&self.ids) {
            text = text.replace(&format!(":{port}"), &format!(":{{{name}}}"));
            text = text.replace(id, &name.to_string().repeat(id.len()));
        }
        if text.contains("cluster_state:") {
            let is_promised = |line: &&str| !["epoch", "_stats_"].iter().any(|word| line.contains(word));
            return text.split_inclusive('\n').filter(is_promised).collect::<String>().into();
        }
        if text.contains(" connected") {
            let mut lines: Vec<String> = text.split_inclusive('\n').map(hide_node).collect();
            lines.sort_unstable();
            return lines.concat().into();
        }
        text.into()
    }
}

fn offset() -> Wire {
    Wire::Bulk(b"replication-offset".into())
}

/// Hides the port for other servers, the times and the epoch in a line of `CLUSTER NODES`.
fn hide_node(line: &str) -> String {
    let words = line.split(' ').enumerate().map(|(nth, word)| match nth {
        1 => word.split('@').next().unwrap_or_default().to_owned(),
        4..=6 => "{n}".into(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

impl<P: Peer> Peer for Named<P> {
    fn send(&mut self, bytes: &[u8]) {
        let mut text = servers::with_ports(bytes, &NAMES, &self.ports);
        for (name, id) in NAMES.iter().zip(&self.ids) {
            text = text.replace(&name.to_string().repeat(id.len()), id);
        }
        self.peer.send(text.as_bytes());
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let reply = self.peer.receive()?;
        let (wire, _) = parse(&reply).expect("a reply is complete");
        let hidden = self.hide(wire.clone());
        // Only what has been hidden is written anew.
        Some(if hidden == wire { reply } else { encode(&hidden) })
    }
}

fn encode(wire: &Wire) -> Vec<u8> {
    match wire {
        Wire::Line(marker, text) => [&[*marker], &text[..], b"\r\n"].concat(),
        Wire::Bulk(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
        Wire::Items(marker, items) => {
            let count = if *marker == b'%' { items.len() / 2 } else { items.len() };
            let items: Vec<u8> = items.iter().flat_map(encode).collect();
            [&[*marker], format!("{count}\r\n").as_bytes(), &items].concat()
        }
        Wire::Nil => b"$-1\r\n".into(),
    }
}

macro_rules! transcripts {
    ($($name:ident)*) => { $(#[test] fn $name() { check(stringify!($name)); })* };
}

transcripts! {
    routing
    subcommands
    moving_slots
    roles
    shard_channels
}

fn check(name: &str) {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cluster"));
    let path = data.join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let transcript = Transcript::parse(&text);
    let emulated = transcript.run(&mut EmulatedCluster::new());
    let real = RealCluster::start(name).map(|mut cluster| transcript.run(&mut cluster));
    transcript.judge(&path, real.as_deref(), &emulated);
}
