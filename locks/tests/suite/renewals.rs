//! Tests how the renewals of published locks work and where they fail. Each test has virtual time
//! of its own.
//! its own.

use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::published::local_reentrant::LocalReentrant;
use locks::published::renewed_hash::RenewedHash;
use locks::{Env, Lock as _};

use crate::algorithms::terms;

/// Lets that many leases pass, and a tenth of one.
async fn pass(leases: u32) {
    tokio::time::sleep(terms(1).lease * leases + terms(1).lease / 10).await;
}

#[tokio::test(start_paused = true)]
async fn renewed_hash_holds_as_long_as_its_timer_runs() {
    let emulator = Emulator::with_clock(Clock::tokio());
    let mut lock = RenewedHash::new(emulator.connection(), &Env::system(), &terms(1));
    assert!(lock.try_acquire().await.unwrap());
    pass(20).await;
    assert!(emulator.exists("lock"));
    // A holder that ends without a release stops its renewal task.
    drop(lock);
    pass(1).await;
    assert!(!emulator.exists("lock"));
}

/// The renewals come at once and after one, two and three leases: each at the last moment.
#[tokio::test(start_paused = true)]
async fn local_reentrant_renews_four_times() {
    let emulator = Emulator::with_clock(Clock::tokio());
    let mut lock = LocalReentrant::new(emulator.connection(), Env::system(), &terms(1));
    assert!(lock.try_acquire().await.unwrap());
    pass(3).await;
    assert!(emulator.exists("lock"));
    pass(1).await;
    assert!(!emulator.exists("lock"));
    assert!(lock.try_acquire().await.unwrap(), "the holder does not know");
}

#[tokio::test(start_paused = true)]
async fn local_reentrant_stops_renewing_all_locks_with_one() {
    let emulator = Emulator::with_clock(Clock::tokio());
    let mut locks = LocalReentrant::new(emulator.connection(), Env::system(), &terms(1));
    assert!(locks.try_lock("a").await.unwrap() && locks.try_lock("b").await.unwrap());
    tokio::time::sleep(Duration::from_millis(1)).await;
    locks.unlock("a").await.unwrap();
    assert!(emulator.exists("b"));
    pass(1).await;
    assert!(!emulator.exists("b"));
}
