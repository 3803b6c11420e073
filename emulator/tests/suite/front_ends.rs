//! The three front ends of the emulator lead to the same engine, and each command is atomic.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::BytesMut;
use emulator::{Clock, Connection, Emulator, Reply, Timestamp};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncCommands as _, RedisResult};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The conversation that must work through any front end.
async fn converse(connection: &mut (impl ConnectionLike + Send + Sync)) -> RedisResult<()> {
    () = connection.set("k", "v").await?;
    assert_eq!(connection.get::<_, String>("k").await?, "v");
    let error = connection.incr::<_, _, i64>("k", 1).await.unwrap_err();
    assert_eq!(error.detail(), Some("value is not an integer or out of range"));
    let (a, b): (i64, i64) = redis::pipe().atomic().incr("n", 1).incr("n", 1).query_async(connection).await?;
    assert_eq!((a, b), (1, 2));
    let (c, d): (i64, String) = redis::pipe().incr("n", 1).get("k").query_async(connection).await?;
    assert_eq!((c, d.as_str()), (3, "v"));
    let script = redis::Script::new("return redis.call('GET', KEYS[1]) .. ARGV[1]");
    assert_eq!(script.key("k").arg("!").invoke_async::<String>(connection).await?, "v!");
    Ok(())
}

#[tokio::test]
async fn the_direct_connection() {
    converse(&mut Emulator::new().connection()).await.unwrap();
}

#[test]
fn the_direct_connection_without_async() {
    let mut connection = Emulator::new().connection();
    () = redis::cmd("SET").arg("k").arg("v").query(&mut connection).unwrap();
    assert_eq!(redis::cmd("GET").arg("k").query::<String>(&mut connection).unwrap(), "v");
    let (n, v): (i64, String) = redis::pipe().atomic().incr("n", 1).get("k").query(&mut connection).unwrap();
    assert_eq!((n, v.as_str()), (1, "v"));
}

#[tokio::test]
async fn the_in_memory_stream() {
    let stream = Emulator::new().stream();
    static INFO: LazyLock<redis::RedisConnectionInfo> = LazyLock::new(redis::RedisConnectionInfo::default);
    let (mut connection, driver) = MultiplexedConnection::new(&INFO, stream).await.unwrap();
    tokio::spawn(driver);
    converse(&mut connection).await.unwrap();
}

#[tokio::test]
async fn tcp() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    converse(&mut client.get_multiplexed_async_connection().await.unwrap()).await.unwrap();
    // The data stays after the server is dropped.
    drop(server);
    assert_eq!(emulator.get("k").as_deref(), Some(&b"v"[..]));
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket() {
    let path = std::env::temp_dir().join(format!("lockstep-{}.sock", std::process::id()));
    let emulator = Emulator::new();
    for _ in 0..2 {
        let server = emulator.listen_unix(&path, 0o600).await.unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        converse(&mut client.get_multiplexed_async_connection().await.unwrap()).await.unwrap();
        emulator.reset(Clock::system());
    }
    assert!(!path.exists(), "the socket goes with its server");
}

