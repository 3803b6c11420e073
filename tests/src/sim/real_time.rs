//! Keeps a real server's time in step with the schedule's: a later step of the schedule comes as
//! much later in real time.

use std::time::{Duration, Instant};

use emulator::Timestamp;

use super::START;
use super::server::connect;

/// Longest real wait for one step. An execution may move its own time on by a day when nothing else
/// can happen.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often a wait looks whether it is to end.
const INTERVAL: Duration = Duration::from_millis(50);

/// Real time since the start of an execution.
pub(crate) struct RealTime {
    started: Instant,
    /// The time of the server's clock at the start.
    pub(crate) started_at: Timestamp,
}

impl RealTime {
    /// Starts at the server's time, by `TIME`. If the server does not answer, nothing else will
    /// succeed.
    pub(crate) fn start(client: &redis::Client) -> RealTime {
        let time = connect(client).and_then(|mut connection| redis::cmd("TIME").query(&mut connection));
        let started_at = time.map_or(START, |(seconds, micros): (i64, i64)| {
            Timestamp::from_millis(seconds * 1000 + micros / 1000)
        });
        RealTime { started: now(), started_at }
    }

    /// Waits until this much real time has passed, or until the wait is to end.
    pub(crate) fn wait_until(&self, at: Duration, is_over: impl Fn() -> bool) {
        let until = at.min(now() - self.started + WAIT_MAX);
        while let Some(left) = until.checked_sub(now() - self.started).filter(|_| !is_over()) {
            #[expect(clippy::disallowed_methods, reason = "a real server's time passes by itself alone")]
            std::thread::sleep(left.min(INTERVAL));
        }
    }

    /// How much more real time has passed than this.
    pub(crate) fn late(&self, at: Duration) -> Duration {
        (now() - self.started).saturating_sub(at)
    }
}

#[expect(clippy::disallowed_methods, reason = "real time is what a real server goes by")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use emulator::{Clock, Emulator};

    use super::*;

    const SPAN: Duration = Duration::from_millis(1_234);

    #[test]
    fn real_time_begins_with_the_servers_clock() {
        let clock = Clock::manual();
        clock.advance(SPAN);
        let emulator = Emulator::with_clock(clock);
        let client = redis::Client::open(emulator.url()).unwrap();
        assert_eq!(RealTime::start(&client).started_at, Timestamp::EPOCH + SPAN);
    }

    #[test]
    fn a_wait_lasts_until_its_time_or_until_it_is_over() {
        let real_time = RealTime { started: now(), started_at: START };
        let span = Duration::from_millis(20);
        real_time.wait_until(span, || false);
        assert!(real_time.late(Duration::ZERO) >= span);
        real_time.wait_until(Duration::MAX, || true);
        assert!(real_time.late(Duration::MAX).is_zero());
    }
}
