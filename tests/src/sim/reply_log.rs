//! The replies of the servers in one execution. The next execution reads these replies as long as
//! the two executions are the same.
//!
//! An exploration repeats most steps of the execution before. The state of the clients' code cannot
//! be copied, so the code runs from its start each time. The state of the servers can be copied.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use emulator::{Emulator, Footprint, Snapshot};
use redis::Value;

use super::State;

/// The replies of an execution in order, and snapshots of the servers between its steps. If clients
/// leave more behind than data and scripts, such as a subscription, the log is invalid.
#[derive(Default)]
pub(crate) struct ReplyLog {
    entries: Vec<LogEntry>,
    /// The number of entries that have been replayed.
    position: usize,
    checkpoints: Vec<Checkpoint>,
    /// For each server its snapshot at the last checkpoint, if the server has not changed since.
    snapshots: Vec<Option<Arc<Snapshot>>>,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Servers run every request, and nothing is logged.
    #[default]
    Off,
    /// The next execution is logged up to the last checkpoint.
    Rewound,
    /// Servers run every request, and the replies are logged.
    Recording,
    /// Up to the last checkpoint, replies come from the log.
    Replaying,
    /// Servers run every request, and later executions do not start from the replies.
    Ended,
    /// Servers run every request. The entries need not be true of this execution.
    Invalid,
}

/// A place from which an execution can continue.
struct Checkpoint {
    /// The number of steps before it.
    step: usize,
    /// The number of entries before it.
    entries: usize,
    /// The state of the servers there.
    snapshots: Vec<Arc<Snapshot>>,
    /// The state of the execution there, and its time.
    state: Arc<(State, Duration)>,
}

/// A reply, or a fact about the servers that was computed from their state.
#[derive(Clone, Debug)]
pub(crate) enum LogEntry {
    /// A hash of a request, which stands before the reply.
    Request(u64),
    Reply(Value),
    Footprint(Arc<Footprint>),
    Fact(bool),
    Instants(Vec<Duration>),
    /// A hash of data, if it can be compared.
    Data(Option<u64>),
}

/// A type that the log can hold.
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
    Request: u64, Reply: Value, Footprint: Arc<Footprint>, Fact: bool, Instants: Vec<Duration>,
    Data: Option<u64>
}

impl fmt::Debug for ReplyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyLog").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl ReplyLog {
    /// Prepares the log for an execution that begins with this many steps of the last one.
    pub(crate) fn rewind(&mut self, steps: usize) {
        self.checkpoints.retain(|checkpoint| checkpoint.step <= steps);
        self.entries.truncate(self.checkpoints.last().map_or(0, |checkpoint| checkpoint.entries));
        self.snapshots.clear();
        (self.mode, self.position) = (Mode::Rewound, 0);
    }

    /// Whether a checkpoint will restore the servers, so that their state before it does not
    /// matter.
    pub(crate) fn skips_start(&self) -> bool {
        self.mode == Mode::Rewound && !self.checkpoints.is_empty()
    }

    /// Continues at the last checkpoint. Restores the servers, and returns the state there. `None`
    /// if there is none.
    pub(crate) fn resume<'a>(
        &mut self,
        servers: impl Iterator<Item = &'a Emulator>,
    ) -> Option<Arc<(State, Duration)>> {
        let checkpoint = self.checkpoints.last().filter(|_| self.mode == Mode::Rewound)?;
        servers.zip(&checkpoint.snapshots).for_each(|(server, snapshot)| server.restore(snapshot));
        self.snapshots = checkpoint.snapshots.iter().cloned().map(Some).collect();
        self.mode = Mode::Recording;
        Some(checkpoint.state.clone())
    }

    /// Begins the steps. A log that has not been rewound stays off.
    pub(crate) fn begin(&mut self) {
        if self.mode == Mode::Rewound {
            self.mode = if self.checkpoints.is_empty() { Mode::Recording } else { Mode::Replaying };
        }
    }

    /// Ends the steps.
    pub(crate) fn end(&mut self) {
        match self.mode {
            Mode::Recording => self.mode = Mode::Ended,
            Mode::Replaying => self.invalidate(),
            Mode::Off | Mode::Rewound | Mode::Ended | Mode::Invalid => {}
        }
    }

    /// Whether nothing is logged.
    pub(crate) fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// Whether clients did something that the log cannot hold.
    pub(crate) fn is_invalid(&self) -> bool {
        self.mode == Mode::Invalid
    }

    /// To be called before each step. At the last checkpoint the servers are restored, and run the
    /// requests from there on.
    pub(crate) fn checkpoint<'a>(
        &mut self,
        step: usize,
        servers: impl Iterator<Item = &'a Emulator>,
        state: impl FnOnce() -> (State, Duration),
    ) {
        match self.mode {
            Mode::Off | Mode::Rewound | Mode::Ended | Mode::Invalid => {}
            Mode::Recording => {
                if self.checkpoints.last().is_some_and(|checkpoint| checkpoint.step == step) {
                    return;
                }
                let snapshots = servers.enumerate().map(|(nth, server)| {
                    if nth == self.snapshots.len() {
                        self.snapshots.push(None);
                    }
                    self.snapshots[nth].get_or_insert_with(|| Arc::new(server.snapshot())).clone()
                });
                let snapshots = snapshots.collect();
                let state = Arc::new(state());
                self.checkpoints.push(Checkpoint { step, entries: self.entries.len(), snapshots, state });
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

    /// Whether the log has the replies, so that the servers need not run the requests.
    pub(crate) fn is_replaying(&self) -> bool {
        self.mode == Mode::Replaying
    }

    /// A server is about to change, so its snapshot is out of date.
    pub(crate) fn server_changes(&mut self, server: usize) {
        if let Some(snapshot) = self.snapshots.get_mut(server) {
            *snapshot = None;
        }
    }

    /// Returns the next entry, if the log is replaying.
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

    /// Appends an entry.
    pub(crate) fn append<S: Logged>(&mut self, entries: impl FnOnce() -> S) {
        if self.mode == Mode::Recording {
            self.entries.push(entries().into_entry());
        }
    }

    /// Invalidates the log: a client sent another request than before, or left more behind than a
    /// snapshot holds.
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

    /// Runs a schedule of steps of A and B, of which the log has this many.
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
        runner.run_again(scenario, &mut Replay::new(&schedule), reply_log, false).1
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
