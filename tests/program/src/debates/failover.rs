//! A replica takes over from the server of a lock, or from one server of Redlock.

use std::time::Duration;

use harness::oracle::ExclusiveBelief;
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::debate::{Claim, Debate};
use super::pauses::work_once;

pub(super) const DEBATE: Debate = Debate {
    name: "failover",
    about: "Is a lock safe if a replica takes over from its server?",
    sources: &[
        "Redis, \"Distributed Locks with Redis\", https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/",
        "Redis, issues 6062 and 13118, https://github.com/redis/redis/issues/13118",
        "Valkey, pull request 1292, https://github.com/valkey-io/valkey/pull/1292",
    ],
    claims: &[
        Claim {
            scenario: "a failover without the last write",
            says: "If the primary fails before the lock has arrived at the replica, a second client gets the lock. \
                Redis's page about locks calls this a safety violation.",
            passes: false,
            make: |name, lease| scenario(name, lease, 1, Faults::none().failovers(1).behind(1)),
        },
        Claim {
            scenario: "a failover by Sentinel",
            says: "After SENTINEL FAILOVER, the old primary takes writes until it is demoted, seconds later. \
                Two clients get the lock, although no write was late.",
            passes: false,
            make: |name, lease| scenario(name, lease, 1, Faults::none().failovers(1).old_primary_writable(1)),
        },
        Claim {
            scenario: "a failover by the primary",
            says: "With FAILOVER, or SENTINEL FAILOVER COORDINATED of Valkey 9, the primary first stops writes, \
                and waits for the replica. The lock stays with its holder.",
            passes: true,
            make: |name, lease| scenario(name, lease, 1, Faults::none().planned_failovers(1)),
        },
        Claim {
            scenario: "a failover of one server of Redlock",
            says: "Redlock assumes servers without replicas. If they have some, the failover of one server of three \
                lets two clients have a majority.",
            passes: false,
            make: |name, lease| scenario(name, lease, 3, Faults::none().failovers(1).behind(1)),
        },
    ],
};

fn scenario(name: &str, lease: Duration, servers: usize, faults: Faults) -> Scenario {
    Scenario::new(name)
        .servers(servers)
        .replicas(1)
        .lease(lease)
        .faults(faults)
        .actors(2, |client| work_once(client, None))
        .interchangeable()
        .must_reach(Reached { contention: true, server: true, ..Reached::default() })
        .always(ExclusiveBelief::of("work", 1))
}
