//! The messages to clients after a command: before, inside and after its reply, and to other
//! clients.

use crate::client::Slot;
use crate::reply::Reply;

/// The messages of one execution. It owns the order in which each client receives them.
///
/// The client whose command runs receives: the messages that were sent to it meanwhile; its reply,
/// with messages between the parts; the messages after the reply; and the messages that the end of
/// the execution sent to it. Other clients receive theirs when the execution has ended.
#[derive(Debug, Default)]
pub struct Outbox {
    /// To any client, in order.
    pub(super) messages: Vec<(Slot, Reply)>,
    /// To the client whose command runs, each after so many parts of its reply.
    pub(super) between: Vec<(usize, Reply)>,
    /// To the client whose command runs, after its reply.
    pub(super) after: Vec<Reply>,
}

/// A place among the messages of an [`Outbox`].
#[derive(Clone, Copy, Debug)]
pub struct Mark(pub(super) usize);

/// The messages after the reply of an outer command, while an inner one runs.
#[derive(Debug)]
pub struct Outer(Vec<Reply>);

impl Outbox {
    /// Sends a message to a client.
    pub(crate) fn send(&mut self, slot: Slot, message: Reply) {
        self.messages.push((slot, message));
    }

    /// Sends a message to the client whose command runs, after its reply.
    pub(crate) fn send_after_reply(&mut self, message: Reply) {
        self.after.push(message);
    }

    /// Returns the place after the last message.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.messages.len())
    }

    /// Puts the messages to the client whose command runs, since the mark, after so many parts of
    /// its reply.
    pub(crate) fn move_into_reply(&mut self, slot: Slot, since: Mark, parts: usize) {
        let own = self.take(slot, since);
        self.between.extend(own.into_iter().map(|message| (parts, message)));
    }

    /// Returns a reply with the messages to its client since the mark, as an element of an array.
    pub(crate) fn surround(&mut self, slot: Slot, since: Mark, reply: Reply) -> Reply {
        let mut own = self.take(slot, since);
        let (reply, mut behind) = self.intersperse(reply);
        if own.is_empty() && behind.is_empty() {
            return reply;
        }
        own.push(reply);
        own.append(&mut behind);
        Reply::Several(own)
    }

    /// Begins a command inside another one.
    pub(crate) fn begin_inner(&mut self) -> Outer {
        Outer(std::mem::take(&mut self.after))
    }

    /// Ends a command inside another one, and sends its output to the client.
    pub(crate) fn end_inner(&mut self, slot: Slot, reply: Option<Reply>, Outer(outer): Outer) {
        let is_served = reply.is_some();
        let (reply, behind) = self.intersperse(reply.unwrap_or(Reply::NOTHING));
        let after = std::mem::replace(&mut self.after, outer);
        let output = is_served.then_some(reply).into_iter().chain(behind).chain(after);
        self.messages.extend(output.map(|message| (slot, message)));
    }

    /// Ends a command inside another one that has taken its own output.
    pub(crate) fn drop_inner(&mut self, Outer(outer): Outer) {
        self.after = outer;
    }

    /// Returns the reply with the messages between its parts, and the messages that follow it.
    pub(super) fn intersperse(&mut self, reply: Reply) -> (Reply, Vec<Reply>) {
        if self.between.is_empty() { (reply, Vec::new()) } else { self.intersperse_all(reply) }
    }

    fn intersperse_all(&mut self, reply: Reply) -> (Reply, Vec<Reply>) {
        let mut between = std::mem::take(&mut self.between).into_iter().peekable();
        let reply = reply.interspersed(&mut between);
        (reply, between.map(|(_, message)| message).collect())
    }

    /// Takes the messages to a client since the mark.
    pub(super) fn take(&mut self, slot: Slot, Mark(since): Mark) -> Vec<Reply> {
        let own = self.messages.extract_if(since.., |(to, _)| *to == slot);
        own.map(|(_, message)| message).collect()
    }

    /// Drops everything that the client whose command runs would receive.
    pub(super) fn discard(&mut self, slot: Slot) {
        self.messages.retain(|(to, _)| *to != slot);
        self.between.clear();
        self.after.clear();
    }
}
