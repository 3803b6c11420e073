//! Roles that change: failovers, partitions, lag, and what clients see of them.

use std::time::Duration;

use emulator::{Clock, Emulator, Reply};

use crate::conformance::wire::{Emulated, Peer as _, parse};

/// A primary that allows `EMULATOR`, and its replicas.
fn group<const N: usize>() -> (Clock, Emulator, [Emulator; N]) {
    let clock = Clock::manual();
    let primary = Emulator::with_clock(clock.clone());
    let replicas = std::array::from_fn(|_| primary.replica());
    std::iter::once(&primary).chain(&replicas).for_each(Emulator::allow_control);
    (clock, primary, replicas)
}

/// Runs a command and shows its reply as `redis-cli` does.
fn run(emulator: &Emulator, command: &str) -> String {
    ask(&mut Emulated::open(emulator), command)
}

fn ask(client: &mut Emulated, command: &str) -> String {
    let reply = client.call(&command.split(' ').collect::<Vec<_>>());
    parse(&reply).map_or_else(String::new, |(wire, _)| wire.to_string())
}

#[test]
fn a_lock_is_lost_with_the_tail_that_no_replica_got() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&primary, "SET before 1"), "OK");
    assert_eq!(run(&replica, "EMULATOR LAG HOLD"), "OK");
    let mut holder = Emulated::open(&primary);
    assert_eq!(ask(&mut holder, "SET lock a NX PX 30000"), "OK");
    assert_eq!(ask(&mut holder, "WAIT 1 0"), "(nothing)", "it waits for the replica");
    assert_eq!(run(&primary, "EMULATOR FAILOVER"), "OK");

    assert!(holder.is_closing(), "clients of the old primary are disconnected");
    assert_eq!(run(&replica, "GET before"), "\"1\"");
    assert_eq!(run(&replica, "SET lock b NX PX 30000"), "OK", "a second holder");
    assert_eq!(run(&primary, "GET lock"), "\"b\"", "the old primary has lost its own writes");
    assert!(run(&primary, "SET lock c").contains("READONLY"));
}

#[test]
fn an_old_primary_that_stays_writable_gives_a_lock_to_a_second_holder() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&primary, "EMULATOR FAILOVER WRITABLE"), "OK");
    assert_eq!(run(&primary, "SET lock a NX"), "OK");
    assert_eq!(run(&replica, "SET lock b NX"), "OK");
    assert_eq!(run(&primary, "REPLICAOF 127.0.0.1 6380"), "OK");
    assert_eq!(run(&primary, "GET lock"), "\"b\"");
}

#[test]
fn a_chosen_replica_takes_over_and_the_others_follow_it() {
    let (_, primary, [first, second]) = group();
    assert_eq!(run(&primary, "EMULATOR FAILOVER TO 127.0.0.1 6381"), "OK");
    assert_eq!(run(&second, "SET k v"), "OK");
    assert_eq!(run(&first, "GET k"), "\"v\"");
    assert_eq!(run(&primary, "GET k"), "\"v\"");
    assert_eq!(run(&second, "WAIT 2 0"), "(integer) 2");
    assert!(run(&second, "INFO replication").contains("connected_slaves:2"));
}

#[test]
fn a_replica_gets_late_what_its_primary_writes() {
    let (clock, primary, [replica]) = group();
    assert_eq!(run(&replica, "EMULATOR LAG 100"), "OK");
    let mut client = Emulated::open(&primary);
    assert_eq!(ask(&mut client, "SET k v"), "OK");
    assert_eq!(run(&replica, "GET k"), "(nil)");
    assert_eq!(ask(&mut client, "WAIT 1 0"), "(nothing)");
    clock.advance(Duration::from_millis(100));
    primary.tick();
    assert_eq!(run(&replica, "GET k"), "\"v\"");
    assert_eq!(client.receive_at_once().or_else(|| client.receive()), Some(b":1\r\n".into()));
}

#[test]
fn writes_need_replicas_that_are_not_silent_for_too_long() {
    let (clock, primary, [replica]) = group();
    assert_eq!(run(&primary, "CONFIG SET min-replicas-to-write 1"), "OK");
    assert_eq!(run(&replica, "EMULATOR LAG HOLD"), "OK");
    clock.advance(Duration::from_secs(10));
    assert_eq!(run(&primary, "SET k v"), "OK", "the limit of 10 s is not over yet");
    clock.advance(Duration::from_secs(1));
    assert!(run(&primary, "SET k v").contains("NOREPLICAS"));
    assert_eq!(run(&replica, "EMULATOR LAG NONE"), "OK");
    assert_eq!(run(&primary, "SET k v"), "OK");
}

