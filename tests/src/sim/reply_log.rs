//! What servers said in one execution, so that the next one, which begins as it did, need not ask them again.
//!
//! An exploration runs nearly the same execution again and again: on an average all but two or three of its steps. The clients' code
//! cannot be copied where it stands, and so runs from its start each time. What servers hold can.

use std::sync::Arc;
use std::time::Duration;

use emulator::{Emulator, Footprint, Snapshot};
use redis::Value;

/// What the servers of an execution said, in order, and what they held between its steps. Where clients do what leaves more than data
/// and scripts, such as to subscribe, it is of no use, and is torn.
#[derive(Debug, Default)]
pub(crate) struct ReplyLog {
    entries: Vec<LogEntry>,
    /// How much of that has been said again.
    position: usize,
    checkpoints: Vec<Checkpoint>,
    /// What each server held at the last mark, if nothing has happened to it since.
    snapshots: Vec<Option<Arc<Snapshot>>>,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// The servers are asked.
    #[default]
    Off,
    /// The next execution is on tape as far as the last mark.
    Rewound,
    /// They are asked, and what they say is kept.
    Recording,
    /// Up to the last mark they are not asked.
    Replaying,
    /// They are asked, and what they say is nothing to start from.
    Ended,
    /// They are asked, but what has been said before need not be true of this execution.
    Invalid,
}

/// A place to go on from.
#[derive(Debug)]
struct Checkpoint {
    /// So many steps had been taken.
    step: usize,
    /// So much had been said.
    entries: usize,
    /// This is what the servers held.
    snapshots: Vec<Arc<Snapshot>>,
}

/// What a server says, or what is found out by looking at servers.
#[derive(Clone, Debug)]
pub(crate) enum LogEntry {
    /// A hash of what was asked, before what was answered.
    Asked(u64),
    Reply(Value),
    Replies(Vec<Value>),
    Footprint(Arc<Footprint>),
    Fact(bool),
    Instants(Vec<Duration>),
}

/// A kind of it.
pub(crate) trait Logged: Clone {
    fn into_entry(self) -> LogEntry;
    fn of(entries: &LogEntry) -> Option<Self>;
}

macro_rules! logged {
    ($($variant:ident: $type:ty),*) => {$(
        impl Logged for $type {
            fn into_entry(self) -> LogEntry {
                LogEntry::$variant(self)
            }

            fn of(entries: &LogEntry) -> Option<$type> {
                if let LogEntry::$variant(entries) = entries { Some(entries.clone()) } else { None }
            }
        }
    )*};
}

logged! {
    Asked: u64, Reply: Value, Replies: Vec<Value>, Footprint: Arc<Footprint>, Fact: bool, Instants: Vec<Duration>
}

impl ReplyLog {
    /// The next execution takes the same steps as the last one, so many.
    pub(crate) fn rewind(&mut self, steps: usize) {
        self.checkpoints.retain(|checkpoint| checkpoint.step <= steps);
        self.entries.truncate(self.checkpoints.last().map_or(0, |checkpoint| checkpoint.entries));
        self.snapshots.clear();
        (self.mode, self.position) = (Mode::Rewound, 0);
    }

    /// Whether the servers will be brought to where they are to be at a mark, so that it makes no difference what they hold before.
    pub(crate) fn skips_start(&self) -> bool {
        self.mode == Mode::Rewound && !self.checkpoints.is_empty()
    }

    /// The first step is to be taken; a tape that has not been rewound stays off.
    pub(crate) fn begin(&mut self) {
        if self.mode == Mode::Rewound {
            self.mode = if self.checkpoints.is_empty() { Mode::Recording } else { Mode::Replaying };
        }
    }

    /// The last step has been taken.
    pub(crate) fn end(&mut self) {
        match self.mode {
            Mode::Recording => self.mode = Mode::Ended,
            Mode::Replaying => self.invalidate(),
            Mode::Off | Mode::Rewound | Mode::Ended | Mode::Invalid => {}
        }
    }

    /// Whether the servers are asked as if there was no tape.
    pub(crate) fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// Whether the clients do what cannot be kept on tape.
    pub(crate) fn is_invalid(&self) -> bool {
        self.mode == Mode::Invalid
    }

