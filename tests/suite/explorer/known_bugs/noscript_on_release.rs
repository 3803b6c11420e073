//! *NOSCRIPT on release.* A client loads its script once, and releases by its hash. Between acquire
//! and release, the scripts are flushed, or another server takes over. The release is refused, the
//! client ignores the error, and the lock stays for its whole lease.
//!
//! Redis documents that its script cache may be cleared at any time. Repair: after `NOSCRIPT`, the
//! client sends the whole script. The `Script` of redis-rs instead loads the script and sends the
//! hash again. That leaves a gap between the two, in which the explorer finds a second flush.
//!
//! Bounds: 3 clients, 2 flushes.

use expect_test::expect;
use harness::Scenario;
use harness::client::GatedConnection;
use harness::oracle::{ExclusiveFact, NoLeak};
use harness::trace::Reached;
use redis::RedisResult;

use super::{UNLOCK, check, finds, one_of_each, run, send, take};

/// The reaction of a client if the server does not have its script.
#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    LoadAndTryAgain,
    SendTheScript,
}

async fn release(link: &mut GatedConnection, token: &str, answer: Answer) -> RedisResult<()> {
    let script = redis::Script::new(UNLOCK);
    if let Answer::LoadAndTryAgain = answer {
        return script.key("lock").arg(token).invoke_async(link).await;
    }
    let released = send(link, &["EVALSHA", script.get_hash(), "1", "lock", token]).await;
    match (released, answer) {
        (Err(_), Answer::SendTheScript) => run(link, UNLOCK, token).await,
        (released, _) => released,
    }
}

fn scenario(answer: Answer) -> Scenario {
    Scenario::new("noscript on release")
        .interchangeable()
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .always(NoLeak)
        .before(
            |client| async move { Ok(send(&mut client.connection(), &["SCRIPT", "LOAD", UNLOCK]).await?) },
        )
        .actors(3, move |client| async move {
            let mut link = client.connection();
            let token = client.env().unique();
            if take(&mut link, &token).await? {
                _ = client.hold("section").until(release(&mut link, &token, answer)).await;
            }
            Ok(())
        })
        .actors(
            2,
            |operator| async move { Ok(send(&mut operator.connection(), &["SCRIPT", "FLUSH"]).await?) },
        )
        .or_fewer()
        .probe(1, |client| async move { Ok(take(&mut client.connection(), "probe").await?) })
}

#[test]
fn noscript_on_release() {
    check(
        &scenario(Answer::Nothing),
        &scenario(Answer::SendTheScript),
        one_of_each(),
        &expect![[r#"
            no-leak

            step        time  A B C D E  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  · · · ● ·  D: SCRIPT FLUSH → OK
               2       +0 ms  ● · · │ ·  A: SET lock A1 NX PX 10000 → OK
                              │ · · │ ·      now lock = "A1" (10000 ms left)
                              ┃ · · │ ·    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ● · · │ ·  A: script unlock lock A1 → NOSCRIPT No matching script. Please use EVAL.
                              │ · · │ ·    ▸ A begins its release, and no longer counts as a holder.
                              │ · · │ ·      probe1: SET lock probe NX PX 10000 → (nil)
                              │ · · │ ·    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 0 of 1 succeed.

            ✗ no client crashed and no message was lost, but only 0 of 1 fresh clients got a grant.
        "#]],
    );
}

#[test]
fn noscript_after_load() {
    finds(
        &scenario(Answer::LoadAndTryAgain),
        &expect![[r#"
            no-leak

            step        time  A B C D E  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  · · · ● ·  D: SCRIPT FLUSH → OK
               2       +0 ms  ● · · │ ·  A: SET lock A1 NX PX 10000 → OK
                              │ · · │ ·      now lock = "A1" (10000 ms left)
                              ┃ · · │ ·    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ● · · │ ·  A: script unlock lock A1 → NOSCRIPT No matching script. Please use EVAL.
                              │ · · │ ·    ▸ A begins its release, and no longer counts as a holder.
               4       +0 ms  ● · · │ ·  A: SCRIPT LOAD unlock → "b23aaa3154fa95d553e56c3ce642b96d6a8d54fd"
               5       +0 ms  │ · · │ ●  E: SCRIPT FLUSH → OK
               6       +0 ms  ● · · │ │  A: script unlock lock A1 → NOSCRIPT No matching script. Please use EVAL.
                              │ · · │ │      probe1: SET lock probe NX PX 10000 → (nil)
                              │ · · │ │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 0 of 1 succeed.

            ✗ no client crashed and no message was lost, but only 0 of 1 fresh clients got a grant.
        "#]],
    );
}
