//! The shortest front end: a connection on the engine itself, without bytes and without a task.

#[cfg(feature = "redis")]
mod redis_rs;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::client::{CallContext, Client, Closing, Slot};
use crate::clock::Timestamp;
use crate::command;
use crate::engine::{Blocked, Until};
use crate::footprint::{Access, Footprint};
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::shared::Shared;
use crate::topic::Topic;

/// A client connection that runs each command where it is awaited.
///
/// With the feature `redis`, it implements `ConnectionLike` of redis-rs, the async trait and the
/// sync one.
///
/// A command runs when its future is first polled. If the future is dropped before, the command was
/// never sent. If a future is dropped while its command waits (`BLPOP`, `WAIT`, …), the command is
/// withdrawn.
///
/// Through the sync trait no command can wait: it replies at once, as inside `MULTI`.
pub struct DirectConnection {
    shared: Arc<Shared>,
    slot: Slot,
    /// The connection of the sync trait, which passes bytes. It is opened at the first use.
    #[cfg(feature = "redis")]
    bytes: Option<Box<crate::connection::Connection>>,
}

/// A command that waits on a server, in place of its connection. An exploration moves it to another
/// server in the same state.
#[doc(hidden)]
#[derive(Clone)]
pub struct BlockedCommand {
    blocked: Blocked,
    ends_at: Option<Timestamp>,
}

impl BlockedCommand {
    /// When it ends by itself. `None` if it waits for ever.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.ends_at
    }

    /// Whether nothing but its keys and its end decide when it ends.
    pub fn can_move(&self) -> bool {
        matches!(self.blocked.until, Until::Key { .. } | Until::Deadline)
    }
}

impl fmt::Debug for BlockedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockedCommand").field("ends_at", &self.ends_at).finish_non_exhaustive()
    }
}

impl DirectConnection {
    pub(crate) fn over(shared: Arc<Shared>) -> DirectConnection {
        let slot = shared.engine().open_client().slot;
        DirectConnection {
            shared,
            slot,
            #[cfg(feature = "redis")]
            bytes: None,
        }
    }

    /// Gives the connection this number in place of the next one, for `CLIENT ID`. No other
    /// connection may have it. An exploration needs numbers that do not depend on the order in
    /// which clients connect.
    #[doc(hidden)]
    pub fn set_id(&self, id: u64) {
        self.shared.engine().clients.renumber(self.slot, id);
    }

    /// Runs one command now. A command that would wait replies at once, as inside `MULTI`.
    pub fn execute(&mut self, argv: &[&[u8]]) -> Reply {
        self.call(argv, CallContext::WithoutWaiting).reply
    }

    /// Runs one command and waits for its reply. A command may wait for a key, for the end of a
    /// pause, or for a time.
    pub async fn execute_and_wait(&self, argv: &[&[u8]]) -> Reply {
        self.answer(argv).await.reply
    }

