use harness::linearizability::Queue;
use harness::oracle::Linearizable;
use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

async fn push(client: &Client, job: &str) -> RedisResult<()> {
    let now_ms = client.now().as_millis() as u64;
    client.connection().zadd("jobs", job, now_ms).await
}

async fn pop(client: &Client) -> RedisResult<Option<String>> {
    let oldest: Vec<(String, u64)> = client.connection().zpopmin("jobs", 1).await?;
    Ok(oldest.into_iter().next().map(|(job, _)| job))
}

async fn act(client: Client) -> RedisResult<()> {
    let job = format!("job of {}", client.name());
    client.operation("push", &job).run(push(&client, &job)).await?;
    client.operation("pop", ()).run(pop(&client)).await?;
    Ok(())
}

fn main() {
    let queue = Scenario::new("sorted by time").actors(2, from_fn(act));
    let report = exhaustive(&queue.always(Linearizable::new(Queue::default()))).unwrap_err();
    assert!(report.to_string().contains("explains their answers"));
    println!("{report}");
}
