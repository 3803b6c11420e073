//! The state that the server keeps for each connection, and the table of all connections.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;

use bytes::Bytes;
use slab::Slab;

use crate::clock::Timestamp;
use crate::cluster::HashSlot;
use crate::error::Error;
use crate::footprint::Footprint;
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::topic::Topic;

/// The number of a connection, as `CLIENT ID` returns it. Numbers count from 1.
pub type ClientId = u64;

/// The number of every connection that has been refused.
const REFUSED: ClientId = 0;

/// The index of an open connection. It is used again after the connection has closed.
pub type Slot = usize;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Client {
    /// The index in [`Clients`].
    pub slot: Slot,
    /// The number that `CLIENT ID` returns.
    pub id: ClientId,
    /// The selected database.
    pub db: usize,
    /// The protocol that `HELLO` has set, or that the running script has set.
    pub protocol: Protocol,
    /// While a script runs, the protocol of the connection: the script may change `protocol`.
    pub protocol_outside: Option<Protocol>,
    /// Set by `CLIENT SETNAME` and `HELLO … SETNAME`.
    pub name: Bytes,
    /// Set by `CLIENT SETINFO`: the name and the version of the client's library.
    pub library: [Bytes; 2],
    /// The client's address and the server's, such as `127.0.0.1:50000`. Empty inside the process.
    pub addresses: [String; 2],
    /// When the connection was opened.
    pub opened_at: Timestamp,
    /// When its last command began.
    pub active_at: Timestamp,
    /// The name of its last command.
    pub last_command: &'static str,
    /// It has given the password, or there was no password when it connected.
    pub is_authenticated: bool,
    /// Set by `CLIENT NO-EVICT`.
    pub is_no_evict: bool,
    /// The commands queued since `MULTI`, and whether one of them was refused.
    pub transaction: Option<Transaction>,
    /// How far the stream to the replicas was after its last command.
    pub offset: u64,
    /// Its scripts may run for any time: other clients get `-BUSY` and can kill them.
    pub may_be_busy: bool,
    /// From where its commands come. This decides whether a command may wait.
    pub context: CallContext,
    /// It waits for a reply, and its next requests wait for that.
    pub is_blocked: bool,
    /// It has called `MONITOR`.
    pub is_monitor: bool,
    /// Its subscriptions, for each [`Topic`]. They are sorted, because Redis's order differs from
    /// run to run.
    pub subscriptions: [BTreeSet<Bytes>; 3],
    /// Set by `CLIENT REPLY`.
    pub replies: Replies,
    /// Set by `ASKING`.
    pub asking: Asking,
    /// Set by `READONLY`: it reads from a replica of a cluster.
    pub reads_replicas: bool,
    /// The slot of the keys of the running command, in a cluster.
    pub hash_slot: Option<HashSlot>,
    /// The running script may use keys of several slots.
    pub may_cross_slots: bool,
    /// Which invalidation messages it gets. `None` without `CLIENT TRACKING`.
    pub tracking: Option<Tracking>,
    /// A fault: nothing reaches it any more, but its connection stays open.
    pub is_cut_off: bool,
    /// Whether the connection is to be closed.
    pub closing: Closing,
    /// The server has closed the connection. The client may still take the messages sent before.
    pub is_hung_up: bool,
    messages: VecDeque<Reply>,
    unread_bytes: usize,
    /// Bytes that its connection has received from the engine and not written yet.
    pub unwritten_bytes: usize,
    /// When it will have exceeded the soft limit of `client-output-buffer-limit` for too long.
    pub soft_limit_at: Option<Timestamp>,
    waker: Option<Waker>,
}

/// From where the commands of a client come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallContext {
    /// From the client, which can wait for a reply.
    #[default]
    Directly,
    /// From the client, through a front end that cannot wait.
    WithoutWaiting,
    /// From `EXEC`.
    InTransaction,
    /// From a script.
    InScript,
}

/// Which invalidation messages a client gets: `CLIENT TRACKING`.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// The client that gets them instead, on RESP2: a subscriber of `__redis__:invalidate`.
    pub redirect: Option<ClientId>,
    /// With `BCAST`: it gets messages for every key with one of these prefixes, read or not.
    pub prefixes: Vec<Bytes>,
    /// `BCAST`: the prefixes count, and not the keys that it has read.
    pub is_broadcast: bool,
    /// `OPTIN`: only keys count that it reads right after `CLIENT CACHING YES`.
    pub opt_in: bool,
    /// `OPTOUT`: keys do not count that it reads right after `CLIENT CACHING NO`.
    pub opt_out: bool,
    /// `NOLOOP`: changes made by itself do not count.
    pub no_loop: bool,
    /// `CLIENT CACHING` was called, and holds for the next command.
    pub is_caching: bool,
    /// The keys that the running script has declared. They count if it reads any.
    pub declared: Vec<Bytes>,
}

