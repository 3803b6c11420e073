//! The events of an execution.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use emulator::Timestamp;

use crate::actor::Actor;
use crate::fault::Fault;
use crate::linearizability::Call;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number of steps so far, this one included.
    pub step: usize,
    /// True time since the start. It is the server's.
    pub at: Duration,
    /// Its kind.
    pub kind: EventKind,
}

/// A request as its client sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The words of each command. A transaction has several commands.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// The number of its connection among those of the client.
    pub connection: usize,
    /// Several tasks can send on its connection at once, as on redis-rs's `MultiplexedConnection`.
    pub is_shared: bool,
    /// The number of the task of the client that made it: 0 for the actor's own code. Others follow
    /// in the order of their first requests. On a shared connection it is not known, and 0.
    pub task: usize,
    /// Its reply arrives in a later step, behind messages that the server had sent before.
    pub is_behind: bool,
}

/// Identifies a hold of a section: the client, and the number of the hold among those of the
/// client. A client may have several at once.
pub type HoldId = (Actor, usize);

/// Identifies a call of an operation: the client, and the number of the call among those of the
/// client.
pub type CallId = (Actor, usize);

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A command ran. It is recorded only in a full recording.
    Command {
        /// The client that sent it.
        actor: Actor,
        /// The server that ran it.
        server: usize,
        /// The command as one would type it.
        text: String,
        /// Its name and first key. They identify the command even if the code has changed a little.
        brief: String,
        /// The script or function that it called.
        script: Option<Script>,
        /// The reply as `redis-cli` would print it, on one line.
        reply: String,
        /// The keys that it changed, with their new values.
        changed: Vec<KeyChange>,
        /// On a real server: by how much the reply came later than the schedule's time.
        late: Duration,
        /// How it was sent.
        sent: Box<Sent>,
    },
    /// A client received a message of a channel. It is recorded only in a full recording.
    Message {
        /// The client.
        actor: Actor,
        /// The server that sent it.
        server: usize,
        /// The channel and the message.
        text: String,
        /// `message` and the channel.
        brief: String,
    },
    /// A client was granted a section and is inside.
    Enter {
        /// The number of this hold among all of the execution.
        hold: HoldId,
        /// The client.
        actor: Actor,
        /// The section.
        section: &'static str,
        /// The time by the clock of its server when the client's last command ran, if an oracle
        /// judges by that.
        decided: Option<Timestamp>,
        /// When the lease ends, counted from the instant that the client gave. Without one it
        /// counts from before the latest request was sent.
        until: Duration,
        /// It is known where the server keeps the grant.
        is_recorded: bool,
    },
    /// A client that is inside was granted the section once more.
    Extended {
        /// The number of this hold among all of the execution.
        hold: HoldId,
        /// The client.
        actor: Actor,
        /// The section.
        section: &'static str,
        /// When the lease ends now, counted from the instant that the client gave.
        until: Duration,
    },
    /// The client is no longer inside.
    Leave {
        /// The number of this hold among all of the execution.
        hold: HoldId,
        /// The client.
        actor: Actor,
        /// The section.
        section: &'static str,
        /// Why it left.
        by: LeftBy,
    },
    /// Another client ended the server's record of an unexpired grant.
    Ended {
        /// The client whose grant it was.
        holder: Actor,
        /// The client that ended it.
        by: Actor,
    },
    /// Another client shortened the time to live of the server's record of an unexpired grant: the
    /// record would end before the lease.
    Shortened {
        /// The client whose grant it was.
        holder: Actor,
        /// The client that shortened it.
        by: Actor,
    },
    /// A resource that a lock guards accepted a write.
    Accepted {
        /// The client that wrote.
        actor: Actor,
        /// The resource.
        resource: &'static str,
        /// The fencing token that came with it.
        token: i64,
        /// The write was the command of this number among those of all clients.
        nth: u64,
    },
    /// A client did something that counts: [`Client::did`](crate::Client::did).
    Did {
        /// The client.
        actor: Actor,
        /// The thing that it did.
        what: &'static str,
        /// The time by the clock of its server when the client's last command ran, if an oracle
        /// judges by that.
        decided: Option<Timestamp>,
    },
    /// A client called an operation. It counts from the first thing that others can notice: its
    /// first command, or that time passes after it read its clock.
    Called {
        /// The number of this call among all of the execution.
        call: CallId,
        /// The operation and its arguments.
        what: Arc<Call>,
    },
    /// The client received the answer to its call.
    Returned {
        /// The number of this call among all of the execution.
        call: CallId,
        /// The operation and its arguments.
        what: Arc<Call>,
        /// The answer.
        answer: Arc<serde_json::Value>,
    },
    /// A step of time passed the end of the lease of a client that is inside.
    Overrun {
        /// The client that is still inside.
        actor: Actor,
        /// The server still keeps its grant, as a full recording on emulators shows.
        is_kept: bool,
    },
    /// The server's record of a grant is gone, and no client ended it. It is recorded only in a
    /// full recording on emulators, unless the lease ends in the same step.
    Lapsed {
        /// The client that is still inside.
        actor: Actor,
    },
    /// A fault struck. If it struck a command that ran, it comes after the command. Request faults
    /// are recorded only in a full recording.
    Fault {
        /// The fault.
        fault: Fault,
        /// For a request fault, the request or the message.
        request: Option<Struck>,
    },
    /// A reply arrived that had been late. It is recorded only in a full recording.
    Received {
        /// The client.
        actor: Actor,
    },
    /// Time moved.
    Advanced {
        /// The span.
        by: Duration,
        /// Time moved in a step, because no client that had begun had a request to send, but for
        /// those that it tries in vain. No request was slow.
        is_wait: bool,
    },
    /// The command that just ran was one that its client had given up.
    Late {
        /// The client.
        actor: Actor,
    },
    /// Something came to the client from outside: [`Client::arrival`](crate::Client::arrival).
    Arrived {
        /// The client.
        actor: Actor,
    },
    /// The client started and stalled before its first command.
    Started {
        /// The client.
        actor: Actor,
    },
    /// The client's code ended with an error or a panic.
    Failed {
        /// The client.
        actor: Actor,
        /// The text of the error.
        error: String,
    },
    /// The server closed the connection of a subscription, and the client has received the end.
    SubscriptionEnded {
        /// The client.
        actor: Actor,
        /// The channel.
        channel: String,
    },
    /// The client's code ended with an error after a fault that gave it an error, or after it had
    /// lost its lease. Code may do that.
    GaveUp {
        /// The client.
        actor: Actor,
        /// The text of the error.
        error: String,
    },
    /// The client's code reached a limit, and still runs.
    Endless {
        /// The client.
        actor: Actor,
        /// The limit in words.
        limit: String,
    },
    /// The client tried the same several times, and nothing had changed. Then it went on by itself.
    RetriesEnded {
        /// The client.
        actor: Actor,
    },
    /// Nothing can happen any more, and the client still waits.
    Stuck {
        /// The client.
        actor: Actor,
    },
    /// The data of the servers broke an invariant.
    Broken {
        /// The name of the invariant.
        name: &'static str,
        /// How it is broken.
        what: String,
    },
    /// All actors had started and ended. After a crash, a lost message or a cancellation, some time
    /// had passed. It is recorded if an oracle judges the end.
    AllEnded,
    /// All actors had ended, and a client judged what must hold then.
    Judged {
        /// The client.
        judge: Actor,
        /// What it found; `None` if all is well.
        violation: Option<String>,
    },
    /// All steps were over, and fresh clients tried to get everything.
    Probed {
        /// The number of clients that were granted something.
        granted: u32,
        /// The number that should have been.
        wanted: u32,
        /// This much time had passed first, because a client crashed, a message was lost, or an
        /// operation was cancelled: the longest lease and some more, or as an oracle asks for.
        after: Option<Duration>,
    },
}

