//! The oracle for limiters.

use std::time::Duration;

use emulator::Timestamp;

use super::{Oracle, Violation, Wanted, deeds};
use crate::trace::History;

/// A thing is done at most `n` times in every window of time. Clients mark it by
/// [`Client::did`](crate::Client::did), or by a section of that name.
///
/// Times are those of the server's clock when the client's last command ran: the command that let
/// it through. It does not count when the client hears of that. A window has its first instant, and
/// not its last.
///
/// A violation: a limiter of two in a minute lets two requests through at the end of one minute.
/// Then it lets two through at the beginning of the next.
#[derive(Clone, Debug)]
pub struct Rate {
    what: &'static str,
    most: usize,
    window: Duration,
    is_fixed: bool,
}

impl Rate {
    /// The oracle for at most `most` in any window of this length, wherever it begins.
    ///
    /// # Panics
    /// The window is shorter than a millisecond.
    #[track_caller]
    pub fn of(what: &'static str, most: usize, window: Duration) -> Rate {
        assert!(window.as_millis() > 0, "a window lasts for at least a millisecond, not {window:?}");
        Rate { what, most, window, is_fixed: false }
    }

    /// Only windows that begin at a multiple of their length since the Unix epoch count. A limiter
    /// with a key for each minute has such windows.
    pub fn fixed(self) -> Rate {
        Rate { is_fixed: true, ..self }
    }

    /// Whether the later instant is in a window with the earlier one.
    fn is_near(&self, early: Timestamp, late: Timestamp) -> bool {
        let window = i64::try_from(self.window.as_millis()).unwrap_or(i64::MAX);
        match self.is_fixed {
            true => early.millis().div_euclid(window) == late.millis().div_euclid(window),
            false => late.millis() - early.millis() < window,
        }
    }
}

impl Oracle for Rate {
    fn name(&self) -> &'static str {
        "rate"
    }

    fn judges(&self, history: &History) -> bool {
        deeds(history, self.what).next().is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::Deed(self.what)
    }

    fn judges_times(&self) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let mut so_far: Vec<Timestamp> = Vec::new();
        deeds(history, self.what).find_map(|(step, _, decided)| {
            let decided = decided?;
            so_far.insert(so_far.partition_point(|&at| at <= decided), decided);
            let mut crowds = so_far.windows(self.most + 1).map(|crowd| (crowd[0], crowd[self.most]));
            crowds.find(|&(first, last)| self.is_near(first, last))?;
            let Rate { what, most, window, .. } = self;
            let (times, window) = (most + 1, window.as_millis());
            let what = format!(
                "«{what}» is done {times} times in a window of {window} ms by the server's clock, where {most} is the limit"
            );
            Some(Violation { step, what })
        })
    }
}
