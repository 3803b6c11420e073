//! The suites that judge the explorer and the oracles, in a binary of their own. It is built much
//! faster than the whole suite, which mutation testing needs. `cargo test` does not run it.

#[path = "../suite/explorer"]
mod explorer {
    pub(crate) mod executions;
    pub(crate) mod oracles;
    mod oracle_boundaries;
    mod outcomes;
    mod server_faults;
    mod shrinking;
    mod traces;
}

#[path = "../suite/emulator"]
mod emulator {
    mod footprints;
}