/// Whether a command may use a slot that is on its way to this server: `ASKING`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asking {
    /// The running command may, or all commands of the transaction.
    pub holds: bool,
    /// The next command may.
    pub holds_next: bool,
}

impl Asking {
    /// The state for the next command.
    pub fn next(self, is_in_transaction: bool) -> Asking {
        Asking { holds: self.holds_next || self.holds && is_in_transaction, holds_next: false }
    }
}

/// Which replies a client does not get: `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// All replies are suppressed.
    pub is_off: bool,
    /// The reply to the running command is suppressed.
    pub skips_this: bool,
    /// The reply to the next command is suppressed.
    pub skips_next: bool,
}

impl Replies {
    /// Whether a reply made now is sent.
    pub fn are_wanted(self) -> bool {
        !self.is_off && !self.skips_this
    }

    /// The state for the next command.
    pub fn next(self) -> Replies {
        Replies { is_off: self.is_off, skips_this: self.skips_next, skips_next: false }
    }
}

/// Whether a connection is to be closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// It stays open.
    #[default]
    No,
    /// It is closed after the waiting output is written: `QUIT`.
    WhenWritten,
    /// It is closed at once: `CLIENT KILL`, or its output exceeds the limit.
    Now,
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Each command's arguments, its name first.
    pub queue: Vec<Vec<Bytes>>,
    /// A command was refused when it was queued: `EXEC` will abort.
    pub is_refused: bool,
}

impl Client {
    /// A placeholder, for executions that no client has started.
    pub fn nobody() -> Client {
        Client { slot: Slot::MAX, ..Client::default() }
    }

    /// Whether a command may return without a reply and wait.
    pub fn can_wait(&self) -> bool {
        self.context == CallContext::Directly
    }

    /// Whether it connected from this machine: over a loopback address, over a Unix socket, or
    /// inside the process.
    pub fn is_local(&self) -> bool {
        self.addresses[0].parse::<SocketAddr>().map_or(true, |addr| addr.ip().is_loopback())
    }

