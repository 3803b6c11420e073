//! *Members of a window.* A sliding-window limiter has a sorted set with the time of each request
//! as its score, and as its member, too. All requests of a second are then one member, and count as
//! one (sockudo/sockudo#251, peterkhayes/rolling-rate-limiter#11).
//!
//! Repair: each request is a member of its own.

use std::time::Duration;

use harness::client::GatedConnection;
use harness::oracle::OverIssue;
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{RedisResult, pipe};
use tokio::time::sleep;

use super::{Code, finds, passes};

const LIMIT: usize = 2;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts a request, and says whether it is within the limit.
async fn is_allowed(link: &mut GatedConnection, member: String, now: i64, window: i64) -> RedisResult<bool> {
    let (count,): (usize,) = pipe()
        .atomic()
        .zrembyscore("requests", 0, now - window)
        .ignore()
        .zadd("requests", member, now)
        .ignore()
        .zcard("requests")
        .expire("requests", WINDOW.as_secs() as i64)
        .ignore()
        .query_async(link)
        .await?;
    Ok(count <= LIMIT)
}

async fn request(client: Client, code: Code) -> RedisResult<()> {
    let (mut link, since, now_ms) = (client.connection(), client.now(), client.env().now_ms());
    let is_allowed = match code {
        Code::Reported => {
            let now = now_ms / 1000;
            is_allowed(&mut link, now.to_string(), now, WINDOW.as_secs() as i64).await?
        }
        Code::Repaired => {
            is_allowed(&mut link, client.env().unique(), now_ms, WINDOW.as_millis() as i64).await?
        }
    };
    if is_allowed {
        // The request counts for a window.
        client.hold("window").since(since).during(sleep(WINDOW)).await;
    }
    Ok(())
}

fn limiter(requests: usize, code: Code) -> Scenario {
    Scenario::new("sliding window")
        .lease(WINDOW)
        .actors(requests, from_fn(move |client| request(client, code)))
        .interchangeable()
        .always(OverIssue::of("window", LIMIT as u32))
}

#[test]
fn requests_of_one_second_count_as_one() {
    finds(&limiter(3, Code::Reported), "over-issue", 3, "A, B and C hold 3 of 2 permits");
}

#[test]
fn each_request_counts() {
    passes(exhaustive(&limiter(3, Code::Repaired)));
    passes(exhaustive(&limiter(3, Code::Repaired).rounds(2)));
    let slow = limiter(4, Code::Repaired).faults(Faults::none().stalls(1));
    passes(exhaustive(&slow.prompt_replies()));
}
