//! Finds the spans of time that the code of clients and scripts distinguishes by itself, such as
//! "older than 8 seconds". No server knows them: no key expires then.

use std::time::Duration;

use super::{Choice, Executed, Mode, Policy, Runner};
use crate::actor::Actor;
use crate::fault::Faults;
use crate::render::without_numbers;
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::sim::{GRACE, Recording};
use crate::trace::{EventKind, History};

/// The unit of all instants.
const TICK: Duration = Duration::from_millis(1);
/// Most steps of a client before time moves.
const STEPS_BEFORE_MAX: usize = 12;
/// Most steps after time has moved. A client that polls for ever ends here.
const STEPS_AFTER_MAX: usize = 60;
/// About how many spans are tried between two known instants, over all places together. Two
/// thresholds there that cancel each other out are found if one of these spans lies between them.
const CUTS: usize = 256;
/// The least and the greatest number of them at one place.
const PARTS_MIN: usize = 4;
const PARTS_MAX: usize = 64;
/// Most thresholds of a scenario.
const THRESHOLDS_MAX: usize = 8;

/// A place in an execution: `first` takes some steps, then `second` does. Then time moves, `second`
/// runs to its end, and then `first` does.
#[derive(Clone, Copy, Debug)]
struct Position {
    first: (Actor, usize),
    second: (Actor, usize),
}

/// Cuts a span at `parts` instants at equal distances. At each place, `shift` moves the cuts by
/// another share of that distance: code that distinguishes spans often runs after several places.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    parts: u32,
    shift: f64,
}

/// Multiples of it, without their whole parts, are spread evenly.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;

impl Cuts {
    /// The instants between these two, in order.
    fn between(self, from: Duration, to: Duration) -> impl Iterator<Item = Duration> {
        let part = (to - from).div_f64(f64::from(self.parts));
        let cuts = (0..self.parts).map(move |n| from + floor(part.mul_f64(f64::from(n) + self.shift)));
        cuts.filter(move |cut| from < *cut && *cut < to)
    }
}

/// The spans at which what clients do changes.
#[derive(Default)]
struct Changes {
    thresholds: Vec<Duration>,
    /// A timer fires there, so that `Wait` leads to it.
    timers: Vec<Duration>,
}

impl Changes {
    /// One of them after `low` and not after `high`.
    fn within(&self, low: Duration, high: Duration) -> Option<Duration> {
        self.thresholds.iter().chain(&self.timers).copied().find(|&at| low < at && at <= high)
    }
}

/// The acts of clients after time had moved.
#[derive(PartialEq, Eq)]
struct Behaviour {
    /// Commands, changes and marks, without numbers.
    acts: Vec<String>,
    /// The timers that fired while time moved: the clients that ran, and the number of events.
    timers: (Vec<Actor>, usize),
}

impl Runner {
    /// Finds the thresholds of a scenario in which time can move, unless they are known.
    pub fn learn_thresholds(&mut self, scenario: &Scenario) {
        if scenario.faults.stalls > 0 {
            self.find_thresholds(scenario);
        }
    }

    /// Runs an execution on emulators. If a client tries in vain, its code may distinguish spans at
    /// which its tries end. If any are found, the execution runs again.
    pub(crate) fn run_with_thresholds<P: Policy>(
        &mut self,
        scenario: &Scenario,
        policy: impl Fn() -> P,
        recording: Recording,
    ) -> (Executed, P) {
        let mut first = policy();
        let executed = self.run(scenario, &mut first, recording);
        if executed.retries.is_empty() || !self.find_thresholds(scenario) {
            return (executed, first);
        }
        let mut again = policy();
        (self.run(scenario, &mut again, recording), again)
    }

