//! What `EMULATOR` and the clock cause in a cluster: failovers, partitions, slots that move.

use std::time::Duration;

use emulator::{Clock, Emulator};

use crate::conformance::wire::{Emulated, Peer as _, parse};

/// The default of `cluster-node-timeout`.
const NODE_TIMEOUT: Duration = Duration::from_secs(15);
/// For how long a primary does not serve after it was in a minority.
const REJOIN: Duration = Duration::from_secs(5);
const DOWN: &str = "(error) CLUSTERDOWN The cluster is down";

/// Three primaries and a replica of each, on ports from 6379 on. They allow `EMULATOR`.
fn cluster() -> (Clock, Vec<Emulator>) {
    let clock = Clock::manual();
    let servers = Emulator::cluster(&clock, 3, 1).unwrap();
    servers.iter().for_each(Emulator::allow_control);
    (clock, servers)
}

/// Runs a command and shows its reply as `redis-cli` does.
#[track_caller]
fn run(emulator: &Emulator, command: &str) -> String {
    ask(&mut Emulated::open(emulator), command)
}

fn ask(client: &mut Emulated, command: &str) -> String {
    let reply = client.call(&command.split(' ').collect::<Vec<_>>());
    parse(&reply).map_or_else(String::new, |(wire, _)| wire.to_string())
}

/// The next reply of a client that waited.
fn next(client: &mut Emulated) -> String {
    let reply = client.receive().unwrap_or_default();
    parse(&reply).map_or_else(String::new, |(wire, _)| wire.to_string())
}

#[test]
fn a_failover_loses_what_the_replica_has_not_got_and_disconnects_nobody() {
    let (_, servers) = cluster();
    assert_eq!(run(&servers[0], "SET {b}before 1"), "OK");
    assert_eq!(run(&servers[3], "EMULATOR LAG HOLD"), "OK");
    let mut holder = Emulated::open(&servers[0]);
    assert_eq!(ask(&mut holder, "SET b lock NX"), "OK");
    assert_eq!(run(&servers[0], "EMULATOR FAILOVER"), "OK");
    assert_eq!(ask(&mut holder, "GET b"), "(error) MOVED 3300 127.0.0.1:6382");
    for other in &servers[..3] {
        assert_eq!(run(other, "SET b lock NX"), "(error) MOVED 3300 127.0.0.1:6382");
    }
    assert_eq!(run(&servers[3], "GET {b}before"), "\"1\"");
    assert_eq!(run(&servers[3], "SET b second NX"), "OK");
    assert!(run(&servers[0], "ROLE").starts_with("1) \"slave\""));
    assert_eq!(run(&servers[3], "WAIT 1 0"), "(integer) 1", "the old primary is its replica");
}

#[test]
fn an_old_primary_that_stays_writable_serves_until_it_notices_that_it_is_alone() {
    let (clock, servers) = cluster();
    assert_eq!(run(&servers[0], "EMULATOR FAILOVER WRITABLE"), "OK");
    let mut blocked = Emulated::open(&servers[0]);
    assert_eq!(ask(&mut blocked, "BLPOP {b}list 0"), "(nothing)");
    assert_eq!(run(&servers[0], "SET b first NX"), "OK");
    assert_eq!(run(&servers[1], "GET b"), "(error) MOVED 3300 127.0.0.1:6382");
    assert_eq!(run(&servers[3], "SET b second NX"), "OK", "two holders");
    clock.advance(NODE_TIMEOUT - Duration::from_millis(1));
    assert_eq!(run(&servers[0], "GET b"), "\"first\"");
    clock.advance(Duration::from_millis(1));
    assert_eq!(run(&servers[0], "GET b"), DOWN);
    assert_eq!(next(&mut blocked), DOWN);
    assert_eq!(run(&servers[0], "EVAL return(1) 1 b"), DOWN);
    assert!(run(&servers[0], "CLUSTER INFO").contains("cluster_state:fail"));
    assert!(run(&servers[0], "CLUSTER NODES").contains("master,fail?"));
    assert_eq!(run(&servers[3], "GET b"), "\"second\"");
    assert!(run(&servers[1], "CLUSTER NODES").contains("master,fail - "));
    assert_eq!(run(&servers[0], "EMULATOR HEAL"), "OK");
    assert_eq!(run(&servers[0], "GET b"), "(error) MOVED 3300 127.0.0.1:6382");
    assert_eq!(ask(&mut blocked, "READONLY"), "OK");
    assert_eq!(ask(&mut blocked, "GET b"), "\"second\"", "its own writes are lost");
}

