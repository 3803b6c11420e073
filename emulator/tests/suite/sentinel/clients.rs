//! redis-rs finds the primary by its Sentinels, before and after a failover.

use emulator::{Clock, Emulator};
use redis::RedisResult;
use redis::sentinel::{Sentinel, SentinelClient, SentinelServerType};

/// A primary, two replicas and three Sentinels that listen, and the URLs of the Sentinels.
fn group() -> (Vec<Emulator>, Vec<Emulator>, Vec<String>) {
    let (primary, replicas) = Emulator::replicated(Clock::system(), 2);
    let sentinels = primary.sentinels(3);
    let servers: Vec<_> = std::iter::once(primary).chain(replicas).collect();
    servers.iter().for_each(|server| _ = server.url());
    let urls = sentinels.iter().map(Emulator::url).collect();
    (servers, sentinels, urls)
}

fn fail_over(sentinel: &Emulator) -> RedisResult<()> {
    redis::cmd("SENTINEL").arg(&["FAILOVER", "mymaster"]).query(&mut sentinel.connection())
}

#[test]
fn a_client_that_blocks() -> RedisResult<()> {
    use redis::Commands as _;

    let (servers, sentinels, urls) = group();
    let mut sentinel = Sentinel::build(urls)?;
    let mut before = sentinel.master_for("mymaster", None)?.get_connection()?;
    () = before.set("k", "v")?;
    let mut replica = sentinel.replica_for("mymaster", None)?.get_connection()?;
    assert_eq!(replica.get::<_, String>("k")?, "v");
    assert_eq!(replica.set::<_, _, ()>("k", "w").unwrap_err().code(), Some("READONLY"));

    fail_over(&sentinels[1])?;
    let mut after = sentinel.master_for("mymaster", None)?.get_connection()?;
    () = after.set("k", "w")?;
    assert_eq!(servers[0].connection().get::<_, String>("k")?, "v");
    () = before.set("k", "x")?; // the old primary stays writable
    assert_eq!(after.get::<_, String>("k")?, "w");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_async_client() -> RedisResult<()> {
    use redis::AsyncCommands as _;
    use tokio_stream::StreamExt as _;

    let (servers, sentinels, urls) = group();
    let mut subscriber = redis::Client::open(&*urls[2])?.get_async_pubsub().await?;
    subscriber.subscribe("+switch-master").await?;
    let name = "mymaster".to_owned();
    let mut client = SentinelClient::build(urls, name, None, SentinelServerType::Master)?;
    let mut before = client.get_async_connection().await?;
    () = before.set("k", "v").await?;

    servers[0].allow_control();
    () = redis::cmd("EMULATOR").arg("FAILOVER").query(&mut servers[0].connection())?;
    let message = subscriber.on_message().next().await.expect("the connection is open");
    let told: String = message.get_payload()?;
    let find = redis::cmd("SENTINEL").arg(&["GET-MASTER-ADDR-BY-NAME", "mymaster"]).to_owned();
    let (host, port): (String, u16) = find.query(&mut sentinels[0].connection())?;
    assert!(told.ends_with(&format!(" {host} {port}")), "{told}");

    assert!(before.set::<_, _, ()>("k", "x").await.is_err(), "its connection has been closed");
    let mut after = client.get_async_connection().await?;
    () = after.set("k", "w").await?;
    assert_eq!(servers[0].connection().get::<_, String>("k").await?, "w");
    Ok(())
}
