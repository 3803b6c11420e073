//! Output without a request: messages, replies to blocked clients, and events of the clock. Each is
//! tested at every front end.

use std::time::Duration;

use emulator::{Clock, Emulator, Reply};
use redis::AsyncCommands as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn words(message: &Reply) -> Vec<String> {
    let Reply::Push(parts) = message else { panic!("not a message: {message:?}") };
    let word = |part: &Reply| match part {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Integer(n) => n.to_string(),
        other => panic!("no word of a message: {other:?}"),
    };
    parts.iter().map(word).collect()
}

#[tokio::test]
async fn messages_through_the_direct_connection() {
    let emulator = Emulator::with_clock(Clock::manual());
    let (mut listener, mut speaker) = (emulator.connection(), emulator.connection());
    let confirmed = listener.execute(&[b"SUBSCRIBE", b"news", b"rumours"]);
    assert_eq!(words(&confirmed), ["subscribe", "news", "1"]);
    assert_eq!(words(&listener.message().await), ["subscribe", "rumours", "2"]);
    let listening = tokio::spawn(async move { listener.message().await });
    tokio::task::yield_now().await;
    assert_eq!(speaker.publish::<_, _, i64>("news", "hello").await.unwrap(), 1);
    assert_eq!(words(&listening.await.unwrap()), ["message", "news", "hello"]);
    assert_eq!(speaker.publish::<_, _, i64>("news", "hello").await.unwrap(), 0, "the listener is gone");
}

/// Blocked and subscribed clients are disconnected, and no others. Messages that were sent before
/// arrive first.
#[tokio::test]
async fn a_server_that_hangs_up() {
    let emulator = Emulator::with_clock(Clock::manual());
    let (mut listener, waiter, mut other) =
        (emulator.connection(), emulator.connection(), emulator.connection());
    listener.execute(&[b"SUBSCRIBE", b"news"]);
    other.execute(&[b"PUBLISH", b"news", b"last"]);
    let waiting = tokio::spawn(async move {
        let reply = waiter.execute_and_wait(&[b"BLPOP", b"list", b"0"]).await;
        (reply, waiter.is_hung_up())
    });
    tokio::task::yield_now().await;
    emulator.hang_up();
    assert_eq!(emulator.footprint().to_string(), "write connections\nwrite subscription to news\n");
    assert_eq!(waiting.await.unwrap(), (Reply::NOTHING, true));
    assert_eq!(words(&listener.message().await), ["message", "news", "last"]);
    assert_eq!((listener.message().await, listener.is_hung_up()), (Reply::NOTHING, true));
    assert_eq!(other.execute(&[b"RPUSH", b"list", b"1"]), Reply::Integer(1));
    assert_eq!(other.execute(&[b"PUBLISH", b"news", b"more"]), Reply::Integer(0));
    assert_eq!(other.execute(&[b"LLEN", b"list"]), Reply::Integer(1));
}

#[tokio::test]
async fn a_server_that_hangs_up_over_tcp() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut waiter = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    waiter.write_all(b"BLPOP list 0\r\n").await.unwrap();
    emulator.until_blocked(1).await;
    emulator.hang_up();
    assert_eq!(waiter.read(&mut [0; 16]).await.unwrap(), 0);
}

