//! One stall is a period in which a client is slow, however often others sleep meanwhile.

use std::time::Duration;

use harness::oracle::{ExclusiveBelief, Success};
use harness::{Faults, Scenario, exhaustive};

use super::oracles::send;

const SECOND: Duration = Duration::from_secs(1);
const TAKE: &[&str] = &["SET", "lock", "1", "NX", "PX", "10000"];

/// A holds the lock and is slow once. B sleeps, sends a command, and sleeps once more before it
/// comes for the lock. The lease ends in the second sleep.
#[test]
fn a_client_is_slow_once_while_another_one_sleeps_twice() {
    let scenario = Scenario::new("slow once")
        .always(ExclusiveBelief::of("section", 1))
        .actors(1, |client| async move {
            let mut link = client.connection();
            if send(&mut link, TAKE).await? {
                client.hold("section").until(send::<()>(&mut link, &["GET", "lock"])).await?;
            }
            Ok(())
        })
        .actors(1, |client| async move {
            let mut link = client.connection();
            if send::<i64>(&mut link, &["EXISTS", "lock"]).await? == 1 {
                tokio::time::sleep(6 * SECOND).await;
                send::<()>(&mut link, &["PING"]).await?;
                tokio::time::sleep(6 * SECOND).await;
                if send(&mut link, TAKE).await? {
                    client.hold("section").until(async {}).await;
                }
            }
            Ok(())
        });
    exhaustive(&scenario).unwrap();
    let report = exhaustive(&scenario.faults(Faults::none().stalls(1))).unwrap_err();
    assert!(report.to_string().contains("A and B are inside at once"), "{report}");
}

/// A is slow between two commands. B ends with an error if it sleeps this often meanwhile.
fn sleeps_beside_a_slow_client(sleeps: usize) -> Scenario {
    Scenario::new("sleeps beside a slow client")
        .always(Success)
        .actors(1, |client| async move {
            let mut link = client.connection();
            send::<()>(&mut link, &["SET", "begun", "1"]).await?;
            Ok(send::<()>(&mut link, &["SET", "done", "1"]).await?)
        })
        .actors(1, move |client| async move {
            let mut link = client.connection();
            if send::<i64>(&mut link, &["EXISTS", "begun"]).await? == 1 {
                for _ in 0..sleeps {
                    tokio::time::sleep(SECOND).await;
                    send::<()>(&mut link, &["PING"]).await?;
                }
                if send::<i64>(&mut link, &["EXISTS", "done"]).await? == 0 {
                    return Err("A is slow".into());
                }
            }
            Ok(())
        })
}

/// A stall has a maximum, so that an exploration ends although a client wakes for ever.
#[test]
fn one_stall_lasts_for_four_sleeps() {
    let is_possible = |sleeps, stalls| {
        exhaustive(&sleeps_beside_a_slow_client(sleeps).faults(Faults::none().stalls(stalls))).is_err()
    };
    assert!(!is_possible(1, 0));
    assert!((1..=4).all(|sleeps| is_possible(sleeps, 1)));
    assert!(!is_possible(5, 1));
    assert!(is_possible(5, 2));
}
