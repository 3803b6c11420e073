//! Clients that keep each other from getting on.

use harness::actor::Actor;
use harness::explore::Problem;
use harness::oracle::ExclusiveFact;
use harness::{ActorError, Client, Scenario, exhaustive};

use super::oracles::send;

/// Takes two locks, and gives the first one back if the second one is taken.
async fn takes_both(client: Client, locks: [&'static str; 2]) -> Result<(), ActorError> {
    let mut link = client.connection();
    loop {
        let [one, other] = locks;
        if !send(&mut link, &["SET", one, &client.name(), "NX"]).await? {
            continue;
        }
        if send(&mut link, &["SET", other, &client.name(), "NX"]).await? {
            return Ok(client.hold("cs").until(send::<()>(&mut link, &["DEL", one, other])).await?);
        }
        send::<()>(&mut link, &["DEL", one]).await?;
    }
}

/// A client that ends first, and two clients that take two locks, and then write so often to one
/// key.
fn two_locks(orders: [[&'static str; 2]; 2], writes: usize) -> Scenario {
    let scenario = Scenario::new("two locks").always(ExclusiveFact::of("cs"));
    let scenario =
        scenario.actors(1, |client| async move { Ok(send(&mut client.connection(), &["PING"]).await?) });
    orders.into_iter().fold(scenario, |scenario, locks| {
        scenario.actors(1, move |client| async move {
            takes_both(client.clone(), locks).await?;
            for _ in 0..writes {
                send::<()>(&mut client.connection(), &["SET", "key", "1"]).await?;
            }
            Ok(())
        })
    })
}

#[track_caller]
fn expect_livelock(scenario: &Scenario) {
    let report = exhaustive(scenario).unwrap_err();
    let Problem::Livelock { actors, round, .. } = &report.problem else { panic!("{report}") };
    assert_eq!((actors.as_slice(), *round), (&[Actor(1), Actor(2)][..], 6));
}

/// Two clients that take the locks in different orders keep each other from getting on. If the
/// order is equal, they do not.
#[test]
fn locks_in_different_orders_are_a_livelock() {
    expect_livelock(&two_locks([["a", "b"], ["b", "a"]], 0));
    exhaustive(&two_locks([["a", "b"], ["a", "b"]], 0)).unwrap();
}

/// Equal commands in turns look like a livelock, until they come to an end. An exploration finds
/// them first.
#[test]
fn a_livelock_after_one_that_only_seems_to_be_one() {
    expect_livelock(&two_locks([["a", "b"], ["b", "a"]], 3));
}

/// Each client takes a key on every server, and is granted the lock by more than half of them. If
/// their number is even, two clients can get half each, and then try again and again.
#[test]
fn a_tie_of_an_even_number_of_servers_is_a_livelock() {
    for servers in [2, 4] {
        let scenario = Scenario::new("tie").servers(servers).always(ExclusiveFact::of("cs"));
        let tie = scenario.actors(2, move |client| async move {
            let mut links: Vec<_> = (0..servers).map(|server| client.connection_to(server)).collect();
            let name = client.name();
            loop {
                let mut granted = Vec::new();
                for link in &mut links {
                    granted.push(send::<bool>(link, &["SET", "lock", &name, "NX"]).await?);
                }
                let is_granted = 2 * granted.iter().filter(|is| **is).count() > servers;
                if is_granted {
                    drop(client.hold("cs").enter());
                }
                for (link, _) in links.iter_mut().zip(granted).filter(|(_, is_granted)| *is_granted) {
                    send::<()>(link, &["DEL", "lock"]).await?;
                }
                if is_granted {
                    return Ok(());
                }
            }
        });
        let report = exhaustive(&tie).unwrap_err();
        assert!(matches!(report.problem, Problem::Livelock { .. }), "{report}");
    }
}
