use std::time::Duration;

use harness::{Client, Faults, Scenario, exhaustive};
use redis::{AsyncCommands as _, Direction, RedisResult};

async fn work(client: &Client) -> RedisResult<()> {
    let mut connection = client.connection();
    let job: Option<String> =
        connection.lmove("{jobs}", "{jobs}:working", Direction::Right, Direction::Left).await?;
    if let Some(job) = job {
        let mut complete = redis::pipe();
        complete.atomic().lrem("{jobs}:working", 1, &job).lpush("{jobs}:done", &job);
        complete.exec_async(&mut connection).await?;
    }
    Ok(())
}

/// Puts a job back if it has been in the working list for five seconds.
async fn reap(client: &Client) -> RedisResult<()> {
    let (mut connection, mut seen) = (client.connection(), Vec::new());
    loop {
        let working: Vec<String> = connection.lrange("{jobs}:working", 0, -1).await?;
        for job in working.iter().filter(|job| seen.contains(*job)) {
            let mut put_back = redis::pipe();
            put_back.atomic().lrem("{jobs}:working", 1, job).lpush("{jobs}", job);
            put_back.exec_async(&mut connection).await?;
        }
        seen = working;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

fn queue(workers: usize) -> Scenario {
    Scenario::new("working list")
        .before(|client| async move { Ok(client.connection().lpush("{jobs}", "job 1").await?) })
        .actors(workers, |client| async move { Ok(work(&client).await?) })
        .services(1, |client| async move { Ok(reap(&client).await?) })
}

fn main() {
    let crashes = queue(1).faults(Faults::none().crashes(1));
    let done = crashes.finally("the job is done, at the latest by a fresh worker", |client, _| async move {
        work(&client).await?;
        let done: usize = client.connection().llen("{jobs}:done").await?;
        if done == 1 { Ok(()) } else { Err(format!("it is done {done} times").into()) }
    });
    exhaustive(&done).unwrap();

    let lists = ["{jobs}", "{jobs}:working", "{jobs}:done"];
    let stalls = queue(2).faults(Faults::none().stalls(1)).conserved("one job stays one job", lists, 1);
    let report = exhaustive(&stalls).unwrap_err();
    assert!(report.to_string().contains("together that is not 1"));
    println!("{report}");
}
