//! *Hold and wait.* Whoever needs two locks takes one and waits for the other. Two clients take them in two orders, each gets its
//! first, and both wait for ever: with leases, until one ends.
//!
//! It is as old as locks (E. G. Coffman and others, "System Deadlocks", 1971), and lists as locks, which are waited for by
//! `BLPOP`, have it in its purest form. Repaired, everybody takes them in one order.
//!
//! Bounds: 3 clients, and 2 rounds of 2 clients.

use expect_test::expect;
use harness::oracle::{ExclusiveFact, NoLeak};
use harness::trace::Reached;
use harness::{Client, Faults, Scenario, exhaustive};

use super::{check, send};

type Order = fn(&Client) -> [&'static str; 2];

/// B needs the locks for something else, and comes to them the other way round.
fn as_they_come(client: &Client) -> [&'static str; 2] {
    if client.name() == "B" { ["second", "first"] } else { ["first", "second"] }
}

fn sorted(client: &Client) -> [&'static str; 2] {
    let mut order = as_they_come(client);
    order.sort_unstable();
    order
}

fn scenario(order: Order, clients: usize, rounds: u32) -> Scenario {
    Scenario::new("hold and wait")
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .always(NoLeak)
        .before(|client| async move {
            for lock in ["first", "second"] {
                send::<()>(&mut client.connection(), &["RPUSH", lock, "free"]).await?;
            }
            Ok(())
        })
        .actors(clients, move |client| async move {
            let mut link = client.connection();
            let [one, other] = order(&client);
            for _round in 0..rounds {
                send::<()>(&mut link, &["BLPOP", one, "0"]).await?;
                send::<()>(&mut link, &["BLPOP", other, "0"]).await?;
                client.hold("section").until(send::<()>(&mut link, &["RPUSH", one, "free"])).await?;
                send::<()>(&mut link, &["RPUSH", other, "free"]).await?;
            }
            Ok(())
        })
        .probe(1, |client| async move {
            let mut link = client.connection();
            let free: [usize; 2] =
                [send(&mut link, &["LLEN", "first"]).await?, send(&mut link, &["LLEN", "second"]).await?];
            Ok(free == [1, 1])
        })
}

#[test]
fn hold_and_wait() {
    exhaustive(&scenario(sorted, 2, 2)).unwrap();
    // The second BLPOP of each is never answered, and has no line.
    check(
        &scenario(as_they_come, 3, 1),
        &scenario(sorted, 3, 1),
        Faults::none().stalls(1),
        &expect![[r#"
            A waits for something that never comes

            step        time  A B
               1       +0 ms  ● ·  A: BLPOP first 0 → ["first", "free"]
                              │ ·      now first is gone
               2       +0 ms  │ ●  B: BLPOP second 0 → ["second", "free"]
                              │ │      now second is gone
               5 +86400000 ms  │ │  86400000 ms pass
                 +172800000 ms  │ │  86400000 ms pass
                              │ │    ▸ A waits for something that never comes.
                              │ │    ▸ B waits for something that never comes.
        "#]],
    );
}
