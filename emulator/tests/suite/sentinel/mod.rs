//! Sentinels, compared with real ones, and what clients see of a failover.

mod transcripts;
mod failovers;
mod clients;
