//! A service of several processes, one of which is the leader. Only the leader writes reports.
//!
//! `cargo run --example leader` runs it on an emulator of its own. With the URL of a server, it runs
//! on that one: only the connection differs. Start it there in two terminals, and stop one of them.

use std::time::Duration;

use emulator::Emulator;
use locks::{Connection, Election, Leadership, PubSubConnection, RateLimiter};
use redis::{Client, Script};
use tokio::time::sleep;

/// The resource: it refuses the write of a leader that is no longer the last one.
const WRITE: &str = "
if tonumber(redis.call('HGET', KEYS[1], 'term') or 0) > tonumber(ARGV[1]) then
  return redis.error_reply('STALE a later leader has written')
end
redis.call('HSET', KEYS[1], 'term', ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'reports', 1)";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let emulator = Emulator::new();
    let url = std::env::args().nth(1).unwrap_or_else(|| emulator.url());
    let connection = Connection::subscribing(PubSubConnection::open(&Client::open(url)?).await?);
    let lease = Duration::from_secs(1);
    let election = Election::builder(connection.clone(), "leader").lease(lease).build()?;
    let candidate = format!("process {}", std::process::id());
    let limit = RateLimiter::builder(connection.clone(), "reports").token_bucket(1, 10, lease).build()?;
    loop {
        match election.campaign(&candidate).await {
            Ok(leadership) => {
                println!("leader: term {}", leadership.term());
                tokio::select! {
                    () = leadership.lost() => println!("lost: another process may be the leader"),
                    failure = lead(connection.clone(), &leadership, &limit) => println!("failed: {failure}"),
                }
                match leadership.resign().await {
                    Ok(resigned) => println!("resigned: {resigned:?}"),
                    Err(error) => println!("resigned: {error}"),
                }
            }
            Err(error) => println!("no election: {error}"),
        }
        sleep(lease / 4).await;
    }
}

/// Writes reports, at most ten a second, until something fails.
async fn lead(
    mut connection: Connection,
    leadership: &Leadership,
    limit: &RateLimiter,
) -> Box<dyn std::error::Error> {
    let write = Script::new(WRITE);
    loop {
        if let Err(error) = limit.acquire().await {
            return error.into();
        }
        let report = write.key("report").arg(leadership.term()).invoke_async(&mut connection).await;
        match report {
            Ok::<u64, _>(number) => println!("report: {number}"),
            Err(error) => return error.into(),
        }
    }
}
