//! Locks on a cluster: keys in different slots, a slot that moves, and a failover.

use std::time::Duration;

use harness::oracle::{ExclusiveBelief, Fenced, NoLeak, Progress};
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario};
use redis::{ErrorKind, RedisResult, ServerErrorKind};

use super::debate::{Claim, Debate};
use super::fencing::{TOKEN, acquire};
use super::lock::release;

pub(super) const DEBATE: Debate = Debate {
    name: "cluster",
    about: "What becomes of a lock and its counter on a cluster?",
    sources: &[
        "Redis, \"Redis cluster specification\", https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/",
    ],
    claims: &[
        Claim {
            scenario: "keys in two slots",
            says: "The lock and its counter are in different slots, so a cluster refuses the script, and nobody gets the lock.",
            passes: false,
            make: |name, lease| {
                scenario(name, lease, "token", Faults::none()).always(Progress::of(&["work"]))
            },
        },
        Claim {
            scenario: "keys in one slot, which moves",
            says: "A hash tag puts them in one slot. The lock and its tokens hold even while the slot moves to another server.",
            passes: true,
            make: |name, lease| {
                safe(scenario(name, lease, TOKEN, Faults::none().moves(1)))
                    .always(NoLeak)
                    .must_reach(Reached { contention: true, server: true, ..Reached::default() })
            },
        },
        Claim {
            scenario: "a failover in a cluster",
            says: "A cluster replicates as one server does. So the lock is lost if a replica takes over without it.",
            passes: false,
            make: |name, lease| {
                safe(scenario(name, lease, TOKEN, Faults::none().failovers(1).behind(1)).replicas(1))
            },
        },
    ],
};

fn scenario(name: &str, lease: Duration, counter: &'static str, faults: Faults) -> Scenario {
    Scenario::new(name)
        .cluster(2)
        .lease(lease)
        .faults(faults)
        .actors(2, move |client| work_once(client, counter))
        .interchangeable()
        .probe(1, move |client| async move { Ok(try_acquire(&client, counter).await?.is_some()) })
        .or_fewer()
}

fn safe(scenario: Scenario) -> Scenario {
    scenario.always(ExclusiveBelief::of("work", 1)).always(Fenced::of("storage"))
}

async fn work_once(client: Client, counter: &'static str) -> Result<(), ActorError> {
    let Some(token) = try_acquire(&client, counter).await? else { return Ok(()) };
    let hold = client.hold("work").enter();
    client.accepted("storage", token);
    Ok(hold.until(release(&client, &mut client.cluster_connection())).await?)
}

/// A client that is refused because of its keys has no lock.
async fn try_acquire(client: &Client, counter: &str) -> RedisResult<Option<i64>> {
    match acquire(client, &mut client.cluster_connection(), counter).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot) => Ok(None),
        acquired => acquired,
    }
}
