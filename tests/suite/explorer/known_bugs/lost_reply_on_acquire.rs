//! *Lost reply on acquire.* `SET … NX` has run, and its reply is lost. The client or its library
//! sends the command again and is refused. The holder is the client itself, which now waits for its
//! own lease to end.
//!
//! Repair: an acquire succeeds if the client's own token already has the lock. Sending it twice has
//! the same effect as once.
//!
//! Bounds: 3 clients, 1 lost message.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::{LEASE, UNLOCK, check, one_of_each, run};

const TAKE: &str = "--obtain
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 10000) then return 1 end
return 0";

/// Takes the lock if nobody else has it.
pub(super) const TAKE_OR_HAVE: &str = "--obtain
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)
return 1";

fn scenario(take: &'static str) -> Scenario {
    Scenario::new("lost reply on acquire")
        .interchangeable()
        .faults(Faults::none().lost(1))
        .must_reach(Reached { contention: true, lost: true, ..Reached::default() })
        .always(NoLostWakeUp::of("section", LEASE))
        .always(ExclusiveFact::of("section"))
        .actors(3, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            // After an error, the client retries at once.
            loop {
                match run(&mut link, take, &token).await {
                    Ok(true) => break,
                    Ok(false) => tokio::time::sleep(Duration::from_secs(5)).await,
                    Err(_) => {}
                }
            }
            let release = async { while run::<()>(&mut link, UNLOCK, &token).await.is_err() {} };
            client.hold("section").until(release).await;
            Ok(())
        })
}

#[test]
fn lost_reply_on_acquire() {
    check(
        &scenario(TAKE),
        &scenario(TAKE_OR_HAVE),
        one_of_each(),
        &expect![[r#"
            no-lost-wake-up

            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ●  A: script obtain lock A1 → 1
                              │      now lock = "A1" (10000 ms left)
                              │    ▸ The reply is lost, and A gives up waiting for it.
               2       +0 ms  ●  A: script obtain lock A1 → 0
               3    +5000 ms  │  5000 ms pass: every client waits
               4    +5000 ms  ●  A: script obtain lock A1 → 0
               5   +10000 ms  │  5000 ms pass: every client waits

            ✗ no client has been inside for 10000 ms, although clients wait.
        "#]],
    );
}
