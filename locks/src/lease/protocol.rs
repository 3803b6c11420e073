//! A kind of lock on the server: three scripts, and their keys.

use std::sync::LazyLock;

use redis::Script;

use crate::name::Name;

/// The scripts of a kind of lock. All take the arguments of `with_queue` in `queue.rs`, then
/// whether the lock is fair, then further ones of the kind.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// If the lock can be granted, or the token has it, the token has it for a lease from now:
    /// `{1, fencing token}`. Otherwise `{0, wait}`: so many milliseconds later it may be free. A
    /// negative wait is unknown.
    pub(crate) acquire: LazyLock<Script>,
    /// If the token has an unexpired grant, its lease begins anew: 1. Otherwise 0.
    pub(crate) extend: LazyLock<Script>,
    /// The token no longer waits. If it has a grant, that ends: 1 if it was unexpired, otherwise 0.
    /// If something is free then, the first waiter is woken.
    pub(crate) release: LazyLock<Script>,
}

/// A lock on a server.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    pub(super) scripts: &'static Scripts,
    /// The main key, the two of the queue, and one that only some kinds have.
    pub(super) keys: Vec<String>,
    /// The channel of messages to waiters.
    pub(super) channel: String,
    /// Arguments of the kind that are the same for all grants.
    pub(super) more: Vec<u32>,
}

impl Protocol {
    pub(crate) fn new(
        scripts: &'static Scripts,
        name: &Name,
        further_key: Option<String>,
        more: Vec<u32>,
    ) -> Protocol {
        let keys = [name.key.clone(), name.side_key("queue"), name.side_key("alive")];
        let keys = keys.into_iter().chain(further_key).collect();
        Protocol { scripts, keys, channel: name.side_key("wake"), more }
    }
}
