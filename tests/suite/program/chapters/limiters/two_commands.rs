use std::time::Duration;

use harness::oracle::{Rate, Recovers};
use harness::{Client, Faults, Scenario, exhaustive};
use redis::{AsyncCommands as _, RedisResult};

const LIMIT: usize = 1;
const MINUTE: Duration = Duration::from_secs(60);

async fn is_allowed(client: &Client) -> RedisResult<bool> {
    let mut connection = client.connection();
    let count: usize = connection.incr("requests", 1).await?;
    if count == 1 {
        () = connection.expire("requests", 60).await?;
    }
    Ok(count <= LIMIT)
}

fn main() {
    let limiter = Scenario::new("INCR, then EXPIRE").actors(2, |client| async move {
        if is_allowed(&client).await? {
            client.did("request");
        }
        Ok(())
    });
    exhaustive(&limiter.clone().always(Rate::of("request", LIMIT, MINUTE))).unwrap();

    let crashes = limiter
        .faults(Faults::none().crashes(1))
        .probe(1, |client| async move { Ok(is_allowed(&client).await?) })
        .always(Recovers::within(MINUTE + Duration::from_secs(1)));
    let report = exhaustive(&crashes).unwrap_err();
    assert!(report.to_string().contains("61000 ms after the end, only 0 of 1 fresh clients succeed"));
    println!("{report}");
}
