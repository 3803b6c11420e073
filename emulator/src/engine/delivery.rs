//! How the messages of an execution reach the clients.

use super::outbox::{Mark, Outbox};
use super::state::Engine;
use crate::client::{Client, Slot};
use crate::reply::Reply;

impl Engine {
    /// The output to the client whose command has run: its reply and the messages that go with it.
    pub(crate) fn post(&mut self, client: &mut Client, reply: Reply) -> Reply {
        if !client.is_reachable() {
            self.outbox.discard(client.slot);
            return Reply::NOTHING;
        }
        let (reply, mut behind) = self.outbox.intersperse(reply);
        let reply = client.wanted(reply);
        match () {
            // A blocked request has not ended yet.
            () if client.is_blocked => {}
            // `CLIENT CACHING` applies to the next command, so the end of a `CLIENT` command must
            // not reset it.
            () if client.last_command.starts_with("client|") => client.replies = client.replies.next(),
            () => client.end_request(),
        }
        let Outbox { messages, after, .. } = &self.outbox;
        if messages.is_empty() && behind.is_empty() && after.is_empty() {
            return reply;
        }
        let mut all = self.outbox.take(client.slot, Mark(0));
        all.push(reply);
        all.append(&mut behind);
        all.append(&mut self.outbox.after);
        if all.len() == 1 { all.remove(0) } else { Reply::Several(all) }
    }

    /// Appends to `posted` the messages that the end of the execution sent to the same client.
    pub(super) fn post_late(&mut self, slot: Slot, posted: Reply) -> Reply {
        if self.outbox.messages.is_empty() {
            return posted;
        }
        let mut late = self.outbox.take(slot, Mark(0));
        let is_reachable = self.clients.get(slot).is_some_and(|client| client.is_reachable());
        if late.is_empty() || !is_reachable {
            return posted;
        }
        let mut all = if let Reply::Several(all) = posted { all } else { vec![posted] };
        all.append(&mut late);
        Reply::Several(all)
    }

    /// Delivers all messages to their clients.
    pub(super) fn deliver(&mut self) {
        if self.outbox.messages.is_empty() {
            return;
        }
        for (slot, message) in std::mem::take(&mut self.outbox.messages) {
            let Some(client) = self.clients.get(slot) else { continue };
            let is_answer = !matches!(message, Reply::Push(_));
            let message = client.wanted(message);
            if is_answer {
                client.end_request();
            }
            self.deliver_to(slot, message);
        }
    }
}