#[test]
fn a_primary_in_a_minority_waits_before_it_serves_again() {
    let (clock, servers) = cluster();
    assert_eq!(run(&servers[0], "EMULATOR PARTITION ALL"), "OK");
    clock.advance(NODE_TIMEOUT);
    // Nobody takes over by itself, and the slots of a failed primary make all others refuse.
    for server in &servers {
        assert_eq!(run(server, "GET foo"), DOWN);
    }
    assert_eq!(run(&servers[1], "EMULATOR HEAL"), "OK");
    assert_eq!(run(&servers[2], "GET foo"), "(nil)");
    assert_eq!(run(&servers[0], "GET b"), DOWN);
    clock.advance(REJOIN - Duration::from_millis(1));
    assert_eq!(run(&servers[0], "GET b"), DOWN);
    clock.advance(Duration::from_millis(1));
    assert_eq!(run(&servers[0], "GET b"), "(nil)");
}

#[test]
fn a_short_partition_changes_nothing() {
    let (clock, servers) = cluster();
    assert_eq!(run(&servers[0], "EMULATOR PARTITION 127.0.0.1 6380 127.0.0.1 6381"), "OK");
    clock.advance(NODE_TIMEOUT - Duration::from_millis(1));
    assert_eq!(run(&servers[0], "SET b 1"), "OK");
    assert_eq!(run(&servers[0], "EMULATOR HEAL"), "OK");
    clock.advance(NODE_TIMEOUT);
    assert_eq!(run(&servers[0], "GET b"), "\"1\"");
}

#[test]
fn most_primaries_let_a_replica_take_over() {
    let (clock, servers) = cluster();
    assert_eq!(run(&servers[0], "EMULATOR PARTITION ALL"), "OK");
    let refused = "(error) ERR Master is down or failed, please use CLUSTER FAILOVER FORCE";
    assert_eq!(run(&servers[3], "CLUSTER FAILOVER"), refused);
    assert_eq!(run(&servers[3], "CLUSTER FAILOVER FORCE"), "OK");
    assert_eq!(run(&servers[3], "SET b 1"), "OK");
    assert_eq!(run(&servers[1], "GET b"), "(error) MOVED 3300 127.0.0.1:6382");

    // A replica in a minority gets no votes, but it can take over without them.
    assert_eq!(run(&servers[0], "EMULATOR HEAL"), "OK");
    assert_eq!(run(&servers[4], "EMULATOR PARTITION ALL"), "OK");
    clock.advance(NODE_TIMEOUT);
    assert_eq!(run(&servers[4], "CLUSTER FAILOVER FORCE"), "OK");
    assert!(run(&servers[4], "ROLE").starts_with("1) \"slave\""));
    assert_eq!(run(&servers[4], "CLUSTER FAILOVER TAKEOVER"), "OK");
    assert!(run(&servers[4], "ROLE").starts_with("1) \"master\""));
    assert_eq!(run(&servers[1], "SET c 1"), "OK");
    assert_eq!(run(&servers[4], "EMULATOR HEAL"), "OK");
    assert_eq!(run(&servers[1], "GET c"), "(error) MOVED 7365 127.0.0.1:6383");
}

#[test]
fn a_slot_moves_with_its_keys() {
    let (clock, servers) = cluster();
    assert_eq!(run(&servers[0], "SET b 1 PX 1000"), "OK");
    assert_eq!(run(&servers[0], "RPUSH {b}list x y"), "(integer) 2");
    let mut blocked = Emulated::open(&servers[0]);
    assert_eq!(ask(&mut blocked, "BLPOP {b}none 0"), "(nothing)");
    assert_eq!(run(&servers[0], "EMULATOR MOVE-SLOT 3300 127.0.0.1 6380"), "OK");
    assert_eq!(next(&mut blocked), "(error) MOVED 3300 127.0.0.1:6380");
    for other in [0, 2, 3, 5] {
        assert_eq!(run(&servers[other], "GET b"), "(error) MOVED 3300 127.0.0.1:6380");
    }
    assert_eq!(run(&servers[1], "PTTL b"), "(integer) 1000");
    assert_eq!(run(&servers[1], "LRANGE {b}list 0 -1"), "1) \"x\"\n2) \"y\"");
    let mut replica = Emulated::open(&servers[4]);
    assert_eq!(ask(&mut replica, "READONLY"), "OK");
    assert_eq!(ask(&mut replica, "GET b"), "\"1\"");
    assert_eq!([run(&servers[0], "DBSIZE"), run(&servers[3], "DBSIZE")], ["(integer) 0"; 2]);
    clock.advance(Duration::from_millis(1001));
    assert_eq!(run(&servers[1], "GET b"), "(nil)");
}

