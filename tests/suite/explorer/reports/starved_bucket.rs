//! *Starved bucket.* A token bucket adds a token for each second since its last request, even if it
//! refused that request. A client that asks twice a second never gets a token
//! (redis-developer/redis-ratelimiting-js#3).
//!
//! Repair: the time from which it counts moves on by whole tokens.

use std::time::Duration;

use harness::oracle::Success;
use harness::{ActorError, Client, Scenario, exhaustive};
use redis::Script;
use tokio::time::sleep;

use super::{Code, fails, passes};

fn script(code: Code) -> Script {
    let last = match code {
        Code::Reported => "now",
        Code::Repaired => "last + come * 1000",
    };
    Script::new(&format!(
        "--take
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = tonumber(redis.call('HGET', KEYS[1], 'left') or ARGV[1])
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or now)
local come = math.floor((now - last) / 1000)
left = math.min(tonumber(ARGV[1]), left + come)
local is_allowed = left >= 1
if is_allowed then left = left - 1 end
redis.call('HSET', KEYS[1], 'left', left, 'last', {last})
return is_allowed and 1 or 0"
    ))
}

/// Asks twice a second until it may pass, or until its patience is over.
async fn request(client: Client, patience: Option<Duration>, code: Code) -> Result<(), ActorError> {
    let (take, mut link, since) = (script(code), client.connection(), client.now());
    while !take.key("bucket").arg(1).invoke_async::<bool>(&mut link).await? {
        if patience.is_some_and(|patience| client.now() - since > patience) {
            return Err("got no token, and one comes each second".into());
        }
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

fn clients(patience: Option<Duration>, code: Code) -> Scenario {
    Scenario::new("token bucket")
        .script(&script(code))
        .actors(2, move |client| request(client, patience, code))
        .interchangeable()
        .always(Success)
}

const PATIENCE: Option<Duration> = Some(Duration::from_secs(2));

#[test]
fn a_client_never_gets_a_token() {
    fails(&clients(PATIENCE, Code::Reported), "got no token, and one comes each second", 12);
    let report = exhaustive(&clients(None, Code::Reported)).unwrap_err().to_string();
    assert!(report.contains("does not come to its end"), "{report}");
}

#[test]
fn each_client_gets_a_token() {
    passes(exhaustive(&clients(PATIENCE, Code::Repaired)));
    passes(exhaustive(&clients(None, Code::Repaired)));
}