#[test]
fn parted_servers_replicate_again_when_the_network_heals() {
    let (_, primary, [first, second]) = group();
    assert_eq!(run(&primary, "EMULATOR PARTITION 127.0.0.1 6380"), "OK");
    assert_eq!(run(&primary, "SET k v"), "OK");
    assert_eq!(run(&first, "GET k"), "(nil)");
    assert!(run(&first, "INFO replication").contains("master_link_status:down"));
    assert_eq!(run(&second, "GET k"), "\"v\"");
    assert!(run(&primary, "INFO replication").contains("connected_slaves:1"));
    assert_eq!(run(&first, "EMULATOR HEAL"), "OK");
    assert_eq!(run(&first, "GET k"), "\"v\"");
}

#[test]
fn a_replica_of_a_replica_gets_everything() {
    let (_, primary, [replica]) = group();
    let last = replica.replica();
    assert_eq!(run(&primary, "RPUSH l a b"), "(integer) 2");
    assert_eq!(run(&last, "LPOP l"), run(&replica, "LPOP l"), "both refuse");
    assert_eq!(run(&last, "LLEN l"), "(integer) 2");
    assert_eq!(run(&primary, "EMULATOR FAILOVER"), "OK");
    assert_eq!(run(&replica, "RPUSH l c"), "(integer) 3");
    assert_eq!(run(&last, "LLEN l"), "(integer) 3");
    assert_eq!(run(&primary, "LLEN l"), "(integer) 3");
}

#[test]
fn servers_that_follow_each_other_get_nothing() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&primary, "SET k v"), "OK");
    assert_eq!(run(&primary, "REPLICAOF 127.0.0.1 6380"), "OK");
    assert_eq!(run(&primary, "GET k"), "\"v\"");
    assert!(run(&primary, "INFO replication").contains("master_link_status:down"));
    assert!(run(&replica, "INFO replication").contains("master_link_status:down"));
    assert!(run(&primary, "REPLICAOF 127.0.0.1 6379").contains("cannot be a replica of itself"));
    assert!(run(&primary, "INFO replication").contains("master_port:6380"), "nothing has changed");
}

#[test]
fn a_clock_that_is_ahead_ends_a_lease_early_after_a_promotion() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&primary, "SET lock a NX PX 10000"), "OK");
    run(&replica, "EMULATOR CLOCK JUMP 11000");
    assert_eq!(run(&replica, "DBSIZE"), "(integer) 1", "a replica removes no key");
    assert_eq!(run(&primary, "GET lock"), "\"a\"");
    assert_eq!(run(&primary, "EMULATOR FAILOVER"), "OK");
    assert_eq!(run(&replica, "SET lock b NX PX 10000"), "OK");
}

#[test]
fn time_passes_on_all_servers() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&primary, "SET k v PX 1000"), "OK");
    run(&primary, "EMULATOR CLOCK ADVANCE 1001");
    assert_eq!(run(&replica, "GET k"), "(nil)");
    assert_eq!(run(&replica, "TIME"), run(&primary, "TIME"));
}

/// It knows no other server, so that none tells it what it was.
#[test]
fn a_reset_makes_a_server_that_is_alone_a_primary_again() {
    let emulator = Emulator::new();
    let mut connection = emulator.connection();
    assert_eq!(connection.execute(&[b"REPLICAOF", b"127.0.0.1", b"1"]), Reply::OK);
    assert!(matches!(connection.execute(&[b"SET", b"a", b"1"]), Reply::Error(_)));
    emulator.reset(Clock::manual());
    assert_eq!(connection.execute(&[b"SET", b"a", b"1"]), Reply::OK);
}

#[test]
fn a_reset_restores_data_roles_and_links() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&primary, "EMULATOR FAILOVER"), "OK");
    assert_eq!(run(&replica, "SET k v"), "OK");
    assert_eq!(run(&primary, "EMULATOR RESET"), "OK");
    assert_eq!(run(&replica, "DBSIZE"), "(integer) 0");
    assert_eq!(run(&primary, "SET k w"), "OK");
    assert_eq!(run(&replica, "GET k"), "\"w\"");

    primary.reset(Clock::manual());
    assert_eq!(run(&replica, "GET k"), "(nil)");
}

