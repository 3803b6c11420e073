//! *Leader renewal.* A leader renews its lease over a multiplexed connection, whose client waits
//! for half a second. If the renewal times out, the leader takes it for a success, since the server
//! runs late requests, too. But the request may come after the lease has ended.
//!
//! Repair: only a reply renews the lease.
//!
//! Bounds: 1 leader, 1 other client, 1 stall, 1 crash.

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Faults, Scenario};
use locks::Record;
use redis::RedisResult;

use super::{EXTEND, LEASE, UNLOCK, check, run, take};

/// Whether a renewal has succeeded.
type Renewed = fn(RedisResult<bool>) -> bool;

fn scenario(renewed: Renewed) -> Scenario {
    Scenario::new("leader renewal")
        .faults(Faults::none().stalls(1).crashes(1))
        .must_reach(Reached { contention: true, overrun: true, crash: true, ..Reached::default() })
        .always(ExclusiveFact::of("leader"))
        .actors(1, move |client| async move {
            let (mut link, token) = (client.multiplexed().await?, client.env().unique());
            let since = client.true_time();
            let set = redis::cmd("SET").arg("lock").arg(&token).arg("NX").arg("PX").arg(10_000).to_owned();
            if !set.query_async(&mut link).await? {
                return Ok(());
            }
            let hold = client.hold("leader").since(since).enter();
            tokio::time::sleep(LEASE / 3).await;
            let since = client.true_time();
            let renewal = redis::cmd("EVAL").arg(EXTEND).arg(1).arg("lock").arg(&token).to_owned();
            if renewed(renewal.query_async(&mut link).await) {
                hold.extend(since, Record::Value("lock".into(), token.clone()));
            }
            let unlock = redis::cmd("EVAL").arg(UNLOCK).arg(1).arg("lock").arg(&token).to_owned();
            Ok(hold.until(unlock.query_async::<()>(&mut link)).await?)
        })
        .actors(1, |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            if take(&mut link, &token).await? {
                client.hold("leader").until(run::<()>(&mut link, UNLOCK, &token)).await?;
            }
            Ok(())
        })
}

#[test]
fn leader_renewal() {
    let if_not_refused: Renewed = |reply| reply.unwrap_or(true);
    let if_confirmed: Renewed = |reply| reply.unwrap_or(false);
    check(
        &scenario(if_not_refused),
        &scenario(if_confirmed),
        Faults::none().stalls(1).crashes(1),
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2    +3334 ms  ┃ ·  3334 ms pass: every client waits
               3   +10001 ms  ┃ ·  6667 ms pass
                              ╏ ·    ▸ The lease of A is over, and A is still inside.
                              ╏ ·    ▸ The process of A stood still meanwhile.
               4   +10001 ms  ╏ ●  B: SET lock B1 NX PX 10000 → OK
                              ╏ │      now lock = "B1" (10000 ms left)
                              ╏ ┃    ▸ B is inside. Its lease runs until +20001 ms. Now A and B are inside.
                              ┃ ┃    ▸ A is granted the section once more. Its lease runs until +13334 ms.

            ✗ A and B hold «leader», each with a lease that still runs.
        "#]],
    );
}
