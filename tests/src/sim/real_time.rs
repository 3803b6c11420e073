//! Keeps a real server's time and the schedule's together: what is later in the schedule comes as much later in reality.

use std::time::{Duration, Instant};

use emulator::Timestamp;
use redis::RedisResult;

/// Longest real wait for one step: an execution that moves its own time on by a day, for want of anything else to do, has shown
/// by then that nothing comes.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Real time, since the start of an execution.
pub(crate) struct RealTime {
    started: Instant,
    /// What the server's clock showed then.
    pub(crate) started_at: Timestamp,
}

impl RealTime {
    /// Asks the server for the time.
    pub(crate) fn start(client: &redis::Client) -> RedisResult<RealTime> {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(&mut client.get_connection()?)?;
        Ok(RealTime { started: now(), started_at: Timestamp::from_millis(seconds * 1000 + micros / 1000) })
    }

    /// Waits until as much real time has passed.
    pub(crate) fn wait_until(&self, at: Duration) {
        #[expect(clippy::disallowed_methods, reason = "a real server's time passes by itself alone")]
        std::thread::sleep(at.saturating_sub(now() - self.started).min(WAIT_MAX));
    }

    /// How much more real time has passed.
    pub(crate) fn late(&self, at: Duration) -> Duration {
        (now() - self.started).saturating_sub(at)
    }
}

#[expect(clippy::disallowed_methods, reason = "real time is what a real server goes by")]
fn now() -> Instant {
    Instant::now()
}
