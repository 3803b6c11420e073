//! Says how far a long exploration is, and how it can be made smaller. This file decides
//! nothing.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::render::printable;
use crate::scenario::Scenario;

/// The time until the first line, and from line to line: on a terminal, where a person waits, and
/// elsewhere.
const ON_TERMINAL: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];
const ELSEWHERE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(60)];
/// The number of schedules from one reading of the clock to the next.
const READ_EVERY: u64 = 16;

/// The advice for a project whose dependencies are built as `cargo test` builds them by default.
const UNOPTIMISED: &str = "\n  If dependencies are not optimised, add this to the Cargo.toml of the workspace. It is then up to 15 times as fast:\n
  [profile.dev.package.\"*\"]\n  opt-level = 3\n  debug-assertions = false\n";

/// How far an exploration is.
pub(super) struct Progress {
    scenario: String,
    /// The ways to make the exploration smaller.
    advice: String,
    /// The time until the first line, and from line to line. `None` if it prints nothing.
    intervals: Option<[Duration; 2]>,
    begun: OnceLock<Instant>,
    /// The time of the next line in milliseconds after the beginning.
    next_ms: AtomicU64,
    schedules: AtomicU64,
    /// The branches that are done, all branches, and when they began, in milliseconds.
    done: AtomicUsize,
    branches: AtomicUsize,
    branched_ms: AtomicU64,
}

impl Progress {
    /// Prints nothing.
    pub(super) fn silent(scenario: &Scenario) -> Progress {
        Progress {
            scenario: scenario.name.clone(),
            advice: advice(scenario),
            intervals: None,
            begun: OnceLock::new(),
            next_ms: AtomicU64::new(0),
            schedules: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            branches: AtomicUsize::new(0),
            branched_ms: AtomicU64::new(0),
        }
    }

    /// Prints a line from time to time, if the exploration takes long.
    pub(super) fn shown(scenario: &Scenario) -> Progress {
        let intervals = if stderr().is_terminal() { ON_TERMINAL } else { ELSEWHERE };
        let next_ms = AtomicU64::new(intervals[0].as_millis() as u64);
        Progress { intervals: Some(intervals), next_ms, ..Progress::silent(scenario) }
    }

    /// An exploration begins, perhaps once more.
    pub(super) fn begin(&self) {
        self.begun.get_or_init(now);
        self.schedules.store(0, Ordering::Relaxed);
        self.branches.store(0, Ordering::Relaxed);
    }

    /// The exploration of `branches` branches begins.
    pub(super) fn branch(&self, branches: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.branches.store(branches, Ordering::Relaxed);
        self.branched_ms.store(self.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// A branch is done.
    pub(super) fn branch_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// A schedule of `actors` actors is run.
    pub(super) fn note(&self, actors: usize) {
        let schedules = self.schedules.fetch_add(1, Ordering::Relaxed) + 1;
        let Some([first, interval]) = self.intervals.filter(|_| schedules.is_multiple_of(READ_EVERY)) else {
            return;
        };
        let elapsed = self.elapsed();
        let (elapsed_ms, due_ms) = (elapsed.as_millis() as u64, self.next_ms.load(Ordering::Relaxed));
        let next_ms = elapsed_ms + interval.as_millis() as u64;
        let order = Ordering::Relaxed;
        // One of the threads prints the line.
        if elapsed_ms >= due_ms && self.next_ms.compare_exchange(due_ms, next_ms, order, order).is_ok() {
            let is_first = due_ms == first.as_millis() as u64;
            let build = if cfg!(debug_assertions) { UNOPTIMISED } else { "" };
            let advice = if is_first { format!("\n  {}{build}", self.advice) } else { String::new() };
            // Tests hide what they print by macros.
            _ = writeln!(stderr(), "{}", printable(&(self.line(actors, elapsed) + &advice)));
        }
    }

    fn elapsed(&self) -> Duration {
        self.begun.get().map_or(Duration::ZERO, |&begun| now() - begun)
    }

    /// How far it is after this time.
    fn line(&self, actors: usize, elapsed: Duration) -> String {
        let schedules = self.schedules.load(Ordering::Relaxed);
        let rate = (schedules as f64 / elapsed.as_secs_f64().max(0.001)).round();
        let (done, branches) = (self.done.load(Ordering::Relaxed), self.branches.load(Ordering::Relaxed));
        let since = elapsed.saturating_sub(Duration::from_millis(self.branched_ms.load(Ordering::Relaxed)));
        let left = match (done, branches) {
            (_, 0) => String::new(),
            (0, _) => format!(", no part of {branches} done"),
            _ => {
                let left_s = since.as_secs_f64() * (branches - done.min(branches)) as f64 / done as f64;
                format!(", {done} of {branches} parts done, about {left_s:.0} s left")
            }
        };
        format!(
            "{}: {actors} actor{}, {schedules} schedules in {:.0} s, {rate} a second{left}",
            self.scenario,
            if actors == 1 { "" } else { "s" },
            elapsed.as_secs_f64()
        )
    }
}

/// The ways to make an exploration of the scenario smaller, the best first.
fn advice(scenario: &Scenario) -> String {
    let ways = [
        (
            scenario.is_uniform() && !scenario.is_interchangeable,
            "`Scenario::interchangeable`, if names do not matter",
        ),
        (scenario.faults.stalls > 0 && !scenario.are_replies_prompt(), "`Scenario::prompt_replies`"),
        (scenario.before.is_none(), "`Scenario::script` for each script"),
        (scenario.actors.len() > 2, "fewer actors"),
        (true, "smaller fault budgets"),
        (true, "`harness::sample` in place of `exhaustive`"),
    ];
    let ways: Vec<&str> = ways.into_iter().filter_map(|(is_open, way)| is_open.then_some(way)).collect();
    format!("To explore less: {}.", ways.join("; "))
}

#[expect(clippy::disallowed_methods, reason = "a person waits in real time, and nothing depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Faults;

    fn stalling() -> Scenario {
        Scenario::new("my\nlock").faults(Faults::none().stalls(1)).actors(3, |_| async { Ok(()) })
    }

    #[test]
    fn a_line_says_how_far_it_is() {
        let progress = Progress::silent(&stalling());
        (0..1000).for_each(|_| progress.note(3));
        let line = |secs| progress.line(3, Duration::from_secs(secs));
        assert_eq!(line(5), "my\nlock: 3 actors, 1000 schedules in 5 s, 200 a second");
        progress.branch(40);
        assert!(line(5).ends_with(", no part of 40 done"));
        (0..10).for_each(|_| progress.branch_done());
        assert!(line(5).ends_with(", 10 of 40 parts done, about 15 s left"), "{}", line(5));
    }

    #[test]
    fn advice_names_what_the_scenario_lacks() {
        let all = "To explore less: `Scenario::interchangeable`, if names do not matter; `Scenario::prompt_replies`; \
                   `Scenario::script` for each script; fewer actors; smaller fault budgets; `harness::sample` in place of `exhaustive`.";
        assert_eq!(advice(&stalling()), all);
        let small = stalling().with_actors(2).interchangeable().prompt_replies();
        let small = small.script(&redis::Script::new("return 1"));
        assert_eq!(
            advice(&small),
            "To explore less: smaller fault budgets; `harness::sample` in place of `exhaustive`."
        );
    }
}
