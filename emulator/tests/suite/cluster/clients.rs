//! redis-rs's client of clusters over TCP: it follows redirections, slots that move, and failovers.

use emulator::{Clock, Emulator};
use redis::AsyncCommands as _;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;

/// A cluster that listens, and a client of it.
async fn cluster() -> redis::RedisResult<(Vec<Emulator>, ClusterConnection)> {
    let servers = Emulator::cluster(&Clock::system(), 3, 1).expect("it is a cluster");
    servers.iter().for_each(Emulator::allow_control);
    let urls: Vec<String> = servers.iter().map(Emulator::url).collect();
    let connection = ClusterClient::new(urls)?.get_async_connection().await?;
    Ok((servers, connection))
}

/// The arguments that name a server: its host and its port.
fn place(server: &Emulator) -> Vec<String> {
    let url = server.url();
    let place = url.trim_start_matches("redis://").trim_end_matches('/').split(':');
    place.map(ToOwned::to_owned).collect()
}

/// Runs a command at one server.
fn run(server: &Emulator, command: &str, rest: &[String]) -> redis::RedisResult<()> {
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap_or_default());
    cmd.arg(words.collect::<Vec<_>>()).arg(rest).query(&mut server.connection())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_finds_the_server_of_each_key() -> redis::RedisResult<()> {
    let (servers, mut client) = cluster().await?;
    for nth in 0..30 {
        () = client.set(format!("key:{nth}"), nth).await?;
    }
    for nth in 0..30 {
        assert_eq!(client.get::<_, i32>(format!("key:{nth}")).await?, nth);
    }
    let sizes = servers[..3].iter().map(|server| server.keys("*").len());
    assert!(sizes.clone().all(|size| size > 0) && sizes.sum::<usize>() == 30);
    let script = redis::Script::new("return redis.call('INCR', KEYS[1])");
    assert_eq!(script.key("counter").invoke_async::<i32>(&mut client).await?, 1);
    let refused = client.mget::<_, Vec<Option<i32>>>(&["{a}", "{b}"][..]).await;
    assert_eq!(refused?, [None, None], "the client divides it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_follows_a_slot() -> redis::RedisResult<()> {
    let (servers, mut client) = cluster().await?;
    () = client.mset(&[("{b}1", "x"), ("{b}2", "y")]).await?;
    run(
        &servers[0],
        "EMULATOR MOVE-SLOT 3300",
        &[place(&servers[1]), vec!["KEYS".into(), "{b}1".into()]].concat(),
    )?;
    assert_eq!(client.get::<_, String>("{b}1").await?, "x", "ASK");
    assert_eq!(client.get::<_, String>("{b}2").await?, "y");
    run(&servers[0], "EMULATOR MOVE-SLOT 3300", &place(&servers[1]))?;
    assert_eq!(client.mget::<_, Vec<String>>(&["{b}1", "{b}2"][..]).await?, ["x", "y"], "MOVED");
    assert_eq!(servers[1].keys("*").len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_follows_failovers() -> redis::RedisResult<()> {
    let (servers, mut client) = cluster().await?;
    () = client.set("b", 1).await?;
    run(&servers[0], "EMULATOR FAILOVER", &[])?;
    assert_eq!(client.incr::<_, _, i32>("b", 1).await?, 2);
    assert_eq!(servers[3].get("b").as_deref(), Some(&b"2"[..]));
    run(&servers[0], "CLUSTER FAILOVER", &[])?;
    assert_eq!(client.incr::<_, _, i32>("b", 1).await?, 3);
    assert!(redis::cmd("INCR").arg("b").query::<i32>(&mut servers[3].connection()).is_err());
    Ok(())
}
