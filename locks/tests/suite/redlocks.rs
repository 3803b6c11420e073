//! Tests the lock on several servers as its callers see it, in virtual time, and clients that wait
//! for it in random orders.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::{Clock, Emulator};
use harness::oracle::{ExclusiveFact, NoLeak, Recovers};
use harness::trace::Reached;
use harness::{Client, Faults, Scenario, sample};
use locks::{Builder, Connection, Env, Error, Redlock, Release};
use tokio::time::{sleep, timeout};

use super::faulty::Faulty;
use super::faulty::State::{self, Down, Silent, Slow, Up};
use super::rewritten::{Change, Rewritten};
use crate::bounds::{MUTANTS, SAMPLED};

const LEASE: Duration = Duration::from_secs(10);
const SERVER_TIMEOUT: Duration = Duration::from_millis(200);

/// Independent servers.
struct Servers(Vec<(Emulator, Arc<Mutex<State>>)>);

impl Servers {
    fn new(number: usize) -> Servers {
        let server = |_| (Emulator::with_clock(Clock::tokio()), Arc::new(Mutex::new(Up)));
        Servers((0..number).map(server).collect())
    }

    fn builder(&self) -> Builder<Redlock> {
        let connect = |(server, state): &(Emulator, Arc<Mutex<State>>)| {
            Connection::new(Faulty { inner: server.connection(), state: state.clone() })
        };
        Redlock::builder(self.0.iter().map(connect), "lock").lease(LEASE).server_timeout(SERVER_TIMEOUT)
    }

    fn set(&self, states: &[State]) {
        self.0.iter().zip(states).for_each(|((_, shared), &state)| *shared.lock().unwrap() = state);
    }

