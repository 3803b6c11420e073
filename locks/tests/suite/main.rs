//! The suite of the locks.

#[expect(dead_code, reason = "the suite of the emulator uses the rest")]
#[path = "../../../emulator/tests/suite/redis_server.rs"]
mod redis_server;
#[expect(dead_code, reason = "the other suites use the rest")]
#[path = "../../../tests/suite/bounds.rs"]
mod bounds;
mod algorithms;
mod blocking;
mod cancellations;
mod elections;
mod faulty;
mod guards;
mod handed_over;
mod idempotency;
mod interruptions;
mod multi_locks;
mod redlocks;
mod rewritten;
mod mutants;
mod judged;
mod latches;
mod rate_limits;
mod reentrant_mutexes;
mod renewals;
mod scripts;
mod stress;
