//! Tests the locks for use as their callers see them. Unless it says so, a test has virtual time of
//! its own, and clients that cannot listen.

use std::sync::{Arc, Mutex as Shared};
use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::{
    Builder, Connection, CountDownLatch, Counters, Env, Error, Guard, Mutex, PubSubConnection,
    ReentrantMutex, Release, RwLock, Semaphore,
};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use crate::redis_server;

const LEASE: Duration = Duration::from_secs(10);
/// Less than any span that a test measures.
const MOMENT: Duration = Duration::from_millis(10);

fn server() -> Emulator {
    Emulator::with_clock(Clock::tokio())
}

fn mutex(server: &Emulator) -> Builder<Mutex> {
    Mutex::builder(Connection::new(server.connection()), "lock").lease(LEASE)
}

fn semaphore(server: &Emulator, permits: u32) -> Semaphore {
    Semaphore::builder(Connection::new(server.connection()), "lock", permits).lease(LEASE).build().unwrap()
}

fn run(server: &Emulator, command: &[&str]) {
    let command: Vec<&[u8]> = command.iter().map(|part| part.as_bytes()).collect();
    _ = server.connection().execute(&command);
}

/// How long it takes until a grant is lost.
async fn time_to_loss(guard: &Guard) -> Duration {
    let env = Env::system();
    let began_at = env.elapsed();
    guard.lost().await;
    assert!(guard.is_lost() && guard.remaining().is_zero());
    env.elapsed() - began_at
}

