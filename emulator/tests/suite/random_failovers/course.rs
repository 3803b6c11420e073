//! What clients and failovers know of each other: how many requests each client has had served,
//! and when writes may be lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A client that gets nothing for longer hangs. The machine may be busy with other tests.
const REPLY_MAX: Duration = Duration::from_secs(60);

pub struct Course {
    state: Mutex<State>,
    moved: Condvar,
    /// It is odd while acknowledged writes may be lost.
    losses: AtomicU64,
}

struct State {
    /// The requests that each client has had served.
    served: Vec<u64>,
    is_over: bool,
    report: Option<String>,
}

/// Ends the course when it is dropped, so that no client goes on after a failure.
pub struct End<'a>(pub &'a Course);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
    }
}

impl Course {
    pub fn new(clients: usize) -> Course {
        let state = State { served: vec![0; clients], is_over: false, report: None };
        Course { state: Mutex::new(state), moved: Condvar::new(), losses: AtomicU64::new(0) }
    }

    /// Waits until every client has had so many more requests served.
    ///
    /// # Errors
    /// A client hangs, or has got a wrong reply: a report.
    pub fn pause(&self, requests: u64) -> Result<(), String> {
        let state = self.state();
        let goals: Vec<u64> = state.served.iter().map(|served| served + requests).collect();
        let is_behind = |state: &mut State| {
            state.report.is_none() && state.served.iter().zip(&goals).any(|(served, goal)| served < goal)
        };
        let waited = self.moved.wait_timeout_while(state, REPLY_MAX, is_behind);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.report {
            Some(report) => Err(report.clone()),
            None if timeout.timed_out() => {
                Err(format!("a client hangs: {:?} requests of {goals:?}", state.served))
            }
            None => Ok(()),
        }
    }

    /// Does something that loses acknowledged writes.
    pub fn lose<R>(&self, act: impl FnOnce() -> R) -> R {
        self.losses.fetch_add(1, Ordering::SeqCst);
        let result = act();
        self.losses.fetch_add(1, Ordering::SeqCst);
        result
    }

    /// How often writes may have begun or ceased to be lost.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    /// Counts a request of a client.
    pub fn served(&self, client: usize, verdict: Result<(), String>) {
        let mut state = self.state();
        state.served[client] += 1;
        if let Err(report) = verdict {
            state.is_over = true;
            state.report.get_or_insert(report);
        }
        drop(state);
        self.moved.notify_all();
    }

    pub fn goes_on(&self) -> bool {
        !self.state().is_over
    }

    /// # Errors
    /// The first wrong reply: a report.
    pub fn report(&self) -> Result<(), String> {
        self.state().report.clone().map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
