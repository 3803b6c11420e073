//! All suites in one binary: one link, one run.

mod redis_server;
mod emulator;
mod explorer;
mod locks;
mod program;
