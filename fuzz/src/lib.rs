//! The fuzz targets, and what they share: commands and Lua made out of bytes, a model, where a stream is cut, where a reply ends.

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
