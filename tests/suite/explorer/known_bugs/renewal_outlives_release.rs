//! *Renewal outlives release.* A task of the holder renews its lease, and stops when the release is
//! answered. The release is lost or slow, and the holder ends after an error. The renewal continues
//! for a holder that has left, and no other client ever gets the lock.
//!
//! Redisson's issue 7272 reaches this state in another way. Repair: the renewal stops before the
//! release is sent. If the release is lost, the lease ends by itself.
//!
//! Bounds: 1 holder, 1 client that waits for it, 1 lost message, 1 crash.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Client, Faults, Scenario};
use tokio::task::JoinHandle;

use super::lost_reply_on_acquire::TAKE_OR_HAVE;
use super::{EXTEND, LEASE, UNLOCK, check, run, take};

/// Renews the lease as long as this token has the lock.
pub(super) fn renewal(client: &Client, token: String) -> JoinHandle<()> {
    let mut link = client.connection();
    tokio::spawn(async move {
        let mut is_held = true;
        while is_held {
            tokio::time::sleep(Duration::from_secs(6)).await;
            is_held = run(&mut link, EXTEND, &token).await.unwrap_or(false);
        }
    })
}

/// Tries again after a time in which the lease must have ended, whatever happened before.
pub(super) async fn wait_for_the_lease(client: Client) -> Result<(), harness::ActorError> {
    let (mut link, token) = (client.connection(), client.env().unique());
    if !run(&mut link, TAKE_OR_HAVE, &token).await? {
        tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
        if !run(&mut link, TAKE_OR_HAVE, &token).await? {
            return Err("the lock is still taken, more than a lease after its holder went away".into());
        }
    }
    Ok(client.hold("section").until(run(&mut link, UNLOCK, &token)).await?)
}

/// When the renewal stops.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    OnceReleaseIsAnswered,
    BeforeRelease,
}

fn scenario(stop: Stop) -> Scenario {
    Scenario::new("renewal outlives release")
        .faults(Faults::none().lost(1).crashes(1))
        .must_reach(Reached { contention: true, crash: true, lost: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(1, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            if take(&mut link, &token).await? {
                let hold = client.hold("section").enter();
                let renewal = renewal(&client, token.clone());
                if stop == Stop::BeforeRelease {
                    renewal.abort();
                }
                hold.until(run::<()>(&mut link, UNLOCK, &token)).await?;
                renewal.abort();
            }
            Ok(())
        })
        .actors(1, wait_for_the_lease)
}

#[test]
fn renewal_outlives_release() {
    check(
        &scenario(Stop::OnceReleaseIsAnswered),
        &scenario(Stop::BeforeRelease),
        Faults::none().crashes(1).lost(1),
        &expect![[r#"
            B failed: the lock is still taken, more than a lease after its holder went away

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A.1: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ● ·  A: script unlock lock A1 is lost on its way, and A gives up waiting
                              │ ·    ▸ A begins its release, and no longer counts as a holder.
                              │ ·    ▸ A gives up: timed out
               3       +0 ms  │ ●  B: script obtain lock B1 → 0
               4    +6000 ms  │ │  6000 ms pass: every client waits
               5    +6000 ms  ● │  A.2: script extend lock A1 → 1
                              │ │      now lock = "A1" (10000 ms left)
               6   +11000 ms  │ │  5000 ms pass: every client waits
               7   +11000 ms  │ ●  B: script obtain lock B1 → 0
                              │ │    ▸ B failed: the lock is still taken, more than a lease after its holder went away
        "#]],
    );
}
