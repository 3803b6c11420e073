//! The suite of the harness in one binary: one link, one run.

#[expect(dead_code, reason = "the suite of the emulator uses the rest")]
#[path = "../../emulator/tests/suite/redis_server.rs"]
mod redis_server;
mod explorer;
mod program;
