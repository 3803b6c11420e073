//! Replication, compared with real servers.

mod stream;
mod roles;
mod transcripts;
