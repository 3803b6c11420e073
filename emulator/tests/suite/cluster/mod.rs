//! Redis Cluster, compared with real servers, and what only the emulator can cause.

mod real;
mod transcripts;
mod control;
mod clients;
