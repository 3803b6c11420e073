//! The suites that judge the explorer and the oracles, in a binary of their own. It is built much
//! faster than the whole suite, which mutation testing needs. `cargo test` does not run it.

#[expect(dead_code, reason = "the program `what_is_left_out` uses the rest")]
#[path = "../suite/bounds.rs"]
mod bounds;

#[path = "../suite/explorer"]
mod explorer {
    pub(crate) mod executions;
    mod failures;
    mod nondeterminism;
    mod spin_loops;
    mod livelocks;
    mod thresholds;
    mod lost_messages;
    mod clocks;
    mod server_faults;
    mod known_code;
    mod waits;
    mod multiplexed;
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
    mod traces;
    mod outcomes;
    mod tracking;
    mod polling;
    mod repeats;
    mod shrinking;
}

#[path = "../../emulator/tests/suite"]
mod emulator {
    mod footprints;
}