/// Redis reads nothing while it sleeps, so it finds the end of the requests after its replies.
#[tokio::test]
async fn a_client_that_sends_no_more_gets_the_replies_after_a_sleep() {
    let emulator = Emulator::new();
    emulator.start_with("enable-debug-command", "yes").unwrap();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut sleeper = TcpStream::connect(server.addr()).await.unwrap();
    let mut other = TcpStream::connect(server.addr()).await.unwrap();
    sleeper.write_all(b"DEBUG SLEEP 0.2\r\nPING 1\r\n").await.unwrap();
    sleeper.shutdown().await.unwrap();
    emulator.until_blocked(1).await;
    other.write_all(b"PING 2\r\nPING 3\r\n").await.unwrap();
    other.shutdown().await.unwrap();
    for (mut client, expected) in [(sleeper, "+OK\r\n$1\r\n1\r\n"), (other, "$1\r\n2\r\n$1\r\n3\r\n")] {
        let mut replies = String::new();
        client.read_to_string(&mut replies).await.unwrap();
        assert_eq!(replies, expected);
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_closes_its_connections() {
    let server = Emulator::new().listen("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(server.addr()).await.unwrap();
    client.write_all(b"PING\r\n").await.unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).await.unwrap();
    let addr = server.addr();
    drop(server);
    assert_eq!(client.read(&mut reply).await.unwrap_or_default(), 0);
    assert!(TcpStream::connect(addr).await.is_err());
}

#[test]
fn tcp_without_a_runtime() {
    let emulator = Emulator::new();
    let url = emulator.url();
    assert_eq!(emulator.clone().url(), url, "one listener is enough");
    let mut connection = emulator.client().get_connection().unwrap();
    () = redis::cmd("SET").arg(&["k", "v", "EX", "60"]).query(&mut connection).unwrap();
    () = redis::cmd("SET").arg(&["other", "v"]).query(&mut connection).unwrap();
    assert_eq!(emulator.keys("*"), ["k", "other"]);
    assert_eq!(emulator.keys("o*"), ["other"]);
    () = redis::cmd("SET").arg(&["", "v"]).query(&mut connection).unwrap();
    assert_eq!(emulator.keys("*"), ["", "k", "other"], "as KEYS");
    assert!(emulator.ttl("k").unwrap() > Duration::from_secs(50));
    assert_eq!(emulator.ttl("other"), None);
    drop(emulator);
    assert!(redis::Client::open(url).unwrap().get_connection().is_err(), "with the last handle it ends");
}

#[tokio::test]
async fn the_url_inside_of_a_runtime() {
    let emulator = Emulator::new();
    converse(&mut emulator.client().get_multiplexed_async_connection().await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn tcp_with_resp3() {
    let server = Emulator::new().listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
    converse(&mut client.get_multiplexed_async_connection().await.unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_transactions_and_scripts_are_atomic_on_any_runtime() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    // If no other command runs in between, each adds two to the counter, so that it stays even.
    let script =
        "redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[1]) return redis.call('GET', KEYS[1]) % 2";
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (emulator, client) = (emulator.clone(), client.clone());
            tokio::spawn(async move {
                let mut direct = emulator.connection();
                let mut tcp = client.get_multiplexed_async_connection().await.unwrap();
                for _ in 0..100 {
                    let mut transaction = redis::pipe();
                    transaction.atomic().incr("n", 1).incr("n", 1).get("n");
                    let mut eval = redis::cmd("EVAL");
                    eval.arg(script).arg(1).arg("n");
                    let (odd_by_exec, odd_by_eval): (i64, i64) = if n % 2 == 0 {
                        let (.., n): (i64, i64, i64) = transaction.query_async(&mut direct).await.unwrap();
                        (n % 2, eval.query_async(&mut direct).await.unwrap())
                    } else {
                        let (.., n): (i64, i64, i64) = transaction.query_async(&mut tcp).await.unwrap();
                        (n % 2, eval.query_async(&mut tcp).await.unwrap())
                    };
                    assert_eq!((odd_by_exec, odd_by_eval), (0, 0));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(emulator.get("n").as_deref(), Some(&b"3200"[..]));
}

#[tokio::test(start_paused = true)]
async fn time_to_live_follows_tokios_clock() {
    let mut connection = Emulator::with_clock(Clock::tokio()).connection();
    () = redis::cmd("SET").arg(&["k", "v", "PX", "5000"]).query_async(&mut connection).await.unwrap();
    tokio::time::advance(Duration::from_millis(5_000)).await;
    assert!(connection.exists::<_, bool>("k").await.unwrap(), "at the deadline the key is still there");
    // tokio advances its clock by itself, so the sleep takes no real time.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!connection.exists::<_, bool>("k").await.unwrap());
}

#[test]
fn there_may_be_many_scripts() {
    let mut connection = Emulator::new().connection();
    for n in 0..20_000_i64 {
        let reply = connection.execute(&[b"EVAL", format!("return {n}").as_bytes(), b"0"]);
        assert_eq!(reply, emulator::Reply::Integer(n));
    }
    let first = "06d3d9b2060dd51343d5f19f0e531f15c507e3d1";
    assert_eq!(
        connection.execute(&[b"SCRIPT", b"EXISTS", first.as_bytes()]),
        emulator::Reply::Array(vec![emulator::Reply::Integer(1)])
    );
}

#[test]
fn a_connection_that_is_about_to_close_gets_no_messages() {
    let emulator = Emulator::new();
    let mut subscriber = Connection::open(&emulator);
    let mut output = BytesMut::new();
    subscriber.receive(b"SUBSCRIBE news\r\n*x\r\n", &mut output);
    assert!(output.ends_with(b"-ERR Protocol error: invalid multibulk length\r\n"), "{output:?}");
    output.clear();
    assert_eq!(emulator.connection().execute(&[b"PUBLISH", b"news", b"late"]), Reply::Integer(1));
    subscriber.receive(b"", &mut output);
    assert!(output.is_empty(), "{output:?}");
}

#[test]
fn a_key_may_live_for_longer_than_clocks_count() {
    let emulator = Emulator::with_clock(Clock::manual());
    let span_ms: u64 = 1 << 62;
    emulator.connection().execute(&[b"SET", b"k", b"v", b"PX", span_ms.to_string().as_bytes()]);
    assert_eq!(emulator.ttl("k"), Some(Duration::from_millis(span_ms)));
}

#[test]
fn a_clock_may_be_set_to_before_1970() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    connection.execute(&[b"SET", b"k", b"v", b"PXAT", b"9223372036854775807"]);
    clock.set(Timestamp::from_millis(-1_500));
    connection.execute(&[b"SET", b"old", b"v", b"PX", b"100"]);
    let mut ask = |command: &str, key: &str| connection.execute(&[command.as_bytes(), key.as_bytes()]);
    assert_eq!(ask("PTTL", "k"), Reply::Integer(i64::MAX));
    assert_eq!(ask("TTL", "k"), Reply::Integer(9_223_372_036_854_776));
    assert_eq!(ask("PEXPIRETIME", "old"), Reply::Integer(-1_400));
    // Rounded as in C.
    assert_eq!(ask("EXPIRETIME", "old"), Reply::Integer(0));
    assert!(matches!(ask("INFO", "keyspace"), Reply::Bulk(_) | Reply::Verbatim { .. }));
    assert!(emulator.dump(0).contains("ms left"));
}

#[test]
fn footprints_say_what_was_read_and_what_was_changed() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    let mut check = |line: &str, footprint: &str| {
        let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        connection.execute(&argv);
        assert_eq!(emulator.footprint().to_string(), footprint, "{line}");
    };
    check("SET k v NX PX 5", "read clock\nread 0 k\nwrite 0 k until 1700000000005\n");
    check("SET k w NX", "read 0 k until 1700000000005\n");
    check("GET nosuch", "read 0 nosuch\n");
    check("DEL k nosuch", "read 0 k until 1700000000005\nwrite 0 k\nread 0 nosuch\n");
    check("ZADD z 1 a", "read 0 z member a\nwrite 0 z member a\nwrite 0 z places 1 a to 1 a\n");
    check("ZADD z 1 a", "read 0 z member a\n");
    check("ZRANK z a", "read 0 z member a\nread 0 z places before -inf to 1 a\n");
    check("ZREMRANGEBYSCORE z -inf (1", "read 0 z places before -inf to after 1\n");
    check("ZPOPMAX z", "read 0 z\nwrite 0 z\n");
    check("HDEL h f", "read 0 h\n");
    check("KEYS *", "read 0\n");
    check("TIME", "read clock\n");
    check("SUBSCRIBE c", "read connections\nwrite subscription to c\n");
    check("RESET", "read connections\nwrite subscription to c\n");
    check("CLIENT ID", "");
    for line in ["CLIENT TRACKING ON", "CLIENT UNBLOCK 9", "CLIENT KILL ID 9", "CLIENT UNPAUSE"] {
        check(line, "write settings\n");
    }
    check("CLIENT LIST", "write settings\nread clock\n");
    check("CLIENT PAUSE 0", "write settings\nread clock\nread clock\n");
    let sha = "930269f31393d0be681588b6ab08dccee7d6bb67";
    check(&format!("EVALSHA {} 0", sha.to_uppercase()), &format!("read script {sha}\n"));
    check("SCRIPT LOAD return(1)", &format!("write script {sha}\n"));
    check("SCRIPT LOAD return(1)", &format!("read script {sha}\n"));
    check("EVAL return(1) 0", &format!("read script {sha}\n"));
    check("SCRIPT FLUSH", "write scripts\n");
}

#[test]
fn from_its_first_command_on_a_server_can_leave_no_footprint() {
    let emulator = Emulator::new();
    emulator.leave_no_footprint();
    let mut connection = emulator.connection();
    let keys: Vec<String> = (0..20_000).map(|n| format!("k{n}")).collect();
    let argv: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    for _ in 0..2 {
        assert_eq!(connection.execute(&argv), Reply::Integer(0));
        assert!(emulator.footprint().is_empty());
    }
}

#[test]
fn a_snapshot_brings_everything_back() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    connection.execute(&[b"SET", b"k", b"v", b"PX", b"5"]);
    connection.execute(&[b"ZADD", b"z", b"1", b"a", b"2", b"b"]);
    connection.execute(&[b"HSET", b"h", b"f", b"v"]);
    let (snapshot, text) = (emulator.snapshot(), emulator.dump(0));
    assert_eq!(text, "h = {f: v}\nk = \"v\" (5 ms left)\nz = [a 1, b 2]\n");
    connection.execute(&[b"FLUSHALL"]);
    assert_eq!(emulator.dump(0), "");
    emulator.restore(&snapshot);
    assert_eq!(emulator.dump(0), text);
    assert_eq!(snapshot.at(Clock::manual().now()).dump(0), text);
}

/// The digest of a snapshot has all that a later command can notice, and nothing else.
#[test]
fn equal_servers_have_snapshots_of_equal_digests() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let digest = |commands: &[&str]| {
        emulator.reset(clock.clone());
        let mut connection = emulator.connection();
        for line in commands {
            let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            connection.execute(&argv);
        }
        emulator.snapshot().digest()
    };
    for (one, other) in [
        (&["SET a 1"][..], &["SET a 2", "SET a 1"][..]),
        (&[], &["SET a 1 PX 5", "DEL a"]),
        (&["ZADD z 1 a"], &["ZADD z 2 a", "ZADD z 1 a"]),
        (&["SCRIPT LOAD x=1", "SCRIPT LOAD y=1"], &["SCRIPT LOAD y=1", "SCRIPT LOAD x=1"]),
    ] {
        assert_eq!(digest(one), digest(other), "{one:?} {other:?}");
    }
    let unequal: [&[&str]; 20] = [
        &[],
        &["SET a 1"],
        &["SET a 2"],
        &["SET a 1 PX 5"],
        &["SET a 1 PX 6"],
        &["SET b 1"],
        &["SET a 1", "SET b 1"],
        &["SET b 1", "SET a 1"],
        &["RPUSH a 1"],
        &["RPUSH a 1 2"],
        &["SADD a 1"],
        &["SADD a x"],
        &["HSET a 1 1"],
        &["HSET a 1 2"],
        &["ZADD a 1 1"],
        &["ZADD a 2 1"],
        &["SADD a x y", "SPOP a", "DEL a"],
        &["SCRIPT LOAD x=1"],
        &["SCRIPT LOAD y=1"],
        &["DEBUG SET-ACTIVE-EXPIRE 0"],
    ];
    let digests: Vec<u64> = unequal.into_iter().map(digest).collect();
    for (nth, one) in digests.iter().enumerate() {
        let same = digests[..nth].iter().position(|other| other == one);
        assert_eq!(same.map(|same| unequal[same]), None, "{:?}", unequal[nth]);
    }
}

#[test]
fn settings_are_of_the_snapshot_and_concern_every_command() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    let mut run = |line: &str| {
        let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        (connection.execute(&argv), emulator.footprint())
    };
    let snapshot = emulator.snapshot();
    let (_, set) = run("CONFIG SET set-max-intset-entries 0");
    let (_, same) = run("CONFIG SET set-max-intset-entries 0");
    let (before, get) = run("CONFIG GET set-max-intset-entries");
    assert_eq!(
        (set.to_string(), same.to_string()),
        ("read settings\nwrite settings\n".into(), get.to_string())
    );
    let (_, sadd) = run("SADD s 1");
    assert_eq!(run("OBJECT ENCODING s").0, Reply::bulk("hashtable"));
    for other in [&run("PING").1, &sadd, &get, &set] {
        assert!(set.conflicts_with(other) && other.conflicts_with(&set), "{other}");
    }
    assert!(!same.conflicts_with(&sadd) && !get.conflicts_with(&same));
    emulator.restore(&snapshot);
    assert_ne!(run("CONFIG GET set-max-intset-entries").0, before);
    run("SADD s 1");
    assert_eq!(run("OBJECT ENCODING s").0, Reply::bulk("intset"));
}

#[tokio::test]
async fn one_client_too_many_at_the_direct_connection() {
    let emulator = Emulator::new();
    let mut first = emulator.connection();
    () = redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"]).query_async(&mut first).await.unwrap();
    let mut second = emulator.connection();
    let error = redis::cmd("PING").query_async::<String>(&mut second).await.unwrap_err();
    assert_eq!(error.detail(), Some("max number of clients reached"));
    assert!(redis::cmd("PING").query_async::<String>(&mut second).await.unwrap_err().is_io_error());
    drop(first);
    drop(second);
    assert_eq!(converse(&mut emulator.connection()).await, Ok(()));
}

/// Checks `TIME` in a script, a key's remaining time to live, and commands that wait for the clock.
async fn follow_the_clock(connection: &mut (impl ConnectionLike + Send + Sync)) {
    let time = redis::Script::new("local time = redis.call('TIME') return time[1] * 1000 + time[2] / 1000");
    let start: i64 = time.prepare_invoke().invoke_async(connection).await.unwrap();
    () = redis::cmd("SET").arg(&["k", "v", "PX", "60000"]).query_async(connection).await.unwrap();
    tokio::time::advance(Duration::from_millis(1_500)).await;
    assert_eq!(time.prepare_invoke().invoke_async::<i64>(connection).await.unwrap() - start, 1_500);
    assert_eq!(pttl(connection, "k").await, 58_500);

    // No code advances the clock here. tokio does it, because every task waits.
    () = redis::cmd("CLIENT").arg(&["PAUSE", "10000", "WRITE"]).query_async(connection).await.unwrap();
    () = connection.set("k", "w").await.unwrap();
    assert_eq!(time.prepare_invoke().invoke_async::<i64>(connection).await.unwrap() - start, 11_500);
    assert_eq!(connection.blpop::<_, Option<(String, String)>>("list", 30.0).await.unwrap(), None);
    assert_eq!(time.prepare_invoke().invoke_async::<i64>(connection).await.unwrap() - start, 41_500);
}

#[tokio::test(start_paused = true)]
async fn tokios_clock_at_the_direct_connection() {
    follow_the_clock(&mut Emulator::with_clock(Clock::tokio()).connection()).await;
}

#[tokio::test(start_paused = true)]
async fn tokios_clock_at_the_in_memory_stream() {
    let stream = Emulator::with_clock(Clock::tokio()).stream();
    let info = redis::RedisConnectionInfo::default();
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&info, stream, patient).await.unwrap();
    tokio::spawn(driver);
    follow_the_clock(&mut connection).await;
}

/// A connection to the emulator's URL that waits for each reply, however long it takes.
async fn connect_patiently(emulator: &Emulator) -> MultiplexedConnection {
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    emulator.client().get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn tokios_clock_at_a_client() {
    follow_the_clock(&mut connect_patiently(&Emulator::with_clock(Clock::tokio())).await).await;
}

/// tokio moves its clock if it finds no event. So a request or a reply on its way, however large,
/// must be an event.
#[tokio::test(start_paused = true)]
async fn no_time_passes_while_a_client_and_its_server_talk() {
    let clock = Clock::tokio();
    let emulator = Emulator::with_clock(clock.clone());
    let started = clock.now();
    let large = vec![b'x'; 8 << 20];
    let talk = async |n: usize| {
        let mut connection = emulator.client().get_multiplexed_async_connection().await.unwrap();
        () = connection.set(n, &large).await.unwrap();
        assert!(connection.get::<_, Vec<u8>>(n).await.unwrap() == large);
        let mut pipeline = redis::pipe();
        (0..1_000).for_each(|_| _ = pipeline.incr("sum", 1).ignore());
        () = pipeline.query_async(&mut connection).await.unwrap();
    };
    tokio::join!(talk(0), talk(1), talk(2), talk(3));
    assert_eq!(emulator.get("sum").as_deref(), Some(&b"4000"[..]));
    assert_eq!(clock.now(), started);
}

#[tokio::test(start_paused = true)]
async fn a_blocking_client_of_tokios_clock_has_a_thread_of_its_own() {
    let emulator = Emulator::with_clock(Clock::tokio());
    let client = emulator.client();
    let pinged = tokio::task::spawn_blocking(move || {
        redis::cmd("PING").query::<String>(&mut client.get_connection().unwrap()).unwrap()
    });
    assert_eq!(pinged.await.unwrap(), "PONG");
}

#[tokio::test(start_paused = true)]
async fn each_server_has_a_clock_of_its_own() {
    let time = Clock::tokio();
    let (fast, slow) = (time.drifting(500_000), time.drifting(-500_000));
    let mut connections = [fast, slow].map(|clock| Emulator::with_clock(clock).connection());
    for connection in &mut connections {
        () = redis::cmd("SET").arg(&["k", "v", "PX", "3000"]).query_async(connection).await.unwrap();
    }
    tokio::time::advance(Duration::from_millis(2_001)).await;
    let [fast, slow] = &mut connections;
    assert_eq!((pttl(fast, "k").await, pttl(slow, "k").await), (-2, 2_000));
}

async fn pttl(connection: &mut (impl ConnectionLike + Send + Sync), key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query_async(connection).await.unwrap()
}