    async fn answer(&self, argv: &[&[u8]]) -> Answer {
        let answer = self.call(argv, CallContext::Directly);
        if !answer.comes_later {
            return answer;
        }
        struct Withdraw<'a>(&'a Shared, Slot);
        impl Drop for Withdraw<'_> {
            fn drop(&mut self) {
                self.0.engine().unblock(self.1);
            }
        }
        let _withdraw = Withdraw(&self.shared, self.slot);
        // Boxed because few commands wait, and the state of a wait is large.
        let reply = Box::pin(self.until(Client::take_answer)).await;
        self.client(|client| Answer::to(client, reply))
    }

    /// The command that waits on this connection, if one does.
    #[doc(hidden)]
    pub fn blocked(&self) -> Option<BlockedCommand> {
        let engine = self.shared.engine();
        let blocked = engine.blocked(self.slot)?.clone();
        let is_held_back = matches!(blocked.until, Until::Unpaused);
        let ends_at = if is_held_back { engine.pause_ends_at() } else { blocked.deadline };
        Some(BlockedCommand { blocked, ends_at })
    }

    /// Lets a command wait on this connection, which is new.
    #[doc(hidden)]
    pub fn block(&self, command: &BlockedCommand) {
        let mut engine = self.shared.engine();
        let mut client = engine.clients.take(self.slot);
        engine.block(&mut client, command.blocked.clone());
        engine.clients.put_back(client);
        engine.set_next_wake_up();
    }

    /// Returns the next message that is not a reply, such as one of a subscribed channel.
    pub async fn message(&mut self) -> Reply {
        self.until(Client::take_message).await
    }

    /// Polls for the next message that is not a reply. The caller must make time pass on the
    /// server.
    pub fn poll_message(&self, cx: &mut Context<'_>) -> Poll<Reply> {
        self.poll(cx, Client::take_message)
    }

    /// Returns the footprint of a poll for messages: the subscribed channels, and that the
    /// connection is open.
    pub fn looking(&self) -> Footprint {
        let mut footprint = Footprint::default();
        footprint.connections(Access::Read);
        self.client(|client| {
            client.listens_to().for_each(|(topic, name)| match topic {
                Topic::Pattern => footprint.channels(Access::Read),
                Topic::Channel | Topic::ShardChannel => footprint.channel(Access::Read, name),
            });
        });
        footprint
    }

    /// Returns the footprint of closing the connection: its subscriptions end, unless the server
    /// has hung up before. A later change of a key that it tracks sends no message.
    pub fn closing(&self) -> Footprint {
        let mut footprint = Footprint::default();
        let mut engine = self.shared.engine();
        engine.note_tracked(self.slot, &mut footprint);
        let client = engine.client(self.slot);
        if client.hears() || client.is_hung_up {
            footprint.connections(Access::Read);
        }
        client.note_leaving(&mut footprint);
        footprint
    }

    /// Whether the connection is as it was when it opened, so that a new one is like it.
    #[doc(hidden)]
    pub fn is_as_new(&self) -> bool {
        let mut engine = self.shared.engine();
        engine.client(self.slot).has_no_state() && !engine.watches.is_watching(self.slot)
    }

    /// Whether [`Emulator::hang_up`](crate::Emulator::hang_up) has closed the connection.
    pub fn is_hung_up(&self) -> bool {
        self.client(|client| client.is_hung_up)
    }

    /// Waits for what `take` takes from the client, or for the end of the connection, which gives
    /// [`Reply::NOTHING`]. Meanwhile it runs what is due by the clock.
    async fn until(&self, take: fn(&mut Client) -> Option<Reply>) -> Reply {
        tokio::select! {
            biased;
            reply = poll_fn(|cx| self.poll(cx, take)) => reply,
            () = self.shared.clone().drive() => unreachable!("driving never ends"),
        }
    }

    fn poll(&self, cx: &mut Context<'_>, take: fn(&mut Client) -> Option<Reply>) -> Poll<Reply> {
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        let taken = take(client).or((client.closing != Closing::No).then_some(Reply::NOTHING));
        if taken.is_none() {
            client.set_waker(cx.waker());
        }
        taken.map_or(Poll::Pending, Poll::Ready)
    }

    fn call(&self, argv: &[&[u8]], runs: CallContext) -> Answer {
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        if client.closing != Closing::No {
            // If the connection was refused, the reason was sent to it before.
            let reply = client.take_answer().unwrap_or(Reply::NOTHING);
            let answer = Answer::to(client, reply);
            engine.keyspace.footprint_mut().clear();
            engine.use_connection();
            return answer;
        }
        client.context = runs;
        let reply = command::call(&mut engine, self.slot, argv);
        let (reply, messages) = reply.split_messages();
        messages.into_iter().for_each(|message| engine.deliver_to(self.slot, message));
        Answer::to(engine.client(self.slot), reply)
    }

    fn client<R>(&self, look: impl FnOnce(&Client) -> R) -> R {
        look(self.shared.engine().client(self.slot))
    }
}

/// A clone is a new connection, without the selected database, the name and the subscriptions of
/// this one.
impl Clone for DirectConnection {
    fn clone(&self) -> DirectConnection {
        DirectConnection::over(self.shared.clone())
    }
}

impl Drop for DirectConnection {
    fn drop(&mut self) {
        self.shared.close_client(self.slot);
    }
}

/// The reply to a command, with the state of the client at that moment.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only redis-rs's traits read all of it"))]
struct Answer {
    reply: Reply,
    /// The command waits, or its reply is lost.
    comes_later: bool,
    protocol: Protocol,
    is_closed: bool,
}

impl Answer {
    fn to(client: &Client, reply: Reply) -> Answer {
        Answer {
            reply,
            comes_later: client.is_blocked || client.is_cut_off,
            protocol: client.protocol,
            is_closed: client.closing != Closing::No,
        }
    }
}
