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
pub(crate) struct Tape {
    said: Vec<Said>,
    /// How much of that has been said again.
    position: usize,
    marks: Vec<Mark>,
    /// What each server held at the last mark, if nothing has happened to it since.
    held: Vec<Option<Arc<Snapshot>>>,
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
    Records,
    /// Up to the last mark they are not asked.
    Recalls,
    /// They are asked, and what they say is nothing to start from.
    Ended,
    /// They are asked, but what has been said before need not be true of this execution.
    Torn,
}

/// A place to go on from.
#[derive(Debug)]
struct Mark {
    /// So many steps had been taken.
    step: usize,
    /// So much had been said.
    said: usize,
    /// This is what the servers held.
    held: Vec<Arc<Snapshot>>,
}

/// What a server says, or what is found out by looking at servers.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// A hash of what was asked, before what was answered.
    Asked(u64),
    Reply(Value),
    Replies(Vec<Value>),
    Footprint(Arc<Footprint>),
    Fact(bool),
    Instants(Vec<Duration>),
}

/// A kind of it.
pub(crate) trait Saying: Clone {
    fn into_said(self) -> Said;
    fn of(said: &Said) -> Option<Self>;
}

macro_rules! sayings {
    ($($variant:ident: $type:ty),*) => {$(
        impl Saying for $type {
            fn into_said(self) -> Said {
                Said::$variant(self)
            }

            fn of(said: &Said) -> Option<$type> {
                if let Said::$variant(said) = said { Some(said.clone()) } else { None }
            }
        }
    )*};
}

sayings! {
    Asked: u64, Reply: Value, Replies: Vec<Value>, Footprint: Arc<Footprint>, Fact: bool, Instants: Vec<Duration>
}

impl Tape {
    /// The next execution takes the same steps as the last one, so many.
    pub(crate) fn rewind(&mut self, steps: usize) {
        self.marks.retain(|mark| mark.step <= steps);
        self.said.truncate(self.marks.last().map_or(0, |mark| mark.said));
        self.held.clear();
        (self.mode, self.position) = (Mode::Rewound, 0);
    }

    /// Whether the servers will be brought to where they are to be at a mark, so that it makes no difference what they hold before.
    pub(crate) fn skips_start(&self) -> bool {
        self.mode == Mode::Rewound && !self.marks.is_empty()
    }

    /// The first step is to be taken; a tape that has not been rewound stays off.
    pub(crate) fn begin(&mut self) {
        if self.mode == Mode::Rewound {
            self.mode = if self.marks.is_empty() { Mode::Records } else { Mode::Recalls };
        }
    }

    /// The last step has been taken.
    pub(crate) fn end(&mut self) {
        match self.mode {
            Mode::Records => self.mode = Mode::Ended,
            Mode::Recalls => self.tear(),
            Mode::Off | Mode::Rewound | Mode::Ended | Mode::Torn => {}
        }
    }

    /// Whether the servers are asked as if there was no tape.
    pub(crate) fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// Whether the clients do what cannot be kept on tape.
    pub(crate) fn is_torn(&self) -> bool {
        self.mode == Mode::Torn
    }

    /// So many steps have been taken: it may be the place from which to ask the servers again, with what they held then.
    pub(crate) fn mark<'a>(&mut self, step: usize, servers: impl Iterator<Item = &'a Emulator>) {
        match self.mode {
            Mode::Off | Mode::Rewound | Mode::Ended | Mode::Torn => {}
            Mode::Records => {
                let held = servers.enumerate().map(|(nth, server)| {
                    if nth == self.held.len() {
                        self.held.push(None);
                    }
                    self.held[nth].get_or_insert_with(|| Arc::new(server.snapshot())).clone()
                });
                let held = held.collect();
                self.marks.push(Mark { step, said: self.said.len(), held });
            }
            Mode::Recalls => {
                let Some(mark) = self.marks.last().filter(|mark| mark.step == step) else { return };
                if mark.said != self.position {
                    return self.tear();
                }
                servers.zip(&mark.held).for_each(|(server, held)| server.restore(held));
                self.held = mark.held.iter().cloned().map(Some).collect();
                self.mode = Mode::Records;
            }
        }
    }

    /// Something happens to a server. Says whether it has to be done, or what comes of it is on tape.
    pub(crate) fn has_to_ask(&mut self, server: usize) -> bool {
        if let Some(held) = self.held.get_mut(server) {
            *held = None;
        }
        self.mode != Mode::Recalls
    }

    /// What was said before, if nobody is to be asked.
    pub(crate) fn recall<S: Saying>(&mut self) -> Option<S> {
        if self.mode != Mode::Recalls {
            return None;
        }
        let said = self.said.get(self.position).and_then(S::of);
        self.position += 1;
        if said.is_none() {
            self.tear();
        }
        said
    }

    /// Keeps what has been said.
    pub(crate) fn keep<S: Saying>(&mut self, said: impl FnOnce() -> S) {
        if self.mode == Mode::Records {
            self.said.push(said().into_said());
        }
    }

    /// It is of no use: something else is asked than before, or something is done of which more is left than a copy tells.
    pub(crate) fn tear(&mut self) {
        if !self.is_off() {
            self.mode = Mode::Torn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tape;
    use crate::execution::Runner;
    use crate::replay::Replay;
    use crate::scenario::Scenario;
    use crate::schedule::{Actor, Schedule, Step};

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
    fn run(runner: &mut Runner, scenario: &Scenario, steps: &str, known: usize, mut tape: Tape) -> Tape {
        tape.rewind(known);
        let step = |letter: char| Step::Run(Actor(usize::from(letter == 'B')), 0);
        let schedule = Schedule { steps: steps.chars().map(step).collect() };
        runner.run_again(scenario, &mut Replay::new(&schedule), tape).1
    }

    #[test]
    fn servers_are_asked_from_where_an_execution_is_another() {
        let (mut runner, scenario) = (Runner::new(), sets(["a", "b"]));
        let tape = run(&mut runner, &scenario, "AABB", 0, Tape::default());
        assert_eq!((tape.position, tape.is_torn()), (0, false));
        let whole = tape.said.len();
        let tape = run(&mut runner, &scenario, "AABB", 3, tape);
        assert_eq!((tape.position, tape.is_torn()), (whole / 4 * 3, false), "three of four steps");
        let tape = run(&mut runner, &scenario, "ABBA", 1, tape);
        assert_eq!((tape.position, tape.is_torn()), (whole / 4, false));
        let server = &runner.emulators(1)[0];
        let held = |key| server.get(key);
        assert_eq!([held("k"), held("l")], [Some("b".into()), Some("a".into())]);
    }

    #[test]
    fn another_request_tears_it() {
        let mut runner = Runner::new();
        let tape = run(&mut runner, &sets(["a", "b"]), "AABB", 0, Tape::default());
        let tape = run(&mut runner, &sets(["c", "b"]), "AABB", 3, tape);
        assert!(tape.is_torn());
    }
}