#[test]
fn a_slot_on_its_way_causes_ask_and_tryagain() {
    let (_, servers) = cluster();
    assert_eq!(run(&servers[0], "MSET {b}1 x {b}2 y"), "OK");
    assert_eq!(run(&servers[0], "EMULATOR MOVE-SLOT 3300 127.0.0.1 6380 KEYS {b}1"), "OK");
    assert_eq!(run(&servers[0], "GET {b}1"), "(error) ASK 3300 127.0.0.1:6380");
    assert_eq!(run(&servers[0], "GET {b}2"), "\"y\"");
    let try_again = "(error) TRYAGAIN Multiple keys request during rehashing of slot";
    assert_eq!(run(&servers[0], "MGET {b}1 {b}2"), try_again);
    assert_eq!(run(&servers[1], "GET {b}1"), "(error) MOVED 3300 127.0.0.1:6379");
    let mut client = Emulated::open(&servers[1]);
    assert_eq!(ask(&mut client, "ASKING"), "OK");
    assert_eq!(ask(&mut client, "GET {b}1"), "\"x\"");
    assert_eq!(run(&servers[0], "EMULATOR MOVE-SLOT 3300 127.0.0.1 6380"), "OK");
    assert_eq!(run(&servers[1], "MGET {b}1 {b}2"), "1) \"x\"\n2) \"y\"");
    assert!(!run(&servers[1], "CLUSTER NODES").contains('['), "no slot is on its way");
}

#[test]
fn writes_wait_while_a_primary_hands_over() {
    let (clock, servers) = cluster();
    assert_eq!(run(&servers[3], "EMULATOR LAG 100"), "OK");
    assert_eq!(run(&servers[0], "SET b 1"), "OK");
    assert_eq!(run(&servers[3], "CLUSTER FAILOVER"), "OK");
    let mut writer = Emulated::open(&servers[0]);
    assert_eq!(ask(&mut writer, "SET b 2"), "(nothing)");
    assert_eq!(run(&servers[0], "GET b"), "\"1\"");
    clock.advance(Duration::from_millis(100));
    servers.iter().for_each(Emulator::tick);
    assert_eq!(next(&mut writer), "(error) MOVED 3300 127.0.0.1:6382");
    assert_eq!(run(&servers[3], "GET b"), "\"1\"");
}

#[test]
fn a_reset_restores_slots_roles_and_data() {
    let (_, servers) = cluster();
    let view = run(&servers[5], "CLUSTER SLOTS");
    assert_eq!(run(&servers[0], "SET b 1"), "OK");
    assert_eq!(run(&servers[0], "EMULATOR MOVE-SLOT 3300 127.0.0.1 6380"), "OK");
    assert_eq!(run(&servers[1], "EMULATOR FAILOVER"), "OK");
    assert_eq!(run(&servers[2], "EMULATOR PARTITION ALL"), "OK");
    assert_eq!(run(&servers[4], "EMULATOR RESET"), "OK");
    for server in &servers {
        assert_eq!(run(server, "CLUSTER SLOTS"), view);
        assert_eq!(run(server, "DBSIZE"), "(integer) 0");
    }
    assert_eq!(run(&servers[0], "SET b 1"), "OK");
    assert_eq!(run(&servers[0], "WAIT 1 0"), "(integer) 1");
}

