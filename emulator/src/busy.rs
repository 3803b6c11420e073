//! The script that runs, as those see it who cannot get at the engine meanwhile: since when, and whether it can be killed. What
//! they want of the engine they leave here, and the script's thread does it in between.
//!
//! Scripts of clients at sockets alone: at the other doors a script has a budget of instructions, and nobody is told anything.

use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::task;

use crate::error::{self, Error};

/// A task that is woken runs so soon, most often: if it does not, nothing is lost but time.
const TASK_RUNS_WITHIN: Duration = Duration::from_millis(1);

/// What runs, as the errors call what could end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `EVAL` and its kind.
    Script,
    /// `FCALL` and its kind.
    Function,
}

/// What runs, as `FUNCTION STATS` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Nothing is told of it.
    Script,
    /// Its name, and the command that called it.
    Function {
        /// As its library has it.
        name: Bytes,
        /// All arguments.
        argv: Vec<Bytes>,
    },
}

/// What runs now, if anything does; `J` is what others may leave to be done meanwhile.
pub struct Busy<J> {
    script: Mutex<Option<Running<J>>>,
    changed: Arc<Notify>,
}

struct Running<J> {
    program: Program,
    /// In the order in which they came.
    jobs: Vec<J>,
    began: Instant,
    /// How long it may take until others are told.
    threshold: Duration,
    is_long: bool,
    has_written: bool,
    is_killed: bool,
}

impl<J> Default for Busy<J> {
    fn default() -> Busy<J> {
        Busy { script: Mutex::default(), changed: Arc::default() }
    }
}

impl<J> Busy<J> {
    /// A script begins; others are told of it once it has taken this long.
    pub fn begin(&self, program: Program, threshold: Duration) {
        *self.running() = Some(Running {
            program,
            jobs: Vec::new(),
            began: now(),
            threshold,
            is_long: false,
            has_written: false,
            is_killed: false,
        });
    }

    /// It has ended, unless there are jobs that nobody has taken: says whether it has.
    pub fn end(&self) -> bool {
        let mut running = self.running();
        if running.as_ref().is_some_and(|running| !running.jobs.is_empty()) {
            return false;
        }
        *running = None;
        true
    }

    /// Leaves a job to the script's thread.
    ///
    /// # Errors
    /// The job, if no script has run long.
    pub fn submit(&self, job: J) -> Result<(), J> {
        match &mut *self.running() {
            Some(running) if running.is_long => {
                running.jobs.push(job);
                Ok(())
            }
            _ => Err(job),
        }
    }

    /// What the script's thread has to do.
    pub fn take_jobs(&self) -> Vec<J> {
        self.running().as_mut().map(|running| std::mem::take(&mut running.jobs)).unwrap_or_default()
    }

    /// Ready once somebody has [notified](Busy::notify).
    pub fn changed(&self) -> Pin<Box<OwnedNotified>> {
        let mut changed = Box::pin(self.changed.clone().notified_owned());
        changed.as_mut().enable();
        changed
    }

    /// Wakes all who wait for the engine: it is free, or a script runs so long that others are told.
    pub fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// The script looks up, now and then, before it does what others have left for it.
    pub fn look_up(&self) {
        if self.becomes_long() {
            self.hand_over();
        }
    }

    /// Whether the script may go on.
    ///
    /// # Errors
    /// Somebody has killed it.
    pub fn check(&self) -> Result<(), Error> {
        let is_killed = self.running().as_ref().is_some_and(|running| running.is_killed);
        if is_killed { Err(error::KILLED) } else { Ok(()) }
    }

    fn becomes_long(&self) -> bool {
        let mut running = self.running();
        let Some(running) = &mut *running else { return false };
        let becomes = !running.is_long && now().duration_since(running.began) >= running.threshold;
        running.is_long |= becomes;
        becomes
    }