    /// So many steps have been taken: it may be the place from which to ask the servers again, with what they held then.
    pub(crate) fn checkpoint<'a>(&mut self, step: usize, servers: impl Iterator<Item = &'a Emulator>) {
        match self.mode {
            Mode::Off | Mode::Rewound | Mode::Ended | Mode::Invalid => {}
            Mode::Recording => {
                let snapshots = servers.enumerate().map(|(nth, server)| {
                    if nth == self.snapshots.len() {
                        self.snapshots.push(None);
                    }
                    self.snapshots[nth].get_or_insert_with(|| Arc::new(server.snapshot())).clone()
                });
                let snapshots = snapshots.collect();
                self.checkpoints.push(Checkpoint { step, entries: self.entries.len(), snapshots });
            }
            Mode::Replaying => {
                let Some(checkpoint) = self.checkpoints.last().filter(|checkpoint| checkpoint.step == step)
                else {
                    return;
                };
                if checkpoint.entries != self.position {
                    return self.invalidate();
                }
                servers.zip(&checkpoint.snapshots).for_each(|(server, snapshots)| server.restore(snapshots));
                self.snapshots = checkpoint.snapshots.iter().cloned().map(Some).collect();
                self.mode = Mode::Recording;
            }
        }
    }

    /// Whether the servers need not run what is asked of them, because the log has what comes of it.
    pub(crate) fn is_replaying(&self) -> bool {
        self.mode == Mode::Replaying
    }

    /// A server is about to change: its snapshot is out of date.
    pub(crate) fn server_changes(&mut self, server: usize) {
        if let Some(snapshot) = self.snapshots.get_mut(server) {
            *snapshot = None;
        }
    }

    /// What was said before, if nobody is to be asked.
    pub(crate) fn replay<S: Logged>(&mut self) -> Option<S> {
        if self.mode != Mode::Replaying {
            return None;
        }
        let entries = self.entries.get(self.position).and_then(S::of);
        self.position += 1;
        if entries.is_none() {
            self.invalidate();
        }
        entries
    }

    /// Keeps what has been said.
    pub(crate) fn append<S: Logged>(&mut self, entries: impl FnOnce() -> S) {
        if self.mode == Mode::Recording {
            self.entries.push(entries().into_entry());
        }
    }

    /// It is of no use: something else is asked than before, or something is done of which more is left than a copy tells.
    pub(crate) fn invalidate(&mut self) {
        if !self.is_off() {
            self.mode = Mode::Invalid;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReplyLog;
    use crate::actor::Actor;
    use crate::execution::Runner;
    use crate::replay::Replay;
    use crate::scenario::Scenario;
    use crate::schedule::{Schedule, Step};

    fn sets(values: [&'static str; 2]) -> Scenario {
        values.into_iter().fold(Scenario::new("sets"), |scenario, value| {
            scenario.actors(1, move |client| async move {
                let mut connection = client.connection();
                for key in ["k", "l"] {
                    () = redis::cmd("SET").arg(key).arg(value).query_async(&mut connection).await?;
                }
                Ok(())
            })
        })
    }

    /// Runs what stands in the schedule, A's and B's steps, after so many steps that are on tape.
    fn run(
        runner: &mut Runner,
        scenario: &Scenario,
        steps: &str,
        known: usize,
        mut reply_log: ReplyLog,
    ) -> ReplyLog {
        reply_log.rewind(known);
        let step = |letter: char| Step::Run(Actor(usize::from(letter == 'B')), 0);
        let schedule = Schedule { steps: steps.chars().map(step).collect() };
        runner.run_again(scenario, &mut Replay::new(&schedule), reply_log).1
    }

    #[test]
    fn servers_are_asked_from_where_an_execution_is_another() {
        let (mut runner, scenario) = (Runner::new(), sets(["a", "b"]));
        let reply_log = run(&mut runner, &scenario, "AABB", 0, ReplyLog::default());
        assert_eq!((reply_log.position, reply_log.is_invalid()), (0, false));
        let whole = reply_log.entries.len();
        let reply_log = run(&mut runner, &scenario, "AABB", 3, reply_log);
        assert_eq!(
            (reply_log.position, reply_log.is_invalid()),
            (whole / 4 * 3, false),
            "three of four steps"
        );
        let reply_log = run(&mut runner, &scenario, "ABBA", 1, reply_log);
        assert_eq!((reply_log.position, reply_log.is_invalid()), (whole / 4, false));
        let server = &runner.emulators(1)[0];
        let snapshots = |key| server.get(key);
        assert_eq!([snapshots("k"), snapshots("l")], [Some("b".into()), Some("a".into())]);
    }

    #[test]
    fn another_request_tears_it() {
        let mut runner = Runner::new();
        let reply_log = run(&mut runner, &sets(["a", "b"]), "AABB", 0, ReplyLog::default());
        let reply_log = run(&mut runner, &sets(["c", "b"]), "AABB", 3, reply_log);
        assert!(reply_log.is_invalid());
    }
}
