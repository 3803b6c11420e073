//! The state that all grants of a lock share.

use super::options::Options;
use super::protocol::Protocol;
use super::servers::Servers;
use crate::request::Context;

/// The parts that all grants of a lock share.
#[derive(Clone, Debug)]
pub(super) struct LeaseParts {
    pub(super) servers: Servers,
    pub(super) context: Context,
    pub(super) options: Options,
    pub(super) protocol: Protocol,
}
