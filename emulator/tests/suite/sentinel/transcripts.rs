//! Transcripts of Sentinels that watch a primary with two replicas, compared with real servers.
//!
//! `data/sentinel/*.txt` have the form of other transcripts. The first letter of a client names its
//! server: `p` the primary, `q` and `r` the replicas, `s`, `t` and `u` the Sentinels. `{p}` stands
//! for the port of a server, `{id}` for an identity, and `{n}` for a time or an offset. A failover
//! prefers the replica `q`.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use emulator::{Clock, Emulator};

use crate::conformance::servers;
use crate::conformance::transcript::{Servers, Transcript, wait};
use crate::conformance::wire::{Emulated, Peer, Real};
use crate::redis_server::{self, OwnSentinel, OwnServer};

const NAMES: [char; 6] = ['p', 'q', 'r', 's', 't', 'u'];
/// The servers before the Sentinels.
const SERVERS: usize = 3;
/// How often a server is asked whether the others have found each other: if one hangs, they do not.
const ASKED_MAX: usize = 1000;
/// The settings of each Sentinel, so that real ones do not take long.
const PERIODS: [&str; 4] = ["INFO-PERIOD", "1000", "PUBLISH-PERIOD", "200"];
const SETTINGS: [&str; 4] = ["down-after-milliseconds", "2000", "failover-timeout", "4000"];

/// The server of a client.
fn place(client: &str) -> usize {
    servers::place(&NAMES, client).unwrap_or(SERVERS)
}

/// Sets up a Sentinel.
fn set_up(sentinel: &mut impl Peer) {
    sentinel.call(&[&["SENTINEL", "DEBUG"][..], &PERIODS].concat());
    sentinel.call(&[&["SENTINEL", "SET", "mymaster"][..], &SETTINGS].concat());
}

struct Group {
    clock: Clock,
    servers: Vec<Emulator>,
    sentinels: usize,
}

impl Group {
    fn new(sentinels: usize) -> Group {
        let clock = Clock::manual();
        let (primary, replicas) = Emulator::replicated(clock.clone(), SERVERS - 1);
        let watching = primary.sentinels(sentinels);
        watching.iter().for_each(|sentinel| set_up(&mut Emulated::open(sentinel)));
        let servers: Vec<_> = std::iter::once(primary).chain(replicas).chain(watching).collect();
        for server in &servers[..SERVERS] {
            server.start_with("enable-debug-command", "yes").expect("it is a parameter");
        }
        Emulated::open(&servers[1]).call(&["CONFIG", "SET", "replica-priority", "10"]);
        Group { clock, servers, sentinels }
    }
}

impl Servers for Group {
    type Peer = Named<Emulated>;
    const IS_EMULATOR: bool = true;

    fn begin_section(&mut self) {
        *self = Group::new(self.sentinels);
    }

    fn advance(&mut self, span: Duration) {
        servers::advance(&self.clock, &self.servers, span);
    }

    fn connect(&self, client: &str) -> Named<Emulated> {
        let ports = (6379..).take(self.servers.len()).collect();
        Named { peer: Emulated::open(&self.servers[place(client)]), ports, others: self.servers.clone() }
    }

    fn read(&mut self, _: &str) {}
}

struct RealGroup {
    servers: Vec<OwnServer>,
    sentinels: Vec<OwnSentinel>,
    count: usize,
}

impl RealGroup {
    /// `None` if no server is installed.
    fn start(count: usize) -> Option<RealGroup> {
        let servers = redis_server::start_own(SERVERS);
        let mut group = RealGroup { servers, sentinels: Vec::new(), count };
        group.sentinels.push(OwnSentinel::start()?);
        (group.servers.len() == SERVERS).then_some(group)
    }

    fn ports(&self) -> Vec<u16> {
        let servers = self.servers.iter().map(|server| server.addr().port());
        servers.chain(self.sentinels.iter().map(OwnSentinel::port)).collect()
    }

    /// Waits until every Sentinel knows the replicas and the other Sentinels.
    fn meet(&self) {
        for sentinel in &self.sentinels {
            let mut peer = Real::over(sentinel.connect());
            let mut asked = || {
                let replicas = peer.call(&["SENTINEL", "REPLICAS", "mymaster"]);
                let replicas = String::from_utf8_lossy(&replicas).matches("\r\nok\r\n").count();
                let master = peer.call(&["SENTINEL", "CKQUORUM", "mymaster"]);
                let usable = format!("+OK {} usable Sentinels", self.count);
                let is_met = replicas == SERVERS - 1 && String::from_utf8_lossy(&master).starts_with(&usable);
                if !is_met {
                    wait(&mut Real::over(self.servers[2].connect()), Duration::from_millis(20));
                }
                is_met
            };
            assert!((0..ASKED_MAX).any(|_| asked()), "a Sentinel does not find the others");
        }
    }
}

impl Servers for RealGroup {
    type Peer = Named<Real>;
    const IS_EMULATOR: bool = false;

