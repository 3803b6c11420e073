use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

async fn read(client: &Client) -> RedisResult<String> {
    let (mut cache, mut database) = (client.connection(), client.connection_to(1));
    if let Some(known) = cache.get("user:7").await? {
        return Ok(known);
    }
    let stored: String = database.get("user:7").await?;
    () = cache.set_ex("user:7", &stored, 60).await?;
    Ok(stored)
}

async fn write(client: Client) -> RedisResult<()> {
    () = client.connection_to(1).set("user:7", "new").await?;
    client.connection().del("user:7").await
}

fn main() {
    let cache = Scenario::new("read-through cache")
        .servers_named(["cache", "database"])
        .before(|client| async move { Ok(client.connection_to(1).set("user:7", "old").await?) })
        .actors(1, |client| async move { Ok(read(&client).await.map(drop)?) })
        .actors(1, from_fn(write))
        .finally("a reader sees what is stored", |client, _| async move {
            let stored: String = client.connection_to(1).get("user:7").await?;
            let seen = read(&client).await?;
            if seen == stored {
                Ok(())
            } else {
                Err(format!("a reader sees {seen:?}, not {stored:?}").into())
            }
        });
    let report = exhaustive(&cache).unwrap_err();
    assert!(report.to_string().contains("a reader sees \"old\", not \"new\""));
    println!("{report}");
}
