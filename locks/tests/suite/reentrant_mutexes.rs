//! Tests clones of an owner of a reentrant mutex that call at the same time, in virtual time.

use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::{Connection, Env, Error, ReentrantMutex, Release};
use tokio::time::sleep;

const LEASE: Duration = Duration::from_secs(10);

fn owners() -> [ReentrantMutex; 2] {
    let server = Emulator::with_clock(Clock::tokio());
    [(); 2].map(|()| {
        let builder = ReentrantMutex::builder(Connection::new(server.connection()), "account");
        builder.lease(LEASE).renew(true).build().unwrap()
    })
}

/// What a clone gets, as a task.
fn locking(owner: &ReentrantMutex) -> tokio::task::JoinHandle<locks::ReentrantGuard> {
    let owner = owner.clone();
    tokio::spawn(async move { owner.lock().await.unwrap() })
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_waits_keeps_no_other_one_from_its_limit() {
    let [owner, other] = owners();
    let guard = other.lock().await.unwrap();
    let waiting = locking(&owner);
    sleep(Duration::from_secs(1)).await;
    assert!(owner.try_lock().await.unwrap().is_none());
    let (env, limit) = (Env::system(), Duration::from_millis(200));
    let began_at = env.elapsed();
    let error = owner.lock_timeout(limit).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(env.elapsed() - began_at <= limit + Duration::from_millis(1));
    guard.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn clones_that_wait_have_the_lock_together() {
    let [owner, other] = owners();
    let guard = other.lock().await.unwrap();
    let waiting = [(); 3].map(|()| locking(&owner));
    sleep(Duration::from_secs(1)).await;
    guard.release().await.unwrap();
    let mut guards = Vec::new();
    for guard in waiting {
        guards.push(guard.await.unwrap());
    }
    assert!(other.try_lock().await.unwrap().is_none());
    let last = guards.pop().unwrap();
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Release::Inner);
    }
    assert_eq!(last.release().await.unwrap(), Release::Released);
    assert!(other.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn clones_that_try_at_once_have_the_lock_together() {
    let [owner, _] = owners();
    let (one, two) = tokio::join!(owner.try_lock(), owner.try_lock());
    let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
    assert_eq!(one.release().await.unwrap(), Release::Inner);
    assert_eq!(two.release().await.unwrap(), Release::Released);
}
