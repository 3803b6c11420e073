//! How the time of one clock follows from its timeline: ahead or behind, too fast or too slow, or
//! frozen.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::timestamp::Timestamp;

/// The allowed drift, in millionths: a clock never stands still, and runs at most a thousand times
/// as fast.
pub const DRIFT_PPM: RangeInclusive<i64> = -999_999..=999_000_000;

const MILLION: i128 = 1_000_000;

/// A clock's time as a function of its timeline's. The default shows the timeline's own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Since when the clock drifts.
    drifts_since: Timestamp,
    /// How far it was ahead at that time.
    ahead_micros: i64,
    drift_ppm: i64,
    wobble: Wobble,
    /// The instant of the timeline at which it was frozen.
    frozen_at: Option<Timestamp>,
}

/// An error that grows and shrinks in turn, linearly, like that of a clock that is corrected again
/// and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wobble {
    since: Timestamp,
    amplitude_micros: i64,
    /// Zero: no wobble.
    period_micros: i64,
}

impl View {
    /// The time that the clock shows at an instant of the timeline.
    pub fn at(&self, instant: Timestamp) -> Timestamp {
        let instant = self.frozen_at.unwrap_or(instant);
        narrow(i128::from(self.steady(instant).0) + self.wobble.at(instant))
    }

    /// Returns the first instant of the timeline after `now` at which the clock may show `time`.
    /// `None` if the clock is frozen.
    pub fn may_show(&self, time: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if self.frozen_at.is_some() {
            return None;
        }
        let missing = i128::from(time.0) - i128::from(self.at(now).0);
        let fastest_ppm = MILLION + i128::from(self.drift_ppm) + self.wobble.steepest_ppm();
        let wait = (missing * MILLION + fastest_ppm - 1) / fastest_ppm;
        Some(narrow(i128::from(now.0) + wait.max(1)))
    }

    /// Moves the clock.
    pub fn jump(&mut self, by_micros: i64) {
        self.ahead_micros = self.ahead_micros.saturating_add(by_micros);
    }

    /// Lets the clock run too fast by `ppm` millionths from `now` on.
    pub fn drift(&mut self, ppm: i64, now: Timestamp) {
        let now = self.frozen_at.unwrap_or(now);
        self.ahead_micros = self.steady(now).0.saturating_sub(now.0);
        self.drifts_since = now;
        self.drift_ppm = ppm.clamp(*DRIFT_PPM.start(), *DRIFT_PPM.end());
    }

    /// Lets the clock be ahead and behind in turn from `now` on, by at most `amplitude`.
    pub fn wobble(&mut self, amplitude: Duration, period: Duration, now: Timestamp) {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let (amplitude_micros, period_micros) = (micros(amplitude), micros(period));
        self.wobble = Wobble { since: self.frozen_at.unwrap_or(now), amplitude_micros, period_micros };
    }

    /// Stops the clock.
    pub fn freeze(&mut self, now: Timestamp) {
        self.frozen_at.get_or_insert(now);
    }

    /// Lets the clock continue from the time that it shows.
    pub fn run(&mut self, now: Timestamp) {
        let Some(since) = self.frozen_at.take() else { return };
        let stood = now.0.saturating_sub(since.0);
        let later = |instant: Timestamp| Timestamp(instant.0.saturating_add(stood));
        self.jump(stood.saturating_neg());
        self.drifts_since = later(self.drifts_since);
        self.wobble.since = later(self.wobble.since);
    }

    /// The time that the clock shows without the wobble.
    fn steady(&self, instant: Timestamp) -> Timestamp {
        // A shortcut, because every command reads the clock and a 128-bit division is slow.
        if self.drift_ppm == 0 {
            return Timestamp(instant.0.saturating_add(self.ahead_micros));
        }
        let drifted = i128::from(instant.0) - i128::from(self.drifts_since.0);
        let error = (drifted * i128::from(self.drift_ppm)).div_euclid(MILLION);
        narrow(i128::from(instant.0) + i128::from(self.ahead_micros) + error)
    }
}

