//! Servers that reach each other: replicas, independent neighbours, Sentinels, and clusters.

use std::sync::Arc;

use crate::clock::Clock;
use crate::cluster::NODES_MAX;
use crate::emulator::Emulator;
use crate::error::Error;
use crate::shared::Shared;

impl Emulator {
    /// Creates a replica of this server, which gets the effects of each command at once.
    ///
    /// It has a [view](Clock::view) of this server's clock. Both can be told by `REPLICAOF`,
    /// `FAILOVER` and `EMULATOR` to change roles. Until it listens, its address is that of a port
    /// of this machine on which nobody listens.
    ///
    /// ```
    /// use emulator::Emulator;
    /// use redis::Commands as _;
    ///
    /// # fn main() -> redis::RedisResult<()> {
    /// let primary = Emulator::new();
    /// let replica = primary.replica();
    /// () = primary.connection().set("lock", "me")?;
    /// assert_eq!(replica.connection().get::<_, String>("lock")?, "me");
    /// let refused = replica.connection().set::<_, _, ()>("lock", "you").unwrap_err();
    /// assert_eq!(refused.code(), Some("READONLY"));
    /// # Ok(()) }
    /// ```
    pub fn replica(&self) -> Emulator {
        let replica = self.like_this();
        self.shared.take_replica(&replica.shared);
        replica
    }