#[test]
fn what_a_test_puts_into_a_primary_is_on_its_replicas() {
    let (_, primary, [replica]) = group();
    primary.set("k", "v");
    primary.set_elements("l", ["a", "b"]);
    assert_eq!(run(&replica, "GET k"), "\"v\"");
    assert_eq!(run(&replica, "LLEN l"), "(integer) 2");
    let before = primary.snapshot();
    assert_eq!(run(&primary, "FLUSHALL"), "OK");
    assert_eq!(run(&replica, "GET k"), "(nil)");
    primary.restore(&before);
    assert_eq!(run(&replica, "GET k"), "\"v\"");
    assert_eq!(run(&primary, "DEL k"), "(integer) 1");
    assert_eq!(run(&replica, "GET k"), "(nil)");
}

#[test]
fn a_lag_outlives_its_link() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&replica, "EMULATOR LAG HOLD"), "OK");
    assert_eq!(run(&primary, "EMULATOR PARTITION localhost 6380"), "OK");
    assert!(run(&replica, "INFO replication").contains("master_link_status:down"));
    assert_eq!(run(&primary, "SET before 1"), "OK");
    assert_eq!(run(&primary, "EMULATOR HEAL"), "OK");
    assert_eq!(run(&replica, "GET before"), "\"1\"", "the copy has it");
    assert_eq!(run(&primary, "SET after 1"), "OK");
    assert_eq!(run(&replica, "GET after"), "(nil)");
}

#[test]
fn a_failover_from_outside_ends_a_planned_one() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&replica, "EMULATOR LAG HOLD"), "OK");
    assert_eq!(run(&primary, "SET k v"), "OK");
    assert_eq!(run(&primary, "FAILOVER"), "OK");
    let mut held_back = Emulated::open(&primary);
    assert_eq!(ask(&mut held_back, "SET k w"), "(nothing)");
    assert_eq!(run(&primary, "EMULATOR FAILOVER"), "OK");
    assert!(run(&primary, "INFO replication").contains("master_failover_state:no-failover"));
    assert_eq!(run(&primary, "REPLICAOF NO ONE"), "OK");
}

#[test]
fn a_replica_that_is_dropped_is_no_replica_any_more() {
    let primary = Emulator::new();
    drop(primary.replica());
    assert!(run(&primary, "INFO replication").contains("connected_slaves:0"));
    assert_eq!(run(&primary, "WAIT 0 0"), "(integer) 0");
}

#[test]
fn memory_is_the_concern_of_the_primary() {
    let (_, primary, [replica]) = group();
    assert_eq!(run(&replica, "CONFIG SET maxmemory 1"), "OK");
    assert!(run(&replica, "SET k v").contains("READONLY"));
    assert_eq!(run(&primary, "SET k v"), "OK");
    assert_eq!(run(&replica, "GET k"), "\"v\"");
}

/// A client of a replica that nobody else uses is woken when the lag is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_message_wakes_its_subscriber() -> redis::RedisResult<()> {
    use tokio_stream::StreamExt as _;

    let primary = Emulator::new();
    let replica = primary.replica();
    replica.allow_control();
    assert_eq!(run(&replica, "EMULATOR LAG 50"), "OK");
    let server = replica.listen("127.0.0.1:0").await?;
    let mut subscriber = redis::Client::open(server.url())?.get_async_pubsub().await?;
    subscriber.subscribe("c").await?;
    assert_eq!(run(&primary, "PUBLISH c late"), "(integer) 0");
    let message = subscriber.into_on_message().next().await.expect("the connection is open");
    assert_eq!(message.get_payload::<String>()?, "late");
    Ok(())
}

