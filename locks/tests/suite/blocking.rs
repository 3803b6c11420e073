//! Tests locks in code without async, in real time, on the emulator and on a real server.

use std::time::{Duration, Instant};

use emulator::Emulator;
use locks::{Connection, Error, Mutex, Release, Semaphore, blocking};
use redis::Client;

use crate::redis_server;

const LEASE: Duration = Duration::from_millis(900);
/// Several leases.
const LONG: Duration = Duration::from_secs(3);

fn on_both_servers(test: fn(&Client)) {
    let emulator = Emulator::new();
    test(&emulator.client());
    let Some(server) = redis_server::borrow() else { return };
    test(&Client::open(server.url()).unwrap());
}

fn connect(client: &Client) -> Connection {
    blocking::connection(client.get_connection().unwrap())
}

fn exists(client: &Client) -> bool {
    redis::cmd("EXISTS").arg("lock").query(&mut client.get_connection().unwrap()).unwrap()
}

/// Waits until the key is gone, and returns how long that took.
#[expect(clippy::disallowed_methods, reason = "a thread of the locks works in real time")]
fn time_until_gone(client: &Client) -> Duration {
    let began_at = Instant::now();
    while exists(client) {
        std::thread::sleep(LEASE / 100);
    }
    began_at.elapsed()
}

#[test]
fn a_mutex_excludes_other_threads() {
    on_both_servers(|client| {
        let mutex = Mutex::builder(connect(client), "lock").build().unwrap();
        let count = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let guard = blocking::wait(mutex.lock()).unwrap();
                        let before = count.load(std::sync::atomic::Ordering::Relaxed);
                        std::thread::yield_now();
                        count.store(before + 1, std::sync::atomic::Ordering::Relaxed);
                        assert_eq!(blocking::wait(guard.release()).unwrap(), Release::Released);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 20);
    });
}

#[test]
fn a_grant_is_renewed_until_its_guard_is_dropped() {
    on_both_servers(|client| {
        let mutex = Mutex::builder(connect(client), "lock").lease(LEASE).renew(true).build().unwrap();
        let guard = blocking::wait(mutex.lock()).unwrap();
        let error = blocking::wait(mutex.lock_timeout(LONG)).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(!guard.is_lost());
        drop(guard);
        time_until_gone(client);
        // The default lease is much longer.
        drop(blocking::wait(Mutex::builder(connect(client), "lock").build().unwrap().lock()).unwrap());
        assert!(time_until_gone(client) < Duration::from_secs(10));
    });
}

#[test]
fn permits_come_back() {
    on_both_servers(|client| {
        let semaphore = Semaphore::builder(connect(client), "lock", 2).build().unwrap();
        let guards = [(); 2].map(|()| blocking::wait(semaphore.try_acquire()).unwrap().unwrap());
        assert!(blocking::wait(semaphore.try_acquire()).unwrap().is_none());
        drop(guards);
        assert!(blocking::wait(semaphore.acquire()).is_ok());
    });
}
