//! The suites that judge the explorer and the oracles, in a binary of their own. It is built much
//! faster than the whole suite, which mutation testing needs. `cargo test` does not run it.

#[expect(dead_code, reason = "the program `what_is_left_out` uses the rest")]
#[path = "../suite/bounds.rs"]
mod bounds;
#[expect(dead_code, reason = "the suite of the emulator uses the rest")]
#[path = "../../emulator/tests/suite/redis_server.rs"]
mod redis_server;

#[path = "../suite/explorer"]
mod explorer {
    pub(crate) mod executions;
    mod failures;
    mod nondeterminism;
    mod spin_loops;
    mod livelocks;
    mod thresholds;
    mod lost_messages;
    mod partitions;
    mod clocks;
    mod server_faults;
    mod failovers;
    mod brute_forced;
    mod cluster_moves;
    mod replication_steps;
    mod known_code;
    mod waits;
    mod subscriptions;
    mod multiplexed;
    mod fault_matrix;
    pub(crate) mod oracles;
    mod oracle_boundaries;
    mod grants;
    mod vacuous;
    mod commands_judged;
    mod the_end;
    mod invariants;
    mod services;
    mod operations;
    mod field_oracles;
    mod expired_events;
    mod first_use;
    mod nested_replies;
    mod traces;
    mod outcomes;
    mod tracking;
    mod polling;
    mod repeats;
    mod sampling;
    mod shrinking;
    #[expect(dead_code, reason = "the suite of the program uses the rest")]
    pub(crate) mod saved_schedules;
    mod reports;
    mod replay_on_redis;
    mod linearizability;
}

#[path = "../../emulator/tests/suite"]
mod emulator {
    mod footprints;
}

/// The folder of the suite.
const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suite");
