//! Faults that a test places for commands. They do what a network or a server in trouble does.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{self, Error};

/// An effect, and the commands that it strikes: by default the next one.
///
/// ```
/// use emulator::{Effect, Emulator, Fault};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let emulator = Emulator::new();
/// emulator.place(Fault::new(Effect::DropAfter).command("SET"));
/// let set = redis::cmd("SET").arg(&["lock", "me", "NX"]).query_async::<()>(&mut emulator.connection()).await;
/// assert!(set.is_err(), "the client cannot know");
/// assert!(emulator.exists("lock"), "but the lock is taken");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    effect: Effect,
    command: Option<String>,
    client: Option<Bytes>,
    /// How many more commands it strikes. `None`: all that match.
    count: Option<u64>,
    has_struck: bool,
}

/// The effect of a fault on a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The connection is closed. The command does not run.
    DropBefore,
    /// The command runs, and the connection is closed without a reply. A command that would wait is
    /// withdrawn.
    DropAfter,
    /// The command runs. Its reply and everything after it are lost, but the connection stays open.
    LoseReply,
    /// The command arrives later, by the server's clock, and later requests of the client wait for
    /// it. At a front end that cannot wait, it arrives at once.
    Delay(Duration),
    /// The command runs twice, as if a client had repeated it after the first reply was lost. The
    /// client gets the second reply.
    Twice,
    /// The command does not run, and this is its reply.
    Error(Error),
}

impl Effect {
    /// Returns an error reply, from its whole text or from a code.
    ///
    /// The code is one that Redis itself returns when it is in trouble, such as `LOADING`, `OOM`,
    /// `READONLY` or `BUSY`.
    pub fn error(text: impl Into<Bytes>) -> Effect {
        let text: Bytes = text.into();
        let is_code_of = |error: &Error| error.code().eq_ignore_ascii_case(&text);
        let known = error::OF_A_SERVER_IN_TROUBLE.into_iter().find(is_code_of);
        Effect::Error(known.unwrap_or_else(|| Error::new(text)))
    }
}

impl Fault {
    /// Creates a fault that strikes the next command of any client.
    pub fn new(effect: Effect) -> Fault {
        Fault { effect, command: None, client: None, count: Some(1), has_struck: false }
    }

    /// Restricts it to this command. A subcommand has a name such as `client|setname`.
    pub fn command(mut self, name: &str) -> Fault {
        self.command = Some(name.to_ascii_lowercase());
        self
    }

    /// Restricts it to clients that have this name by `CLIENT SETNAME`.
    pub fn client(mut self, name: impl Into<Bytes>) -> Fault {
        self.client = Some(name.into());
        self
    }

    /// Lets it strike this many commands.
    pub fn count(mut self, count: u64) -> Fault {
        self.count = Some(count);
        self
    }

    /// Lets it strike every matching command.
    pub fn always(mut self) -> Fault {
        self.count = None;
        self
    }

    /// The name of the command to which it is restricted.
    pub(crate) fn named(&self) -> Option<&str> {
        self.command.as_deref()
    }

    fn concerns(&self, client: &Bytes, argv: &[&[u8]]) -> bool {
        let is_called = |name: &String| {
            let mut words = argv.iter();
            name.split('|')
                .all(|word| words.next().is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes())))
        };
        self.client.as_ref().is_none_or(|name| name == client) && self.command.as_ref().is_none_or(is_called)
    }
}

/// Writes it as `EMULATOR FAULT` takes it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.effect {
            Effect::DropBefore => f.write_str("DROP-BEFORE"),
            Effect::DropAfter => f.write_str("DROP-AFTER"),
            Effect::LoseReply => f.write_str("LOSE-REPLY"),
            Effect::Delay(span) => write!(f, "DELAY {}", span.as_millis()),
            Effect::Twice => f.write_str("TWICE"),
            Effect::Error(error) => write!(f, "ERROR \"{}\"", error.as_bytes().escape_ascii()),
        }?;
        write!(f, " COUNT {}", self.count.unwrap_or(0))?;
        if let Some(name) = &self.command {
            write!(f, " COMMAND {name}")?;
        }
        if let Some(name) = &self.client {
            write!(f, " CLIENT {}", name.escape_ascii())?;
        }
        Ok(())
    }
}

