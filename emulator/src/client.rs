//! What the server remembers about each connection, and all connections together.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;

use bytes::Bytes;
use slab::Slab;

use crate::clock::Timestamp;
use crate::error::Error;
use crate::footprint::Footprint;
use crate::pubsub::Topic;
use crate::reply::Reply;
use crate::resp::Protocol;

/// Identifies a connection to clients, counted from 1 as `CLIENT ID` does.
pub type ClientId = u64;

/// The number of a connection that has been refused.
const REFUSED: ClientId = 0;

/// Identifies an open connection to the server. A slot is used again after its connection has closed.
pub type Slot = usize;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Client {
    /// Where it is kept.
    pub slot: Slot,
    /// What `CLIENT ID` answers.
    pub id: ClientId,
    /// The selected database.
    pub db: usize,
    /// Set by `HELLO`; in a script, by that.
    pub protocol: Protocol,
    /// What the connection speaks while a script may have set `protocol` otherwise.
    pub protocol_outside: Option<Protocol>,
    /// Set by `CLIENT SETNAME` and `HELLO … SETNAME`.
    pub name: Bytes,
    /// Set by `CLIENT SETINFO`: the name and the version of the client's library.
    pub library: [Bytes; 2],
    /// From where it connected, and to where: `127.0.0.1:50000`; empty inside the process.
    pub addresses: [String; 2],
    /// When the connection was opened, and when its last command began.
    pub opened_at: Timestamp,
    /// See there.
    pub active_at: Timestamp,
    /// The name of its last command.
    pub last_command: &'static str,
    /// It came when there was no password, or has given the password of its time.
    pub is_authenticated: bool,
    /// Set by `CLIENT NO-EVICT`.
    pub is_no_evict: bool,
    /// The commands queued since `MULTI`, and whether one of them was refused.
    pub transaction: Option<Transaction>,
    /// Its scripts may take as long as they like: others are told that the server is busy, and can kill them.
    pub is_patient: bool,
    /// Whose commands are running: decides whether one may wait.
    pub context: CallContext,
    /// It waits, and its next command with it.
    pub is_blocked: bool,
    /// It has said `MONITOR`.
    pub is_monitor: bool,
    /// What it listens to. Redis keeps names in an order that differs from run to run.
    pub subscriptions: [BTreeSet<Bytes>; 3],
    /// Set by `CLIENT REPLY`.
    pub replies: Replies,
    /// What it wants to be told of keys that it has read.
    pub tracking: Option<Tracking>,
    /// Nothing reaches it any more, though its connection is open: a fault.
    pub is_cut_off: bool,
    /// Whether the connection is to be closed.
    pub closing: Closing,
    /// The server closed it of its own, and it may still take what it had been sent.
    pub is_hung_up: bool,
    messages: VecDeque<Reply>,
    unread_bytes: usize,
    /// Bytes that were handed to its connection, which has not written them yet.
    pub unwritten_bytes: usize,
    /// When it will have left more than the soft limit of `client-output-buffer-limit` for too long.
    pub soft_limit_at: Option<Timestamp>,
    waker: Option<Waker>,
}

/// Who calls commands for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallContext {
    /// The client itself, and it can wait for a reply.
    #[default]
    Directly,
    /// The client itself, through a door at which nobody waits.
    WithoutWaiting,
    /// `EXEC`.
    InTransaction,
    /// A script.
    InScript,
}

/// Which invalidations a client wants: `CLIENT TRACKING`.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// Who gets them instead, on RESP2: a subscriber of `__redis__:invalidate`.
    pub redirect: Option<ClientId>,
    /// Of every key with one of these prefixes, read or not; empty: of keys that it has read.
    pub prefixes: Vec<Bytes>,
    /// Of prefixes, and not of keys that it has read.
    pub is_broadcast: bool,
    /// Only of keys read right after `CLIENT CACHING YES`.
    pub opt_in: bool,
    /// Not of keys read right after `CLIENT CACHING NO`.
    pub opt_out: bool,
    /// Not of changes by itself.
    pub no_loop: bool,
    /// `CLIENT CACHING` spoke of the next command.
    pub is_caching: bool,
}

/// Which replies a client does not get: `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// None at all.
    pub is_off: bool,
    /// None to the command that runs.
    pub skips_this: bool,
    /// None to the command behind it.
    pub skips_next: bool,
}

impl Replies {
    /// Whether a reply that arises now goes out.
    pub fn are_wanted(self) -> bool {
        !self.is_off && !self.skips_this
    }

    /// What holds for the command behind one.
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
    /// Once what there is to say is written: `QUIT`.
    WhenWritten,
    /// At once: `CLIENT KILL`, or it does not read.
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
    /// Who acts when no client does.
    pub fn nobody() -> Client {
        Client { slot: Slot::MAX, ..Client::default() }
    }

    /// Whether a command may leave it without a reply for now.
    pub fn can_wait(&self) -> bool {
        self.context == CallContext::Directly
    }

    /// Whether it connected from this machine: over a loopback address, a Unix socket, or inside the process.
    pub fn is_local(&self) -> bool {
        self.addresses[0].parse::<SocketAddr>().map_or(true, |addr| addr.ip().is_loopback())
    }

