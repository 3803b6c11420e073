//! *Writer starvation.* Readers are admitted beside each other, and a writer only if nobody reads.
//! If each reader comes before the last one has left, a writer never gets the lock.
//!
//! This problem is as old as read-write locks (P. J. Courtois and others, "Concurrent Control with
//! 'Readers' and 'Writers'", 1971). Repair: a refused writer leaves a mark that it waits, and no
//! more readers are admitted. The mark lasts a little longer than the writer's pause.
//!
//! Bounds: 2 readers of 2 rounds, 1 writer, 1 crash.

use std::time::Duration;

use expect_test::expect;
use harness::client::GatedConnection;
use harness::oracle::{NotOvertaken, WriterAlone};
use harness::trace::Reached;
use harness::{Faults, Scenario};
use redis::RedisResult;

use super::{check, send};

const READ: &str = "--reader
if redis.call('EXISTS', 'writer', 'waiting') > 0 then return 0 end
redis.call('INCR', 'readers')
redis.call('PEXPIRE', 'readers', 10000)
return 1";

const WRITE: &str = "--writer
if redis.call('EXISTS', 'writer') == 1 or tonumber(redis.call('GET', 'readers') or 0) > 0 then return 0 end
redis.call('SET', 'writer', 1, 'PX', 10000)
return 1";

const WRITE_OR_WAIT: &str = "--writer
if redis.call('EXISTS', 'writer') == 1 or tonumber(redis.call('GET', 'readers') or 0) > 0 then
  redis.call('SET', 'waiting', 1, 'PX', 6000)
  return 0
end
redis.call('SET', 'writer', 1, 'PX', 10000)
redis.call('DEL', 'waiting')
return 1";

async fn eval(link: &mut GatedConnection, script: &str) -> RedisResult<bool> {
    send(link, &["EVAL", script, "0"]).await
}

fn scenario(write: &'static str) -> Scenario {
    Scenario::new("writer starvation")
        .interchangeable()
        .faults(Faults::none().crashes(1))
        .must_reach(Reached { contention: true, crash: true, ..Reached::default() })
        .always(NotOvertaken::of("waiting", "reading"))
        .always(WriterAlone::of("reading", "writing"))
        .actors(2, |client| async move {
            let mut link = client.connection();
            for _round in 0..2 {
                if eval(&mut link, READ).await? {
                    client.hold("reading").until(send::<()>(&mut link, &["DECR", "readers"])).await?;
                }
            }
            Ok(())
        })
        .actors(1, move |client| async move {
            let (mut link, mut waiting) = (client.connection(), None);
            while !eval(&mut link, write).await? {
                waiting.get_or_insert_with(|| client.hold("waiting").enter());
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            drop(waiting);
            Ok(client.hold("writing").until(send(&mut link, &["DEL", "writer"])).await?)
        })
}

#[test]
fn writer_starvation() {
    check(
        &scenario(WRITE),
        &scenario(WRITE_OR_WAIT),
        Faults::none().crashes(1),
        &expect![[r#"
            not-overtaken

            step        time  A B C  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● · ·  A: script reader → 1
                              │ · ·      now readers = "1" (10000 ms left)
                              ┃ · ·    ▸ A is inside (reading). Its lease runs until +10000 ms.
               2       +0 ms  ┃ · ●  C: script writer → 0
                              ┃ · ┃    ▸ C is inside (waiting). Its lease runs until +10000 ms. Now A and C are inside.
               3       +0 ms  ┃ ● ┃  B: script reader → 1
                              ┃ │ ┃      now readers = "2" (10000 ms left)
                              ┃ ┃ ┃    ▸ B is inside (reading). Its lease runs until +10000 ms. Now A, B and C are inside.

            ✗ B enters before C, who waited first.
        "#]],
    );
}