    /// The servers that have the key.
    fn with_key(&self) -> Vec<usize> {
        let has_key = |&server: &usize| self.0[server].0.exists("lock");
        (0..self.0.len()).filter(has_key).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn most_servers_are_enough() {
    let servers = Servers::new(3);
    let (redlock, env) = (servers.builder().build().unwrap(), Env::system());
    for states in [[Up, Up, Up], [Down, Up, Up], [Up, Silent, Up]] {
        servers.set(&states);
        let began_at = env.elapsed();
        let guard = redlock.try_lock().await.unwrap().unwrap();
        assert!(
            env.elapsed() - began_at < SERVER_TIMEOUT / 2,
            "nobody waits for a server that is not needed"
        );
        assert!(redlock.try_lock().await.unwrap().is_none());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        assert!(servers.with_key().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn without_most_servers_nothing_is_granted_and_nothing_stays() {
    let servers = Servers::new(5);
    servers.set(&[Up, Down, Silent, Down, Up]);
    let error = servers.builder().build().unwrap().try_lock().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "lock \"lock\": cannot acquire: needs 3 servers, and has 2; server 1: connection refused - Io; \
         server 2: no reply in time - Io; server 3: connection refused - Io"
    );
    assert!(servers.with_key().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_late_gives_its_vote_back() {
    let servers = Servers::new(3);
    let redlock = servers.builder().build().unwrap();
    // The others grant the lock. It is released before the late request arrives.
    servers.set(&[Up, Up, Slow(2 * SERVER_TIMEOUT)]);
    let guard = redlock.try_lock().await.unwrap().unwrap();
    servers.set(&[Up, Up, Up]);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    sleep(4 * SERVER_TIMEOUT).await;
    assert!(servers.with_key().is_empty());
    // The others do not grant it.
    servers.set(&[Down, Down, Slow(2 * SERVER_TIMEOUT)]);
    assert!(matches!(redlock.try_lock().await, Err(Error::NoQuorum { agreed: 0, needed: 2, .. })));
    sleep(4 * SERVER_TIMEOUT).await;
    assert!(servers.with_key().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_attempt_leaves_nothing() {
    let servers = Servers::new(3);
    let redlock = servers.builder().build().unwrap();
    for delay in [SERVER_TIMEOUT / 2, SERVER_TIMEOUT / 4] {
        servers.set(&[Up, Slow(delay), Slow(delay)]);
        assert!(timeout(SERVER_TIMEOUT / 8, redlock.lock()).await.is_err());
        sleep(4 * SERVER_TIMEOUT).await;
        assert!(servers.with_key().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_lost_when_most_servers_no_longer_have_it() {
    let servers = Servers::new(3);
    let redlock = servers.builder().build().unwrap();
    let guard = redlock.lock().await.unwrap();
    _ = servers.0[0].0.connection().execute(&[b"DEL", b"lock"]);
    guard.extend().await.unwrap();
    assert_eq!(servers.with_key(), [1, 2], "no vote is taken anew");
    servers.set(&[Up, Up, Down]);
    assert!(matches!(guard.extend().await, Err(Error::NoQuorum { agreed: 1, needed: 2, .. })));
    assert!(!guard.is_lost());
    servers.set(&[Up, Up, Up]);
    _ = servers.0[1].0.connection().execute(&[b"DEL", b"lock"]);
    assert!(matches!(guard.extend().await, Err(Error::Lost { .. })));
    assert!(guard.is_lost());
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_gets_the_lock_when_it_is_free() {
    let servers = Servers::new(3);
    let redlock = servers.builder().build().unwrap();
    let guard = redlock.lock().await.unwrap();
    let waiting = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.lock().await }
    });
    // It looks every 50 to 100 milliseconds.
    match redlock.lock_timeout(Duration::from_secs(5)).await.unwrap_err() {
        Error::TimedOut { attempts, .. } => assert!((50..=101).contains(&attempts), "{attempts}"),
        other => panic!("{other}"),
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_renewed_stays_on_most_servers() {
    let servers = Servers::new(3);
    let guard = servers.builder().renew(true).build().unwrap().lock().await.unwrap();
    servers.set(&[Up, Silent, Up]);
    sleep(10 * LEASE).await;
    assert!(!guard.is_lost());
    servers.set(&[Up, Silent, Silent]);
    guard.lost().await;
    assert!(matches!(
        guard.release().await,
        Err(Error::NoQuorum { agreed: 1, needed: 2, .. }) | Ok(Release::NotHeld)
    ));
}

/// Work that waits for its token must not go on while another client may get the lock.
#[tokio::test(start_paused = true)]
async fn a_token_is_cancelled_before_the_release_arrives() {
    let servers = Servers::new(3);
    let redlock = servers.builder().build().unwrap();
    for releases in [true, false] {
        servers.set(&[Up; 3]);
        let guard = redlock.lock().await.unwrap();
        let token = guard.cancellation_token();
        servers.set(&[Slow(SERVER_TIMEOUT / 2); 3]);
        let released = tokio::spawn(async move {
            if releases {
                _ = guard.release().await;
            }
        });
        sleep(SERVER_TIMEOUT / 4).await;
        assert!(token.is_cancelled() && servers.with_key().len() == 3);
        released.await.unwrap();
        sleep(SERVER_TIMEOUT).await;
        assert!(servers.with_key().is_empty());
    }
}

/// A lock whose clients wait, over scripts with these changes. It is renewed, or not.
fn explored(client: &Client, renews: bool, changes: &'static [Change]) -> Redlock {
    let connect = |server| Connection::new(Rewritten::new(client.connection_to(server), changes));
    let builder = Redlock::builder((0..3).map(connect), "lock").env(client.env());
    builder.lease(LEASE).renew(renews).retry(LEASE / 4).build().unwrap()
}

/// Clients that wait for the lock, work, and release it.
fn scenario(renews: bool, changes: &'static [Change], faults: Faults) -> Scenario {
    let reached = Reached { contention: true, overrun: faults.stalls > 0, ..Reached::default() };
    let scenario = Scenario::new("Redlock").servers(3).lease(LEASE).faults(faults).must_reach(reached);
    let scenario = scenario.always(ExclusiveFact::of("section")).interchangeable();
    scenario.actors(2, move |client| async move {
        let lock = explored(&client, renews, changes);
        let guard = match client.cancellable(lock.lock()).await {
            // A client that stalls notices too late that the servers have replied.
            None | Some(Err(Error::NoQuorum { .. } | Error::TooLate { .. })) => return Ok(()),
            Some(granted) => granted?,
        };
        let hold = client.hold("section").enter();
        if renews {
            () = redis::cmd("PING").query_async(&mut client.connection()).await?;
        }
        match hold.until(guard.release()).await {
            Err(Error::NoQuorum { .. }) => Ok(()),
            released => Ok(released.map(drop)?),
        }
    })
}

/// In random orders, one client holds the lock at a time, and a fresh client gets it in the end.
#[test]
fn clients_that_wait_or_renew_exclude_each_other() {
    let none = Faults::none();
    let waiting = [none, none.crashes(1), none.lost(1), none.cancels(1), none.skew(LEASE)];
    let renewing = [none.stalls(1), none.stalls(1).crashes(1)];
    let all = waiting.map(|faults| (false, faults)).into_iter().chain(renewing.map(|faults| (true, faults)));
    for (renews, faults) in all {
        let scenario = scenario(renews, &[], faults)
            .probe(1, |client| async move { Ok(explored(&client, false, &[]).try_lock().await?.is_some()) });
        let is_lossy = faults.crashes + faults.lost + faults.cancels > 0;
        let scenario = if is_lossy { scenario.always(Recovers) } else { scenario.always(NoLeak) };
        println!("{faults}: {} schedules", sample(&scenario, SAMPLED.get(), 0).unwrap().schedules);
    }
}

/// A renewal that ends the lease.
#[test]
fn a_mutant_of_the_renewal_is_found() {
    if MUTANTS.is_left_out() {
        return;
    }
    const ENDS: &[Change] = &[("'PEXPIRE', KEYS[1], ARGV[2]", "'PEXPIRE', KEYS[1], 0")];
    let report = sample(&scenario(true, ENDS, Faults::none().stalls(1)), 2_000, 0).unwrap_err();
    assert!(report.to_string().contains("exclusive-fact is violated"), "{report}");
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    for (builder, reason) in [
        (Servers::new(0).builder(), "a lock on several servers needs at least 3 of them"),
        (Servers::new(2).builder(), "a lock on several servers needs at least 3 of them"),
        (Servers::new(3).builder().fair(), "a lock of this kind has no queue, so it cannot be fair"),
        (
            Servers::new(3).builder().server_timeout(LEASE),
            "`server_timeout` is not zero, and at most half of the lease of 10s",
        ),
    ] {
        assert_eq!(builder.build().unwrap_err().to_string(), format!("lock \"lock\": {reason}"));
    }
}
