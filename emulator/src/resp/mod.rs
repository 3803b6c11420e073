//! The Redis serialization protocol: requests from bytes, replies to bytes (RESP2 and RESP3).
//!
//! It knows no command. <https://redis.io/docs/latest/develop/reference/protocol-spec/>

mod words;
mod decode;
mod encode;

pub use crate::reply::Protocol;
pub use decode::{Decoder, Limits, plain_request};
pub use encode::encode;
pub(crate) use words::split_words;
