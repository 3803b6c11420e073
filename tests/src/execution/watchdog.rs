//! Ends executions that take too much real time: code of an actor that never lets the others run.

use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::live::Quiescence;
use crate::render::printable;

/// How often the watchdog looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time after the limit in which an execution can still end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// All runners of the process.
static WATCHED: Mutex<Vec<Weak<Watch>>> = Mutex::new(Vec::new());

/// The watch over the executions of one runner.
pub(super) struct Watch {
    quiescence: Arc<Quiescence>,
    /// The execution that runs now.
    running: Mutex<Option<Watched>>,
}

struct Watched {
    scenario: String,
    limit: Duration,
    since: Instant,
}

/// Ends the watch over an execution when it is dropped.
pub(super) struct Watching<'a>(&'a Watch);

impl Watch {
    pub(super) fn new(quiescence: Arc<Quiescence>) -> Arc<Watch> {
        let watch = Arc::new(Watch { quiescence, running: Mutex::new(None) });
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watch));
        static START: Once = Once::new();
        START.call_once(|| {
            // If the system refuses the thread, executions have no limit of real time.
            _ = thread::Builder::new().name("watchdog".into()).spawn(run);
        });
        watch
    }

    /// An execution begins.
    pub(super) fn begin(&self, scenario: &str, limit: Duration) -> Watching<'_> {
        self.quiescence.begin();
        self.set(Some(Watched { scenario: scenario.into(), limit, since: now() }));
        Watching(self)
    }

    fn set(&self, running: Option<Watched>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }

    fn look(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Watched { scenario, limit, since }) = &*running else { return };
        let taken = now().duration_since(*since);
        if taken > limit.saturating_add(GRACE) {
            let actor = self.quiescence.runs_now();
            let who = actor.map_or("a task that an actor spawned".into(), |actor| format!("actor {actor}"));
            let scenario = printable(scenario);
            eprintln!(
                "{scenario}: {who} does not come to its end: its code has run for {} seconds without an `await` that lets others run. \
                 Nothing can stop such code, so the process exits. `Scenario::limits` sets the limit.",
                taken.as_secs()
            );
            std::process::exit(101);
        }
        if taken > *limit {
            self.quiescence.expire();
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

fn run() {
    loop {
        #[expect(clippy::disallowed_methods, reason = "real time is what is limited")]
        thread::sleep(INTERVAL);
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|watch| watch.upgrade().inspect(|watch| watch.look()).is_some());
    }
}

#[expect(clippy::disallowed_methods, reason = "real time is what is limited")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_watched_until_it_ends() {
        let quiescence = Arc::new(Quiescence::default());
        let watch = Watch::new(quiescence.clone());
        let watching = watch.begin("slow", Duration::ZERO);
        watch.look();
        assert!(quiescence.is_expired());
        drop(watching);
        quiescence.begin();
        watch.look();
        assert!(!quiescence.is_expired());
    }
}