#[test]
fn a_client_that_moves_a_slot_may_listen_in_it() {
    let (_, servers) = cluster();
    let mut client = Emulated::open(&servers[0]);
    client.call(&["HELLO", "3"]);
    assert!(ask(&mut client, "SSUBSCRIBE b").contains("ssubscribe"));
    assert_eq!(ask(&mut client, "EMULATOR MOVE-SLOT 3300 127.0.0.1 6380"), "OK");
    assert_eq!(next(&mut client), "1> \"sunsubscribe\"\n2> \"b\"\n3> (integer) 0");
    assert_eq!(ask(&mut client, "PUBSUB SHARDCHANNELS"), "(empty array)");
}

#[test]
fn wrong_requests_are_told_what_is_right() {
    let (_, servers) = cluster();
    let texts = [
        ("EMULATOR MOVE-SLOT 16384 127.0.0.1 6380", "slot must be an integer from 0 to 16383, not '16384'"),
        ("EMULATOR MOVE-SLOT 1 127.0.0.1 1", "there is no server at 127.0.0.1:1. Servers: 127.0.0.1:6379"),
        ("EMULATOR MOVE-SLOT 1 127.0.0.1 6379", "slot 1 is here already"),
        ("EMULATOR MOVE-SLOT 1 127.0.0.1 6382", "127.0.0.1:6382 is a replica: name a primary"),
        ("EMULATOR MOVE-SLOT 6000 127.0.0.1 6381", "slot 6000 belongs to 127.0.0.1:6380: send"),
        ("EMULATOR MOVE-SLOT 1 127.0.0.1 6380 KEYS b", "key 'b' is in slot 3300, not in 1"),
        ("EMULATOR MOVE-SLOT 1 127.0.0.1 6380 FOO", "takes one of KEYS [key ...], not 'FOO'"),
        (
            "EMULATOR FAILOVER TO 127.0.0.1 6383",
            "no such replica can take over. Replicas of this server: 127.0.0.1:6382",
        ),
        ("EMULATOR PARTITION 127.0.0.1 6380 127.0.0.1", "wrong number of arguments"),
        ("EMULATOR PARTITION 127.0.0.1 6380 127.0.0.1 6379", "cannot be parted from itself"),
        ("CLUSTER MEET 127.0.0.1 1", "127.0.0.1:1 is no server of this cluster"),
    ];
    for (command, text) in texts {
        let reply = run(&servers[0], command);
        assert!(reply.starts_with("(error) ERR ") && reply.contains(text), "{command}: {reply}");
    }
    assert_eq!(run(&servers[0], "CLUSTER INFO").matches("cluster_slots_ok:16384").count(), 1);
    assert!(run(&Emulator::new(), "CLUSTER HELP").contains("cluster support disabled"));
    let outsider = servers[0].replica();
    assert!(run(&servers[0], "EMULATOR MOVE-SLOT 1 127.0.0.1 6385").contains("is no server of the cluster"));
    assert_eq!(run(&outsider, "GET b"), "(nil)");
    assert_eq!(run(&servers[0], "EMULATOR PARTITION ALL"), "OK");
    assert_eq!(run(&servers[0], "EMULATOR FAILOVER"), "OK");
    let alone = Emulator::new();
    alone.allow_control();
    assert!(run(&alone, "EMULATOR MOVE-SLOT 1 127.0.0.1 6380").contains("cluster support disabled"));
    for (primaries, replicas) in [(0, 0), (0, 3), (500, 1_000), (usize::MAX, 2)] {
        let error = Emulator::cluster(&Clock::manual(), primaries, replicas).unwrap_err();
        assert!(error.to_string().contains("a cluster has 1 to 1000 servers"), "{error}");
    }
}

#[test]
fn what_changes_slots_conflicts_with_every_command() {
    let (_, servers) = cluster();
    let footprint = |command: &str| {
        run(&servers[0], command);
        servers[0].footprint()
    };
    let [read, layout, missed] = ["GET b", "CLUSTER SLOTS", "GET foo"].map(footprint);
    assert!(!read.conflicts_with(&layout) && !missed.conflicts_with(&layout));
    let target = run(&servers[1], "CLUSTER MYID").replace('"', "");
    for command in [
        &format!("CLUSTER SETSLOT 3300 MIGRATING {target}"),
        "CLUSTER DELSLOTS 1",
        "EMULATOR MOVE-SLOT 3300 127.0.0.1 6380",
    ] {
        let change = footprint(command);
        assert!([&read, &layout, &missed].iter().all(|other| change.conflicts_with(other)), "{command}");
    }
}
