//! The messages to clients after a command: before, inside and after its reply, and to other
//! clients.

use super::Engine;
use crate::client::{Client, Slot};
use crate::reply::Reply;

impl Engine {
    /// The output to the client whose command has run: its reply and the messages that go with it.
    pub(crate) fn post(&mut self, client: &mut Client, reply: Reply) -> Reply {
        if !client.is_reachable() {
            self.discard_mail(client.slot);
            return Reply::NOTHING;
        }
        let (reply, behind) = self.settle(reply);
        let reply = client.wanted(reply);
        match () {
            // A blocked request has not ended yet.
            () if client.is_blocked => {}
            // `CLIENT CACHING` applies to the next command, so the end of a `CLIENT` command must
            // not reset it.
            () if client.last_command.starts_with("client|") => client.replies = client.replies.next(),
            () => client.end_request(),
        }
        if self.mail.is_empty() && behind.is_empty() && self.postscripts.is_empty() {
            return reply;
        }
        let mut all = self.take_mail(client.slot, 0);
        all.push(reply);
        all.extend(behind);
        all.append(&mut self.postscripts);
        if all.len() == 1 { all.remove(0) } else { Reply::Several(all) }
    }

    /// Appends to `posted` the messages that the end of the execution produced for the same client.
    pub(crate) fn post_late(&mut self, slot: Slot, posted: Reply) -> Reply {
        if self.mail.is_empty() {
            return posted;
        }
        let mut late = self.take_mail(slot, 0);
        let is_reachable = self.clients.get(slot).is_some_and(|client| client.is_reachable());
        if late.is_empty() || !is_reachable {
            return posted;
        }
        let mut all = if let Reply::Several(all) = posted { all } else { vec![posted] };
        all.append(&mut late);
        Reply::Several(all)
    }

    /// The reply with the messages of `asides` between its parts, and the messages that follow it.
    pub(crate) fn settle(&mut self, reply: Reply) -> (Reply, Vec<Reply>) {
        if self.asides.is_empty() {
            return (reply, Vec::new());
        }
        let mut asides = std::mem::take(&mut self.asides).into_iter().peekable();
        let reply = reply.interspersed(&mut asides);
        (reply, asides.map(|(_, message)| message).collect())
    }

    fn discard_mail(&mut self, slot: Slot) {
        self.mail.retain(|(to, _)| *to != slot);
        self.asides.clear();
        self.postscripts.clear();
    }

    /// Takes the messages to one client out of `mail`, starting at index `first`.
    pub(crate) fn take_mail(&mut self, slot: Slot, first: usize) -> Vec<Reply> {
        let own = self.mail.extract_if(first.., |(to, _)| *to == slot);
        own.map(|(_, message)| message).collect()
    }

    /// Delivers the messages in `mail` to the clients.
    pub(crate) fn deliver(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        for (slot, message) in std::mem::take(&mut self.mail) {
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
