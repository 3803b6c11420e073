//! *Token by a second GET.* A client is granted the lock and a fencing token by one script. Then it
//! reads the token again. If its lease has ended meanwhile, it reads the token of the next holder,
//! and the resource accepts its writes.
//!
//! Repair: the token is that of the reply to the acquire.
//!
//! Bounds: 2 clients, 1 stall.

use expect_test::expect;
use harness::oracle::Fenced;
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::{LEASE, check, send};

const ACQUIRE: &str = "--acquire
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 10000) then return 0 end
return redis.call('INCR', KEYS[2])";

/// The resource rejects tokens that are smaller than one that it has seen.
const WRITE: &str = "--write
if tonumber(redis.call('GET', KEYS[1]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1";

fn scenario(reads_again: bool) -> Scenario {
    Scenario::new("token by a second GET")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .must_reach(Reached { contention: true, overrun: true, ..Reached::default() })
        .always(Fenced::of("data"))
        .actors(2, move |client| async move {
            let (mut link, id) = (client.connection(), client.env().unique());
            let mut token: i64 = send(&mut link, &["EVAL", ACQUIRE, "2", "lock", "token", &id]).await?;
            if token == 0 {
                return Ok(());
            }
            let _hold = client.hold("section").enter();
            if reads_again {
                token = send(&mut link, &["GET", "token"]).await?;
            }
            if send(&mut link, &["EVAL", WRITE, "1", "data", &token.to_string()]).await? {
                client.accepted("data", token);
            }
            Ok(())
        })
        .lease(LEASE)
}

#[test]
fn token_by_get() {
    check(
        &scenario(true),
        &scenario(false),
        Faults::none().stalls(1).crashes(1),
        &expect![[r#"
            fenced

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: script acquire lock token A1 → 1
                              │ ·      now lock = "A1" (10000 ms left)
                              │ ·      now token = "1"
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2   +10001 ms  ┃ ·  10001 ms pass: every client is slow
                              ╏ ·    ▸ The lease of A is over, and A is still inside.
               3   +10001 ms  ╏ ●  B: script acquire lock token B1 → 2
                              ╏ │      now lock = "B1" (10000 ms left)
                              ╏ │      now token = "2"
                              ╏ ┃    ▸ B is inside. Its lease runs until +20001 ms. Now A and B are inside.
               4   +10001 ms  ╏ ●  B: GET token → "2"
               5   +10001 ms  ╏ ●  B: script write data 2 → 1
                              ╏ ┃      now data = "2"
                              ╏ ┃    ▸ data accepts B's write with token 2.
                              ╏ │    ▸ B leaves, and no longer counts as a holder.
               6   +10001 ms  ● │  A: GET token → "2"
               7   +10001 ms  ● │  A: script write data 2 → 1
                              ╏ │      now data = "2"
                              ╏ │    ▸ data accepts A's write with token 2.

            ✗ data accepts A's write with token 2 after B's with token 2.
        "#]],
    );
}