    /// Finds the thresholds of a scenario, unless they are known. Returns whether it found any.
    ///
    /// It lets one client take some steps, and then another. It moves time by different spans, and
    /// lets both run on. If two spans make them do different things, it bisects. A number alone is
    /// no difference, since most numbers depend on the time. Only two clients take part, and time
    /// moves once.
    pub(crate) fn find_thresholds(&mut self, scenario: &Scenario) -> bool {
        let codes = self.timers.of(scenario).codes;
        let is_known = self.timers.thresholds.get(&codes).is_some();
        if scenario.actors.is_empty() || is_known {
            return false;
        }
        let mut scenario = scenario.clone().faults(Faults::none().stalls(1));
        // A larger scenario of equal clients has the same thresholds: those of two of them.
        if let [act] = &scenario.actors[..] {
            scenario.actors.push(act.clone());
        }
        let (mut known, mut places) = (Changes::default(), Vec::new());
        for (first, second) in pairs(&self.timers.of(&scenario).codes) {
            for steps in 0..=STEPS_BEFORE_MAX {
                let before = places.len();
                for more in 0..=STEPS_BEFORE_MAX {
                    let place = Position { first: (first, steps), second: (second, more) };
                    let Some(instants) = self.instants_at(&scenario, place) else { break };
                    places.push((place, instants));
                }
                // A pair of equal clients stands for a client alone, too.
                if places.len() == before {
                    break;
                }
            }
        }
        let parts = (CUTS / places.len().max(1)).clamp(PARTS_MIN, PARTS_MAX) as u32;
        for (nth, (place, instants)) in (0..).zip(&places) {
            let cuts = Cuts { parts, shift: (f64::from(nth) * GOLDEN_RATIO).fract() };
            self.learn_at(&scenario, *place, instants, cuts, &mut known);
        }
        let mut known = known.thresholds;
        if known.len() >= THRESHOLDS_MAX {
            eprintln!(
                "{}: the code distinguishes {THRESHOLDS_MAX} spans of time or more; time moves to no others",
                scenario.name
            );
        }
        known.sort_unstable();
        let has_some = !known.is_empty();
        self.timers.thresholds.insert(&codes, known);
        has_some
    }

    /// The spans to the known instants at this place. `None` if the place cannot be reached.
    fn instants_at(&mut self, scenario: &Scenario, place: Position) -> Option<Vec<Duration>> {
        self.run_fresh(scenario, || Probe::new(place, None), Recording::Lean).1.instants
    }

    /// Adds the thresholds at this place to those that are known.
    fn learn_at(
        &mut self,
        scenario: &Scenario,
        place: Position,
        instants: &[Duration],
        cuts: Cuts,
        known: &mut Changes,
    ) {
        let horizon = 2 * scenario.lease_max() + GRACE;
        let mut edges: Vec<Duration> =
            instants.iter().copied().chain([TICK, horizon]).filter(|edge| *edge <= horizon).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut seen: Option<(Duration, Behaviour)> = None;
        for gap in edges.windows(2) {
            if gap[1] - gap[0] <= TICK {
                continue;
            }
            let low = seen.filter(|(at, _)| *at == gap[0]);
            let mut low = low.unwrap_or_else(|| (gap[0], self.behaviour(scenario, place, gap[0])));
            let high = (gap[1], self.behaviour(scenario, place, gap[1]));
            // If no client acts any more, none distinguishes anything.
            let is_over = low.1.acts.is_empty() && high.1.acts.is_empty();
            for cut in cuts.between(gap[0], gap[1]).filter(|_| !is_over) {
                let cut = (cut, self.behaviour(scenario, place, cut));
                self.bisect(scenario, place, &low, &cut, known);
                low = cut;
            }
            self.bisect(scenario, place, &low, &high, known);
            seen = Some(high);
        }
    }