impl Wobble {
    fn at(&self, instant: Timestamp) -> i128 {
        let (amplitude, period) = (i128::from(self.amplitude_micros), i128::from(self.period_micros));
        if period == 0 {
            return 0;
        }
        // The error rises in the first quarter, falls in the next two, and rises in the last.
        let quarters = (i128::from(instant.0) - i128::from(self.since.0)).rem_euclid(period) * 4;
        let height = if quarters < period {
            quarters
        } else if quarters < 3 * period {
            2 * period - quarters
        } else {
            quarters - 4 * period
        };
        (amplitude * height).div_euclid(period)
    }

    fn steepest_ppm(&self) -> i128 {
        if self.period_micros == 0 {
            return 0;
        }
        4 * i128::from(self.amplitude_micros) * MILLION / i128::from(self.period_micros) + 1
    }
}

fn narrow(micros: i128) -> Timestamp {
    Timestamp(micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: &View, millis: i64) -> i64 {
        view.at(Timestamp::from_millis(millis)).millis()
    }

    #[test]
    fn drift_begins_when_it_is_set_and_not_before() {
        let mut view = View::default();
        view.drift(1_000, Timestamp::from_millis(5_000));
        assert_eq!([shown(&view, 5_000), shown(&view, 6_000), shown(&view, 15_000)], [5_000, 6_001, 15_010]);
        view.drift(-1_000, Timestamp::from_millis(15_000));
        assert_eq!([shown(&view, 15_000), shown(&view, 25_000)], [15_010, 25_000]);
    }

    #[test]
    fn a_clock_that_stood_goes_on_as_before() {
        let mut view = View::default();
        view.drift(100_000, Timestamp::from_millis(0));
        view.freeze(Timestamp::from_millis(1_000));
        assert_eq!(shown(&view, 9_000), 1_100);
        view.jump(50_000);
        assert_eq!(shown(&view, 9_000), 1_150);
        view.run(Timestamp::from_millis(9_000));
        assert_eq!([shown(&view, 9_000), shown(&view, 10_000)], [1_150, 2_250]);
    }

    #[test]
    fn a_wobble_is_ahead_and_behind_in_turn() {
        let mut view = View::default();
        view.wobble(Duration::from_millis(10), Duration::from_millis(400), Timestamp::from_millis(1_000));
        let errors = [1_000, 1_050, 1_100, 1_200, 1_300, 1_400].map(|millis| shown(&view, millis) - millis);
        assert_eq!(errors, [0, 5, 10, 0, -10, 0]);
    }

    /// A sleeper that waits until `may_show` may wake too early, but never too late.
    #[test]
    fn a_time_is_never_shown_before_it_may_be() {
        for (ppm, amplitude_ms) in
            [(0, 0), (0, 90), (500_000, 20), (-500_000, 20), (-999_999, 0), (999_000_000, 0)]
        {
            let mut view = View::default();
            view.drift(ppm, Timestamp::from_millis(0));
            view.wobble(
                Duration::from_millis(amplitude_ms),
                Duration::from_millis(400),
                Timestamp::from_millis(0),
            );
            for now in (0..2_000).step_by(37).map(Timestamp::from_millis) {
                let time = view.at(now) + Duration::from_millis(250);
                let instant = view.may_show(time, now).unwrap();
                assert!(view.at(Timestamp(instant.0 - 1)) < time, "{ppm} ppm, {amplitude_ms} ms, at {now:?}");
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut view = View::default();
        let (first, last) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
        view.drift(i64::MAX, first);
        view.jump(i64::MAX);
        view.wobble(Duration::MAX, Duration::MAX, last);
        assert_eq!(view.at(last), last);
        view.freeze(first);
        view.run(last);
        view.drift(i64::MIN, last);
        view.jump(i64::MIN);
        _ = view.may_show(last, first);
        _ = view.at(first);
    }
}