/// On the wire, these messages stand inside the reply.
#[tokio::test]
async fn messages_about_what_a_direct_connection_does_itself() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    for argv in [
        &[&b"HELLO"[..], b"3"][..],
        &[b"CONFIG", b"SET", b"notify-keyspace-events", b"KA"],
        &[b"SUBSCRIBE", b"__keyspace@0__:z"],
        &[b"ZADD", b"z", b"1", b"a", b"2", b"b"],
        &[b"MULTI"],
        &[b"ZPOPMIN", b"z", b"1"],
        &[b"BZPOPMIN", b"z", b"0"],
    ] {
        connection.execute(argv);
    }
    let member = |member: &str, score| [Reply::bulk(member), Reply::Double(score)];
    let popped = [
        Reply::Array(vec![Reply::Array(member("a", 1.0).into())]),
        Reply::Array([&[Reply::bulk("z")][..], &member("b", 2.0)].concat()),
    ];
    assert_eq!(connection.execute(&[b"EXEC"]), Reply::Array(popped.clone().into()));
    for event in ["zadd", "zpopmin", "zpopmin", "del"] {
        assert_eq!(words(&connection.message().await), ["message", "__keyspace@0__:z", event]);
    }

    let mut speaker = emulator.connection();
    let (popped_late, added) = tokio::join!(connection.execute_and_wait(&[b"BZPOPMIN", b"z", b"0"]), async {
        speaker.execute(&[b"ZADD", b"z", b"2", b"b"])
    });
    assert_eq!((popped_late, added), (popped[1].clone(), Reply::Integer(1)));
    for event in ["zadd", "zpopmin", "del"] {
        assert_eq!(words(&connection.message().await), ["message", "__keyspace@0__:z", event]);
    }
}

#[tokio::test]
async fn messages_through_tcp() {
    use tokio_stream::StreamExt as _;
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut listener = client.get_async_pubsub().await.unwrap();
    listener.psubscribe("n*").await.unwrap();
    for n in 0..3 {
        assert_eq!(emulator.connection().publish::<_, _, i64>("news", n).await.unwrap(), 1);
    }
    let payloads: Vec<i64> =
        listener.on_message().take(3).map(|message| message.get_payload().unwrap()).collect().await;
    assert_eq!(payloads, [0, 1, 2]);
}

#[tokio::test]
async fn a_pause_ends_when_the_manual_clock_is_moved() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    () = redis::cmd("CLIENT").arg(&["PAUSE", "1000"]).query_async(&mut connection).await.unwrap();
    let set = tokio::spawn(async move { connection.set::<_, _, String>("k", "v").await });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_millis(999));
    tokio::task::yield_now().await;
    assert_eq!(emulator.get("k"), None);
    clock.advance(Duration::from_millis(1));
    assert_eq!(set.await.unwrap().unwrap(), "OK");
    assert_eq!(emulator.get("k").as_deref(), Some(&b"v"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_with_tokios_clock_at_every_door() {
    let emulator = Emulator::with_clock(Clock::tokio());
    let mut connection = emulator.connection();
    let pause = redis::cmd("CLIENT").arg(&["PAUSE", "1000"]).to_owned();
    () = pause.query_async(&mut connection).await.unwrap();
    // tokio advances its clock by itself, because no other task can run.
    () = connection.set("k", "v").await.unwrap();

    () = pause.query_async(&mut connection).await.unwrap();
    let mut stream = emulator.stream();
    stream.write_all(b"GET k\r\nPING\r\n").await.unwrap();
    let mut replies = [0; 14];
    stream.read_exact(&mut replies).await.unwrap();
    assert_eq!(&replies, b"$1\r\nv\r\n+PONG\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_dropped_while_it_waits_is_withdrawn() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    () = redis::cmd("CLIENT").arg(&["PAUSE", "1000"]).query_async(&mut connection).await.unwrap();
    let too_long = tokio::time::timeout(Duration::from_millis(1), connection.set::<_, _, ()>("k", "v")).await;
    assert!(too_long.is_err());
    clock.advance(Duration::from_secs(1));
    assert_eq!(emulator.get("k"), None);
    assert!(!connection.exists::<_, bool>("k").await.unwrap());
}

#[tokio::test]
async fn a_killed_connection_is_closed_and_leaves_nothing() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut listener = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    listener.write_all(b"SUBSCRIBE news\r\n").await.unwrap();
    let mut confirmed = vec![0; 33];
    listener.read_exact(&mut confirmed).await.unwrap();
    let mut connection = emulator.connection();
    let kill = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "PUBSUB"]).to_owned();
    assert_eq!(kill.query_async::<i64>(&mut connection).await.unwrap(), 1);
    assert_eq!(listener.read_to_end(&mut confirmed).await.unwrap(), 0);
    assert_eq!(connection.publish::<_, _, i64>("news", "hello").await.unwrap(), 0);
}

