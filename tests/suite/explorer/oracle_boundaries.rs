//! Cases near the boundaries that PROPERTIES.md names.

use std::time::Duration;

use harness::oracle::{NoLostWakeUp, NotOvertaken, OwnerSafe};
use harness::{Scenario, exhaustive};
use locks::Record;

use super::oracles::{SOUND, expect_violation, send};

/// The timer that ends the wait ends the hold, too: the section was not empty.
#[test]
fn a_hold_that_ends_with_a_wait_is_no_lost_wake_up() {
    let scenario = Scenario::new("sleeps inside").always(NoLostWakeUp::of("cs", Duration::from_secs(10)));
    let sleeper = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, SOUND.take).await?;
        client.hold("cs").during(tokio::time::sleep(Duration::from_secs(30))).await;
        Ok(send(&mut link, &["DEL", "lock"]).await?)
    });
    exhaustive(&sleeper).unwrap();
}

/// Clients that come to a list in turn, and are served from its other end, or from the same one.
fn served(pop: &'static str) -> Scenario {
    let scenario = Scenario::new("served in turn").always(NotOvertaken::of("waiting", "cs"));
    scenario.actors(2, move |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["RPUSH", "queue", &client.name()]).await?;
        let waiting = client.hold("waiting").enter();
        while redis::cmd("LINDEX").arg("queue").arg(pop).query_async::<String>(&mut link).await?
            != client.name()
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let inside = client.hold("cs").enter();
        drop(waiting);
        Ok(inside.until(send::<()>(&mut link, &["LREM", "queue", "0", &client.name()])).await?)
    })
}

/// If two clients wait, the one that came first may enter.
#[test]
fn the_first_of_two_that_wait_overtakes_nobody() {
    exhaustive(&served("0")).unwrap();
    // A comes, B comes, and B is served.
    expect_violation(&served("-1"), "not-overtaken", 3);
}

/// Another client's `PEXPIRE` leaves the record, but not for long enough.
#[test]
fn a_shortened_grant_is_not_owner_safe() {
    let scenario = |shortened: &'static str| {
        let scenario = Scenario::new("shortened").always(OwnerSafe).actors(1, |client| async move {
            let mut link = client.connection();
            send::<()>(&mut link, SOUND.take).await?;
            let hold = client.hold("cs").record(Record::Key("lock".into()));
            Ok(hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?)
        });
        scenario.actors(1, move |client| async move {
            Ok(send::<()>(&mut client.connection(), &["PEXPIRE", "lock", shortened]).await?)
        })
    };
    expect_violation(&scenario("9999"), "owner-safe", 2);
    exhaustive(&scenario("10000")).unwrap();
}
