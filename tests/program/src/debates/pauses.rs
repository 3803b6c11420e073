//! Sanfilippo's two pauses: one before a client of Redlock checks how much of its lease is left,
//! and one after that.

use std::time::Duration;

use harness::oracle::ExclusiveBelief;
use harness::{ActorError, Client, Scenario};
use redis::RedisResult;

use super::debate::{Claim, Debate, KLEPPMANN};
use super::lock::{release, take};

pub(super) const DEBATE: Debate = Debate {
    name: "pauses",
    about: "Is Redlock safe if a client pauses for longer than its lease?",
    sources: &[KLEPPMANN, "Salvatore Sanfilippo, \"Is Redlock safe?\" (2016), http://antirez.com/news/101"],
    claims: &[
        Claim {
            scenario: "a pause before the check",
            says: "Before the client checks its lease, a pause does no harm: the client finds that the lease is over.",
            passes: true,
            make: |name, lease| scenario(name, lease, 3, Pause::BeforeCheck),
        },
        Claim {
            scenario: "a pause after the check",
            says: "After the check, a pause lets two clients work at the same time.",
            passes: false,
            make: |name, lease| scenario(name, lease, 3, Pause::AfterCheck),
        },
        Claim {
            scenario: "a pause after the check, with one server",
            says: "That is so for every lock that ends by itself. It is no objection to Redlock alone.",
            passes: false,
            make: |name, lease| scenario(name, lease, 1, Pause::AfterCheck),
        },
    ],
};

/// Where a process stands still.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    BeforeCheck,
    AfterCheck,
}

/// A, which pauses, and B, which does not. The pause is a part of A's code, so that its place is
/// known. All orders of commands are explored.
fn scenario(name: &str, lease: Duration, servers: usize, pause: Pause) -> Scenario {
    Scenario::new(name)
        .servers(servers)
        .lease(lease)
        .actors(1, move |client| work_once(client, Some(pause)))
        .actors(1, move |client| work_once(client, None))
        .always(ExclusiveBelief::of("work", 1))
}

/// A client acquires the lock on most servers. It works if some of its lease is left.
pub(super) async fn work_once(client: Client, pause: Option<Pause>) -> Result<(), ActorError> {
    let stand_still = async |at| {
        if pause == Some(at) {
            client.did("pause");
            tokio::time::sleep(client.lease() * 3 / 2).await;
        }
    };
    let (lease, since, begun) = (client.lease(), client.true_time(), client.now());
    let mut granted = 0;
    for server in 0..client.servers() {
        granted += usize::from(take(&client, &mut client.connection_to(server)).await?);
    }
    stand_still(Pause::BeforeCheck).await;
    let is_over = client.now() - begun >= lease;
    if granted <= client.servers() / 2 || is_over {
        return Ok(release_all(&client).await?);
    }
    let hold = client.hold("work").since(since).enter();
    stand_still(Pause::AfterCheck).await;
    Ok(hold.until(release_all(&client)).await?)
}

/// Releases the lock on each server that still has it.
async fn release_all(client: &Client) -> RedisResult<()> {
    for server in 0..client.servers() {
        release(client, &mut client.connection_to(server)).await?;
    }
    Ok(())
}
