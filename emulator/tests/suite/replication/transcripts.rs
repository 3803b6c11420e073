//! Transcripts of a primary with two replicas, compared with real servers.
//!
//! `data/replication/*.txt` have the form of other transcripts. The first letter of a client names
//! its server: `p` the primary, `q` and `r` the replicas. `{p}` stands for the port of a server,
//! and `{n}` for an offset in the reply to `ROLE`.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use emulator::{Clock, Emulator};

use crate::conformance::servers;
use crate::conformance::transcript::{Servers, Transcript, wait};
use crate::conformance::wire::{Emulated, Peer, Real};
use crate::redis_server::{self, OwnServer};

const NAMES: [char; 3] = ['p', 'q', 'r'];
/// How often a primary is asked whether its replicas have their data: one that hangs has not.
const ASKED_MAX: usize = 200;

/// The server of a client.
fn place(client: &str) -> usize {
    servers::place(&NAMES, client).unwrap_or(0)
}

struct Group {
    clock: Clock,
    servers: Vec<Emulator>,
}

impl Group {
    fn new() -> Group {
        let clock = Clock::manual();
        let primary = Emulator::with_clock(clock.clone());
        let [first, second] = [primary.replica(), primary.replica()];
        Group { clock, servers: vec![primary, first, second] }
    }
}

impl Servers for Group {
    type Peer = Named<Emulated>;
    const IS_EMULATOR: bool = true;

    fn begin_section(&mut self) {
        *self = Group::new();
    }

    fn advance(&mut self, span: Duration) {
        servers::advance(&self.clock, &self.servers, span);
    }

    fn connect(&self, client: &str) -> Named<Emulated> {
        Named { peer: Emulated::open(&self.servers[place(client)]), ports: [6379, 6380, 6381], settle: None }
    }

    fn read(&mut self, _: &str) {}
}

struct RealGroup {
    servers: Vec<OwnServer>,
}

impl RealGroup {
    /// `None` if no server is installed.
    fn start() -> Option<RealGroup> {
        let servers = redis_server::start_own(NAMES.len());
        (servers.len() == NAMES.len()).then_some(RealGroup { servers })
    }

    fn ports(&self) -> [u16; NAMES.len()] {
        std::array::from_fn(|nth| self.servers[nth].addr().port())
    }

    fn call(&self, nth: usize, argv: &[&str]) -> String {
        let reply = Real::over(self.servers[nth].connect()).call(argv);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Waits until so many replicas have the data of the primary.
    fn link(&self, replicas: usize) {
        let is_acknowledged = || {
            let mut peer = Real::over(self.servers[0].connect());
            peer.call(&["PUBLISH", "link", ""]);
            peer.call(&["WAIT", &replicas.to_string(), "100"]) == format!(":{replicas}\r\n").as_bytes()
        };
        assert!((0..ASKED_MAX).any(|_| is_acknowledged()), "a replica does not find its primary");
    }
}

impl Servers for RealGroup {
    type Peer = Named<Real>;
    const IS_EMULATOR: bool = false;

    fn begin_section(&mut self) {
        let primary = self.servers[0].addr().port().to_string();
        for nth in 0..NAMES.len() {
            self.call(nth, &["REPLICAOF", "NO", "ONE"]);
            for (name, value) in SETTINGS {
                self.call(nth, &["CONFIG", "SET", name, value]);
            }
            self.call(nth, &["FLUSHALL"]);
            self.call(nth, &["FUNCTION", "FLUSH"]);
            self.call(nth, &["SCRIPT", "FLUSH"]);
        }
        for nth in 1..NAMES.len() {
            self.call(nth, &["REPLICAOF", "127.0.0.1", &primary]);
            // One after the other, because the primary lists them in the order of their links.
            self.link(nth);
        }
    }

    fn advance(&mut self, span: Duration) {
        wait(&mut Real::over(self.servers[0].connect()), span);
    }

    fn connect(&self, client: &str) -> Named<Real> {
        let ports = self.ports();
        Named { peer: Real::over(self.servers[place(client)].connect()), ports, settle: Some(settle) }
    }

