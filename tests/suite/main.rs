//! The suite of the harness in one binary: one link, one run.

#[expect(dead_code, reason = "the suite of the emulator uses the rest")]
#[path = "../../emulator/tests/suite/redis_server.rs"]
mod redis_server;
#[expect(dead_code, reason = "the program `what_is_left_out` uses the rest")]
mod bounds;
mod explorer;
mod program;

/// The folder of the suite.
const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../suite");
