//! *Renewal after cancel.* A client acquires with a time-out, and stops waiting while the request
//! is under way. The request still runs. The code that receives the reply then starts to renew a
//! lease that no caller uses.
//!
//! Redisson's issue 2714. Repair: if no caller waits for a grant any more, the lock is released and
//! not renewed.
//!
//! Bounds: 1 client with a time-out, 1 client that waits for it, 1 stall, 1 crash.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Faults, Scenario};
use tokio::sync::oneshot;

use super::renewal_outlives_release::{renewal, wait_for_the_lease};
use super::{UNLOCK, check, run, take};

/// How the client treats a grant that comes too late.
#[derive(Clone, Copy, PartialEq)]
enum Late {
    IsRenewed,
    IsGivenBack,
}

fn scenario(late: Late) -> Scenario {
    Scenario::new("renewal after cancel")
        .faults(Faults::none().crashes(1).stalls(1))
        .must_reach(Reached { contention: true, crash: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(1, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            let (grant, granted) = oneshot::channel();
            let (acquiring, own) = (client.clone(), token.clone());
            tokio::spawn(async move {
                let mut link = acquiring.connection();
                if take(&mut link, &own).await.unwrap_or(false)
                    && let Err(renewal) = grant.send(renewal(&acquiring, own.clone()))
                    && late == Late::IsGivenBack
                {
                    renewal.abort();
                    _ = run::<()>(&mut link, UNLOCK, &own).await;
                }
            });
            if let Ok(Ok(renewal)) = tokio::time::timeout(Duration::from_secs(1), granted).await {
                let hold = client.hold("section").enter();
                renewal.abort();
                hold.until(run::<()>(&mut link, UNLOCK, &token)).await?;
            }
            Ok(())
        })
        .actors(1, wait_for_the_lease)
}

#[test]
fn renewal_after_cancel() {
    check(
        &scenario(Late::IsRenewed),
        &scenario(Late::IsGivenBack),
        Faults::none().crashes(1).lost(1),
        &expect![[r#"
            B failed: the lock is still taken, more than a lease after its holder went away

            step        time  A B  ● acts · not begun │ runs
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A.2: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
               3       +0 ms  │ ●  B: script obtain lock B1 → 0
               4    +1000 ms  │ │  1000 ms pass: a client is slow
               5    +1000 ms  ● │  A receives the reply
               6    +7000 ms  │ │  6000 ms pass: every client waits
               7    +7000 ms  ● │  A.3: script extend lock A1 → 1
                              │ │      now lock = "A1" (10000 ms left)
               8   +11000 ms  │ │  4000 ms pass: every client waits
               9   +11000 ms  │ ●  B: script obtain lock B1 → 0
                              │ │    ▸ B failed: the lock is still taken, more than a lease after its holder went away
        "#]],
    );
}
