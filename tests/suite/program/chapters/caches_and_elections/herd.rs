use harness::oracle::AtMostOnce;
use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

async fn page(client: Client) -> RedisResult<()> {
    let mut connection = client.connection();
    let page: Option<String> = connection.get("page").await?;
    if page.is_none() {
        client.did("query"); // in your code: the slow query that makes the page
        () = connection.set_ex("page", "text", 60).await?;
    }
    Ok(())
}

fn main() {
    let cache = Scenario::new("herd").actors(2, from_fn(page)).always(AtMostOnce::of("query"));
    let report = exhaustive(&cache).unwrap_err();
    assert!(report.to_string().contains("A has done «query», and B does it once more"));
    println!("{report}");
}
