//! Locks on servers that fail for a while, and users that may not do everything.

use std::sync::{Arc, Mutex as Shared};
use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::{Connection, Error, Mutex, Release, RwLock};
use tokio::time::{sleep, timeout};

use crate::faulty::{Faulty, State};
use crate::redis_server;

const LEASE: Duration = Duration::from_secs(9);
/// A renewal comes every third of the lease.
const EVERY: Duration = Duration::from_secs(3);

/// The server is away from right before the first renewal until a second before the lease ends.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_until_the_lease_ends() {
    let server = Emulator::with_clock(Clock::tokio());
    let state = Arc::new(Shared::new(State::Up));
    let connection = Connection::new(Faulty { inner: server.connection(), state: state.clone() });
    let mutex = Mutex::builder(connection, "report").lease(LEASE).renew(true).build().unwrap();
    let guard = mutex.lock().await.unwrap();
    sleep(EVERY - Duration::from_millis(1)).await;
    *state.lock().unwrap() = State::Down;
    sleep(LEASE - EVERY - Duration::from_secs(1)).await;
    assert!(server.ttl("report").unwrap() <= Duration::from_millis(1_001), "no renewal has arrived");
    *state.lock().unwrap() = State::Up;
    sleep(LEASE).await;
    assert!(!guard.is_lost());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[test]
fn an_error_says_whether_the_call_may_succeed_later() {
    let server = |kind| Error::Server {
        lock: "report".into(),
        operation: locks::Operation::Acquire,
        source: (kind, "gone").into(),
    };
    assert!(server(redis::ErrorKind::Io).is_retryable());
    assert!(!server(redis::ErrorKind::AuthenticationFailed).is_retryable());
    assert!(!Error::Lost { lock: "report".into() }.is_retryable());
}

/// Without rights to channels, a client that waits cannot subscribe, and a release cannot wake it.
#[tokio::test]
async fn a_user_without_channels_can_lock_and_release() {
    let Some(server) = redis_server::borrow() else { return };
    if !server.is_ours() {
        return;
    }
    let client = redis::Client::open(server.url()).unwrap();
    let mut admin = client.get_multiplexed_async_connection().await.unwrap();
    let rule = ["SETUSER", "app", "reset", "on", ">word", "~*", "+@all"];
    () = redis::cmd("ACL").arg(&rule).query_async(&mut admin).await.unwrap();
    let url = server.url().replace("redis://", "redis://app:word@");
    let own = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let connection = Connection::new(own);

    let mutex = Mutex::builder(connection.clone(), "report").fair().build().unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.lock().await.unwrap().release().await.unwrap() }
    });
    let queued = || redis::cmd("LLEN").arg("{report}:queue").to_owned();
    while queued().query_async::<usize>(&mut admin).await.unwrap() == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let released = timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert_eq!(released, Release::Released);

    let shared = RwLock::builder(connection, "table").build().unwrap();
    let guard = shared.write().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    () = redis::cmd("ACL").arg(&["DELUSER", "app"]).query_async(&mut admin).await.unwrap();
}