#[tokio::test]
async fn a_subscriber_that_never_reads_is_disconnected() {
    let emulator = Emulator::new();
    let mut stream = emulator.stream();
    stream.write_all(b"SUBSCRIBE news\r\n").await.unwrap();
    let mut connection = emulator.connection();
    let megabyte = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while connection.publish::<_, _, i64>("news", &megabyte).await.unwrap() == 1 {
        sent += 1;
        assert!(sent < 40, "Redis disconnects at 32 MiB");
    }
    assert!(sent >= 31, "disconnected after {sent} MiB");
}

#[tokio::test]
async fn a_list_that_is_waited_for_at_every_door() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut tcp = client.get_multiplexed_async_connection().await.unwrap();
    let mut direct = emulator.connection();
    let mut stream = emulator.stream();
    let mut pusher = emulator.connection();

    let waiting = tokio::spawn(async move { direct.blpop::<_, (String, i64)>("l", 0.0).await });
    tokio::task::yield_now().await;
    stream.write_all(b"BLPOP l 0\r\n").await.unwrap();
    assert_eq!(pusher.rpush::<_, _, i64>("l", &[1, 2]).await.unwrap(), 2);
    assert_eq!(waiting.await.unwrap().unwrap(), ("l".to_string(), 1), "first come, first served");
    let mut reply = [0; 18];
    stream.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"*2\r\n$1\r\nl\r\n$1\r\n2\r\n");

    let waiting = tokio::spawn(async move { tcp.blpop::<_, (String, i64)>("l", 0.0).await });
    emulator.until_blocked(1).await;
    () = pusher.rpush("l", 3).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), ("l".to_string(), 3));
}

#[tokio::test]
async fn a_client_that_is_gone_takes_nothing() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut connection = emulator.connection();
    let mut gone = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    gone.write_all(b"BLPOP l 0\r\n").await.unwrap();
    emulator.until_blocked(1).await;
    drop(gone);
    while emulator.blocked_clients() > 0 {
        tokio::task::yield_now().await;
    }
    () = connection.rpush("l", 1).await.unwrap();
    assert_eq!(connection.lrange::<_, Vec<i64>>("l", 0, -1).await.unwrap(), [1]);
}

#[tokio::test]
async fn timeouts_come_with_the_manual_clock() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    let waiting = tokio::spawn(async move { connection.blpop::<_, Option<(String, i64)>>("l", 1.5).await });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_millis(1_499));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    clock.advance(Duration::from_millis(1));
    assert_eq!(waiting.await.unwrap().unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn timeouts_come_with_tokios_clock_at_every_door() {
    let clock = Clock::tokio();
    let emulator = Emulator::with_clock(clock.clone());
    let started = clock.now();
    assert_eq!(emulator.connection().blpop::<_, Option<(String, i64)>>("l", 60.0).await.unwrap(), None);
    let mut stream = emulator.stream();
    stream.write_all(b"BZPOPMIN z 60\r\n").await.unwrap();
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"*-1\r\n");
    assert_eq!(clock.now().since(started).as_secs(), 120);
}

#[tokio::test]
async fn an_expiry_notifies_without_any_command() {
    let clock = Clock::manual();
    let emulator = Emulator::with_clock(clock.clone());
    let mut connection = emulator.connection();
    connection.execute(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"Ex"]);
    connection.execute(&[b"SET", b"k", b"v", b"PX", b"5"]);
    let mut listener = emulator.connection();
    listener.execute(&[b"SUBSCRIBE", b"__keyevent@0__:expired"]);
    let listening = tokio::spawn(async move { listener.message().await });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_millis(5));
    tokio::task::yield_now().await;
    assert!(!listening.is_finished(), "at the deadline the key is still there");
    clock.advance(Duration::from_millis(1));
    assert_eq!(words(&listening.await.unwrap()), ["message", "__keyevent@0__:expired", "k"]);
}
