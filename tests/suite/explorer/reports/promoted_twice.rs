//! *Promoted twice.* Every worker moves delayed jobs that are due to the queue: it reads them, and
//! then removes each one and pushes it. Two workers that read the same job both push it, because
//! neither looks at the reply of `ZREM` (Automattic/kue#1133).
//!
//! Repair: only the worker whose `ZREM` removed the job pushes it.

use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, Commands as _, RedisResult};

use super::{Code, finds, passes};

async fn work(client: Client, code: Code) -> RedisResult<()> {
    let (mut link, now) = (client.connection(), client.env().now_ms());
    let due: Vec<String> = link.zrangebyscore_limit("delayed", 0, now, 0, 10).await?;
    for job in due {
        let removed: usize = link.zrem("delayed", &job).await?;
        if removed == 1 || code == Code::Reported {
            () = link.lpush("inactive", job).await?;
        }
    }
    if let Some(job) = link.rpop::<_, Option<String>>("inactive", None).await? {
        () = link.hincr("sent", job, 1).await?;
    }
    Ok(())
}

fn queue(workers: usize, code: Code) -> Scenario {
    Scenario::new("delayed jobs")
        .before(|client| async move {
            let due = client.env().now_ms() - 1000;
            Ok(client.connection().zadd("delayed", "mail", due).await?)
        })
        .actors(workers, from_fn(move |client| work(client, code)))
        .interchangeable()
        .invariant("a mail is sent once", |data| match data.hget("sent", "mail")? {
            None | Some(1) => Ok(()),
            Some(times) => Err(format!("the mail is sent {times} times").into()),
        })
}

#[test]
fn two_workers_push_one_job() {
    let words = "This breaks «a mail is sent once»: the mail is sent 2 times.";
    finds(&queue(2, Code::Reported), "a mail is sent once", 10, words);
}

#[test]
fn who_removes_a_job_pushes_it() {
    passes(exhaustive(&queue(2, Code::Repaired)));
    passes(exhaustive(&queue(3, Code::Repaired)));
}
