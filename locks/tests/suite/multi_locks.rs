//! Tests the lock of several names as its callers see it, in virtual time.

use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::{Builder, Connection, Error, MultiLock, Mutex, PubSubConnection, Release};

const LEASE: Duration = Duration::from_secs(10);

fn server() -> Emulator {
    Emulator::with_clock(Clock::tokio())
}

fn locks(server: &Emulator, names: &[&str]) -> Builder<MultiLock> {
    MultiLock::builder(Connection::new(server.connection()), names.iter().copied()).lease(LEASE)
}

fn mutex(server: &Emulator, name: &str) -> Builder<Mutex> {
    Mutex::builder(Connection::new(server.connection()), name).lease(LEASE)
}

#[tokio::test(start_paused = true)]
async fn locks_with_a_common_name_exclude_each_other() {
    let server = server();
    let first = locks(&server, &["a", "b"]).build().unwrap();
    let second = locks(&server, &["c", "b"]).build().unwrap();
    let other = locks(&server, &["c", "d"]).build().unwrap();
    let guard = first.try_lock().await.unwrap().unwrap();
    assert!(second.try_lock().await.unwrap().is_none());
    assert!(!server.exists("c"), "all names or none");
    let unrelated = other.try_lock().await.unwrap().unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(second.try_lock().await.unwrap().is_none());
    assert_eq!(unrelated.release().await.unwrap(), Release::Released);
    assert!(second.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn it_shares_its_names_and_fencing_tokens_with_mutexes() {
    let server = server();
    let both = locks(&server, &["a", "b"]).fenced().build().unwrap();
    let (a, b) =
        (mutex(&server, "a").fenced().build().unwrap(), mutex(&server, "b").fenced().build().unwrap());
    let guard = b.try_lock().await.unwrap().unwrap();
    let first = guard.fencing_token().unwrap();
    assert!(both.try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let guard = both.try_lock().await.unwrap().unwrap();
    let second = guard.fencing_token().unwrap();
    assert!(a.try_lock().await.unwrap().is_none() && b.try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    for mutex in [a, b] {
        let third = mutex.try_lock().await.unwrap().unwrap().fencing_token().unwrap();
        assert!(first < second && second < third);
    }
}

/// A mutex that waits looks once an hour, so only a message can wake it. In real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_release_wakes_a_client_that_waits_for_one_of_its_names() {
    let server = Emulator::new();
    let client = server.client();
    let connection = Connection::subscribing(PubSubConnection::open(&client).await.unwrap());
    let both = MultiLock::builder(connection.clone(), ["a", "b"]).build().unwrap();
    let b = Mutex::builder(connection, "b").retry(Duration::from_secs(3_600)).build().unwrap();
    let guard = both.try_lock().await.unwrap().unwrap();
    let waiting = tokio::spawn(async move { b.lock_timeout(Duration::from_secs(60)).await });
    let mut commands = client.get_multiplexed_async_connection().await.unwrap();
    let mut waiters = 0;
    while waiters == 0 {
        waiters = redis::cmd("LLEN").arg("{b}:queue").query_async(&mut commands).await.unwrap();
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_lost_one_name_is_lost() {
    let server = server();
    let guard = locks(&server, &["a", "b"]).build().unwrap().try_lock().await.unwrap().unwrap();
    _ = server.connection().execute(&[b"DEL", b"b"]);
    assert!(matches!(guard.extend().await, Err(Error::Lost { .. })));
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert!(!server.exists("a"), "the other name is given up");
}

#[test]
fn names_that_make_no_sense_are_errors() {
    let server = server();
    for (names, reason) in [
        (&[][..], "there is no name"),
        (&["a", ""], "the name is empty"),
        (&["a", "a"], "a name occurs twice"),
        (&["{a}:1", "{b}:1"], "share what is in them"),
    ] {
        let error = locks(&server, names).build().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = locks(&server, &["a", "b"]).fair().build().unwrap_err();
    assert_eq!(error.to_string(), "lock \"a, b\": a lock of this kind has no queue, so it cannot be fair");
}
