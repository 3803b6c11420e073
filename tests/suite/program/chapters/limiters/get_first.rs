use std::time::Duration;

use harness::oracle::Rate;
use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

const LIMIT: usize = 2;
const MINUTE: Duration = Duration::from_secs(60);

async fn request(client: Client) -> RedisResult<()> {
    let mut connection = client.connection();
    let count: Option<usize> = connection.get("requests").await?;
    if count.unwrap_or(0) < LIMIT {
        redis::pipe().atomic().incr("requests", 1).expire("requests", 60).exec_async(&mut connection).await?;
        client.did("request"); // in your code: what the limiter lets through
    }
    Ok(())
}

fn main() {
    let limiter = Scenario::new("GET, then INCR")
        .actors(3, from_fn(request))
        .always(Rate::of("request", LIMIT, MINUTE));
    let report = exhaustive(&limiter).unwrap_err();
    assert!(report.to_string().contains("«request» is done 3 times in a window"));
    println!("{report}");
}