    /// Whether it listens to anything; on RESP2 it may then do little else.
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions.iter().any(|topics| !topics.is_empty())
    }

    /// What it listens to.
    pub fn listens_to(&self) -> impl Iterator<Item = (Topic, &Bytes)> {
        let topics = Topic::ALL.into_iter().zip(&self.subscriptions);
        topics.flat_map(|(topic, names)| names.iter().map(move |name| (topic, name)))
    }

    /// Whether it has said nothing of itself, waits for nothing and is sent nothing but replies.
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
            && self.tracking.is_none()
            && self.closing == Closing::No
            && self.messages.is_empty()
    }

    /// It ends to listen, and that is touched.
    pub fn note_leaving(&self, footprint: &mut Footprint) {
        self.listens_to().for_each(|(topic, name)| footprint.listening(topic, name));
    }

    /// A reply that arises now, without what the client does not want of it.
    pub fn wanted(&self, reply: Reply) -> Reply {
        if self.replies.are_wanted() { reply } else { reply.only_pushes() }
    }

    /// The protocol of what is sent to it.
    pub fn speaks(&self) -> Protocol {
        self.protocol_outside.unwrap_or(self.protocol)
    }

    /// Ends a request: what was said about one command has been kept.
    pub fn end_request(&mut self) {
        self.replies = self.replies.next();
        if let Some(tracking) = &mut self.tracking
            && self.transaction.is_none()
        {
            tracking.is_caching = false;
        }
    }

    /// Whether what is sent to it can arrive.
    pub fn is_reachable(&self) -> bool {
        !self.is_cut_off && self.closing != Closing::Now
    }

    /// Leaves a message to be taken, and wakes whoever waits for one. A connection that is about to close takes none.
    pub fn send(&mut self, message: Reply) {
        if !self.is_reachable() || self.closing != Closing::No {
            return;
        }
        self.unread_bytes += message.size();
        self.messages.push_back(message);
        self.wake();
    }

    /// The oldest message that nobody has taken.
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

    /// The oldest message that is an answer, and not one that answers nothing. What stands in its midst stays.
    pub fn take_answer(&mut self) -> Option<Reply> {
        let idx = self.messages.iter().position(|message| !matches!(message, Reply::Push(_)))?;
        let (answer, within) = self.messages.remove(idx)?.split_messages();
        for (offset, message) in within.into_iter().enumerate() {
            self.messages.insert(idx + offset, message);
        }
        Some(answer)
    }

    /// Whether there is a message that nobody has taken.
    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// How many messages nobody has taken.
    pub fn unread_len(&self) -> usize {
        self.messages.len()
    }

    /// About how many bytes wait for it: messages that nobody has taken, and what is not written yet.
    pub fn output_bytes(&self) -> usize {
        self.unread_bytes + self.unwritten_bytes
    }

    /// Has the connection closed.
    pub fn close(&mut self, closing: Closing) {
        self.closing = closing;
        if closing == Closing::Now {
            self.messages.clear();
        }
        self.wake();
    }

    /// Closes the connection, once it has taken what had been sent to it before.
    pub fn hang_up(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        self.is_hung_up = true;
        self.close(Closing::Now);
        self.messages = messages;
    }

    /// Who is to be woken by the next message.
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

/// The connections that are open.
#[derive(Debug, Default)]
pub struct Clients {
    /// A client whose command runs is not at its place.
    slots: Slab<Option<Box<Client>>>,
    opened: ClientId,
    /// How many of them have been refused: they have no number, and go once they have been told.
    refused: usize,
}

impl Clients {
    /// A new connection's state.
    pub fn open(&mut self, now: Timestamp) -> &mut Client {
        self.opened += 1;
        let id = self.opened;
        self.insert(Client { id, opened_at: now, active_at: now, ..Client::default() })
    }

    /// A connection that is to be closed once it has been told why.
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

    /// The connection is gone.
    pub fn close(&mut self, slot: Slot) {
        if self.slots.remove(slot).is_some_and(|client| client.id == REFUSED) {
            self.refused -= 1;
        }
    }

    /// The next connection is number 1 again.
    pub fn count_anew(&mut self) {
        self.opened = 0;
    }

    /// How many there are, the one whose command runs included.
    pub fn len(&self) -> usize {
        self.slots.len() - self.refused
    }

    /// Takes a client out while its command runs.
    ///
    /// # Panics
    /// Its command runs already, or the connection is gone.
    pub fn take(&mut self, slot: Slot) -> Box<Client> {
        self.slots[slot].take().expect("one command of a client runs at a time")
    }

    /// Puts a client back.
    pub fn put_back(&mut self, client: Box<Client>) {
        let slot = client.slot;
        self.slots[slot] = Some(client);
    }

    /// An open connection; not the one whose command runs.
    pub fn get(&mut self, slot: Slot) -> Option<&mut Client> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// The open connection with this number; not the one whose command runs.
    pub fn by_id(&self, id: ClientId) -> Option<Slot> {
        self.present().find(|client| client.id == id).map(|client| client.slot)
    }

    /// Whether all of them are [plain](Client::is_plain).
    pub fn have_no_state(&self) -> bool {
        self.slots.iter().filter_map(|(_, client)| client.as_deref()).all(Client::has_no_state)
    }

    /// Every open connection but the one whose command runs, the oldest first.
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
