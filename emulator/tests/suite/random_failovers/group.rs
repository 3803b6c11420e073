//! The servers, and what happens to them.
//!
//! Each failover ends with servers that are up, reach each other and agree who the primaries are.

use emulator::{Clock, Emulator};
use rand::RngExt as _;
use rand_pcg::Pcg32;
use redis::{FromRedisValue, RedisResult};

use super::course::Course;
use super::ledger::Ledger;
use super::links;

/// After this time, a server that is out of reach counts as down.
const DOWN_AFTER_MS: u64 = 30_000;
/// After this time, Sentinels have made the old primary a replica, and a primary that was alone
/// serves again.
const RETURN_AFTER_MS: u64 = 8_000;
/// How often this time passes until all servers agree.
const LOOKS_MAX: usize = 8;
/// How often a primary that has no replica is asked for it.
const LINK_LOOKS_MAX: usize = 1_000_000;
/// How late writes arrive at a replica that lags.
const LAG_MS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Sentinels,
}

pub struct Group {
    pub kind: Kind,
    /// Primaries and replicas.
    servers: Vec<Emulator>,
    sentinels: Vec<Emulator>,
}

/// One way to fail over, with its name in reports.
type Way = (&'static str, fn(&Group, &mut Pcg32, &Course) -> Result<(), String>);

const OF_CLUSTERS: [Way; 7] = [
    ("crash", crash),
    ("lag", lag),
    ("survive", survive),
    ("hand over", hand_over),
    ("hand over late", hand_over_late),
    ("seize", seize),
    ("part", part),
];
const OF_SENTINELS: [Way; 5] =
    [("crash", crash), ("lag", lag), ("survive", survive), ("plan", plan), ("isolate", isolate)];

impl Group {
    /// The seed decides the number of replicas.
    pub fn new(kind: Kind, seed: u64) -> Group {
        let replicas = 1 + seed as usize % 2;
        let (servers, sentinels) = match kind {
            Kind::Cluster => {
                (Emulator::cluster(&Clock::system(), 3, replicas).expect("it is a cluster"), Vec::new())
            }
            Kind::Sentinels => {
                let (primary, replicas) = Emulator::replicated(Clock::system(), replicas);
                let sentinels = primary.sentinels(3);
                (std::iter::once(primary).chain(replicas).collect(), sentinels)
            }
        };
        let group = Group { kind, servers, sentinels };
        for server in group.servers.iter().chain(&group.sentinels) {
            server.allow_control();
            server.url();
        }
        for sentinel in &group.sentinels {
            // Otherwise they wait long between two attempts.
            () = run(sentinel, "SENTINEL SET mymaster failover-timeout 1000");
        }
        group
    }

    /// Where clients begin.
    pub fn urls(&self) -> Vec<String> {
        let entries = if self.kind == Kind::Cluster { &self.servers } else { &self.sentinels };
        entries.iter().map(Emulator::url).collect()
    }

    /// Lets a primary fail over in a random way.
    ///
    /// # Errors
    /// A client hangs or has got a wrong reply, or the servers do not agree: a report.
    pub fn fail_over(&self, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
        let ways: &[Way] = match self.kind {
            Kind::Cluster => &OF_CLUSTERS,
            Kind::Sentinels => &OF_SENTINELS,
        };
        match rng.random_range(0..4) {
            0 => restart(self, rng),
            1 if self.kind == Kind::Cluster => move_slot(self, rng, course)?,
            _ => {}
        }
        let (name, way) = ways[rng.random_range(0..ways.len())];
        way(self, rng, course).map_err(|report| format!("{name}: {report}"))?;
        for server in &self.servers {
            // Only replicas take it.
            _ = try_run::<()>(server, "EMULATOR LAG NONE", &[]);
        }
        self.agree().map_err(|report| format!("{name}: {report}"))
    }

    /// A primary, once it has a replica: that is late if it finds its primary busy with a client.
    fn primary(&self, rng: &mut Pcg32) -> &Emulator {
        let primaries: Vec<_> = self.servers.iter().filter(|server| role(server) == "master").collect();
        let primary = primaries[rng.random_range(0..primaries.len())];
        for _ in 0..LINK_LOOKS_MAX {
            if !replicas(primary).is_empty() {
                return primary;
            }
            std::thread::yield_now();
        }
        panic!("{} gets no replica", primary.url());
    }

    /// A replica of a primary.
    fn replica(&self, primary: &Emulator, rng: &mut Pcg32) -> &Emulator {
        let replicas = replicas(primary);
        self.at(replicas[rng.random_range(0..replicas.len())])
    }

    fn at(&self, port: u16) -> &Emulator {
        let is_there = |server: &&Emulator| server.url().ends_with(&format!(":{port}/"));
        self.servers.iter().find(is_there).expect("it is the address of a server")
    }

    /// Lets time pass for all servers, and lets the Sentinels act.
    fn advance(&self, millis: u64) {
        () = run(&self.servers[0], &format!("EMULATOR CLOCK ADVANCE {millis}"));
        self.servers.iter().chain(&self.sentinels).for_each(Emulator::tick);
    }

    /// Ends all partitions, and waits for what follows from them.
    fn heal(&self) -> Result<(), String> {
        () = run(&self.servers[0], "EMULATOR HEAL");
        self.settle()
    }

    /// Waits until old primaries are replicas. A Sentinel counts the time from when it has looked
    /// at a server, and it looks later at one that is busy with a client.
    fn settle(&self) -> Result<(), String> {
        let mut verdict = Ok(());
        for _ in 0..LOOKS_MAX {
            self.advance(RETURN_AFTER_MS);
            verdict = self.agree();
            if verdict.is_ok() {
                break;
            }
        }
        verdict
    }

    /// Whether all servers agree who the primaries are.
    fn agree(&self) -> Result<(), String> {
        let roles = self.servers.iter().map(|server| (server.url(), role(server)));
        let roles: Vec<_> = roles.collect();
        let (watching, question) = match self.kind {
            Kind::Cluster => (&self.servers, "CLUSTER SLOTS"),
            Kind::Sentinels => (&self.sentinels, "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster"),
        };
        let views: Vec<redis::Value> = watching.iter().map(|server| run(server, question)).collect();
        let primaries = roles.iter().filter(|(_, role)| role == "master").count();
        let primaries_expected = if self.kind == Kind::Cluster { 3 } else { 1 };
        if views.iter().all(|view| *view == views[0]) && primaries == primaries_expected {
            return Ok(());
        }
        Err(format!("the servers do not agree who the primaries are: {roles:?} {views:?}"))
    }
}

/// A primary crashes, and a replica takes over, which has everything.
fn crash(group: &Group, rng: &mut Pcg32, _: &Course) -> Result<(), String> {
    () = run(group.primary(rng), "EMULATOR FAILOVER");
    Ok(())
}

/// A primary crashes, and comes back with everything.
fn restart(group: &Group, rng: &mut Pcg32) {
    () = run(group.primary(rng), "EMULATOR RESTART LOSING NONE");
}

/// A primary crashes, and the replica lacks what was written lately.
fn lag(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    let primary = group.primary(rng);
    let replica = group.replica(primary, rng);
    () = run(replica, "EMULATOR LAG HOLD");
    course.pause(rng.random_range(1..=4))?;
    course.lose(|| () = run(primary, &format!("EMULATOR FAILOVER TO {}", place(replica))));
    Ok(())
}

/// A replica takes over by an order.
fn hand_over(group: &Group, rng: &mut Pcg32, _: &Course) -> Result<(), String> {
    () = run(group.replica(group.primary(rng), rng), "CLUSTER FAILOVER");
    Ok(())
}

/// The same without the consent of the primary, which takes writes until it hears of it.
fn seize(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    let replica = group.replica(group.primary(rng), rng);
    let how = ["FORCE", "TAKEOVER"][rng.random_range(0..2)];
    course.lose(|| {
        () = run(replica, &format!("CLUSTER FAILOVER {how}"));
        group.agree()
    })
}

/// A replica takes over by an order, while writes arrive late. So the primary holds new writes back
/// until all have arrived.
fn hand_over_late(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    let replica = group.replica(group.primary(rng), rng);
    () = run(replica, &format!("EMULATOR LAG {LAG_MS}"));
    course.pause(1)?;
    () = run(replica, "CLUSTER FAILOVER");
    group.advance(LAG_MS);
    Ok(())
}

/// The old primary goes on for a while, and all that it takes in this time is lost.
fn survive(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    course.lose(|| {
        () = run(group.primary(rng), "EMULATOR FAILOVER WRITABLE");
        course.pause(rng.random_range(1..=4))?;
        group.advance(DOWN_AFTER_MS);
        course.pause(1)?;
        group.heal()
    })
}

/// A primary is parted from all others, and its replica takes over.
fn part(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    let primary = group.primary(rng);
    let replica = group.replica(primary, rng);
    course.lose(|| {
        () = run(primary, "EMULATOR PARTITION ALL");
        () = run(replica, "CLUSTER FAILOVER FORCE");
        course.pause(rng.random_range(1..=4))?;
        group.heal()
    })
}

/// A slot of a client moves, first one key and then the rest.
fn move_slot(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    let tag = Ledger::tag(rng.random_range(0..links::PER_GROUP));
    let slot: u16 = run_with(&group.servers[0], "CLUSTER KEYSLOT", &[&tag]);
    let serves = |server: &&Emulator| try_run::<u64>(server, "EXISTS", &[&tag]).is_ok();
    let source = group.servers.iter().find(serves).ok_or("nobody serves a slot")?;
    let target = group.primary(rng);
    if target.url() == source.url() {
        return Ok(());
    }
    let order = format!("EMULATOR MOVE-SLOT {slot} {}", place(target));
    () = run_with(source, &format!("{order} KEYS"), &[&format!("{tag}a")]);
    course.pause(1)?;
    () = run(source, &order);
    Ok(())
}

/// The Sentinels replace a primary that is up.
fn plan(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    let sentinel = &group.sentinels[rng.random_range(0..group.sentinels.len())];
    course.lose(|| {
        () = run(sentinel, "SENTINEL FAILOVER mymaster");
        course.pause(rng.random_range(0..=4))?;
        group.settle()
    })
}

/// The Sentinels lose a primary, which clients still reach.
fn isolate(group: &Group, rng: &mut Pcg32, course: &Course) -> Result<(), String> {
    course.lose(|| {
        () = run(group.primary(rng), "EMULATOR PARTITION ALL");
        group.advance(DOWN_AFTER_MS);
        course.pause(rng.random_range(1..=4))?;
        group.heal()
    })
}

/// What a server is: `master` or `slave`.
fn role(server: &Emulator) -> String {
    run::<Vec<redis::Value>>(server, "ROLE")
        .into_iter()
        .next()
        .map_or_else(String::new, |role| redis::from_redis_value(role).expect("a word"))
}

/// The ports of the replicas of a primary.
fn replicas(primary: &Emulator) -> Vec<u16> {
    let (_, _, replicas): (String, u64, Vec<(String, u16, u64)>) = run(primary, "ROLE");
    replicas.into_iter().map(|(_, port, _)| port).collect()
}

/// The host and the port of a server.
fn place(server: &Emulator) -> String {
    server.url().trim_start_matches("redis://").trim_end_matches('/').replace(':', " ")
}

/// Runs a command at one server.
fn run<T: FromRedisValue>(server: &Emulator, command: &str) -> T {
    run_with(server, command, &[])
}

fn run_with<T: FromRedisValue>(server: &Emulator, command: &str, rest: &[&str]) -> T {
    try_run(server, command, rest).unwrap_or_else(|error| panic!("{command}: {error}"))
}

fn try_run<T: FromRedisValue>(server: &Emulator, command: &str, rest: &[&str]) -> RedisResult<T> {
    let mut words = command.split(' ');
    let name = words.next().unwrap_or_default();
    redis::cmd(name).arg(words.collect::<Vec<_>>()).arg(rest).query(&mut server.connection())
}
