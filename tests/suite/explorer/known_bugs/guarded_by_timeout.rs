//! *Guarded by a timeout.* A client gives up its section by a timeout that ends before its lease.
//! But if its whole process stands still, nobody polls the timeout. The client is inside after its
//! lease, together with another one.
//!
//! Repair: none at the client. The resource must check fencing tokens, as
//! [`harness::oracle::Fenced`] says. If only a reply is late, the timeout is good enough.
//!
//! Bounds: 2 clients, 1 stall.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::{ExclusiveBelief, ExclusiveFact};
use harness::{Faults, Scenario, exhaustive};

use super::{LEASE, UNLOCK, finds, run, send, take};

fn scenario() -> Scenario {
    Scenario::new("guarded by a timeout")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .always(ExclusiveFact::of("section"))
        .actors(2, |client| async move {
            let since = client.true_time();
            let attempt = async {
                let (mut link, token) = (client.connection(), client.env().unique());
                if take(&mut link, &token).await? {
                    let hold = client.hold("section").since(since).enter();
                    () = send(&mut link, &["APPEND", "data", &token]).await?;
                    hold.until(run::<()>(&mut link, UNLOCK, &token)).await?;
                }
                Ok(())
            };
            // The timeout counts from before the request for the lock.
            tokio::time::timeout(LEASE - Duration::from_millis(100), attempt).await.unwrap_or(Ok(()))
        })
}

#[test]
fn guarded_by_timeout() {
    exhaustive(&scenario()).unwrap();
    finds(
        &scenario().always(ExclusiveBelief::of("section", 1)),
        &expect![[r#"
            exclusive-belief

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2   +10001 ms  ┃ ·  10001 ms pass
                              ╏ ·    ▸ The lease of A is over, and A is still inside.
                              ╏ ·    ▸ The process of A stood still meanwhile.
               3   +10001 ms  ╏ ●  B: SET lock B1 NX PX 10000 → OK
                              ╏ │      now lock = "B1" (10000 ms left)
                              ╏ ┃    ▸ B is inside. Its lease runs until +20001 ms. Now A and B are inside.

            ✗ A and B are inside at once, but only one may be.
        "#]],
    );
}