/// The faults that can still strike, in the order in which they were placed. If some of them have
/// never struck when they are dropped, a warning says so.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault after all others.
    pub fn place(&mut self, fault: Fault) {
        if fault.count != Some(0) {
            self.0.push(fault);
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is no fault.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the faults.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// Iterates over the faults that have never struck.
    pub fn unstruck(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter().filter(|fault| !fault.has_struck)
    }

    /// The text about the faults that have never struck, if there are any.
    fn warning(&self) -> Option<String> {
        let unstruck: Vec<String> = self.unstruck().map(|fault| format!("  {fault}\n")).collect();
        (!unstruck.is_empty()).then(|| {
            format!(
                "lockstep: warning: faults that never struck, because no client sent a command that they concern:\n{}",
                unstruck.concat()
            )
        })
    }

    /// Returns the effect for this command of a client with this name: that of the first fault that
    /// matches. Counts the fault down.
    pub fn strike(&mut self, client: &Bytes, argv: &[&[u8]]) -> Option<Effect> {
        let idx = self.0.iter().position(|fault| fault.concerns(client, argv))?;
        let fault = &mut self.0[idx];
        fault.has_struck = true;
        fault.count = fault.count.map(|count| count - 1);
        Some(if fault.count == Some(0) { self.0.remove(idx).effect.clone() } else { fault.effect.clone() })
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if let Some(warning) = self.warning() {
            // Tests hide what they print by macros if they pass.
            _ = std::io::stderr().write_all(warning.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_strike_in_order_and_as_often_as_they_say() {
        let mut faults = Faults::default();
        faults.place(Fault::new(Effect::Twice).command("SET").client("a").count(2));
        faults.place(Fault::new(Effect::error("oom")).command("client|setname"));
        faults.place(Fault::new(Effect::DropBefore).count(0));
        faults.place(Fault::new(Effect::LoseReply).command("GET").always());
        let mut strike = |client: &'static str, line: &str| {
            let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            faults.strike(&Bytes::from(client), &argv)
        };
        assert_eq!(strike("b", "SET k v"), None);
        assert_eq!(
            [(); 3].map(|()| strike("a", "set k v")),
            [Some(Effect::Twice), Some(Effect::Twice), None]
        );
        assert_eq!(strike("", "CLIENT SETINFO x y"), None);
        assert_eq!(strike("", "CLIENT SETNAME x"), Some(Effect::Error(error::OOM)));
        assert_eq!([(); 3].map(|()| strike("", "GET k")), [const { Some(Effect::LoseReply) }; 3]);
        assert_eq!(
            faults.iter().map(Fault::to_string).collect::<Vec<_>>(),
            ["LOSE-REPLY COUNT 0 COMMAND get"]
        );
        assert_eq!(faults.warning(), None);
    }

    #[test]
    fn a_fault_that_never_struck_is_told() {
        let mut faults = Faults::default();
        faults.place(Fault::new(Effect::DropAfter).command("INCR"));
        faults.place(Fault::new(Effect::Twice).command("SET").count(2));
        faults.strike(&Bytes::new(), &[b"INCRBY", b"n", b"2"]);
        faults.strike(&Bytes::new(), &[b"SET", b"k", b"v"]);
        assert_eq!(
            faults.warning().unwrap_or_default(),
            "lockstep: warning: faults that never struck, because no client sent a command that they concern:\n\
             \x20 DROP-AFTER COUNT 1 COMMAND incr\n"
        );
        faults.clear();
        assert_eq!(faults.warning(), None);
    }
}