    /// The script's thread looks after the sockets, too. Another takes over what it has to do, and has done so once a task that
    /// waits there has run.
    ///
    /// The runtime gives it back to this thread if the other has not begun by then, and that task was run by a third. Then what
    /// this thread wakes would wait for the end of the script: so it is tried again until a task that is woken from here runs.
    fn hand_over(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let start_task = || {
            let (ran, has_run) = mpsc::channel();
            runtime.spawn(async move { ran.send(()) });
            has_run
        };
        loop {
            let has_run = start_task();
            // An error is the end of the runtime.
            _ = task::block_in_place(|| has_run.recv());
            if start_task().recv_timeout(TASK_RUNS_WITHIN) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        self.notify();
    }

    /// The script is about to write: from now on nobody can kill it.
    ///
    /// # Errors
    /// Somebody has.
    pub fn write(&self) -> Result<(), Error> {
        let mut running = self.running();
        let Some(running) = &mut *running else { return Ok(()) };
        if running.is_killed {
            return Err(error::KILLED);
        }
        running.has_written = true;
        Ok(())
    }

    /// What others are told instead of a reply, while a script runs so long that they are told anything.
    pub fn refusal(&self) -> Option<Error> {
        self.running().as_ref().filter(|running| running.is_long).map(Running::refusal)
    }

    /// The function that runs, and since when.
    ///
    /// # Errors
    /// A script runs: nothing can be told of that.
    pub fn function(&self) -> Result<Option<(Program, Duration)>, Error> {
        match &*self.running() {
            None => Ok(None),
            Some(running) if running.kind() == Kind::Script => Err(running.refusal()),
            Some(running) => Ok(Some((running.program.clone(), now().duration_since(running.began)))),
        }
    }

    /// Ends the script that runs.
    ///
    /// # Errors
    /// There is none, it is of the other kind, or it has written.
    pub fn kill(&self, kind: Kind) -> Result<(), Error> {
        match &mut *self.running() {
            None => Err(error::NOT_BUSY),
            Some(running) if running.has_written => Err(error::UNKILLABLE),
            Some(running) if running.kind() != kind => Err(running.refusal()),
            Some(running) => {
                running.is_killed = true;
                Ok(())
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running<J>>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Running<J> {
    fn kind(&self) -> Kind {
        match self.program {
            Program::Script => Kind::Script,
            Program::Function { .. } => Kind::Function,
        }
    }

    fn refusal(&self) -> Error {
        match self.kind() {
            Kind::Script => error::BUSY_SCRIPT,
            Kind::Function => error::BUSY_FUNCTION,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a script really takes, which no clock of a test's own can tell"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_long_script_wakes_runs_on_another_thread() {
        const TURNS: usize = 2_000;
        for _ in 0..TURNS {
            let script = tokio::spawn(async {
                let busy = Busy::<()>::default();
                busy.begin(Program::Script, Duration::ZERO);
                busy.look_up();
                let (ran, has_run) = mpsc::channel();
                tokio::spawn(async move { ran.send(()) });
                has_run.recv_timeout(Duration::from_secs(10))
            });
            script.await.unwrap().expect("it has run while the script goes on");
        }
    }

    #[test]
    fn a_script_that_has_written_cannot_be_killed() {
        let busy = Busy::<()>::default();
        assert_eq!(busy.refusal(), None);
        busy.begin(Program::Script, Duration::ZERO);
        assert_eq!(busy.refusal(), None, "it has not looked up yet");
        busy.look_up();
        busy.check().unwrap();
        assert_eq!(busy.refusal(), Some(error::BUSY_SCRIPT));
        busy.write().unwrap();
        assert_eq!(busy.kill(Kind::Script), Err(error::UNKILLABLE));
        assert_eq!(busy.kill(Kind::Function), Err(error::UNKILLABLE));
        assert!(busy.end());
        assert_eq!(busy.refusal(), None);
    }

    #[test]
    fn a_script_that_takes_jobs_ends_when_they_are_done() {
        let busy = Busy::default();
        assert_eq!(busy.submit("nothing runs"), Err("nothing runs"));
        busy.begin(Program::Script, Duration::ZERO);
        assert_eq!(busy.submit("not yet"), Err("not yet"));
        busy.look_up();
        assert_eq!([busy.submit("a"), busy.submit("b")], [Ok(()), Ok(())]);
        assert!(!busy.end());
        assert_eq!(busy.take_jobs(), ["a", "b"]);
        assert!(busy.end());
    }

    #[test]
    fn a_script_that_is_killed_writes_no_more() {
        let busy = Busy::<()>::default();
        let (name, argv) = (Bytes::from("f"), Vec::new());
        busy.begin(Program::Function { name, argv }, Duration::ZERO);
        assert!(matches!(busy.function(), Ok(Some((Program::Function { .. }, _)))));
        assert_eq!(busy.kill(Kind::Script), Err(error::BUSY_FUNCTION));
        assert_eq!(busy.kill(Kind::Function), Ok(()));
        assert_eq!(busy.write(), Err(error::KILLED));
        assert_eq!(busy.check(), Err(error::KILLED));
    }
}
