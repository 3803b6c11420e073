//! Tests grants that one process gives to another one, in virtual time.

use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::{Connection, Error, MultiLock, Mutex, Redlock, Release, RwLock, Semaphore};
use tokio::time::sleep;

const LEASE: Duration = Duration::from_secs(10);

fn server() -> Emulator {
    Emulator::with_clock(Clock::tokio())
}

fn connection(server: &Emulator) -> Connection {
    Connection::new(server.connection())
}

/// The lock as another process makes it.
fn mutex(server: &Emulator) -> Mutex {
    Mutex::builder(connection(server), "report").lease(LEASE).fenced().build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn another_process_goes_on_with_a_grant() {
    let server = server();
    let guard = mutex(&server).lock().await.unwrap();
    let fencing_token = guard.fencing_token();
    let token = guard.into_token();
    sleep(LEASE / 2).await;
    assert!(mutex(&server).try_lock().await.unwrap().is_none(), "it is not released");
    let resumed = mutex(&server).resume(&token).await.unwrap();
    assert_eq!(resumed.fencing_token(), fencing_token);
    assert_eq!(server.ttl("report"), Some(LEASE));
    sleep(LEASE * 3 / 4).await;
    assert!(!resumed.is_lost());
    assert_eq!(resumed.release().await.unwrap(), Release::Released);
    assert!(matches!(mutex(&server).resume(&token).await.unwrap_err(), Error::Lost { .. }));
}

#[tokio::test(start_paused = true)]
async fn nobody_renews_what_is_on_its_way() {
    let server = server();
    let renewing = Mutex::builder(connection(&server), "report").lease(LEASE).renew(true).build().unwrap();
    let token = renewing.lock().await.unwrap().into_token();
    sleep(LEASE + Duration::from_millis(1)).await;
    assert!(!server.exists("report"));
    let guard = renewing.lock().await.unwrap();
    assert!(matches!(renewing.resume(&token).await.unwrap_err(), Error::Lost { .. }));
    assert!(!guard.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_text_that_is_no_token_is_refused() {
    let server = server();
    let semaphore = Semaphore::builder(connection(&server), "slots", 3).build().unwrap();
    let of_semaphore = semaphore.acquire().await.unwrap().into_token();
    for text in ["", "0123", "0123.x", ".", &of_semaphore] {
        let error = mutex(&server).resume(text).await.unwrap_err();
        let is_refused = matches!(error, Error::Invalid { .. } | Error::Lost { .. });
        assert!(is_refused, "{text:?}: {error}");
    }
    let error = mutex(&server).resume(&of_semaphore).await.unwrap_err().to_string();
    assert!(error.ends_with("take that of `Guard::into_token`"), "{error}");
    assert!(!error.contains(&of_semaphore));
}

#[tokio::test(start_paused = true)]
async fn grants_of_all_kinds_can_be_given_away() {
    let servers = [(); 3].map(|()| server());
    let semaphore = || Semaphore::builder(connection(&servers[0]), "slots", 3).lease(LEASE).build().unwrap();
    let token = semaphore().acquire_many(2).await.unwrap().into_token();
    assert!(semaphore().try_acquire_many(2).await.unwrap().is_none());
    assert_eq!(semaphore().resume(&token).await.unwrap().release().await.unwrap(), Release::Released);
    assert!(semaphore().try_acquire_many(3).await.unwrap().is_some());

    let shared = || RwLock::builder(connection(&servers[0]), "table").lease(LEASE).build().unwrap();
    let token = shared().read().await.unwrap().into_token();
    assert!(matches!(shared().resume_write(&token).await.unwrap_err(), Error::Lost { .. }));
    assert_eq!(shared().resume_read(&token).await.unwrap().release().await.unwrap(), Release::Released);
    let token = shared().write().await.unwrap().into_token();
    assert_eq!(shared().resume_write(&token).await.unwrap().release().await.unwrap(), Release::Released);

    let both = || MultiLock::builder(connection(&servers[0]), ["a", "b"]).lease(LEASE).build().unwrap();
    let token = both().lock().await.unwrap().into_token();
    assert_eq!(both().resume(&token).await.unwrap().release().await.unwrap(), Release::Released);

    let redlock = || Redlock::builder(servers.iter().map(connection), "report").lease(LEASE).build().unwrap();
    let token = redlock().lock().await.unwrap().into_token();
    assert!(redlock().try_lock().await.unwrap().is_none());
    assert_eq!(redlock().resume(&token).await.unwrap().release().await.unwrap(), Release::Released);
}
