use harness::oracle::AtMostOnce;
use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

/// Runs the oldest job, and then removes it from the list.
async fn work(client: Client) -> RedisResult<()> {
    let mut connection = client.connection();
    let job: Option<String> = connection.lindex("jobs", -1).await?;
    if let Some(job) = job {
        client.did(&job); // in your code: the job itself
        () = connection.lrem("jobs", 1, &job).await?;
    }
    Ok(())
}

fn main() {
    let queue = Scenario::new("read, then remove")
        .before(|client| async move { Ok(client.connection().lpush("jobs", "job 1").await?) })
        .actors(2, from_fn(work))
        .always(AtMostOnce::of("job 1"));
    let report = exhaustive(&queue).unwrap_err();
    assert!(report.to_string().contains("A has done «job 1», and B does it once more"));
    println!("{report}");
}
