use std::time::Duration;

use harness::oracle::Rate;
use harness::{Client, Scenario, exhaustive, from_fn};
use redis::RedisResult;

const LIMIT: usize = 2;
const MINUTE: Duration = Duration::from_secs(60);

async fn is_allowed(client: &Client) -> RedisResult<bool> {
    let now_ms = client.now().as_millis() as u64;
    let mut count = redis::pipe();
    count.atomic().zrembyscore("requests", 0, now_ms - MINUTE.as_millis() as u64).ignore();
    count.zadd("requests", now_ms, now_ms).ignore().zcard("requests").expire("requests", 60).ignore();
    let (count,): (usize,) = count.query_async(&mut client.connection()).await?;
    Ok(count <= LIMIT)
}

async fn request(client: Client) -> RedisResult<()> {
    if is_allowed(&client).await? {
        client.did("request");
    }
    Ok(())
}

fn main() {
    let limiter = Scenario::new("a member for each time")
        .actors(3, from_fn(request))
        .always(Rate::of("request", LIMIT, MINUTE));
    let report = exhaustive(&limiter).unwrap_err();
    assert!(report.to_string().contains("«request» is done 3 times in a window"));
    println!("{report}");
}