/// A request or a message that a fault struck.
#[derive(Clone, Debug, PartialEq)]
pub struct Struck {
    /// The server that it goes to, or comes from.
    pub server: usize,
    /// The command as one would type it, or the channel and the message.
    pub text: String,
    /// The script or function that the command calls.
    pub script: Option<Script>,
    /// It is a message.
    pub is_message: bool,
}

/// A call of a script or of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The SHA1 of the script. Empty for a function.
    pub sha: String,
    /// The name: that of the function, or the word in the first line of the script if that is a
    /// comment, such as `-- release`. If there is none, the beginning of its source. `None` if the
    /// server does not know the script.
    pub name: Option<String>,
    /// The keys and the arguments, in the form in which one would type them.
    pub arguments: String,
    /// The commands that it called, with their replies. On a real server they are not known.
    pub commands: Vec<(String, String)>,
}

/// A key that a command changed.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyChange {
    /// The index of its database.
    pub db: usize,
    /// The key, with unprintable bytes escaped.
    pub key: String,
    /// Its new value as readable text. `None` if the key is gone.
    pub value: Option<String>,
    /// How long it has to live, in milliseconds. `None` if it has no deadline.
    pub left_ms: Option<i64>,
}

impl KeyChange {
    /// The key, and its database unless that is the one in which connections begin: `lock`, or
    /// `lock (database 1)`.
    pub fn name(&self) -> String {
        match self.db {
            0 => self.key.clone(),
            db => format!("{} (database {db})", self.key),
        }
    }
}

/// One line: `lock = "A1" (10000 ms left)`.
impl fmt::Display for KeyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} = {value}", self.name())?,
            None => write!(f, "{} is gone", self.name())?,
        }
        self.left_ms.map_or(Ok(()), |left_ms| write!(f, " ({left_ms} ms left)"))
    }
}

/// Why a client is no longer inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftBy {
    /// The first command of its release runs.
    Release,
    /// Its code says so.
    Code,
    /// It crashed.
    Crash,
}

impl EventKind {
    /// Whether oracles judge by the place of such an event among others. Steps with such events are
    /// dependent.
    pub(crate) fn is_judged(&self) -> bool {
        match self {
            EventKind::Enter { .. }
            | EventKind::Extended { .. }
            | EventKind::Leave { .. }
            | EventKind::Ended { .. }
            | EventKind::Shortened { .. }
            | EventKind::Accepted { .. }
            | EventKind::Did { .. }
            | EventKind::Overrun { .. } => true,
            // Some are texts for people. A step that breaks an invariant has read what that
            // reads. Calls, faults and time have footprints of their own. The others end one
            // client, or come after the steps.
            EventKind::Command { .. }
            | EventKind::Message { .. }
            | EventKind::Received { .. }
            | EventKind::Lapsed { .. }
            | EventKind::Late { .. }
            | EventKind::Fault { .. }
            | EventKind::Advanced { .. }
            | EventKind::Started { .. }
            | EventKind::Arrived { .. }
            | EventKind::Failed { .. }
            | EventKind::GaveUp { .. }
            | EventKind::Endless { .. }
            | EventKind::RetriesEnded { .. }
            | EventKind::Stuck { .. }
            | EventKind::SubscriptionEnded { .. }
            | EventKind::Called { .. }
            | EventKind::Returned { .. }
            | EventKind::Broken { .. }
            | EventKind::AllEnded
            | EventKind::Judged { .. }
            | EventKind::Probed { .. } => false,
        }
    }
}
