//! Clients that wait until replicas have the lock.

use std::time::Duration;

use harness::oracle::ExclusiveBelief;
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario};

use super::debate::{Claim, Debate};
use super::lock::{release, take};

pub(super) const DEBATE: Debate = Debate {
    name: "wait",
    about: "Does WAIT save a lock from a failover?",
    sources: &[
        "Redis, \"WAIT\", https://redis.io/docs/latest/commands/wait/",
        "Redisson, issue 5256, https://github.com/redisson/redisson/issues/5256",
    ],
    claims: &[
        Claim {
            scenario: "WAIT for one of two replicas",
            says: "One replica has acknowledged the lock, and the other one takes over. \
                The page of WAIT calls the choice of the better replica a best-effort attempt.",
            passes: false,
            make: |name, lease| scenario(name, lease, 1, Faults::none().failovers(1).behind(1)),
        },
        Claim {
            scenario: "WAIT for both replicas",
            says: "If every replica has acknowledged the lock, no failover loses it.",
            passes: true,
            make: |name, lease| scenario(name, lease, 2, Faults::none().failovers(1).behind(1)),
        },
        Claim {
            scenario: "WAIT for both replicas, and a failover by Sentinel",
            says: "The old primary still takes writes. But it has lost a replica, so WAIT counts too few.",
            passes: true,
            make: |name, lease| {
                scenario(name, lease, 2, Faults::none().failovers(1).behind(1).old_primary_writable(1))
            },
        },
    ],
};

const REPLICAS: usize = 2;
const TIMEOUT_MS: u64 = 1_000;

fn scenario(name: &str, lease: Duration, wanted: u32, faults: Faults) -> Scenario {
    Scenario::new(name)
        .replicas(REPLICAS)
        .lease(lease)
        .faults(faults)
        .actors(2, move |client| work_once(client, wanted))
        .interchangeable()
        .must_reach(Reached { contention: true, server: true, ..Reached::default() })
        .always(ExclusiveBelief::of("work", 1))
}

/// A client works if enough replicas have its lock.
async fn work_once(client: Client, wanted: u32) -> Result<(), ActorError> {
    let mut link = client.connection();
    let since = client.true_time();
    if !take(&client, &mut link).await? {
        return Ok(());
    }
    let acknowledged: u32 = redis::cmd("WAIT").arg(wanted).arg(TIMEOUT_MS).query_async(&mut link).await?;
    let release = release(&client, &mut link);
    if acknowledged < wanted {
        return Ok(release.await?);
    }
    Ok(client.hold("work").since(since).until(release).await?)
}
