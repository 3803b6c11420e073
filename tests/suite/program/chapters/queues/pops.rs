use harness::oracle::{AtLeastOnce, AtMostOnce};
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

async fn work(client: Client) -> RedisResult<()> {
    let job: Option<String> = client.connection().rpop("jobs", None).await?;
    if let Some(job) = job {
        client.did(job);
    }
    Ok(())
}

fn main() {
    let queue = Scenario::new("pop")
        .before(|client| async move { Ok(client.connection().lpush("jobs", "job 1").await?) })
        .actors(2, from_fn(work));
    exhaustive(&queue.clone().always(AtMostOnce::of("job 1"))).unwrap();

    let crashes = queue.faults(Faults::none().crashes(1)).always(AtLeastOnce::of("job 1"));
    let report = exhaustive(&crashes).unwrap_err();
    assert!(report.to_string().contains("nobody has done «job 1»"));
    println!("{report}");
}
