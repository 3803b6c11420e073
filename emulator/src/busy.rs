//! The state of a running script that other clients can see: how long it runs, and whether it can
//! be killed.
//!
//! Other clients leave their requests here as jobs. The script's thread runs the jobs between two
//! steps of the script.
//!
//! Only scripts of clients on sockets use this. At the other front ends a script has a budget of
//! instructions, and no client gets `-BUSY`.

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

/// How long to wait for a woken task to run. If it does not run by then, only time is lost:
/// [`Busy::hand_over`] tries again.
const TASK_RUNS_WITHIN: Duration = Duration::from_millis(1);

/// The kind of program, as the errors distinguish what could end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// `EVAL` and its variants.
    Script,
    /// `FCALL` and its variants.
    Function,
}

/// The running program, as `FUNCTION STATS` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A script. `FUNCTION STATS` does not describe it.
    Script,
    /// A function.
    Function {
        /// The name that its library gives it.
        name: Bytes,
        /// All arguments of the command that called it.
        argv: Vec<Bytes>,
    },
}

/// The running program, if there is one. `J` is a job that other clients leave to the script's
/// thread.
pub struct Busy<J> {
    script: Mutex<Option<Running<J>>>,
    changed: Arc<Notify>,
}

struct Running<J> {
    program: Program,
    /// Jobs in the order in which they came.
    jobs: Vec<J>,
    began: Instant,
    /// How long the script may run until other clients get `-BUSY`.
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
    /// Registers a script that begins. Other clients get `-BUSY` when it has run for `threshold`.
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

    /// Ends the script, unless jobs are left. Returns whether it has ended.
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
    /// The job itself, if no script has run for long.
    pub fn submit(&self, job: J) -> Result<(), J> {
        match &mut *self.running() {
            Some(running) if running.is_long => {
                running.jobs.push(job);
                Ok(())
            }
            _ => Err(job),
        }
    }

    /// Takes the jobs that the script's thread has to run.
    pub fn take_jobs(&self) -> Vec<J> {
        self.running().as_mut().map(|running| std::mem::take(&mut running.jobs)).unwrap_or_default()
    }

    /// Returns a future that is ready after the next [notification](Busy::notify).
    pub fn changed(&self) -> Pin<Box<OwnedNotified>> {
        let mut changed = Box::pin(self.changed.clone().notified_owned());
        changed.as_mut().enable();
        changed
    }

    /// Wakes all tasks that wait for the engine: it is free, or a script runs so long that others
    /// get `-BUSY`.
    pub fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Called by the script from time to time, before it runs the jobs. If the script has become
    /// long, it hands over the runtime's thread.
    pub fn yield_to_clients(&self) {
        if self.becomes_long() {
            self.hand_over();
        }
    }

    /// Whether the script may go on.
    ///
    /// # Errors
    /// [`error::KILLED`], if a client has killed it.
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

    /// Lets another thread take over this thread's work for the runtime, because this thread also
    /// serves sockets.
    ///
    /// `block_in_place` starts the hand-over. It is complete when a task that waits in this
    /// thread's queue has run.
    ///
    /// The runtime may return the work to this thread: the other thread has not begun yet, and a
    /// third thread has run that task. Then all tasks that this thread wakes would wait for the end
    /// of the script. So the hand-over is repeated until a task that was woken from here runs.
    fn hand_over(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let start_task = || {
            let (ran, has_run) = mpsc::channel();
            runtime.spawn(async move { ran.send(()) });
            has_run
        };
        loop {
            let has_run = start_task();
            // An error means that the runtime has ended.
            _ = task::block_in_place(|| has_run.recv());
            if start_task().recv_timeout(TASK_RUNS_WITHIN) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        self.notify();
    }

    /// Notes that the script is about to write: from now on it cannot be killed.
    ///
    /// # Errors
    /// [`error::KILLED`], if a client has killed it.
    pub fn write(&self) -> Result<(), Error> {
        let mut running = self.running();
        let Some(running) = &mut *running else { return Ok(()) };
        if running.is_killed {
            return Err(error::KILLED);
        }
        running.has_written = true;
        Ok(())
    }

    /// The error that other clients get instead of a reply, if the script has run long enough for
    /// that.
    pub fn refusal(&self) -> Option<Error> {
        self.running().as_ref().filter(|running| running.is_long).map(Running::refusal)
    }

    /// The running function, and for how long it has run.
    ///
    /// # Errors
    /// If a script runs, which is not described.
    pub fn function(&self) -> Result<Option<(Program, Duration)>, Error> {
        match &*self.running() {
            None => Ok(None),
            Some(running) if running.kind() == ProgramKind::Script => Err(running.refusal()),
            Some(running) => Ok(Some((running.program.clone(), now().duration_since(running.began)))),
        }
    }

    /// Kills the running script or function.
    ///
    /// # Errors
    /// If nothing runs, if it is of the other kind, or if it has written.
    pub fn kill(&self, kind: ProgramKind) -> Result<(), Error> {
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
    fn kind(&self) -> ProgramKind {
        match self.program {
            Program::Script => ProgramKind::Script,
            Program::Function { .. } => ProgramKind::Function,
        }
    }

    fn refusal(&self) -> Error {
        match self.kind() {
            ProgramKind::Script => error::BUSY_SCRIPT,
            ProgramKind::Function => error::BUSY_FUNCTION,
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
    async fn tasks_that_a_long_script_wakes_run_on_another_thread() {
        const TURNS: usize = 2_000;
        for _ in 0..TURNS {
            let script = tokio::spawn(async {
                let busy = Busy::<()>::default();
                busy.begin(Program::Script, Duration::ZERO);
                busy.yield_to_clients();
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
        busy.yield_to_clients();
        busy.check().unwrap();
        assert_eq!(busy.refusal(), Some(error::BUSY_SCRIPT));
        busy.write().unwrap();
        assert_eq!(busy.kill(ProgramKind::Script), Err(error::UNKILLABLE));
        assert_eq!(busy.kill(ProgramKind::Function), Err(error::UNKILLABLE));
        assert!(busy.end());
        assert_eq!(busy.refusal(), None);
    }

    #[test]
    fn a_script_that_takes_jobs_ends_when_they_are_done() {
        let busy = Busy::default();
        assert_eq!(busy.submit("nothing runs"), Err("nothing runs"));
        busy.begin(Program::Script, Duration::ZERO);
        assert_eq!(busy.submit("not yet"), Err("not yet"));
        busy.yield_to_clients();
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
        assert_eq!(busy.kill(ProgramKind::Script), Err(error::BUSY_FUNCTION));
        assert_eq!(busy.kill(ProgramKind::Function), Ok(()));
        assert_eq!(busy.write(), Err(error::KILLED));
        assert_eq!(busy.check(), Err(error::KILLED));
    }
}
