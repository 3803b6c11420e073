//! *Lease in seconds.* A client stores when its lease ends, in whole seconds, and compares in whole
//! seconds. The rounding cuts off up to a second of the lease.
//!
//! Repair: the lease ends in the first second that begins after it.
//!
//! Bounds: 2 clients, 1 stall.

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::{UNLOCK, check, run, send};

/// Takes the lock if it is free, or if its lease ended before now.
const TAKE: &str = "--take
local till = redis.call('GET', KEYS[1])
if till and tonumber(ARGV[1]) < tonumber(till) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1";

fn scenario(end_of_lease: fn(i64) -> i64) -> Scenario {
    Scenario::new("lease in seconds")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(2, move |client| async move {
            let (mut link, since) = (client.connection(), client.true_time());
            let now_ms = client.env().now_ms();
            let [now, till] = [now_ms / 1000, end_of_lease(now_ms)].map(|second| second.to_string());
            if send(&mut link, &["EVAL", TAKE, "1", "lock", &now, &till]).await? {
                client.hold("section").since(since).until(run::<()>(&mut link, UNLOCK, &till)).await?;
            }
            Ok(())
        })
}

#[test]
fn lease_in_seconds() {
    check(
        &scenario(|now_ms| now_ms / 1000 + 10),
        &scenario(|now_ms| now_ms / 1000 + 11),
        Faults::none().stalls(1).crashes(1),
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: script take lock 1700000000 1700000010 → 1
                              │ ·      now lock = "1700000010"
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2    +9500 ms  ┃ ·  9500 ms pass: every client is slow
               3    +9500 ms  ┃ ●  B: script take lock 1700000010 1700000020 → 1
                              ┃ │      now lock = "1700000020"
                              ┃ ┃    ▸ B is inside. Its lease runs until +19500 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}
