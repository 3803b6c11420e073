//! A kind of lock on the server: three scripts, and their keys.

use crate::error::Operation;
use crate::name::Name;
use crate::script::Script;

/// The scripts of a kind of lock. All take the arguments of `with_queue` in `queue.rs`, then
/// whether the lock is fair, then further ones of the kind.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// If the lock can be granted, or the token has it, the token has it for a lease from now:
    /// `{1, fencing token}`. Otherwise `{0, wait}`: the lock may be free after `wait` milliseconds.
    /// If `wait` is negative, that time is not known.
    pub(crate) acquire: Script,
    /// If the token has an unexpired grant, its lease begins anew: 1. Otherwise 0.
    pub(crate) extend: Script,
    /// The token no longer waits. If it has a grant, that ends: 1 if it was unexpired, otherwise 0.
    /// If something is free then, the first waiter is woken.
    pub(crate) release: Script,
}

impl Scripts {
    /// The script of a request.
    pub(super) fn of(&self, operation: Operation) -> &Script {
        match operation {
            Operation::Acquire => &self.acquire,
            Operation::Extend => &self.extend,
            Operation::Release => &self.release,
            Operation::Complete | Operation::SetCount | Operation::CountDown | Operation::Look => {
                unreachable!("the scripts of these requests are those of one kind")
            }
        }
    }
}

/// A lock on a server.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    pub(crate) scripts: &'static Scripts,
    /// The main key is the first.
    pub(crate) keys: Vec<String>,
    /// The channels of messages to waiters.
    pub(crate) channels: Vec<String>,
    /// Clients that wait stand in a queue, and the first channel is that of their messages.
    pub(crate) has_queue: bool,
    /// Arguments of the kind that are the same for all grants.
    pub(crate) more: Vec<Vec<u8>>,
}

impl Protocol {
    /// A lock with the queue of `queue.rs`, and keys that only some kinds have.
    pub(crate) fn with_queue(
        scripts: &'static Scripts,
        name: &Name,
        further_keys: impl IntoIterator<Item = String>,
        more: Vec<Vec<u8>>,
    ) -> Protocol {
        let keys = [name.key.clone(), name.side_key("queue"), name.side_key("alive")];
        let keys = keys.into_iter().chain(further_keys).collect();
        Protocol { scripts, keys, channels: vec![name.side_key("wake")], has_queue: true, more }
    }
}
