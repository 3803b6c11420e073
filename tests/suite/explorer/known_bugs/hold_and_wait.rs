//! *Hold and wait.* A client that needs two locks takes one and waits for the other. If two clients
//! take them in different orders, each gets its first lock, and both wait for ever. If the locks
//! have leases, both wait until one lease ends.
//!
//! This deadlock is as old as locks (E. G. Coffman and others, "System Deadlocks", 1971). Locks
//! made of lists show it most simply, because clients wait for them with `BLPOP`. Repair: all
//! clients take the locks in one order.
//!
//! Bounds: 3 clients, and 2 rounds of 2 clients.

use expect_test::expect;
use harness::oracle::{ExclusiveFact, NoLeak};
use harness::trace::Reached;
use harness::{Client, Faults, Scenario, exhaustive};

use super::{check, send};

type Order = fn(&Client) -> [&'static str; 2];

/// B needs the locks for another purpose and takes them in the opposite order.
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
        .or_fewer()
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
    // The server never answers the second BLPOP of either client, so that BLPOP has no line.
    check(
        &scenario(as_they_come, 3, 1),
        &scenario(sorted, 3, 1),
        Faults::none().stalls(1),
        &expect![[r#"
            A waits for something that never comes

            step        time  A B  ● acts · not begun │ runs
               1       +0 ms  ● ·  A: BLPOP first 0 → ["first", "free"]
                              │ ·      now first is gone
               2       +0 ms  │ ●  B: BLPOP second 0 → ["second", "free"]
                              │ │      now second is gone
               5 +86400000 ms  │ │  86400000 ms pass: every client waits
               6 +172800000 ms  │ │  86400000 ms pass: every client waits
                              │ │    ▸ A waits for something that never comes.
                              │ │    ▸ B waits for something that never comes.
        "#]],
    );
}
