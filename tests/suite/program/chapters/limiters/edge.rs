use std::time::Duration;

use harness::oracle::{Rate, Recovers};
use harness::{Client, Faults, Scenario, exhaustive};
use redis::RedisResult;

const LIMIT: usize = 2;
const MINUTE: Duration = Duration::from_secs(60);

async fn is_allowed(client: &Client) -> RedisResult<bool> {
    let key = format!("requests:{}", client.now().as_secs() / 60);
    let mut count = redis::pipe();
    count.atomic().incr(&key, 1).expire(&key, 60).ignore();
    let (count,): (usize,) = count.query_async(&mut client.connection()).await?;
    Ok(count <= LIMIT)
}

fn main() {
    let limiter = Scenario::new("a key for each minute").actors(2, |client| async move {
        for _ in 0..2 {
            if is_allowed(&client).await? {
                client.did("request");
            }
            tokio::time::sleep(Duration::from_secs(40)).await;
        }
        Ok(())
    });
    let crashes = limiter
        .clone()
        .faults(Faults::none().crashes(1))
        .probe(1, |client| async move { Ok(is_allowed(&client).await?) })
        .always(Recovers::within(MINUTE));
    exhaustive(&crashes).unwrap();
    let rate = Rate::of("request", LIMIT, MINUTE);
    exhaustive(&limiter.clone().always(rate.clone().fixed())).unwrap();

    let report = exhaustive(&limiter.always(rate)).unwrap_err();
    assert!(report.to_string().contains("«request» is done 3 times in a window"));
    println!("{report}");
}
