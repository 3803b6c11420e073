//! Keyspace notifications: a client sleeps until Redis says that a key has ended.

use std::time::Duration;

use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario, exhaustive};
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

fn waiting(faults: Faults, patience: Option<Duration>) -> Scenario {
    Scenario::new("keyspace events")
        .lease(LEASE)
        .faults(faults)
        .before(|client| async move {
            let set = cmd("CONFIG").arg(&["SET", "notify-keyspace-events", "K$gx"]).to_owned();
            Ok(set.exec_async(&mut client.connection()).await?)
        })
        .actors(2, move |client| act(client, patience))
        .interchangeable()
        .always(ExclusiveFact::of("section"))
        .always(NoLostWakeUp::of("section", LEASE * 2))
}

/// The event comes when the key ends, and not when a client acts next.
#[test]
fn a_key_that_ends_wakes_a_client() {
    exhaustive(&waiting(Faults::none(), None)).unwrap();
    let crashed = Reached { crash: true, ..Reached::default() };
    for patience in [None, Some(11), Some(60)] {
        let patience = patience.map(Duration::from_secs);
        exhaustive(&waiting(Faults::none().crashes(1), patience).must_reach(crashed)).unwrap();
    }
}

/// Without the notification of ends, a client with a short lease waits in vain.
#[test]
fn no_event_wakes_nobody() {
    let deaf = waiting(Faults::none().crashes(1), None).before(|client| async move {
        let set = cmd("CONFIG").arg(&["SET", "notify-keyspace-events", "K$g"]).to_owned();
        Ok(set.exec_async(&mut client.connection()).await?)
    });
    exhaustive(&deaf).unwrap_err();
}