    /// Adds the thresholds between two spans. Each is the first span of a new behaviour.
    fn bisect(
        &mut self,
        scenario: &Scenario,
        place: Position,
        low: &(Duration, Behaviour),
        high: &(Duration, Behaviour),
        known: &mut Changes,
    ) {
        if low.1 == high.1 || known.thresholds.len() >= THRESHOLDS_MAX {
            return;
        }
        if high.0 - low.0 <= TICK {
            let is_timer = low.1.timers != high.1.timers;
            let changes = if is_timer { &mut known.timers } else { &mut known.thresholds };
            if !changes.contains(&high.0) {
                changes.push(high.0);
            }
            return;
        }
        // Most places show a change that is known already.
        let within = known.within(low.0, high.0);
        let cuts = match within {
            Some(at) => vec![at - TICK, at],
            None => vec![low.0 + floor((high.0 - low.0) / 2)],
        };
        let mut parts = Vec::new();
        for cut in cuts {
            if low.0 < cut && cut < high.0 {
                parts.push((cut, self.behaviour(scenario, place, cut)));
            }
        }
        // At another place, the same span may be a threshold.
        let threshold = within.filter(|at| known.thresholds.contains(at));
        let is_known = |at: Duration| Some(at) == threshold;
        let mut low = low;
        for high in parts.iter().chain([high]) {
            if !(is_known(high.0) && high.0 - low.0 <= TICK) {
                self.bisect(scenario, place, low, high, known);
            }
            low = high;
        }
    }

    fn behaviour(&mut self, scenario: &Scenario, place: Position, span: Duration) -> Behaviour {
        // Most spans are new to the clients.
        let mode = self.best_mode(scenario).min(Mode::Teaching);
        let (history, probe) =
            self.run_from(mode, scenario, || Probe::new(place, Some(span)), Recording::Full);
        Behaviour::after(&history, probe.steps)
    }
}

/// Rounds down to whole ticks.
fn floor(span: Duration) -> Duration {
    Duration::from_millis(span.as_millis() as u64)
}

/// One pair of clients for each pair of codes. A client without another of its code is a pair with
/// itself.
fn pairs(codes: &[usize]) -> Vec<(Actor, Actor)> {
    let mut seen = Vec::new();
    let mut pairs = Vec::new();
    for one in 0..codes.len() {
        for other in 0..codes.len() {
            let pair = (codes[one], codes[other]);
            let is_lone = one == other && codes.iter().filter(|code| **code == codes[one]).count() == 1;
            if (one != other || is_lone) && !seen.contains(&pair) {
                seen.push(pair);
                pairs.push((Actor(one), Actor(other)));
            }
        }
    }
    pairs
}

impl Behaviour {
    /// The behaviour after `steps` steps, the last of which moved time.
    fn after(history: &History, steps: usize) -> Behaviour {
        let after = history.events.iter().filter(|event| event.step > steps);
        let acts = after.filter_map(|event| match &event.kind {
            EventKind::Command { actor, text, changed, .. } => {
                let changed: Vec<String> = changed.iter().map(ToString::to_string).collect();
                Some(format!("{actor} {text} {}", changed.join(" ")))
            }
            EventKind::Enter { actor, section, .. } => Some(format!("{actor} enters {section}")),
            EventKind::Did { actor, what, .. } => Some(format!("{actor} does {what}")),
            EventKind::Returned { call: (actor, _), what, answer } => {
                Some(format!("{actor} has {answer} of {what}"))
            }
            EventKind::Extended { actor, section, .. } => Some(format!("{actor} extends {section}")),
            EventKind::Leave { actor, section, .. } => Some(format!("{actor} leaves {section}")),
            EventKind::Ended { holder, by } => Some(format!("{by} ends {holder}")),
            EventKind::Shortened { holder, by } => Some(format!("{by} shortens {holder}")),
            EventKind::Accepted { actor, resource, .. } => Some(format!("{resource} accepts {actor}")),
            EventKind::Failed { actor, error } | EventKind::GaveUp { actor, error } => {
                Some(format!("{actor} fails {error}"))
            }
            _ => None,
        });
        let moving = steps.checked_sub(1).and_then(|step| history.footprints.get(step));
        let meanwhile = history.events.iter().filter(|event| event.step == steps).count();
        Behaviour {
            acts: acts.map(|act| without_numbers(&act)).collect(),
            timers: (moving.into_iter().flat_map(|footprint| footprint.clients()).collect(), meanwhile),
        }
    }
}

