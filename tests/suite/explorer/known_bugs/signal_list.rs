//! *Signal list.* If a client finds the lock taken, it waits with `BLPOP` for a signal that the
//! release pushes. The signal expires after a second, so that it does not stay if nobody waits. A
//! client that tried before the release may send its `BLPOP` after that second. The client then
//! sleeps for a whole lease although the lock is free.
//!
//! In python-redis-lock 3.3 the signal lasts until the next command of the client that pushed it,
//! which has the same effect. Repair: the signal has no time to live, and there is at most one. A
//! holder whose lease is over also leaves a signal.
//!
//! Bounds: 3 clients, 1 stall.

use expect_test::expect;
use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::{LEASE, check, finds, run, send, take};

const UNLOCK_AND_SIGNAL_FOR_A_SECOND: &str = "--unlock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('LPUSH', 'signal', 1)
redis.call('PEXPIRE', 'signal', 1000)
return 1";

const UNLOCK_WHAT_IS_HELD_AND_SIGNAL: &str = "--unlock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if redis.call('LLEN', 'signal') == 0 then redis.call('LPUSH', 'signal', 1) end
return 1";

const UNLOCK_AND_SIGNAL: &str = "--unlock
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if redis.call('LLEN', 'signal') == 0 then redis.call('LPUSH', 'signal', 1) end
return 1";

fn scenario(unlock: &'static str) -> Scenario {
    Scenario::new("signal list")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .must_reach(Reached { contention: true, overrun: true, ..Reached::default() })
        .always(NoLostWakeUp::of("section", LEASE))
        .always(ExclusiveFact::of("section"))
        .actors(3, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            while !take(&mut link, &token).await? {
                send::<()>(&mut link, &["BLPOP", "signal", "10"]).await?;
            }
            client.hold("section").until(run::<()>(&mut link, unlock, &token)).await?;
            Ok(())
        })
}

#[test]
fn signal_list() {
    check(
        &scenario(UNLOCK_AND_SIGNAL_FOR_A_SECOND),
        &scenario(UNLOCK_AND_SIGNAL),
        Faults::none().crashes(1).stalls(1),
        &expect![[r#"
            no-lost-wake-up

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ┃ ●  B: SET lock B1 NX PX 10000 → (nil)
               3       +0 ms  ● │  A: script unlock lock A1 → 1
                              │ │      now lock is gone
                              │ │      now signal = [1] (1000 ms left)
                              │ │    ▸ A begins its release, and no longer counts as a holder.
               4    +1001 ms  │ │  1001 ms pass: every client is slow
               6   +11001 ms  │ ●  B: BLPOP signal 10 → (nil)
                   +11001 ms  │ │  10000 ms pass: every client waits

            ✗ no client has been inside for 10000 ms, although clients wait.
        "#]],
    );
}

/// Half a repair: the lease ends between the failed try and the `BLPOP`, and the release of the
/// expired lock pushes no signal.
#[test]
fn signal_of_holders_alone() {
    finds(
        &scenario(UNLOCK_WHAT_IS_HELD_AND_SIGNAL),
        &expect![[r#"
            no-lost-wake-up

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ┃ ●  B: SET lock B1 NX PX 10000 → (nil)
               3   +10001 ms  ┃ │  10001 ms pass: every client is slow
                              ╏ │    ▸ The lease of A is over, and A is still inside.
               4   +10001 ms  ● │  A: script unlock lock A1 → 0
                              │ │    ▸ A begins its release, and no longer counts as a holder.
               6   +20001 ms  │ ●  B: BLPOP signal 10 → (nil)
                   +20001 ms  │ │  10000 ms pass: every client waits

            ✗ no client has been inside for 10000 ms, although clients wait.
        "#]],
    );
}