    fn begin_section(&mut self) {
        self.sentinels.clear();
        let primary = self.servers[0].addr().port().to_string();
        for server in &self.servers {
            let mut peer = Real::over(server.connect());
            peer.call(&["REPLICAOF", "NO", "ONE"]);
            peer.call(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
            peer.call(&["CONFIG", "SET", "repl-diskless-load", "swapdb"]);
            peer.call(&["FLUSHALL"]);
        }
        for (server, priority) in self.servers[1..].iter().zip(["10", "100"]) {
            let mut peer = Real::over(server.connect());
            peer.call(&["CONFIG", "SET", "replica-priority", priority]);
            peer.call(&["REPLICAOF", "127.0.0.1", &primary]);
        }
        let is_linked = || {
            let mut peer = Real::over(self.servers[0].connect());
            peer.call(&["PUBLISH", "link", ""]);
            peer.call(&["WAIT", "2", "100"]) == b":2\r\n"
        };
        assert!((0..ASKED_MAX).any(|_| is_linked()), "a replica does not find its primary");
        let quorum = (self.count / 2 + 1).to_string();
        for _ in 0..self.count {
            let sentinel = OwnSentinel::start().expect("what could be started once can be again");
            let mut peer = Real::over(sentinel.connect());
            peer.call(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &primary, &quorum]);
            set_up(&mut peer);
            self.sentinels.push(sentinel);
        }
        self.meet();
    }

    fn advance(&mut self, span: Duration) {
        // Not the primary, which may be asleep.
        wait(&mut Real::over(self.servers[2].connect()), span);
    }

    fn connect(&self, client: &str) -> Named<Real> {
        let (place, ports) = (place(client), self.ports());
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, ports[place])).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket takes this option");
        Named { peer: Real::over(stream), ports, others: Vec::new() }
    }

    fn read(&mut self, _: &str) {}
}

/// A connection that writes and reads names in place of ports, and hides what differs each time.
struct Named<P> {
    peer: P,
    ports: Vec<u16>,
    /// Emulators that look at each other before something is received.
    others: Vec<Emulator>,
}

/// Fields of replies with times, offsets and states of connections.
const VARIABLE: [&str; 15] = [
    "runid",
    "link-pending-commands",
    "last-ping-sent",
    "last-ok-ping-reply",
    "last-ping-reply",
    "s-down-time",
    "o-down-time",
    "info-refresh",
    "role-reported-time",
    "master-link-down-time",
    "slave-repl-offset",
    "last-hello-message",
    "server_time_usec",
    "id",
    "voted-leader-epoch",
];

impl<P> Named<P> {
    fn hide(&self, reply: &[u8]) -> Vec<u8> {
        let (mut hidden, mut rest) = (Vec::new(), reply);
        let mut is_variable = false;
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 2..];
            let bulk_len = line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok());
            if let Some(len) = bulk_len {
                let text = String::from_utf8_lossy(&rest[..len]).into_owned();
                rest = &rest[len + 2..];
                let shown = if is_variable { "{n}".to_owned() } else { self.hide_text(&text) };
                is_variable = VARIABLE.contains(&&*text);
                hidden.extend(format!("${}\r\n{shown}\r\n", shown.len()).bytes());
            } else {
                is_variable = false;
                hidden.extend(format!("{}\r\n", self.hide_text(&line)).bytes());
            }
        }
        hidden
    }

    fn hide_text(&self, text: &str) -> String {
        // A connection may be new.
        let text = text.strip_suffix(",disconnected").unwrap_or(text);
        let is_id = |word: &str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut words: Vec<&str> =
            text.split(' ').map(|word| if is_id(word) { "{id}" } else { word }).collect();
        // Any Sentinel may be the first that tells another one of a failover.
        if let ["sentinel", _, _, port, "@", ..] = &mut words[..] {
            *port = "{sentinel}";
        }
        let mut shown = words.join(" ");
        for (name, port) in NAMES.iter().zip(&self.ports) {
            shown = shown.replace(&port.to_string(), &format!("{{{name}}}"));
        }
        shown
    }
}

impl<P: Peer> Peer for Named<P> {
    fn send(&mut self, bytes: &[u8]) {
        self.peer.send(servers::with_ports(bytes, &NAMES, &self.ports).as_bytes());
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.others.iter().for_each(Emulator::tick);
        let reply = self.peer.receive()?;
        Some(self.hide(&reply))
    }
}

macro_rules! transcripts {
    ($($name:ident $sentinels:literal)*) => {
        $(#[test] fn $name() { check(stringify!($name), $sentinels); })*
    };
}

transcripts! {
    commands 1
    failover 1
    crash 1
    three 3
}

fn check(name: &str, sentinels: usize) {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sentinel"));
    let path = data.join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let transcript = Transcript::parse(&text);
    let emulated = transcript.run(&mut Group::new(sentinels));
    let real = RealGroup::start(sentinels).map(|mut group| transcript.run(&mut group));
    transcript.judge(&path, real.as_deref(), &emulated);
}