    /// Creates an empty server on this clock, with this many replicas.
    ///
    /// ```
    /// use emulator::{Clock, Emulator};
    /// use redis::Commands as _;
    ///
    /// # fn main() -> redis::RedisResult<()> {
    /// let (primary, replicas) = Emulator::replicated(Clock::manual(), 2);
    /// () = primary.connection().set("lock", "me")?;
    /// for replica in &replicas {
    ///     assert_eq!(replica.connection().get::<_, String>("lock")?, "me");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn replicated(clock: Clock, replicas: usize) -> (Emulator, Vec<Emulator>) {
        let primary = Emulator::with_clock(clock);
        let replicas = (0..replicas).map(|_| primary.replica()).collect();
        (primary, replicas)
    }

    /// Creates an independent, empty server that this one reaches. Each of them is a primary.
    ///
    /// It has a [view](Clock::view) of this server's clock. A lock over several servers, such as
    /// Redlock, needs such servers.
    pub fn neighbour(&self) -> Emulator {
        let neighbour = self.like_this();
        self.shared.take_neighbour(&neighbour.shared);
        neighbour
    }

    /// An empty server with a view of this one's clock.
    fn like_this(&self) -> Emulator {
        let (clock, databases) = {
            let engine = self.shared.engine();
            (engine.clock().view(), engine.keyspace.databases())
        };
        Emulator::with_databases(clock, databases)
    }

    /// Creates Sentinels that watch this primary under the name `mymaster`. Most of them must agree
    /// that it is down.
    ///
    /// A Sentinel knows the servers of this process. `SENTINEL FAILOVER` and [`EMULATOR FAILOVER`]
    /// take no time: all Sentinels have published the events and name the new primary. If a primary
    /// cannot be reached, it counts as down after 30 s of the Sentinel's clock, unless
    /// `SENTINEL SET mymaster down-after-milliseconds` sets another time.
    ///
    /// As in Redis, the old primary of a `SENTINEL FAILOVER` stays writable for 8 s of the clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use emulator::{Clock, Emulator};
    ///
    /// # fn main() -> redis::RedisResult<()> {
    /// let clock = Clock::manual();
    /// let (primary, replicas) = Emulator::replicated(clock.clone(), 2);
    /// let sentinels = primary.sentinels(3);
    /// let mut sentinel = sentinels[0].connection();
    /// let set = redis::cmd("SET").arg(&["lock", "me", "NX", "PX", "30000"]).to_owned();
    ///
    /// () = redis::cmd("SENTINEL").arg(&["FAILOVER", "mymaster"]).query(&mut sentinel)?;
    /// let find = redis::cmd("SENTINEL").arg(&["GET-MASTER-ADDR-BY-NAME", "mymaster"]).to_owned();
    /// let (_, port): (String, u16) = find.query(&mut sentinel)?;
    /// let new = &replicas[usize::from(port) - 6380];
    /// assert!(set.query::<bool>(&mut new.connection())?);
    /// assert!(set.query::<bool>(&mut primary.connection())?, "a second holder");
    ///
    /// clock.advance(Duration::from_secs(8));
    /// sentinels[0].tick(); // as it does by itself if it listens
    /// assert!(set.query::<bool>(&mut primary.connection()).is_err(), "it is a replica now");
    /// # Ok(()) }
    /// ```
    ///
    /// [`EMULATOR FAILOVER`]: Emulator::allow_control
    ///
    /// # Panics
    /// As [`Emulator::sentinels_of`] does.
    pub fn sentinels(&self, count: usize) -> Vec<Emulator> {
        Emulator::sentinels_of(&[("mymaster", self)], count)
    }

    /// Creates Sentinels that watch these primaries, each under its name.
    ///
    /// # Panics
    /// If there is no primary, or if one of the servers is a replica, a Sentinel or part of a
    /// cluster. If a name is empty or given twice. If one primary does not reach the others: each
    /// must be the [neighbour](Emulator::neighbour) of another one.
    pub fn sentinels_of(primaries: &[(&str, &Emulator)], count: usize) -> Vec<Emulator> {
        let [(_, first), ..] = primaries else { panic!("Sentinels need a primary to watch") };
        for (nth, (name, primary)) in primaries.iter().enumerate() {
            assert!(!name.is_empty(), "a primary that Sentinels watch needs a name");
            let is_new = primaries[..nth].iter().all(|(before, _)| before != name);
            assert!(is_new, "two primaries that Sentinels watch have the name {name}");
            let engine = primary.shared.engine();
            let is_primary = engine.sentinel.is_none() && engine.replication.upstream.is_none();
            let is_in_cluster = engine.cluster.is_some();
            drop(engine);
            assert!(is_primary, "Sentinels watch primaries: the server named {name} is none");
            assert!(!is_in_cluster, "Sentinels watch no cluster, but the server named {name} is in one");
            let is_near = primary.shared.reaches(&first.shared);
            assert!(is_near, "the primary named {name} does not reach the others: see Emulator::neighbour");
        }
        let quorum = count as u64 / 2 + 1;
        let shared = primaries.iter().map(|(name, primary)| (*name, &primary.shared, quorum));
        let shared: Vec<_> = shared.collect();
        let sentinels = (0..count).map(|_| {
            let sentinel = first.neighbour();
            sentinel.shared.watch(&shared);
            sentinel
        });
        sentinels.collect()
    }

    /// Creates a cluster: primaries, among which all slots are divided evenly, and so many replicas
    /// of each.
    ///
    /// The primaries come first, and then the replicas of the first one, of the second one, and so
    /// on. All have [views](Clock::view) of the clock. What one of them does to the cluster, the
    /// others know at once, unless `EMULATOR PARTITION` parts them. No replica takes over by
    /// itself: `CLUSTER FAILOVER` and `EMULATOR FAILOVER` order it.
    ///
    /// A client that follows redirections needs servers that listen, as after
    /// [`url`](Emulator::url) or [`listen`](Emulator::listen).
    ///
    /// ```
    /// use emulator::{Clock, Emulator};
    /// use redis::Commands as _;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let servers = Emulator::cluster(&Clock::system(), 3, 1)?;
    /// let refused = servers[0].connection().get::<_, Option<String>>("foo").unwrap_err();
    /// assert_eq!(refused.redirect_node(), Some(("127.0.0.1:6381", 12182)));
    /// assert_eq!(servers[2].connection().get::<_, Option<String>>("foo")?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If there is no primary, or if there are more than 1,000 servers.
    pub fn cluster(clock: &Clock, primaries: usize, replicas: usize) -> Result<Vec<Emulator>, Error> {
        let count = primaries.saturating_mul(replicas.saturating_add(1));
        if !(1..=NODES_MAX).contains(&count) {
            return Err(Error::new(format!(
                "ERR a cluster has 1 to {NODES_MAX} servers and at least one primary, not {primaries} primaries with {replicas} replicas each"
            )));
        }
        let servers: Vec<Emulator> = (0..count).map(|_| Emulator::with_clock(clock.view())).collect();
        let shared: Vec<Arc<Shared>> = servers.iter().map(|server| server.shared.clone()).collect();
        servers.iter().try_for_each(|server| server.start_with("cluster-enabled", "yes"))?;
        Shared::make_cluster(&shared, primaries, replicas);
        Ok(servers)
    }
}
