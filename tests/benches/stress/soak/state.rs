//! The state that the clients of one round share: when to stop, which clients may be killed, the
//! counts, and the first failure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use redis::Value;

use super::arguments::Argv;
use crate::client::{Client, Lost, is_error, show};

/// Totals of all clients in all rounds.
#[derive(Default)]
pub(super) struct Counts {
    /// Replies and messages that were checked.
    pub(super) checked: AtomicU64,
    /// Clients that CLIENT KILL closed.
    pub(super) killed: AtomicU64,
    /// Connections that their clients closed in the middle of a command.
    pub(super) cut: AtomicU64,
    pub(super) busy: AtomicU64,
}

pub(super) struct Soak<'a> {
    pub(super) addr: SocketAddr,
    pub(super) counts: &'a Counts,
    /// When set, clients finish what they have begun and end.
    pub(super) is_stopping: AtomicBool,
    /// The server has been told to end, so a lost connection is no failure.
    pub(super) is_ending: AtomicBool,
    /// A client that needs exact replies holds it for reading. A client that makes the server busy
    /// holds it for writing.
    pub(super) calm: RwLock<()>,
    pub(super) ledger: Mutex<Ledger>,
    /// The listener that must receive every message has subscribed.
    pub(super) is_heard: AtomicBool,
    /// How many clients are still subscribed to the channel.
    pub(super) listeners: AtomicUsize,
    victims: Mutex<BTreeSet<i64>>,
    killed: Mutex<BTreeSet<i64>>,
    failure: Mutex<Option<String>>,
}

/// Data that must add up at the end of a round.
#[derive(Default)]
pub(super) struct Ledger {
    /// The sum that clients have added to the shared key.
    pub(super) added: i64,
    /// Elements whose push was answered.
    pub(super) pushed: BTreeSet<String>,
    /// Elements whose push was cut off. They may be in the queue or not.
    pub(super) perhaps_pushed: BTreeSet<String>,
    /// Elements in the order in which each consumer took them.
    pub(super) popped: BTreeMap<String, Vec<String>>,
}

/// How the behaviour of a client ends early.
pub(super) enum End {
    /// The connection was lost. It is not yet known whether that is a failure.
    Lost(Lost),
    Wrong(String),
}

impl From<Lost> for End {
    fn from(lost: Lost) -> End {
        End::Lost(lost)
    }
}

/// A connection and its client ID.
pub(super) struct Member {
    pub(super) client: Client,
    pub(super) id: i64,
}

impl<'a> Soak<'a> {
    pub(super) fn new(addr: SocketAddr, counts: &'a Counts) -> Soak<'a> {
        Soak {
            addr,
            counts,
            is_stopping: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            calm: RwLock::new(()),
            ledger: Mutex::default(),
            is_heard: AtomicBool::new(false),
            listeners: AtomicUsize::new(0),
            victims: Mutex::default(),
            killed: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The first failure.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Runs the behaviour of a client, and records a failure if it ends wrongly.
    pub(super) fn run(&self, name: &str, part: impl FnOnce() -> Result<(), End>) {
        let wrong = match part() {
            Ok(()) => return,
            Err(End::Lost(_)) if self.is_ending.load(Ordering::Relaxed) => return,
            Err(End::Lost(lost)) => format!("{name}: {lost}"),
            Err(End::Wrong(wrong)) => format!("{name}: {wrong}"),
        };
        lock(&self.failure).get_or_insert(wrong);
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// A new connection that is never killed.
    pub(super) fn join(&self) -> Result<Member, End> {
        let mut client = Client::connect(self.addr)?;
        match self.ask(&mut client, &["CLIENT", "ID"])? {
            Value::Int(id) => Ok(Member { client, id }),
            other => Err(End::Wrong(format!("CLIENT ID: {}", show(&other)))),
        }
    }

    /// A new connection that may be killed from now on.
    pub(super) fn join_as_victim(&self) -> Result<Member, End> {
        let member = self.join()?;
        self.offer(&member);
        Ok(member)
    }

    /// The reply of a server that is not busy. While the server is busy, the command is sent again.
    pub(super) fn ask<T: AsRef<[u8]>>(&self, client: &mut Client, argv: &[T]) -> Result<Value, Lost> {
        loop {
            let reply = client.ask(argv)?;
            self.counts.checked.fetch_add(1, Ordering::Relaxed);
            if !is_error(&reply, "BUSY") {
                return Ok(reply);
            }
        }
    }

    /// Sends a command whose reply must equal this value.
    pub(super) fn expect<T: AsRef<[u8]>>(
        &self,
        client: &mut Client,
        argv: &[T],
        expected: &Value,
    ) -> Result<(), End> {
        let reply = self.ask(client, argv)?;
        if reply == *expected {
            return Ok(());
        }
        let command = show_command(&argv.iter().map(|arg| arg.as_ref().to_vec()).collect());
        Err(End::Wrong(format!("{command}: {}, expected {}", show(&reply), show(expected))))
    }

    /// A client that may be killed. The caller must kill it.
    pub(super) fn take_victim(&self, nth: usize) -> Option<i64> {
        let mut victims = lock(&self.victims);
        let id = *victims.iter().nth(nth.checked_rem(victims.len())?)?;
        victims.remove(&id);
        lock(&self.killed).insert(id);
        Some(id)
    }

    /// The client may be killed from now on.
    pub(super) fn offer(&self, member: &Member) {
        lock(&self.victims).insert(member.id);
    }

    /// The client closed its connection, so it is no longer a victim.
    pub(super) fn leave(&self, id: i64) {
        lock(&self.victims).remove(&id);
        self.counts.cut.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection was lost. If the client was not killed, that is a failure.
    pub(super) fn mourn(&self, member: &Member, lost: Lost) -> Result<(), End> {
        lock(&self.victims).remove(&member.id);
        if matches!(lost, Lost::Closed) && lock(&self.killed).contains(&member.id) {
            Ok(())
        } else {
            Err(End::Lost(lost))
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command on one line, with long arguments shortened.
pub(super) fn show_command(argv: &Argv) -> String {
    const ARG_CHARS_MAX: usize = 60;
    let arg = |arg: &Vec<u8>| {
        let text = arg.escape_ascii().to_string();
        match text.get(..ARG_CHARS_MAX) {
            Some(start) if text.len() > ARG_CHARS_MAX => format!("'{start}'… ({} bytes)", arg.len()),
            _ if text.is_empty() || text.contains(' ') => format!("'{text}'"),
            _ => text,
        }
    };
    argv.iter().map(arg).collect::<Vec<_>>().join(" ")
}
