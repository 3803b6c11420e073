//! Clients whose code runs: the code of an actor with its tasks, and what it sees of the world.
//!
//! A client is a function of what it has been told. It is told that its turn begins, and of
//! replies, messages, cancellations and its clock (`Told`). In its turn it does what it can
//! (`Act`), and waits again. Nothing that it does has an effect before its turn ends: then the
//! simulation performs its acts, in their order, and tells clients what follows from them.
//!
//! So there are three ways to have the turns of a client, and a simulation does not know the
//! difference:
//!
//! - Its code runs beside that of others (`Code`). `Live` is code in this process, on the paused
//!   runtime of an execution.
//! - Its turns are remembered: it was told the same before.
//! - Its code runs alone, and is told what it was told in an execution: a lesson. It is `Live`
//!   without a simulation.
//!
//! Code in another program implements `Code`, too. It has to answer two questions: how it acts
//! until it waits again, told this at this time; and when its next timer fires.

mod request;
mod told;
mod act;
mod code;
mod quiescence;
mod panics;
mod port;
mod wire;
mod process;
mod clients;
mod client;
mod connections;
mod task;
mod runtime;

pub(crate) use act::{Act, Begun, End, Noticed, Turn};
pub(crate) use client::LiveClient;
pub(crate) use clients::{Live, Terms};
pub(crate) use code::{Code, Moved};
pub(crate) use panics::{Collecting, take as take_panics, within};
pub(crate) use quiescence::Quiescence;
pub(crate) use request::{Pending, Request, RequestKind, hash_result, value_bytes};
pub(crate) use runtime::PausedRuntime;
pub(crate) use told::{Answer, Loss, Telling, Told, Traffic};
pub(crate) use wire::encode;

use crate::actor::Actor;

/// Identifies an operation that can be cancelled: its actor, and its number among those of the
/// actor.
pub(crate) type OperationId = (Actor, usize);

/// The part of a client that a task runs. A client that goes on reads what has arrived before it
/// looks at its timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The driver of a connection.
    Driver,
    /// The code of the actor.
    Main,
}
