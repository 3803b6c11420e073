//! *Extend resurrects.* A holder extends its lease after the lock has expired. Meanwhile another
//! client has taken the lock, changed the guarded data, and released. Nobody has the lock now, so
//! the extension takes it anew and reports success. The holder continues with stale data.
//!
//! redsync's option `SetNXOnExtend` does this on purpose, for servers that lose their data.
//! redis-semaphore for Node.js did it until its pull request 177. Repair: an extension never
//! creates the lock.
//!
//! Bounds: 3 clients, 1 crash, 1 stall.

use expect_test::expect;
use harness::oracle::{ExclusiveFact, Unbroken};
use harness::trace::Reached;
use harness::{Faults, Scenario};
use locks::Record;

use super::{EXTEND, UNLOCK, check, one_of_each, run, take};

const EXTEND_OR_TAKE: &str = "--extend
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)
return 1";

fn scenario(extend: &'static str) -> Scenario {
    Scenario::new("extend resurrects")
        .interchangeable()
        .faults(Faults::none().crashes(1).stalls(1))
        .must_reach(Reached { contention: true, overrun: true, crash: true, ..Reached::default() })
        .always(Unbroken::of("section"))
        .always(ExclusiveFact::of("section"))
        .actors(3, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            if !take(&mut link, &token).await? {
                return Ok(());
            }
            let hold = client.hold("section").enter();
            let since = client.true_time();
            if run(&mut link, extend, &token).await? {
                hold.extend(since, Record::Value("lock".into(), token.clone()));
                hold.until(run::<()>(&mut link, UNLOCK, &token)).await?;
            }
            Ok(())
        })
}

#[test]
fn extend_resurrects() {
    check(
        &scenario(EXTEND_OR_TAKE),
        &scenario(EXTEND),
        one_of_each(),
        &expect![[r#"
            unbroken

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
               3   +10001 ms  │ ·  10001 ms pass: every client is slow
               4   +10001 ms  ● ·  A receives the reply
                              ╏ ·    ▸ A is inside. Its lease ran until +10000 ms.
               5   +10001 ms  ╏ ●  B: SET lock B1 NX PX 10000 → OK
                              ╏ │      now lock = "B1" (10000 ms left)
                              ╏ ┃    ▸ B is inside. Its lease runs until +20001 ms. Now A and B are inside.
               6   +10001 ms  ╏ ●  B: script extend lock B1 → 1
                              ╏ ┃      now lock = "B1" (10000 ms left)
                              ╏ ┃    ▸ B is granted the section once more. Its lease runs until +20001 ms.
               7   +10001 ms  ╏ ●  B: script unlock lock B1 → 1
                              ╏ │      now lock is gone
                              ╏ │    ▸ B begins its release, and no longer counts as a holder.
               8   +10001 ms  ● │  A: script extend lock A1 → 1
                              ╏ │      now lock = "A1" (10000 ms left)
                              ┃ │    ▸ A is granted the section once more. Its lease runs until +20001 ms.

            ✗ A is granted the section once more, although B held it meanwhile.
        "#]],
    );
}
