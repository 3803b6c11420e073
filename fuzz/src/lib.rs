//! What the fuzz targets share: where a stream is cut, where a reply ends, and commands made out of bytes.

pub mod commands;
pub mod cuts;
pub mod replies;