/// A primary that runs a script for long keeps no time of a replica that wants to follow it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_primary_that_is_busy_does_not_stop_a_replica() -> redis::RedisResult<()> {
    let primary = Emulator::new();
    primary.start_with("busy-reply-threshold", "1").expect("it is a parameter");
    let replica = primary.replica();
    let (busy, server) = (primary.listen("127.0.0.1:0").await?, replica.listen("127.0.0.1:0").await?);
    let connect = |url: String| async { redis::Client::open(url)?.get_multiplexed_async_connection().await };
    let mut other = connect(server.url()).await?;
    let mut script = connect(busy.url()).await?;
    let mut killer = connect(busy.url()).await?;
    let endless = tokio::spawn(async move {
        redis::cmd("EVAL").arg("while true do end").arg(0).query_async::<redis::Value>(&mut script).await
    });
    while redis::cmd("PING").query_async::<String>(&mut killer).await.is_ok() {}
    () = redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).query_async(&mut other).await?;
    let port = busy.addr().port();
    () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).query_async(&mut other).await?;
    () = redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).query_async(&mut other).await?;
    let waited: Option<Vec<String>> =
        redis::cmd("BLPOP").arg("none").arg(0.01).query_async(&mut other).await?;
    assert_eq!(waited, None);
    () = redis::cmd("SCRIPT").arg("KILL").query_async(&mut killer).await?;
    assert!(endless.await.expect("the task ends").is_err());
    Ok(())
}

#[test]
fn wrong_requests_are_told_what_is_right() {
    let alone = Emulator::new();
    alone.allow_control();
    let (_, primary, [replica]) = group();
    for (server, command, told) in [
        (&alone, "EMULATOR FAILOVER", "this server is alone"),
        (&alone, "EMULATOR HEAL", "--replicas"),
        (&alone, "EMULATOR LAG 1", "only a replica can lag"),
        (&replica, "EMULATOR FAILOVER", "send EMULATOR FAILOVER to the primary"),
        (&replica, "EMULATOR LAG soon", "not 'soon'"),
        (&primary, "EMULATOR FAILOVER TO 127.0.0.1 1", "Replicas of this server: 127.0.0.1:6380"),
        (&primary, "EMULATOR FAILOVER NOW", "takes one of TO host port, WRITABLE, not 'NOW'"),
        (&primary, "EMULATOR FAILOVER TO 127.0.0.1 x", "port must be an integer"),
        (&primary, "EMULATOR PARTITION 127.0.0.1 1", "Servers: 127.0.0.1:6379, 127.0.0.1:6380"),
        (&primary, "EMULATOR PARTITION 127.0.0.1 6379", "cannot be parted from itself"),
        (&primary, "REPLICAOF localhost 6379", "cannot be a replica of itself"),
    ] {
        let reply = run(server, command);
        assert!(reply.contains(told), "{command}: {reply}");
    }
    assert_eq!(run(&primary, "GET k"), "(nil)", "nothing has happened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_reach_the_subscribers_of_replicas_that_listen() -> redis::RedisResult<()> {
    use tokio_stream::StreamExt as _;

    let primary = Emulator::new();
    let replica = primary.replica();
    let (server, replica_server) =
        (primary.listen("127.0.0.1:0").await?, replica.listen("127.0.0.1:0").await?);
    let client = redis::Client::open(replica_server.url())?;
    let mut subscriber = client.get_async_pubsub().await?;
    subscriber.subscribe("c").await?;
    let mut messages = subscriber.into_on_message();
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    () = redis::cmd("PUBLISH").arg(&["c", "hello"]).query_async(&mut connection).await?;
    let message = messages.next().await.expect("the connection is open");
    assert_eq!(message.get_payload::<String>()?, "hello");
    let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
    let port = replica_server.addr().port().to_string();
    assert!(format!("{role:?}").contains(&port), "{role:?} names the port of the replica");
    Ok(())
}

#[test]
fn the_effects_of_an_execution_can_be_read() {
    let emulator = Emulator::with_clock(Clock::manual());
    emulator.keep_effects();
    assert_eq!(emulator.connection().execute(&[b"SET", b"k", b"v", b"PX", b"5"]), Reply::OK);
    let units = emulator.effects();
    let argv = &units[0].effects()[0].argv;
    assert_eq!(argv.join(&b' ').escape_ascii().to_string(), "SET k v PXAT 1700000000005");
    emulator.connection().execute(&[b"GET", b"k"]);
    assert!(emulator.effects().is_empty());
}

#[test]
fn servers_know_the_address_of_a_url_at_once() {
    for _ in 0..20 {
        let (primary, replicas) = Emulator::replicated(Clock::system(), 1);
        let port =
            |server: &Emulator| server.url().trim_end_matches('/').rsplit(':').next().map(str::to_owned);
        let [of_primary, of_replica] = [&primary, &replicas[0]].map(|server| port(server).unwrap());
        assert!(run(&replicas[0], "ROLE").contains(&of_primary));
        assert!(run(&primary, "ROLE").contains(&of_replica));
    }
}
