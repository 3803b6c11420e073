//! Failovers: what Sentinels decide, what becomes of the servers, and what clients see.

use std::time::Duration;

use emulator::{Clock, Emulator};

use crate::conformance::wire::{Emulated, Peer as _, parse};

/// A primary with replicas and Sentinels, which all allow `EMULATOR`.
struct Group {
    clock: Clock,
    primary: Emulator,
    replicas: Vec<Emulator>,
    sentinels: Vec<Emulator>,
}

impl Group {
    fn new(replicas: usize, sentinels: usize) -> Group {
        let clock = Clock::manual();
        let (primary, replicas) = Emulator::replicated(clock.clone(), replicas);
        let sentinels = primary.sentinels(sentinels);
        let group = Group { clock, primary, replicas, sentinels };
        group.all().for_each(Emulator::allow_control);
        group
    }

    fn all(&self) -> impl Iterator<Item = &Emulator> {
        std::iter::once(&self.primary).chain(&self.replicas).chain(&self.sentinels)
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
        self.all().for_each(Emulator::tick);
    }

    /// The port of the primary, as each Sentinel names it.
    fn found(&self) -> Vec<String> {
        let find = |sentinel| run(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
        let replies = self.sentinels.iter().map(find);
        replies.map(|reply| reply.lines().last().unwrap_or_default()[4..8].to_owned()).collect()
    }

    /// Parts the primary from all Sentinels.
    fn isolate_primary(&self) {
        for nth in 0..self.sentinels.len() {
            let port = 6379 + 1 + self.replicas.len() + nth;
            assert_eq!(run(&self.primary, &format!("EMULATOR PARTITION 127.0.0.1 {port}")), "OK");
        }
    }
}

fn run(emulator: &Emulator, command: &str) -> String {
    ask(&mut Emulated::open(emulator), command)
}

fn ask(client: &mut Emulated, command: &str) -> String {
    let reply = client.call(&command.split(' ').collect::<Vec<_>>());
    parse(&reply).map_or_else(String::new, |(wire, _)| wire.to_string())
}

/// A client that gets all events of a Sentinel.
fn subscriber(sentinel: &Emulator) -> Emulated {
    let mut client = Emulated::open(sentinel);
    ask(&mut client, "PSUBSCRIBE *");
    client
}

/// The names of the events so far.
fn events(client: &mut Emulated) -> String {
    client.hear();
    let messages = std::iter::from_fn(|| client.receive_at_once());
    let names = messages.filter_map(|message| {
        let (wire, _) = parse(&message)?;
        let line = wire.to_string().lines().nth(2)?.to_owned();
        Some(line.trim_start_matches("3) ").trim_matches('"').to_owned())
    });
    names.collect::<Vec<_>>().join(" ")
}

const SHORT: &str = "SENTINEL SET mymaster down-after-milliseconds 1000 failover-timeout 2000";
const MADE: &str = "+elected-leader +failover-state-select-slave +selected-slave \
                    +failover-state-send-slaveof-noone +failover-state-wait-promotion -role-change +promoted-slave \
                    +failover-state-reconf-slaves +slave-reconf-sent +slave-reconf-inprog +slave-reconf-done \
                    +failover-end +switch-master +slave +slave";

#[test]
fn an_old_primary_stays_writable_for_eight_seconds() {
    let group = Group::new(1, 1);
    let mut holder = Emulated::open(&group.primary);
    assert_eq!(run(&group.sentinels[0], "SENTINEL FAILOVER mymaster"), "OK");
    assert_eq!(group.found(), ["6380"]);
    assert_eq!(ask(&mut holder, "SET lock a NX PX 30000"), "OK");
    assert_eq!(run(&group.replicas[0], "SET lock b NX PX 30000"), "OK", "a second holder");
    group.advance(Duration::from_millis(7_999));
    assert_eq!(ask(&mut holder, "GET lock"), "\"a\"");
    group.advance(Duration::from_millis(1));
    assert_eq!(ask(&mut holder, "GET lock"), "", "its connection has been closed");
    assert_eq!(run(&group.primary, "GET lock"), "\"b\"");
    assert!(run(&group.primary, "SET lock c").contains("READONLY"));
}

#[test]
fn a_failover_by_emulator_is_announced_by_one_sentinel_and_known_to_all() {
    for writable in ["", " WRITABLE"] {
        let group = Group::new(2, 3);
        let mut subscribers: Vec<_> = group.sentinels.iter().map(subscriber).collect();
        assert_eq!(run(&group.primary, &format!("EMULATOR FAILOVER TO 127.0.0.1 6381{writable}")), "OK");
        assert_eq!(group.found(), ["6381"; 3]);
        let told: Vec<String> = subscribers.iter_mut().map(events).collect();
        let role = if writable.is_empty() { "" } else { " -role-change" };
        assert_eq!(told[0], format!("+new-epoch +try-failover +vote-for-leader {MADE}{role}"));
        for follower in &told[1..] {
            let followed = format!("+new-epoch +config-update-from +switch-master +slave +slave{role}");
            assert_eq!(*follower, followed);
        }
        assert_eq!(run(&group.replicas[1], "SET k v"), "OK");
        let is_refused = run(&group.primary, "SET k w").contains("READONLY");
        assert_eq!(is_refused, writable.is_empty());
        group.advance(Duration::from_secs(8));
        assert!(run(&group.primary, "SET k w").contains("READONLY"), "the Sentinels have seen to it");
        assert_eq!(run(&group.primary, "GET k"), "\"v\"");
    }
}

#[test]
fn a_primary_that_most_sentinels_do_not_reach_is_replaced() {
    let group = Group::new(2, 3);
    group.sentinels.iter().for_each(|sentinel| assert_eq!(run(sentinel, SHORT), "OK"));
    let mut subscribers: Vec<_> = group.sentinels.iter().map(subscriber).collect();
    group.isolate_primary();
    group.advance(Duration::from_millis(999));
    assert_eq!(group.found(), ["6379"; 3]);
    group.advance(Duration::from_millis(1));
    let found = group.found();
    assert_ne!(found[0], "6379");
    assert!(found.iter().all(|port| *port == found[0]), "{found:?}");
    let told: Vec<String> = subscribers.iter_mut().map(events).collect();
    let leader = told.iter().position(|events| events.contains("+try-failover")).expect("one leads");
    assert_eq!(told[leader], format!("+sdown +odown +new-epoch +try-failover +vote-for-leader {MADE}"));
    for (nth, events) in told.iter().enumerate() {
        assert_eq!(nth == leader, events.contains("+elected-leader"), "{events}");
        assert!(events.starts_with("+sdown "), "{events}");
        let voted = "+new-epoch +vote-for-leader +config-update-from +switch-master +slave +slave";
        assert!(nth == leader || events.ends_with(voted), "{events}");
    }
    // The old primary goes on, alone.
    assert_eq!(run(&group.primary, "SET k old"), "OK");
    group.advance(Duration::from_secs(20));
    assert_eq!(run(&group.primary, "SET k old"), "OK");
    assert_eq!(run(&group.primary, "EMULATOR HEAL"), "OK");
    group.advance(Duration::from_secs(8));
    assert!(run(&group.primary, "SET k old").contains("READONLY"));
    assert!(events(&mut subscribers[leader]).contains("-sdown"));
}

#[test]
fn one_sentinel_of_three_decides_nothing() {
    let group = Group::new(1, 3);
    group.sentinels.iter().for_each(|sentinel| assert_eq!(run(sentinel, SHORT), "OK"));
    let mut subscriber = subscriber(&group.sentinels[0]);
    assert_eq!(run(&group.primary, "EMULATOR PARTITION 127.0.0.1 6381"), "OK");
    group.advance(Duration::from_secs(60));
    assert_eq!(events(&mut subscriber), "+sdown");
    assert_eq!(group.found(), ["6379"; 3]);
    // Even with a quorum of one, it needs the votes of most.
    for port in [6382, 6383] {
        assert_eq!(run(&group.sentinels[0], &format!("EMULATOR PARTITION 127.0.0.1 {port}")), "OK");
    }
    group.advance(Duration::from_secs(1));
    assert_eq!(run(&group.sentinels[0], "SENTINEL SET mymaster quorum 1"), "OK");
    assert!(run(&group.sentinels[0], "SENTINEL CKQUORUM mymaster").contains("NOQUORUM 1 usable"));
    assert!(run(&group.sentinels[0], "SENTINEL FAILOVER mymaster").contains("INPROG"));
    group.advance(Duration::from_secs(2));
    let told = events(&mut subscriber);
    assert!(told.contains("+odown"), "{told}");
    assert!(told.contains("-failover-abort-not-elected"), "{told}");
    assert!(!told.contains("+elected-leader"), "{told}");
    assert_eq!(group.found(), ["6379"; 3]);
}

#[test]
fn the_replica_is_chosen_by_the_rules_of_redis() {
    let choose = |settings: &[(usize, &str)]| {
        let group = Group::new(3, 1);
        settings.iter().for_each(|(nth, command)| assert_eq!(run(&group.replicas[*nth], command), "OK"));
        assert_eq!(run(&group.primary, "SET k v"), "OK");
        let reply = run(&group.sentinels[0], "SENTINEL FAILOVER mymaster");
        if reply == "OK" { group.found().remove(0) } else { reply }
    };
    let never = "CONFIG SET replica-priority 0";
    assert_eq!(choose(&[(0, never), (1, never)]), "6382");
    assert_eq!(choose(&[(0, never), (1, "CONFIG SET replica-priority 7")]), "6381", "the smallest");
    // It has a smaller offset than the others.
    assert_eq!(choose(&[(0, "EMULATOR LAG HOLD"), (1, "EMULATOR LAG HOLD")]), "6382");
    assert!(choose(&[(0, never), (1, never), (2, never)]).contains("NOGOODSLAVE"));
}

#[test]
fn nothing_is_lost_without_a_replica() {
    let group = Group::new(0, 3);
    assert_eq!(run(&group.primary, "SET k v"), "OK");
    assert!(run(&group.sentinels[0], "SENTINEL FAILOVER mymaster").contains("NOGOODSLAVE"));
    assert!(run(&group.primary, "EMULATOR FAILOVER").contains("there are none"));
    assert!(run(&group.sentinels[0], "EMULATOR FAILOVER").contains("this server is a Sentinel"));
    assert_eq!(run(&group.primary, "GET k"), "\"v\"");
    group.sentinels.iter().for_each(|sentinel| assert_eq!(run(sentinel, SHORT), "OK"));
    let mut subscribers: Vec<_> = group.sentinels.iter().map(subscriber).collect();
    group.isolate_primary();
    group.advance(Duration::from_secs(1));
    let told: Vec<String> = subscribers.iter_mut().map(events).collect();
    assert!(told.concat().contains("-failover-abort-no-good-slave"), "{told:?}");
    assert_eq!(run(&group.primary, "SET k w"), "OK");
}

#[test]
fn a_reset_restores_the_roles_and_what_the_sentinels_watch() {
    let group = Group::new(1, 3);
    assert_eq!(run(&group.sentinels[0], SHORT), "OK");
    assert_eq!(run(&group.sentinels[1], "SENTINEL FAILOVER mymaster"), "OK");
    assert_eq!(group.found(), ["6380"; 3]);
    assert_eq!(run(&group.replicas[0], "EMULATOR RESET"), "OK");
    assert_eq!(group.found(), ["6379"; 3]);
    assert_eq!(run(&group.primary, "SET k v"), "OK");
    assert!(run(&group.replicas[0], "SET k v").contains("READONLY"));
    assert!(run(&group.sentinels[0], "SENTINEL MASTER mymaster").contains("\"30000\""));
    assert_eq!(run(&group.sentinels[2], "SENTINEL FAILOVER mymaster"), "OK");
    assert_eq!(group.found(), ["6380"; 3]);
}

#[test]
fn replicas_that_miss_a_failover_are_told_later() {
    let group = Group::new(2, 1);
    assert_eq!(run(&group.sentinels[0], SHORT), "OK");
    assert_eq!(run(&group.sentinels[0], "EMULATOR PARTITION 127.0.0.1 6381"), "OK");
    assert_eq!(run(&group.sentinels[0], "SENTINEL FAILOVER mymaster"), "OK");
    assert_eq!(group.found(), ["6380"]);
    assert!(run(&group.replicas[1], "ROLE").contains("6379"), "it has heard nothing");
    let mut subscriber = subscriber(&group.sentinels[0]);
    assert_eq!(run(&group.primary, "EMULATOR HEAL"), "OK");
    group.advance(Duration::from_secs(2));
    assert!(events(&mut subscriber).contains("+fix-slave-config"));
    assert!(run(&group.replicas[1], "ROLE").contains("6380"));
}

#[test]
fn sentinels_watch_several_primaries() {
    let clock = Clock::manual();
    let (first, replicas) = Emulator::replicated(clock, 1);
    let second = first.neighbour();
    let other_replica = second.replica();
    let sentinels = Emulator::sentinels_of(&[("one", &first), ("two", &second)], 3);
    assert_eq!(run(&first, "SET k 1"), "OK");
    assert_eq!(run(&second, "GET k"), "(nil)", "it is independent");
    assert_eq!(run(&sentinels[0], "SENTINEL FAILOVER two"), "OK");
    let find = |name: &str| run(&sentinels[1], &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {name}"));
    assert!(find("one").contains("6379"));
    assert!(find("two").contains("6382"));
    assert_eq!(run(&other_replica, "SET k 2"), "OK");
    assert_eq!(run(&replicas[0], "GET k"), "\"1\"");
}

#[test]
#[should_panic(expected = "the server named b is none")]
fn sentinels_of_a_replica_cannot_be() {
    let (primary, replicas) = Emulator::replicated(Clock::manual(), 1);
    Emulator::sentinels_of(&[("a", &primary), ("b", &replicas[0])], 1);
}

#[test]
#[should_panic(expected = "does not reach the others")]
fn sentinels_of_servers_that_do_not_reach_each_other_cannot_be() {
    let [first, second] = [Emulator::new(), Emulator::new()];
    Emulator::sentinels_of(&[("a", &first), ("b", &second)], 1);
}

#[test]
#[should_panic(expected = "a primary to watch")]
fn sentinels_of_nothing_cannot_be() {
    Emulator::sentinels_of(&[], 3);
}
