//! One execution: its world, and what carries that on.
//!
//! The world (`World`) is plain data: how far each client is, what waits at its gates, in which
//! states the servers are, the time, the history. A copy of it is a place from which an execution
//! can continue. The rest of a simulation (`Simulation`) is alike in all executions, or can be had
//! again: servers that run what is not known of them, clients whose code runs, and memory of both.
//!
//! First come the types that make up a world, then the simulation, and then what happens in it: one
//! subject per file, as methods of both.

mod shared_list;
mod server_data;
mod config;
mod server;
mod session;
mod replication;
mod tries;
mod actor_state;
mod gate;
mod world;
mod real_time;
mod clients;
mod simulation;
mod subscriptions;
mod pushes;
mod known_servers;
mod told;
mod operations;
mod calls;
mod pause;
mod holds;
mod details;
mod server_faults;
mod failover;
mod replica_reads;
mod cluster;
mod partitions;
mod retries;
mod services;
mod instants;
mod waits;
mod serve;
mod invariants;
mod probes;
mod turns;
mod learned_clients;
mod checkpoints;

pub(crate) use actor_state::{ActorState, Life};
pub(crate) use checkpoints::Checkpoints;
pub(crate) use clients::{Clients, Unknown};
pub use config::Recording;
pub(crate) use config::{GRACE, START, SimulationConfig, TIMER_MAX};
pub(crate) use gate::{Gate, Passage};
pub(crate) use real_time::RealTime;
pub(crate) use replication::Sighting;
pub use server::Server;
pub(crate) use server::connect;
pub use server_data::ServerData;
pub(crate) use server_data::{Invariant, Judges};
pub(crate) use shared_list::SharedList;
pub(crate) use simulation::Simulation;
pub(crate) use tries::{Livelock, Retry, Tries};
pub(crate) use world::{Lack, World};
