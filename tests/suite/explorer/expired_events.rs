//! Keyspace notifications: a client sleeps until Redis says that a key has ended, as in
//! redisson/redisson#3854.

use std::time::Duration;

use harness::execution::Runner;
use harness::oracle::{ExclusiveFact, NoLostWakeUp, Success};
use harness::sim::Recording;
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario, exhaustive, replay};
use locks::Subscribe as _;
use redis::cmd;
use tokio::time::timeout;

const LEASE: Duration = Duration::from_secs(10);

/// Takes the lock when it is told that the key has ended, or tries again after `patience`.
async fn act(client: Client, patience: Option<Duration>) -> Result<(), ActorError> {
    let mut link = client.connection();
    let mut ended = link.subscribe("__keyspace@0__:lock").await?;
    let lease_ms = client.lease().as_millis() as u64;
    let take = cmd("SET").arg("lock").arg(client.name()).arg("NX").arg("PX").arg(lease_ms).to_owned();
    while !take.query_async::<bool>(&mut link).await? {
        loop {
            let message = match patience {
                None => ended.message().await?,
                Some(patience) => match timeout(patience, ended.message()).await {
                    Ok(message) => message?,
                    Err(_) => break,
                },
            };
            if message == b"expired" || message == b"del" {
                break;
            }
        }
    }
    Ok(client.hold("section").until(cmd("DEL").arg("lock").exec_async(&mut link)).await?)
}

/// A scenario whose server publishes these classes of events.
fn publishing(classes: &'static str) -> Scenario {
    Scenario::new("keyspace events").before(move |client| async move {
        let set = cmd("CONFIG").arg(&["SET", "notify-keyspace-events", classes]).to_owned();
        Ok(set.exec_async(&mut client.connection()).await?)
    })
}

fn waiting(classes: &'static str, faults: Faults, patience: Option<Duration>) -> Scenario {
    publishing(classes)
        .lease(LEASE)
        .faults(faults)
        .actors(2, move |client| act(client, patience))
        .interchangeable()
        .always(ExclusiveFact::of("section"))
        .always(NoLostWakeUp::of("section", LEASE * 2))
}

/// The event comes when the key ends, and not when a client acts next.
#[test]
fn a_key_that_ends_wakes_a_client() {
    exhaustive(&waiting("K$gx", Faults::none(), None)).unwrap();
    let crashed = Reached { crash: true, ..Reached::default() };
    for patience in [None, Some(11), Some(60)] {
        let patience = patience.map(Duration::from_secs);
        exhaustive(&waiting("K$gx", Faults::none().crashes(1), patience).must_reach(crashed)).unwrap();
    }
}

/// Without the notification of ends, a client with a short lease waits in vain.
#[test]
fn no_event_wakes_nobody() {
    exhaustive(&waiting("K$g", Faults::none().crashes(1), None)).unwrap_err();
}

/// A client that waits for nothing but the event gets it when the key ends.
#[test]
fn the_event_comes_at_the_end_of_the_key() {
    let scenario = publishing("K$gx").always(Success).actors(1, |client| async move {
        let mut link = client.connection();
        let mut events = link.subscribe("__keyspace@0__:lock").await?;
        let end = client.now() + LEASE;
        cmd("SET").arg("lock").arg(1).arg("PX").arg(LEASE.as_millis() as u64).exec_async(&mut link).await?;
        while events.message().await? != b"expired" {}
        let late = client.now() - end;
        if late < Duration::from_millis(100) { Ok(()) } else { Err(format!("{late:?} too late").into()) }
    });
    exhaustive(&scenario).unwrap();
}

/// The client gets the event also if the schedule has ended.
#[test]
fn the_event_comes_after_the_end_of_a_schedule() {
    let scenario = publishing("K$gx").actors(1, |client| async move {
        let mut link = client.connection();
        let mut events = link.subscribe("__keyspace@0__:lock").await?;
        cmd("SET").arg("lock").arg(1).arg("PX").arg(10).exec_async(&mut link).await?;
        while events.message().await? != b"expired" {}
        Ok(())
    });
    for schedule in ["", "A", "A\nA"] {
        let history = replay(&mut Runner::new(), &scenario, &schedule.parse().unwrap(), Recording::Lean);
        assert_eq!(history.failure(), None, "{schedule:?}");
    }
}

/// Redis says that a key has ended when it removes it, which may be much later. A stall shows that:
/// the message is slow, and the key is gone for everyone meanwhile.
#[test]
fn the_event_may_come_late() {
    let scenario = publishing("K$gx").lease(LEASE).always(Success).actors(1, |client| async move {
        let mut link = client.connection();
        let mut events = link.subscribe("__keyspace@0__:lock").await?;
        cmd("SET").arg("lock").arg(1).arg("PX").arg(LEASE.as_millis() as u64).exec_async(&mut link).await?;
        let expired = async {
            while events.message().await? != b"expired" {}
            Ok::<(), ActorError>(())
        };
        let is_told = timeout(LEASE + Duration::from_secs(1), expired).await.is_ok();
        let is_there: bool = cmd("EXISTS").arg("lock").query_async(&mut link).await?;
        if is_told || is_there { Ok(()) } else { Err("nobody said that the key is gone".into()) }
    });
    exhaustive(&scenario).unwrap();
    let report = exhaustive(&scenario.faults(Faults::none().stalls(1))).unwrap_err();
    assert!(report.to_string().contains("nobody said that the key is gone"), "{report}");
}
