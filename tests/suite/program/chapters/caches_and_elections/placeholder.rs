use std::time::Duration;

use harness::oracle::{AtMostOnce, Recovers};
use harness::{Client, Faults, Scenario, exhaustive};
use redis::{AsyncCommands as _, RedisResult};

const FILLING: &str = "filling";

/// Only the client that has set the placeholder sends the query. The others wait for the page.
async fn page(client: &Client, placeholder_s: u64) -> RedisResult<String> {
    let mut connection = client.connection();
    loop {
        match connection.get::<_, Option<String>>("page").await? {
            Some(page) if page != FILLING => return Ok(page),
            Some(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            None => {
                let mut claim = redis::cmd("SET");
                claim.arg("page").arg(FILLING).arg("NX").arg("EX").arg(placeholder_s);
                if claim.query_async(&mut connection).await? {
                    client.did("query");
                    () = connection.set_ex("page", "text", 600).await?;
                }
            }
        }
    }
}

fn cache(placeholder_s: u64) -> Scenario {
    Scenario::new("placeholder")
        .actors(2, move |client| async move {
            client.cancellable(page(&client, placeholder_s)).await.transpose()?;
            Ok(())
        })
        .or_fewer() // the second client waits for the page, and may not be there
        .probe(1, |client| async move {
            let page: Option<String> = client.connection().get("page").await?;
            Ok(page.as_deref() != Some(FILLING))
        })
}

fn main() {
    exhaustive(&cache(60).always(AtMostOnce::of("query"))).unwrap();

    let cancels = |cache: Scenario| cache.faults(Faults::none().cancels(1));
    let recovers = Recovers::within(Duration::from_secs(5));
    let report = exhaustive(&cancels(cache(60)).always(recovers.clone())).unwrap_err();
    assert!(report.to_string().contains("5000 ms after the end, only 0 of 1 fresh clients succeed"));
    println!("{report}");

    // Repaired: the placeholder lives for three seconds.
    exhaustive(&cache(3).always(AtMostOnce::of("query"))).unwrap();
    exhaustive(&cancels(cache(3)).always(recovers)).unwrap();
}