    fn read(&mut self, client: &str) {
        self.connect(client).call(&["PING"]);
    }
}

/// Settings for quick copies without a file, and the defaults of those that transcripts change.
const SETTINGS: [(&str, &str); 6] = [
    ("repl-diskless-sync-delay", "0"),
    ("repl-diskless-load", "swapdb"),
    ("min-replicas-to-write", "0"),
    ("replica-serve-stale-data", "yes"),
    ("replica-read-only", "yes"),
    ("notify-keyspace-events", ""),
];

/// Waits until the replicas of these servers have everything.
fn settle(ports: [u16; NAMES.len()]) {
    for port in ports {
        let mut peer = Real::over(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens"));
        let info = peer.call(&["INFO", "replication"]);
        let replicas = String::from_utf8_lossy(&info).matches(",state=online").count();
        if replicas > 0 {
            peer.call(&["WAIT", &replicas.to_string(), "500"]);
        }
    }
}

/// A connection that writes and reads names in place of ports.
struct Named<P> {
    peer: P,
    ports: [u16; NAMES.len()],
    /// Waits until what was written has arrived at the replicas.
    settle: Option<fn([u16; NAMES.len()])>,
}

impl<P> Named<P> {
    /// Shows names in place of ports, and hides offsets in the replies to `ROLE`.
    fn hide(&self, reply: &[u8]) -> Vec<u8> {
        let mut text = String::from_utf8_lossy(reply).into_owned();
        for (name, port) in NAMES.iter().zip(self.ports) {
            let port = port.to_string();
            text = text.replace(&format!("${}\r\n{port}\r\n", port.len()), &format!("$3\r\n{{{name}}}\r\n"));
            text = text.replace(&format!(":{port}\r\n"), &format!("+{{{name}}}\r\n"));
        }
        if ["*3\r\n$6\r\nmaster", "*5\r\n$5\r\nslave"].iter().any(|role| text.starts_with(role)) {
            let is_number = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            let mut lines: Vec<String> = text.split("\r\n").map(ToOwned::to_owned).collect();
            for nth in 0..lines.len() {
                if lines[nth].strip_prefix(':').is_some_and(is_number) {
                    lines[nth] = "+{n}".into();
                } else if is_number(&lines[nth]) {
                    (lines[nth - 1], lines[nth]) = ("$3".into(), "{n}".into());
                }
            }
            text = lines.join("\r\n");
        }
        text.into_bytes()
    }
}

impl<P: Peer> Peer for Named<P> {
    fn send(&mut self, bytes: &[u8]) {
        if let Some(settle) = self.settle {
            settle(self.ports);
        }
        self.peer.send(servers::with_ports(bytes, &NAMES, &self.ports).as_bytes());
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let reply = self.peer.receive()?;
        Some(self.hide(&reply))
    }
}

macro_rules! transcripts {
    ($($name:ident)*) => { $(#[test] fn $name() { check(stringify!($name)); })* };
}

transcripts! {
    roles
    expiry
    waits
}

/// `INFO replication` of a primary, of a replica, and of one without a link.
#[test]
fn info_has_every_field() {
    fn fields(mut peer: impl Peer) -> Vec<String> {
        let info = String::from_utf8_lossy(&peer.call(&["INFO", "replication"])).into_owned();
        info.lines().skip(1).map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
    }
    let mut emulated = Group::new();
    let Some(mut real) = RealGroup::start() else { return };
    emulated.begin_section();
    real.begin_section();
    for client in ["p", "q", "r"] {
        if client == "r" {
            emulated.connect(client).call(&["REPLICAOF", "127.0.0.1", "1"]);
            real.connect(client).call(&["REPLICAOF", "127.0.0.1", "1"]);
        }
        assert_eq!(fields(emulated.connect(client)), fields(real.connect(client)), "{client}");
    }
}

fn check(name: &str) {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/replication"));
    let path = data.join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let transcript = Transcript::parse(&text);
    let emulated = transcript.run(&mut Group::new());
    let real = RealGroup::start().map(|mut group| transcript.run(&mut group));
    transcript.judge(&path, real.as_deref(), &emulated);
}