    /// Whether it has any subscription. On RESP2, a subscriber may call only few commands.
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions.iter().any(|topics| !topics.is_empty())
    }

    /// Whether the server sends it messages that are no replies.
    pub fn hears(&self) -> bool {
        self.is_subscriber() || self.tracking.is_some()
    }

    /// Its subscriptions.
    pub fn listens_to(&self) -> impl Iterator<Item = (Topic, &Bytes)> {
        let topics = Topic::ALL.into_iter().zip(&self.subscriptions);
        topics.flat_map(|(topic, names)| names.iter().map(move |name| (topic, name)))
    }

    /// Whether its connection is as it was when it opened: nothing set, no wait, no messages.
    pub fn has_no_state(&self) -> bool {
        self.db == 0
            && self.protocol == Protocol::default()
            && self.name.is_empty()
            && self.library.iter().all(Bytes::is_empty)
            && !self.is_no_evict
            && self.transaction.is_none()
            && !self.is_blocked
            && !self.is_monitor
            && !self.is_subscriber()
            && self.replies == Replies::default()
            && self.asking == Asking::default()
            && !self.reads_replicas
            && self.tracking.is_none()
            && self.closing == Closing::No
            && self.messages.is_empty()
    }

    /// Records in the footprint that its subscriptions end.
    pub fn note_leaving(&self, footprint: &mut Footprint) {
        self.listens_to().for_each(|(topic, name)| footprint.subscription(topic, name));
    }

    /// The part of a reply made now that the client wants: see [`Replies`].
    pub fn wanted(&self, reply: Reply) -> Reply {
        if self.replies.are_wanted() { reply } else { reply.only_pushes() }
    }

    /// The protocol of messages sent to it.
    pub fn speaks(&self) -> Protocol {
        self.protocol_outside.unwrap_or(self.protocol)
    }

    /// Ends a request: a setting for one command has expired.
    pub fn end_request(&mut self) {
        self.replies = self.replies.next();
        if let Some(tracking) = &mut self.tracking
            && self.transaction.is_none()
        {
            tracking.is_caching = false;
        }
    }

    /// Whether a message sent to it can arrive.
    pub fn is_reachable(&self) -> bool {
        !self.is_cut_off && self.closing != Closing::Now
    }

    /// Queues a message and wakes the task that waits for one. A connection that is about to close
    /// gets no message.
    pub fn send(&mut self, message: Reply) {
        if !self.is_reachable() || self.closing != Closing::No {
            return;
        }
        self.unread_bytes += message.size();
        self.messages.push_back(message);
        self.wake();
    }

    /// Takes the oldest message.
    pub fn take_message(&mut self) -> Option<Reply> {
        let message = self.messages.pop_front();
        if message.is_none() {
            self.unread_bytes = 0;
            if self.unwritten_bytes == 0 {
                self.soft_limit_at = None;
            }
        }
        message
    }

    /// Takes the oldest message that is a reply. Messages inside the reply stay in the queue.
    pub fn take_answer(&mut self) -> Option<Reply> {
        let idx = self.messages.iter().position(|message| !matches!(message, Reply::Push(_)))?;
        let (answer, within) = self.messages.remove(idx)?.split_messages();
        for (offset, message) in within.into_iter().enumerate() {
            self.messages.insert(idx + offset, message);
        }
        Some(answer)
    }

    /// Takes the oldest message that is no reply. Replies stay in the queue.
    #[cfg(feature = "redis")]
    pub fn take_push(&mut self) -> Option<Reply> {
        let idx = self.messages.iter().position(|message| matches!(message, Reply::Push(_)))?;
        self.messages.remove(idx)
    }

    /// Whether messages wait to be taken.
    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The number of messages that wait to be taken.
    pub fn unread_len(&self) -> usize {
        self.messages.len()
    }

    /// About how many bytes wait for it: messages not taken yet, and bytes not written yet.
    pub fn output_bytes(&self) -> usize {
        self.unread_bytes + self.unwritten_bytes
    }

    /// Marks the connection to be closed.
    pub fn close(&mut self, closing: Closing) {
        self.closing = closing;
        if closing == Closing::Now {
            self.messages.clear();
        }
        self.wake();
    }

    /// Closes the connection, after the client has taken the messages sent before.
    pub fn hang_up(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        self.is_hung_up = true;
        self.close(Closing::Now);
        self.messages = messages;
    }

    /// Sets the task that the next message wakes.
    pub fn set_waker(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(own) => own.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The open connections.
#[derive(Debug, Default)]
pub struct Clients {
    /// A slot is empty while the command of its client runs.
    slots: Slab<Option<Box<Client>>>,
    opened: ClientId,
    /// How many of them have been refused. They have no number, and close after the error is sent.
    refused: usize,
}

impl Clients {
    /// Creates the state of a new connection.
    pub fn open(&mut self, now: Timestamp) -> &mut Client {
        self.opened += 1;
        let id = self.opened;
        self.insert(Client { id, opened_at: now, active_at: now, ..Client::default() })
    }

    /// Creates the state of a connection that gets this error and is then closed.
    pub fn refuse(&mut self, now: Timestamp, why: Error) -> &mut Client {
        self.refused += 1;
        let client = self.insert(Client { opened_at: now, active_at: now, ..Client::default() });
        client.send(Reply::Error(why));
        client.close(Closing::WhenWritten);
        client
    }

    fn insert(&mut self, client: Client) -> &mut Client {
        let entry = self.slots.vacant_entry();
        let client = Client { slot: entry.key(), ..client };
        entry.insert(Some(Box::new(client))).as_mut().expect("just put there")
    }

    /// Removes a connection that has ended.
    pub fn close(&mut self, slot: Slot) {
        if self.slots.remove(slot).is_some_and(|client| client.id == REFUSED) {
            self.refused -= 1;
        }
    }

    /// Gives an open connection this number, which no other one has. Later ones get greater
    /// numbers.
    pub fn renumber(&mut self, slot: Slot, id: ClientId) {
        self.opened = self.opened.max(id);
        let client = self.get(slot).expect("a connection keeps its client until it is closed");
        if client.id != REFUSED {
            client.id = id;
        }
    }

    /// Restarts the numbers: the next connection gets number 1.
    pub fn count_anew(&mut self) {
        self.opened = 0;
    }

    /// The number of connections, the one whose command runs included, refused ones excluded.
    pub fn len(&self) -> usize {
        self.slots.len() - self.refused
    }

    /// Takes a client out of the table while its command runs.
    ///
    /// # Panics
    /// If its command runs already, or the connection has ended.
    pub fn take(&mut self, slot: Slot) -> Box<Client> {
        self.slots[slot].take().expect("one command of a client runs at a time")
    }

    /// Puts a client back into the table.
    pub fn put_back(&mut self, client: Box<Client>) {
        let slot = client.slot;
        self.slots[slot] = Some(client);
    }

    /// Returns an open connection, unless its command runs.
    pub fn get(&mut self, slot: Slot) -> Option<&mut Client> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Returns the slot of the open connection with this number, unless its command runs.
    pub fn by_id(&self, id: ClientId) -> Option<Slot> {
        self.present().find(|client| client.id == id).map(|client| client.slot)
    }

    /// Whether none of them [has a state](Client::has_no_state).
    pub fn have_no_state(&self) -> bool {
        self.slots.iter().filter_map(|(_, client)| client.as_deref()).all(Client::has_no_state)
    }

    /// Returns every open connection but the one whose command runs, the oldest first.
    pub fn others(&self) -> Vec<&Client> {
        let mut clients: Vec<&Client> = self.present().collect();
        clients.sort_by_key(|client| client.id);
        clients
    }

    fn present(&self) -> impl Iterator<Item = &Client> {
        let clients = self.slots.iter().filter_map(|(_, client)| client.as_deref());
        clients.filter(|client| client.id != REFUSED)
    }
}
