//! The paused runtime on which the code of clients runs.

use std::sync::Arc;

use emulator::Timestamp;
use tokio::runtime::{Builder, Runtime};

use super::{Live, Quiescence, Terms};

/// A runtime whose clock moves only while all of its tasks wait for time.
pub(crate) struct PausedRuntime {
    runtime: Arc<Runtime>,
    pub(crate) quiescence: Arc<Quiescence>,
}

impl Default for PausedRuntime {
    fn default() -> PausedRuntime {
        let quiescence = Arc::new(Quiescence::default());
        PausedRuntime { runtime: build(quiescence.clone()), quiescence }
    }
}

impl PausedRuntime {
    /// The runtime. It is to be entered before clients are made, and for as long as their code can
    /// start.
    pub(crate) fn get(&self) -> Arc<Runtime> {
        self.runtime.clone()
    }

    /// Clients whose code runs here, from this time of day on.
    pub(crate) fn clients(&self, terms: Terms, start: Timestamp) -> Arc<Live> {
        Live::new(&self.runtime, self.quiescence.clone(), terms, start)
    }

    /// Ends the tasks that were aborted. Tasks of one execution must not run in the next.
    pub(crate) fn end_tasks(&mut self) {
        if self.runtime.metrics().num_alive_tasks() > 0 {
            self.runtime.block_on(tokio::task::yield_now());
        }
        if self.runtime.metrics().num_alive_tasks() > 0 {
            self.runtime = build(self.quiescence.clone());
        }
    }
}

fn build(quiescence: Arc<Quiescence>) -> Arc<Runtime> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || quiescence.on_park())
        .build();
    Arc::new(runtime.expect("a runtime without I/O needs nothing that could be missing"))
}
