//! Progress on standard error. If that is not a terminal, indicatif shows nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::check::Verdict;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::shard::{Cell, cost};
use crate::table::grouped;

/// How often a line is drawn again, so that a long cell does not seem to hang.
const REDRAWN_EVERY: Duration = Duration::from_millis(200);

/// The progress of a check.
#[derive(Clone)]
pub(crate) struct CheckProgress {
    bar: ProgressBar,
    cells: Arc<AtomicU64>,
    schedules: Arc<AtomicU64>,
}

impl CheckProgress {
    pub(crate) fn new(cells: &[Cell]) -> CheckProgress {
        let (done, schedules) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, counted, run) = (cells.len(), done.clone(), schedules.clone());
        let style = ProgressStyle::with_template("{bar:12} {percent}%, {cells}, {rate}{left}: {wide_msg}")
            .expect("a valid template")
            .with_key("cells", move |_: &ProgressState, out: &mut dyn fmt::Write| {
                _ = write!(out, "{} of {count}", counted.load(Ordering::Relaxed));
            })
            .with_key("rate", move |state: &ProgressState, out: &mut dyn fmt::Write| {
                let rate = run.load(Ordering::Relaxed) as f64 / state.elapsed().as_secs_f64().max(0.001);
                _ = write!(out, "{} schedules/s", grouped(rate as u64));
            })
            .with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
                if state.pos() > 0 {
                    _ = write!(out, ", {}s left", state.eta().as_secs());
                }
            });
        // The position counts costs, not cells, because a few cells take most of the time.
        let bar = ProgressBar::new(cells.iter().copied().map(cost).sum()).with_style(style);
        redraw(&bar);
        CheckProgress { bar, cells: done, schedules }
    }

    pub(crate) fn begin(&self, (algorithm, class): Cell) {
        self.bar.set_message(format!("{} {class}", algorithm.name));
    }

    pub(crate) fn end(&self, cell: Cell, verdicts: &[Verdict]) {
        self.cells.fetch_add(1, Ordering::Relaxed);
        self.schedules.fetch_add(verdicts.first().map_or(0, |of| of.schedules), Ordering::Relaxed);
        self.bar.inc(cost(cell));
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that says what a command does, and for how long.
pub(crate) fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}").expect("a valid template");
    let spinner = ProgressBar::new_spinner().with_style(style);
    redraw(&spinner);
    spinner
}

/// Draws a line again from time to time. If the process gets no thread for that, the line changes
/// only when there is something new.
fn redraw(bar: &ProgressBar) {
    if bar.is_hidden() {
        return;
    }
    let drawn = bar.downgrade();
    let redraw = move || {
        while let Some(bar) = drawn.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            #[expect(clippy::disallowed_methods, reason = "only the line on the terminal waits")]
            thread::sleep(REDRAWN_EVERY);
        }
    };
    _ = thread::Builder::new().name("progress".into()).spawn(redraw);
}
