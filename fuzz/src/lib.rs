//! The fuzz targets and their shared parts: commands and Lua made from bytes, a model, cuts of a
//! stream, and a parser of replies.

pub mod commands;
pub mod cuts;
pub mod grammar;
pub mod lua;
pub mod model;
pub mod replies;
pub mod served;
pub mod session;
pub mod sockets;
pub mod targets;
