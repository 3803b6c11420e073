//! Locks on servers that fail for a while.

use std::sync::{Arc, Mutex as Shared};
use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::{Connection, Mutex, Release};
use tokio::time::sleep;

use crate::faulty::{Faulty, State};

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