/// Takes the steps of one place, moves time, and lets both clients run on.
struct Probe {
    place: Position,
    /// `None` to see the known instants.
    span: Option<Duration>,
    instants: Option<Vec<Duration>>,
    /// The number of steps up to the one that moves time; zero before it.
    steps: usize,
}

impl Probe {
    fn new(place: Position, span: Option<Duration>) -> Probe {
        Probe { place, span, instants: None, steps: 0 }
    }
}

impl Policy for Probe {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let of = |actor: Actor| {
            let starts = enabled.iter().position(|step| *step == Step::Start(actor));
            let is_turn = |step: &Step| match *step {
                Step::Run(other, _) | Step::Receive(other, _) | Step::Late(other, _) => other == actor,
                _ => false,
            };
            starts.or_else(|| enabled.iter().position(is_turn))
        };
        let Position { first, second } = &mut self.place;
        for (actor, left) in [&mut *first, &mut *second] {
            if *left > 0 {
                *left -= 1;
                return of(*actor).map_or(Choice::Abort, Choice::Take);
            }
        }
        if self.steps == 0 {
            let spans = enabled.iter().filter_map(|step| match step {
                Step::Advance(span) => Some(*span),
                _ => None,
            });
            self.instants = Some(spans.collect());
            self.steps = history.steps.len() + 1;
            return self.span.map_or(Choice::Abort, |span| Choice::Move(Step::Advance(span)));
        }
        if history.steps.len() > self.steps + STEPS_AFTER_MAX {
            return Choice::Abort;
        }
        of(second.0).or_else(|| of(first.0)).map_or(Choice::Abort, Choice::Take)
    }

    /// If a place is behind a wait, it is not reached.
    fn lets_time_pass(&mut self, _: &History) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::linearizability::Call;
    use crate::trace::{Event, LeftBy};

    #[test]
    fn cuts_lie_within_a_span_and_not_at_its_ends() {
        let ms = Duration::from_millis;
        let cuts = |parts, shift, to: u64| {
            let cuts = Cuts { parts, shift }.between(ms(10), ms(to));
            cuts.map(|cut| cut.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(cuts(4, 0.0, 18), [12, 14, 16]);
        assert_eq!(cuts(4, 0.5, 18), [11, 13, 15, 17]);
        assert_eq!(cuts(2, 1.0, 18), [14]);
        assert_eq!(cuts(2, 0.9, 11), []);
    }

    #[test]
    fn a_change_is_known_after_one_span_and_up_to_another() {
        let ms = Duration::from_millis;
        let known = Changes { thresholds: vec![ms(5)], timers: vec![ms(9)] };
        let within = |low, high| known.within(ms(low), ms(high));
        assert_eq!([within(4, 5), within(5, 9)], [Some(ms(5)), Some(ms(9))]);
        assert_eq!([within(5, 8), within(9, 20)], [None, None]);
    }

    #[test]
    fn one_pair_for_each_pair_of_codes() {
        let pair = |one, other| (Actor(one), Actor(other));
        assert_eq!(pairs(&[7]), [pair(0, 0)]);
        assert_eq!(pairs(&[7, 7, 7]), [pair(0, 1)]);
        assert_eq!(pairs(&[7, 8]), [pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1)]);
        assert_eq!(pairs(&[7, 7, 8]), [pair(0, 1), pair(0, 2), pair(2, 0), pair(2, 2)]);
    }

    /// The spans in milliseconds that a client's code distinguishes after its first command. Its
    /// lease is of 2 seconds, so spans count up to 6 seconds.
    fn found(does_otherwise: fn(u128) -> bool) -> Vec<u128> {
        let scenario =
            Scenario::new("age").lease(Duration::from_secs(2)).actors(1, move |client| async move {
                let (since, mut link) = (client.now(), client.connection());
                redis::cmd("PING").exec_async(&mut link).await?;
                let age = (client.now() - since).as_millis();
                redis::cmd(if does_otherwise(age) { "TIME" } else { "DBSIZE" }).exec_async(&mut link).await?;
                Ok(())
            });
        let mut runner = Runner::new();
        let has_some = runner.find_thresholds(&scenario);
        let known = runner.timers.thresholds.get(&runner.timers.of(&scenario).codes).unwrap();
        assert_eq!(has_some, !known.is_empty());
        assert!(!runner.find_thresholds(&scenario), "they are known");
        known.iter().map(Duration::as_millis).collect()
    }

    #[test]
    fn spans_are_found_at_which_code_does_something_else() {
        assert_eq!(found(|_| true), []);
        assert_eq!(found(|age| age >= 3_000), [3_000]);
        // Whatever the client does before and after is the same.
        assert_eq!(found(|age| (3_000..3_700).contains(&age)), [3_000, 3_700]);
        // Time moves by a millisecond anyway.
        assert_eq!(found(|age| age == 0), []);
        assert_eq!(found(|age| age >= 6_000), [6_000]);
        assert_eq!(found(|age| age > 6_000), []);
    }

    /// What the code does then depends on the server alone.
    #[test]
    fn the_end_of_a_key_is_no_threshold() {
        let scenario = Scenario::new("key").lease(Duration::from_secs(2)).actors(1, |client| async move {
            let mut link = client.connection();
            redis::cmd("SET").arg(&["k", "v", "PX", "1500"]).exec_async(&mut link).await?;
            let is_there = redis::cmd("EXISTS").arg("k").query_async(&mut link).await?;
            redis::cmd(if is_there { "TIME" } else { "DBSIZE" }).exec_async(&mut link).await?;
            Ok(())
        });
        assert!(!Runner::new().find_thresholds(&scenario));
    }

    /// A wait leads to its timer, whatever is known.
    #[test]
    fn a_timer_of_a_client_is_no_threshold() {
        let scenario = Scenario::new("timer").lease(Duration::from_secs(2)).actors(1, |client| async move {
            let mut link = client.connection();
            let ping = redis::cmd("PING");
            let is_late =
                tokio::time::timeout(Duration::from_secs(3), ping.exec_async(&mut link)).await.is_err();
            redis::cmd(if is_late { "TIME" } else { "DBSIZE" }).exec_async(&mut client.connection()).await?;
            Ok(())
        });
        assert!(!Runner::new().find_thresholds(&scenario));
    }

    /// An event, in one of two steps, that the second of them does.
    fn after(kind: EventKind, step: usize) -> Behaviour {
        let event = Event { step, at: Duration::ZERO, kind };
        Behaviour::after(&History { events: vec![event], ..History::default() }, 1)
    }

    /// Whatever others can notice is told apart, but for numbers. What happens while time moves
    /// counts as a timer.
    #[test]
    fn acts_are_told_apart() {
        let (a, b, hold) = (Actor(0), Actor(1), (Actor(0), 1));
        let (section, until, what) = ("cs", TICK, "job");
        let call = Call { object: "", name: "pop", args: Value::Null };
        let acts = [
            EventKind::Enter { hold, actor: a, section, decided: None, until, is_recorded: true },
            EventKind::Extended { hold, actor: a, section, until },
            EventKind::Leave { hold, actor: a, section, by: LeftBy::Code },
            EventKind::Did { actor: a, what, decided: None },
            EventKind::Returned { call: hold, what: call.into(), answer: Value::from("a job").into() },
            EventKind::Ended { holder: a, by: b },
            EventKind::Shortened { holder: a, by: b },
            EventKind::Accepted { actor: a, resource: "data", token: 7, nth: 1 },
            EventKind::Failed { actor: a, error: "7 jobs".into() },
        ];
        let told = acts.clone().map(|kind| after(kind, 2).acts.concat());
        expect_test::expect![[r#"
            [
                "A enters cs",
                "A extends cs",
                "A leaves cs",
                "A does job",
                "A has \"a job\" of pop()",
                "B ends A",
                "B shortens A",
                "data accepts A",
                "A fails # jobs",
            ]
        "#]]
        .assert_debug_eq(&told);
        for kind in acts {
            assert!(after(kind.clone(), 1) == Behaviour { acts: Vec::new(), timers: (Vec::new(), 1) });
        }
    }
}
