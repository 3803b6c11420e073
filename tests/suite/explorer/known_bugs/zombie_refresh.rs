//! *Zombie refresh.* A holder of a semaphore refreshes its permit by `ZADD`. Its lease has ended
//! meanwhile, another client has removed the permit and has got one itself. `ZADD` adds the permit
//! of the first holder again, and there is one too many.
//!
//! The semaphore of "Redis in Action" (chapter 6.3.3) removes such a permit again, in a second
//! command. Repair: `ZADD XX` changes only what exists.
//!
//! Bounds: 2 clients, 1 permit, 1 crash, 1 stall.

use expect_test::expect;
use harness::oracle::OverIssue;
use harness::trace::Reached;
use harness::{Faults, Scenario};
use locks::Record;

use super::{LEASE, check, one_of_each, send};

/// Gets the permit if nobody has an unexpired one. The time is the server's.
const ACQUIRE: &str = "--acquire
local now = redis.call('TIME')[1] * 1000 + math.floor(redis.call('TIME')[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 10000)
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[1])
return 1";

fn scenario(refresh: &'static [&'static str]) -> Scenario {
    Scenario::new("zombie refresh")
        .interchangeable()
        .faults(Faults::none().crashes(1).stalls(1))
        .must_reach(Reached { contention: true, overrun: true, crash: true, ..Reached::default() })
        .always(OverIssue::of("section", 1))
        .actors(2, move |client| async move {
            let (mut link, id) = (client.connection(), client.env().unique());
            if !send(&mut link, &["EVAL", ACQUIRE, "1", "permits", &id]).await? {
                return Ok(());
            }
            let hold = client.hold("section").enter();
            let (since, now) = (client.true_time(), client.env().now_ms().to_string());
            let words = [&["ZADD", "permits"], refresh, &[&now, &id]].concat();
            // The reply is 1 if the permit was added, or changed with `XX CH`. Its score may be the
            // same as before.
            let changed: i64 = send(&mut link, &words).await?;
            let is_held: Option<f64> = send(&mut link, &["ZSCORE", "permits", &id]).await?;
            if changed == 1 || is_held.is_some() {
                hold.extend(since, Record::Member("permits".into(), id.clone()));
            }
            Ok(hold.until(send::<()>(&mut link, &["ZREM", "permits", &id])).await?)
        })
        .lease(LEASE)
}

#[test]
fn zombie_refresh() {
    check(
        &scenario(&[]),
        &scenario(&["XX", "CH"]),
        one_of_each(),
        &expect![[r#"
            over-issue

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A: script acquire permits A1 → 1
                              │ ·      now permits = [A1 1700000000500]
               3   +12000 ms  │ ·  12000 ms pass: every client is slow
               4   +12000 ms  │ ●  B: script acquire permits B1 → 1
                              │ │      now permits = [B1 1700000012500]
                              │ ┃    ▸ B is inside. Its lease runs until +22000 ms.
               5   +12000 ms  ● ┃  A receives the reply
                              ╏ ┃    ▸ A is inside. Its lease ran until +10000 ms. Now A and B are inside.
               6   +12000 ms  ● ┃  A: ZADD permits 1700000012500 A1 → 1
                              ╏ ┃      now permits = [A1 1700000012500, B1 1700000012500]
               7   +12000 ms  ● ┃  A: ZSCORE permits A1 → "1700000012500"
                              ┃ ┃    ▸ A is granted the section once more. Its lease runs until +22000 ms.

            ✗ A and B hold 2 of 1 permits, each with a lease that still runs.
        "#]],
    );
}
