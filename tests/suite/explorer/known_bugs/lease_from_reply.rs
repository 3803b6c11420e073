//! *Lease from the reply.* A client counts its lease from the moment at which it reads the reply.
//! The reply was on its way for longer than the lease, so another client has the lock already.
//!
//! Repair: the lease counts from before the request was sent. If it is over when the reply arrives,
//! the client does not have the lock.
//!
//! Bounds: 2 clients, 1 stall.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Faults, Scenario, exhaustive};

use super::{LEASE, UNLOCK, check, finds, run, take};

/// The start of a lease that was requested at the first time, and whose reply arrived at the
/// second; `None` if it is over.
type Since = fn(Duration, Duration) -> Option<Duration>;

fn scenario(since: Since) -> Scenario {
    Scenario::new("lease from the reply")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(2, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            let asked_at = client.true_time();
            if take(&mut link, &token).await?
                && let Some(since) = since(asked_at, client.true_time())
            {
                client.hold("section").since(since).until(run::<()>(&mut link, UNLOCK, &token)).await?;
            }
            Ok(())
        })
}

#[test]
fn lease_from_reply() {
    let repaired = scenario(|asked_at, answered_at| (answered_at - asked_at < LEASE).then_some(asked_at));
    // Its bug needs a late reply, so all schedules with late replies are run here.
    exhaustive(&repaired).unwrap();
    check(
        &scenario(|_, answered_at| Some(answered_at)),
        &repaired,
        Faults::none().stalls(1).crashes(1).lost(1),
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
               3   +10001 ms  │ ·  10001 ms pass: every client is slow
               4   +10001 ms  │ ●  B: SET lock B1 NX PX 10000 → OK
                              │ │      now lock = "B1" (10000 ms left)
                              │ ┃    ▸ B is inside. Its lease runs until +20001 ms.
               5   +10001 ms  ● ┃  A receives the reply
                              ┃ ┃    ▸ A is inside. Its lease runs until +20001 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}

/// Over redis-rs's multiplexed connection, a reply that is later than half a second is an error.
/// But if the whole process stands still, the reply is there when the process goes on.
#[test]
fn lease_from_reply_over_a_multiplexed_connection() {
    let scenario = Scenario::new("lease from the reply, multiplexed")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .always(ExclusiveFact::of("section"))
        .actors(2, |client| async move {
            let (mut connection, token) = (client.multiplexed().await?, client.env().unique());
            let mut set = redis::cmd("SET");
            set.arg("lock").arg(&token).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
            if set.query_async(&mut connection).await? {
                let mut unlock = redis::cmd("EVAL");
                unlock.arg(UNLOCK).arg(1).arg("lock").arg(&token);
                let release = unlock.query_async::<()>(&mut connection);
                client.hold("section").since(client.true_time()).until(release).await?;
            }
            Ok(())
        });
    finds(
        &scenario,
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
               3   +10001 ms  │ ·  10001 ms pass
                              │ ·    ▸ The process of A stood still meanwhile.
               4   +10001 ms  │ ●  B: SET lock B1 NX PX 10000 → OK
                              │ │      now lock = "B1" (10000 ms left)
                              │ ┃    ▸ B is inside. Its lease runs until +20001 ms.
               5   +10001 ms  ● ┃  A receives the reply
                              ┃ ┃    ▸ A is inside. Its lease runs until +20001 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}