/// Lets tasks that were spawned send their requests.
async fn settle() {
    sleep(MOMENT).await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_lost_before_its_lease_ends_on_the_server() {
    let server = server();
    let guard = mutex(&server).build().unwrap().try_lock().await.unwrap().unwrap();
    // 1 % and 2 ms less than the lease. Timers of tokio may be a millisecond late.
    let lost_after = time_to_loss(&guard).await;
    assert!((9_898..=9_900).contains(&lost_after.as_millis()), "{lost_after:?}");
    assert!(server.exists("lock"));
    sleep(LEASE).await;
    assert!(!server.exists("lock"));
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_grants_last_thirty_seconds_and_are_renewed() {
    let server = server();
    let builder = Mutex::builder(Connection::new(server.connection()), "lock");
    let guard = builder.build().unwrap().lock().await.unwrap();
    assert_eq!(server.ttl("lock"), Some(Duration::from_secs(30)));
    sleep(Duration::from_secs(600)).await;
    assert!(!guard.is_lost());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    sleep(Duration::from_secs(60)).await;
    assert!(!server.exists("lock"), "no renewal outlives the release");
}

#[tokio::test(start_paused = true)]
async fn renewal_ends_at_max_hold() {
    let server = server();
    let guard = mutex(&server).renew(true).max_hold(6 * LEASE).build().unwrap().lock().await.unwrap();
    let lost_after = time_to_loss(&guard).await;
    assert!(lost_after > 6 * LEASE && lost_after < 7 * LEASE, "{lost_after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_nothing_ends_and_says_so() {
    let server = server();
    let guard = mutex(&server).renew(true).build().unwrap().lock().await.unwrap();
    run(&server, &["DEL", "lock"]);
    let lost_after = time_to_loss(&guard).await;
    assert!(lost_after < LEASE / 2, "{lost_after:?}");
    sleep(LEASE).await;
    assert!(!server.exists("lock"), "a renewal never takes a lock");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_cancelled_when_the_grant_ends() {
    let server = server();
    let lock = mutex(&server).build().unwrap();
    let guard = lock.lock().await.unwrap();
    let token = guard.cancellation_token();
    sleep(LEASE / 2).await;
    guard.extend().await.unwrap();
    sleep(LEASE / 2).await;
    assert!(!token.is_cancelled());
    sleep(LEASE / 2).await;
    assert!(token.is_cancelled());
    let owner = ReentrantMutex::builder(Connection::new(server.connection()), "lock").build().unwrap();
    let (outer, inner) = (owner.lock().await.unwrap(), owner.lock().await.unwrap());
    let (token, again) = (inner.cancellation_token(), outer.cancellation_token());
    inner.release().await.unwrap();
    settle().await;
    assert!(!token.is_cancelled());
    outer.release().await.unwrap();
    assert!(token.is_cancelled() && again.is_cancelled());
    let guard = lock.lock().await.unwrap();
    let (token, other) = (guard.cancellation_token(), guard.cancellation_token());
    other.cancel();
    assert!(!token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn counters_count_what_happens_to_a_lock() {
    let (server, counters) = (server(), Counters::default());
    let lock = mutex(&server).renew(true).counters(&counters).build().unwrap();
    let guard = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(lock.lock_timeout(LEASE / 2).await.is_err());
    assert_eq!((counters.acquired(), counters.refused(), counters.failed()), (1, 1, 1));
    assert!(counters.attempts() > 10, "one that waits looks every 50 to 100 milliseconds");
    assert_eq!(counters.renewed(), 1);
    guard.extend().await.unwrap();
    assert_eq!(counters.renewed(), 2);
    guard.release().await.unwrap();
    drop(lock.lock().await.unwrap());
    settle().await;
    assert_eq!((counters.released(), counters.lost()), (2, 0));
    let guard = lock.lock().await.unwrap();
    run(&server, &["DEL", "lock"]);
    guard.lost().await;
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert_eq!((counters.acquired(), counters.released(), counters.lost()), (3, 2, 1), "a loss counts once");
}

/// Each event and span names its lock, and none has a token. The test is in a process of its own:
/// threads without a subscriber decide, too, which events there are.
#[tokio::test(start_paused = true)]
async fn events_are_those_of_tracing() {
    const IS_CHILD: &str = "LOCKSTEP_EVENTS_OF_TRACING";
    if std::env::var_os(IS_CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "guards::events_are_those_of_tracing", "--nocapture"]);
        let output = child.env(IS_CHILD, "1").output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false).with_max_level(Level::TRACE);
    let _default = tracing::subscriber::set_default(subscriber.with_writer(log.clone()).finish());
    let server = server();
    let lock = mutex(&server).build().unwrap();
    let guard = lock.lock().await.unwrap();
    let token = server.get("lock").unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    run(&server, &["DEL", "lock"]);
    assert!(guard.extend().await.is_err());
    guard.release().await.unwrap();
    drop(lock.lock().await.unwrap());
    settle().await;
    let latch = CountDownLatch::builder(Connection::new(server.connection()), "latch").build().unwrap();
    assert!(latch.try_set_count(1).await.unwrap());
    latch.count_down().await.unwrap();
    latch.wait().await.unwrap();
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let words = |line: &str| line.trim().replace("locks::counters: ", "");
    let lines: Vec<String> = text.lines().map(words).collect();
    assert_eq!(
        lines,
        [
            r#"TRACE acquire{lock="lock"}: attempted lock="lock""#,
            r#"DEBUG acquire{lock="lock"}: acquired lock="lock" waited=0ns"#,
            r#"TRACE acquire{lock="lock"}: attempted lock="lock""#,
            r#"DEBUG acquire{lock="lock"}: refused lock="lock""#,
            r#"WARN extend{lock="lock"}: lost lock="lock""#,
            r#"DEBUG release{lock="lock"}: released lock="lock" outcome=NotHeld"#,
            r#"TRACE acquire{lock="lock"}: attempted lock="lock""#,
            r#"DEBUG acquire{lock="lock"}: acquired lock="lock" waited=0ns"#,
            r#"DEBUG release{lock="lock"}: released lock="lock" outcome=Released"#,
            r#"DEBUG count_down{lock="latch"}: counted down lock="latch" left=0"#,
            r#"TRACE wait{lock="latch"}: attempted lock="latch""#,
            r#"DEBUG wait{lock="latch"}: acquired lock="latch" waited=0ns"#,
        ]
    );
    assert!(!text.contains(&String::from_utf8(token.to_vec()).unwrap()));
}

/// The text that a subscriber writes.
#[derive(Clone, Default)]
struct Log(Arc<Shared<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn extend_begins_the_lease_anew_and_never_takes_a_lock() {
    let server = server();
    let mutex = mutex(&server).build().unwrap();
    let guard = mutex.lock().await.unwrap();
    sleep(LEASE / 2).await;
    guard.extend().await.unwrap();
    sleep(LEASE / 2 + LEASE / 4).await;
    assert!(!guard.is_lost());
    sleep(LEASE).await;
    assert!(matches!(guard.extend().await, Err(Error::Lost { .. })));
    assert!(!server.exists("lock"));
    let other = mutex.lock().await.unwrap();
    assert!(matches!(guard.extend().await, Err(Error::Lost { .. })));
    assert!(!other.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_releases_only_its_own_grant() {
    let server = server();
    let mutex = mutex(&server).build().unwrap();
    drop(mutex.lock().await.unwrap());
    settle().await;
    assert!(!server.exists("lock"));
    let late = mutex.lock().await.unwrap();
    sleep(LEASE + MOMENT).await;
    let _other = mutex.try_lock().await.unwrap().unwrap();
    drop(late);
    settle().await;
    assert!(server.exists("lock"));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_finds_nothing_before_the_lease_is_over_is_unknown() {
    let server = server();
    let guard = mutex(&server).build().unwrap().lock().await.unwrap();
    run(&server, &["FLUSHALL"]);
    assert_eq!(guard.release().await.unwrap(), Release::Unknown);
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_rise_even_if_the_server_forgets_them() {
    let server = server();
    let mutex = mutex(&server).fenced().build().unwrap();
    let mut last = 0;
    for nth in 0..4 {
        if nth == 2 {
            run(&server, &["DEL", "{lock}:fence"]);
            sleep(MOMENT).await;
        }
        let guard = mutex.lock().await.unwrap();
        let token = guard.fencing_token().unwrap();
        assert!(token > last);
        last = token;
        guard.release().await.unwrap();
    }
    let plain = self::mutex(&server).build().unwrap().lock().await.unwrap();
    assert_eq!(plain.fencing_token(), None);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_how_long() {
    let server = server();
    let mutex = mutex(&server).build().unwrap();
    let _guard = mutex.lock().await.unwrap();
    let error = mutex.lock_timeout(Duration::from_secs(2)).await.unwrap_err();
    let Error::TimedOut { waited, attempts, .. } = &error else { panic!("{error}") };
    assert!((2..3).contains(&waited.as_secs()) && (20..=42).contains(attempts), "{error}");
    assert!(error.to_string().starts_with("lock \"lock\": timed out after 2"), "{error}");
}

/// Spawns a client that waits for the lock, notes its number, and releases.
async fn spawn_waiter(
    mutex: &Mutex,
    nth: usize,
    served: &Arc<Shared<Vec<usize>>>,
) -> tokio::task::JoinHandle<()> {
    let (mutex, served) = (mutex.clone(), served.clone());
    let task = tokio::spawn(async move {
        let guard = mutex.lock().await.unwrap();
        served.lock().unwrap().push(nth);
        guard.release().await.unwrap();
    });
    yield_now().await;
    task
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_serves_in_the_order_of_arrival() {
    let server = server();
    let mutex = mutex(&server).fair().build().unwrap();
    let guard = mutex.lock().await.unwrap();
    let served = Arc::default();
    let mut tasks = Vec::new();
    for nth in 0..8 {
        tasks.push(spawn_waiter(&mutex, nth, &served).await);
    }
    // One that waits no longer is passed over, and one that only tries comes after all.
    tasks.remove(3).abort();
    assert!(mutex.try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none(), "clients wait");
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_taken_in_one_step() {
    let server = server();
    let semaphore = semaphore(&server, 3);
    let two = semaphore.acquire_many(2).await.unwrap();
    assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
    let one = semaphore.try_acquire().await.unwrap().unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    sleep(LEASE / 2).await;
    two.extend().await.unwrap();
    sleep(LEASE * 3 / 4).await;
    assert!(one.is_lost() && !two.is_lost());
    assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
    assert_eq!(two.release().await.unwrap(), Release::Released);
    let three = semaphore.try_acquire_many(3).await.unwrap().unwrap();
    assert!(matches!(semaphore.acquire_many(4).await, Err(Error::Invalid { .. })));
    assert!(matches!(semaphore.acquire_many(0).await, Err(Error::Invalid { .. })));
    assert_eq!(three.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn an_owner_locks_again_until_its_grant_is_lost() {
    let server = server();
    let owner = || {
        let builder = ReentrantMutex::builder(Connection::new(server.connection()), "lock").lease(LEASE);
        builder.fenced().build().unwrap()
    };
    let (owner, other) = (owner(), owner());
    let outer = owner.lock().await.unwrap();
    sleep(LEASE / 2).await;
    let inner = owner.clone().lock().await.unwrap();
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    assert_eq!(inner.release().await.unwrap(), Release::Inner);
    sleep(LEASE * 3 / 4).await;
    assert!(!outer.is_lost(), "to lock again extends the lease");
    assert!(other.try_lock().await.unwrap().is_none());
    sleep(LEASE).await;
    let taken = other.lock().await.unwrap();
    assert!(matches!(owner.try_lock().await, Err(Error::Lost { .. })), "its section has been broken");
    drop(outer);
    settle().await;
    assert!(owner.try_lock().await.unwrap().is_none());
    assert_eq!(taken.release().await.unwrap(), Release::Released);
    let again = owner.lock_timeout(LEASE).await.unwrap();
    assert_eq!(again.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn every_reader_has_a_lease_and_nobody_overtakes() {
    let server = server();
    let lock = RwLock::builder(Connection::new(server.connection()), "lock").lease(LEASE).build().unwrap();
    let early = lock.read().await.unwrap();
    sleep(LEASE / 2).await;
    let late = lock.read().await.unwrap();
    sleep(LEASE * 3 / 4).await;
    assert!(early.is_lost() && !late.is_lost());
    let writes = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await.unwrap() }
    });
    sleep(MOMENT).await;
    assert!(lock.try_read().await.unwrap().is_none(), "a writer waits");
    let error = lock.read_timeout(MOMENT).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(late.release().await.unwrap(), Release::Released);
    let writer = writes.await.unwrap();
    assert!(lock.try_read().await.unwrap().is_none() && lock.try_write().await.unwrap().is_none());
    writer.extend().await.unwrap();
    assert_eq!(writer.release().await.unwrap(), Release::Released);
    assert_eq!(early.release().await.unwrap(), Release::NotHeld);
    assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new(), "nothing is left");
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    let server = Emulator::new();
    let mutex = |name| Mutex::builder(Connection::new(server.connection()), name);
    let (zero, tiny) = (Duration::ZERO, Duration::from_micros(500));
    for (builder, part) in [
        (mutex("").lease(LEASE), "the name is empty"),
        (mutex("a}b{"), "braces"),
        (mutex("lock").lease(zero), "at least one millisecond"),
        (mutex("lock").lease(tiny), "at least one millisecond"),
        (mutex("lock").lease(Duration::from_millis(2)), "not longer than what clocks may drift apart"),
        (mutex("lock").lease(Duration::MAX), "a lease is at most"),
        (mutex("lock").retry(zero), "`retry` is at least one millisecond"),
        (mutex("lock").max_hold(LEASE), "`max_hold` is shorter than the lease of 30s"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let semaphore = Semaphore::builder(Connection::new(server.connection()), "lock", 0).build();
    assert!(semaphore.unwrap_err().to_string().contains("at least one permit"));
}

#[tokio::test]
async fn no_text_for_people_has_a_token() {
    let server = Emulator::new();
    let mutex = Mutex::builder(Connection::new(server.connection()), "lock").build().unwrap();
    let guard = mutex.lock().await.unwrap();
    let token = String::from_utf8(server.get("lock").unwrap().to_vec()).unwrap();
    assert!(!format!("{guard:?} {mutex:?}").contains(&token));
    let plain = Connection::new(server.connection());
    run(&server, &["DEL", "lock"]);
    run(&server, &["RPUSH", "lock", "no string"]);
    let error = guard.release().await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains(&token), "{error:?}");
    let error = Mutex::builder(plain, "lock").build().unwrap().try_lock().await.unwrap_err();
    assert!(error.to_string().contains("lock \"lock\": cannot acquire: "), "{error}");
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
}

/// Clients that listen are woken one at a time, each at once. In real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_client_that_listens() {
    wake(&Emulator::new().client()).await;
    let Some(server) = redis_server::borrow() else { return };
    wake(&redis::Client::open(server.url()).unwrap()).await;
}

async fn wake(client: &redis::Client) {
    const WAITERS: usize = 8;
    let connection = PubSubConnection::open(client).await.unwrap();
    let mutex = Mutex::builder(Connection::subscribing(connection), "lock")
        .retry(Duration::from_secs(3_600))
        .build()
        .unwrap();
    // The server learns the scripts.
    mutex.lock().await.unwrap().release().await.unwrap();
    let guard = mutex.lock().await.unwrap();
    let served = Arc::default();
    let mut tasks = Vec::new();
    for nth in 0..WAITERS {
        tasks.push(spawn_waiter(&mutex, nth, &served).await);
    }
    let mut commands = client.get_multiplexed_async_connection().await.unwrap();
    let queued = |mut commands: redis::aio::MultiplexedConnection| async move {
        redis::cmd("LLEN").arg("{lock}:queue").query_async::<usize>(&mut commands).await.unwrap()
    };
    while queued(commands.clone()).await < WAITERS {
        sleep(MOMENT).await;
    }
    () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut commands).await.unwrap();
    guard.release().await.unwrap();
    for task in tasks {
        timeout(Duration::from_secs(60), task).await.expect("it is woken").unwrap();
    }
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut commands).await.unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls: usize = calls.unwrap().split(',').next().unwrap().parse().unwrap();
    // One attempt and one release of each, and the release before.
    assert_eq!(calls, 2 * WAITERS + 1, "{stats}");
}
