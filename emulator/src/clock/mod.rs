//! The one source of time: TTLs, `TIME`, waits and time inside scripts read a [`Clock`], and
//! nothing else.

mod timestamp;
mod view;

use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub use timestamp::Timestamp;
pub use view::DRIFT_PPM;
use view::View;

/// A clock that a server reads: one view of a timeline.
///
/// A view may be ahead, behind, too fast, too slow or frozen. Clones share their view.
///
/// ```
/// use std::time::Duration;
/// use emulator::{Clock, Emulator};
///
/// let time = Clock::manual();
/// let servers = [time.clone(), time.skewed(-500), time.drifting(200)].map(Emulator::with_clock);
/// time.advance(Duration::from_secs(10)); // for all three; by its own clock, 10.002 s have passed for the third
/// # _ = servers;
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    timeline: Timeline,
    shared: Arc<Shared>,
}

/// The clock of the machine.
impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

#[derive(Clone, Debug)]
enum Timeline {
    System,
    Manual(Arc<Manual>),
    Tokio(tokio::time::Instant),
}

#[derive(Debug)]
struct Manual {
    micros: AtomicI64,
    moved: Notify,
}

/// The state that clones share.
#[derive(Debug, Default)]
struct Shared {
    view: Mutex<View>,
    changed: Notify,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        Clock::of(Timeline::System)
    }

    /// A clock that starts at [`Timestamp::EPOCH`] and moves only when a caller moves it.
    pub fn manual() -> Clock {
        let micros = AtomicI64::new(Timestamp::EPOCH.micros());
        Clock::of(Timeline::Manual(Arc::new(Manual { micros, moved: Notify::new() })))
    }

    /// A clock that follows tokio's clock, from [`Timestamp::EPOCH`] on.
    ///
    /// Under `#[tokio::test(start_paused = true)]` it moves only by `tokio::time::advance` and by
    /// auto-advance: when all tasks wait, tokio moves its clock to the next timer.
    ///
    /// Then serve clients on this runtime, as every front end of [`Emulator`] does that is used
    /// inside it. While a server elsewhere prepares its reply, all tasks of the runtime wait. So
    /// tokio moves its clock to the client's timeout.
    ///
    /// [`Emulator`]: crate::Emulator
    #[expect(clippy::disallowed_methods, reason = "this is the place where tokio's time comes in")]
    pub fn tokio() -> Clock {
        Clock::of(Timeline::Tokio(tokio::time::Instant::now()))
    }

    fn of(timeline: Timeline) -> Clock {
        Clock { timeline, shared: Arc::default() }
    }

    /// Creates another view of the same timeline, which starts with the time of this one. A change
    /// of one view does not change the other.
    pub fn view(&self) -> Clock {
        let clock = Clock::of(self.timeline.clone());
        clock.follow(self);
        clock
    }

    /// Creates another view that is ahead of this one by `offset_ms`, or behind if that is
    /// negative.
    pub fn skewed(&self, offset_ms: i64) -> Clock {
        let clock = self.view();
        clock.jump(offset_ms);
        clock
    }

    /// Creates another view that runs too fast by `ppm` millionths, or too slow if that is
    /// negative.
    pub fn drifting(&self, ppm: i64) -> Clock {
        let clock = self.view();
        clock.drift(ppm);
        clock
    }

    /// Creates another view that is ahead of this one and behind it in turn, by at most
    /// `amplitude`. It is right twice in each `period`.
    pub fn wobbling(&self, amplitude: Duration, period: Duration) -> Clock {
        let clock = self.view();
        clock.wobble(amplitude, period);
        clock
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        let now = self.timeline.now();
        self.lock().at(now)
    }

    /// Whether this is the machine's clock, which moves by itself and which no test moves.
    pub(crate) fn is_machines(&self) -> bool {
        matches!(self.timeline, Timeline::System)
    }

    /// Whether this is tokio's clock, and the current runtime has paused or moved it. Then only
    /// tasks of this runtime see its time: on any other thread, tokio's clock is the machine's.
    #[expect(clippy::disallowed_methods, reason = "tokio's time, beside the machine's")]
    pub(crate) fn is_of_this_runtime(&self) -> bool {
        let Timeline::Tokio(_) = self.timeline else { return false };
        let before = std::time::Instant::now();
        let shown = tokio::time::Instant::now().into_std();
        shown < before || std::time::Instant::now() < shown
    }

    /// Returns how long it takes until the clock shows this time, if the clock is not changed.
    /// `None` if the clock is frozen.
    ///
    /// If the clock wobbles, the result may be a little too short.
    pub fn shows_in(&self, time: Timestamp) -> Option<Duration> {
        let now = self.timeline.now();
        let view = self.current();
        if view.at(now) >= time { Some(Duration::ZERO) } else { Some(view.may_show(time, now)?.since(now)) }
    }

    /// Waits until the clock shows this time, however the clock is moved meanwhile.
    ///
    /// The system's clock and tokio's need a tokio runtime with time for this. On a manual clock
    /// the wait ends only if a caller moves it, and on a frozen clock only if a caller lets it run.
    pub async fn sleep_until(&self, time: Timestamp) {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let (now, view) = (self.timeline.now(), self.current());
            if view.at(now) >= time {
                return;
            }
            let due = async {
                match view.may_show(time, now) {
                    Some(instant) => self.timeline.sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = due => {}
            }
        }
    }

    /// Moves a manual timeline forward, for all its views.
    ///
    /// # Panics
    /// If the timeline is the system's or tokio's, which cannot be moved. [`Clock::jump`] moves one
    /// view of them.
    pub fn advance(&self, span: Duration) {
        match &self.timeline {
            Timeline::Manual(manual) => {
                manual.micros.store((self.timeline.now() + span).micros(), Ordering::SeqCst);
                manual.moved.notify_waiters();
            }
            Timeline::System => {
                panic!(
                    "a system clock moves by itself: make the emulator with Clock::manual(), or use Clock::jump"
                )
            }
            Timeline::Tokio(_) => {
                panic!("this clock follows tokio's: use tokio::time::advance, or Clock::manual()")
            }
        }
    }

    /// Sets this view to a time, which may be earlier: an administrator may do so, too.
    pub fn set(&self, time: Timestamp) {
        self.change(|view, now| view.jump(time.micros().saturating_sub(view.at(now).micros())));
    }

    /// Moves this view by so many milliseconds, which may be negative.
    pub fn jump(&self, by_ms: i64) {
        self.change(|view, _| view.jump(by_ms.saturating_mul(1000)));
    }

    /// Lets this view run too fast by `ppm` millionths from now on, or too slow if that is
    /// negative. The value is clamped to [`DRIFT_PPM`].
    pub fn drift(&self, ppm: i64) {
        self.change(|view, now| view.drift(ppm, now));
    }

    /// Lets this view be ahead and behind in turn from now on, by at most `amplitude`. It is right
    /// twice in each `period`.
    pub fn wobble(&self, amplitude: Duration, period: Duration) {
        self.change(|view, now| view.wobble(amplitude, period, now));
    }

    /// Stops this view until [`run`](Clock::run). [`Clock::set`] and [`Clock::jump`] still move it.
    pub fn freeze(&self) {
        self.change(View::freeze);
    }

    /// Lets a frozen view continue from the time that it shows.
    pub fn run(&self) {
        self.change(View::run);
    }

    /// Lets this view show what another view of the same timeline shows.
    pub fn follow(&self, other: &Clock) {
        let other = other.current();
        self.change(|view, _| *view = other);
    }

    fn current(&self) -> View {
        *self.lock()
    }

    fn change(&self, change: impl FnOnce(&mut View, Timestamp)) {
        change(&mut self.lock(), self.timeline.now());
        self.shared.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.shared.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timeline {
    #[expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]
    fn now(&self) -> Timestamp {
        match self {
            Timeline::System => {
                let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                Timestamp::default() + since_epoch.unwrap_or_default()
            }
            Timeline::Manual(manual) => Timestamp(manual.micros.load(Ordering::SeqCst)),
            Timeline::Tokio(start) => Timestamp::EPOCH + tokio::time::Instant::now().duration_since(*start),
        }
    }

    /// Waits until the instant, or a little less: the machine's clock may be set during the wait.
    async fn sleep_until(&self, instant: Timestamp) {
        match self {
            Timeline::Manual(manual) => loop {
                let mut moved = pin!(manual.moved.notified());
                moved.as_mut().enable();
                if self.now() >= instant {
                    return;
                }
                moved.await;
            },
            Timeline::System | Timeline::Tokio(_) => tokio::time::sleep(instant.since(self.now())).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Timestamp::EPOCH);
        clock.clone().advance(Duration::from_millis(5));
        assert_eq!(clock.now().millis(), 1_700_000_000_005);
        clock.set(Timestamp::from_millis(7));
        assert_eq!(clock.now().micros(), 7_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tokio_clock_follows_advance_and_auto_advance() {
        let clock = Clock::tokio();
        tokio::time::advance(Duration::from_millis(5)).await;
        assert_eq!(clock.now().since(Timestamp::EPOCH), Duration::from_millis(5));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(clock.now().since(Timestamp::EPOCH) >= Duration::from_secs(60));
    }

    #[test]
    fn views_of_one_timeline_differ() {
        let time = Clock::manual();
        let (late, fast) = (time.skewed(-5), time.drifting(1_000));
        let frozen = time.view();
        frozen.freeze();
        time.advance(Duration::from_secs(10));
        let shown =
            [&time, &late, &fast, &frozen].map(|clock| clock.now().since(Timestamp::EPOCH).as_millis());
        assert_eq!(shown, [10_000, 9_995, 10_010, 0]);
        frozen.run();
        late.set(Timestamp::EPOCH);
        fast.advance(Duration::from_secs(1));
        let shown =
            [&time, &late, &fast, &frozen].map(|clock| clock.now().since(Timestamp::EPOCH).as_millis());
        assert_eq!(shown, [11_000, 1_000, 11_011, 1_000]);
    }

    #[test]
    fn a_clock_is_of_its_runtime_only_while_it_differs_from_the_machines() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("it starts").block_on(async {
            let clock = Clock::tokio();
            assert!(!clock.is_of_this_runtime());
            tokio::time::pause();
            assert!(clock.is_of_this_runtime());
            assert!(![Clock::system(), Clock::manual()].iter().any(Clock::is_of_this_runtime));
            tokio::time::advance(Duration::from_secs(60)).await;
            tokio::time::resume();
            assert!(clock.is_of_this_runtime(), "it is a minute ahead");
            assert!(!std::thread::spawn(move || clock.is_of_this_runtime()).join().expect("it ends"));
        });
    }

    async fn slept(clock: &Clock, millis: u64) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "tokio's own time, to compare with")]
        let start = tokio::time::Instant::now();
        clock.sleep_until(clock.now() + Duration::from_millis(millis)).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn sleep_is_as_long_as_the_view_says() {
        let time = Clock::tokio();
        assert_eq!(slept(&time, 1_000).await, Duration::from_millis(1_000));
        assert_eq!(slept(&time.skewed(-77), 1_000).await, Duration::from_millis(1_000));
        assert_eq!(slept(&time.drifting(1_000_000), 1_000).await, Duration::from_millis(500));
        assert_eq!(slept(&time.drifting(-500_000), 1_000).await, Duration::from_millis(2_000));
        let wobbling = time.wobbling(Duration::from_millis(100), Duration::from_secs(4));
        let took = slept(&wobbling, 1_000).await;
        assert!((909..=912).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeping_task_wakes_when_the_view_changes() {
        let clock = Clock::tokio();
        clock.freeze();
        let (sleeper, time) = (clock.clone(), clock.now() + Duration::from_secs(3_600));
        let mut sleeping = tokio::spawn(async move { sleeper.sleep_until(time).await });
        let is_asleep = async |sleeping: &mut tokio::task::JoinHandle<()>| {
            tokio::time::timeout(Duration::from_secs(10_000), sleeping).await.is_err()
        };
        assert!(is_asleep(&mut sleeping).await, "a frozen clock never comes there");
        clock.jump(3_599_999);
        assert!(is_asleep(&mut sleeping).await, "one millisecond is missing");
        clock.run();
        assert!(!is_asleep(&mut sleeping).await, "it went on");
    }
}
