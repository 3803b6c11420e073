//! The ways to make a schedule simpler.

use super::cost::{actors, concerned};
use super::failing::Failing;
use crate::actor::Actor;
use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;
use crate::trace::{HappensBefore, History};

/// Returns the schedules to try. A long schedule has very many, so they are made one by one.
type Pass = for<'a> fn(&'a Failing, &'a Scenario, &mut Runner) -> Candidates<'a>;

/// Schedules to try.
type Candidates<'a> = Box<dyn Iterator<Item = Vec<Step>> + 'a>;

/// A pass with so few candidates that it makes all of them at once.
macro_rules! few {
    ($pass:ident) => {
        |failing, scenario, runner| Box::new($pass(failing, scenario, runner).into_iter())
    };
}

/// The passes, in the order in which they run. Passes that remove much come first.
pub(super) const PASSES: &[Pass] = &[
    few!(causal_past_alone),
    few!(with_prompt_replies),
    few!(without_faults),
    few!(without_an_actor),
    without_pieces,
    without_pairs,
    few!(with_shorter_jumps),
    few!(with_another_fault),
    few!(renamed),
    moved,
];

/// If there are more actors than this, not every order of their names is tried.
const PERMUTED_MAX: usize = 4;

/// The causal past of the violation.
fn causal_past_alone(failing: &Failing, _: &Scenario, _: &mut Runner) -> Vec<Vec<Step>> {
    if failing.steps.is_empty() {
        return Vec::new();
    }
    let causal_past = HappensBefore::of(&failing.history).causal_past(failing.steps.len());
    vec![causal_past.into_iter().map(|place| failing.steps[place]).collect()]
}

/// Makes a command and the arrival of its reply one step, for all commands and for each.
fn with_prompt_replies(Failing { steps, .. }: &Failing, _: &Scenario, _: &mut Runner) -> Vec<Vec<Step>> {
    let prompt = |is_meant: &dyn Fn(usize) -> bool| {
        let mut received: Vec<usize> = Vec::new();
        let mut merged: Vec<Option<Step>> = steps.iter().copied().map(Some).collect();
        for (place, &step) in steps.iter().enumerate().filter(|&(place, _)| is_meant(place)) {
            let Step::Send(actor, connection) = step else { continue };
            let arrival = Step::Receive(actor, connection);
            merged[place] = Some(Step::Run(actor, connection));
            let arrivals = (place + 1..steps.len()).filter(|&later| steps[later] == arrival);
            if let Some(later) = arrivals.into_iter().find(|later| !received.contains(later)) {
                received.push(later);
                merged[later] = None;
            }
        }
        merged.into_iter().flatten().collect::<Vec<Step>>()
    };
    let sends: Vec<usize> =
        (0..steps.len()).filter(|&place| matches!(steps[place], Step::Send(..))).collect();
    if sends.is_empty() {
        return Vec::new();
    }
    let each = sends.iter().map(|&send| prompt(&|place| place == send));
    [prompt(&|_| true)].into_iter().chain(each).collect()
}

fn without_faults(Failing { steps, .. }: &Failing, _: &Scenario, _: &mut Runner) -> Vec<Vec<Step>> {
    let faults: Vec<usize> = (0..steps.len()).filter(|&place| steps[place].is_fault()).collect();
    let pairs = faults.iter().flat_map(|&one| faults.iter().map(move |&other| [one, other]));
    // A pair of equal places removes one fault.
    let mut dropped: Vec<[usize; 2]> = pairs.filter(|[one, other]| one <= other).collect();
    dropped.sort_by_key(|[one, other]| one == other);
    dropped.iter().flat_map(|dropped| without(steps, |place| dropped.contains(&place))).collect()
}

fn without_an_actor(Failing { steps, .. }: &Failing, _: &Scenario, _: &mut Runner) -> Vec<Vec<Step>> {
    let of = |actor| move |place: usize| concerned(steps[place]) == Some(actor);
    actors(steps).into_iter().flat_map(|actor| without(steps, of(actor))).collect()
}

fn without_pieces<'a>(Failing { steps, .. }: &'a Failing, _: &'a Scenario, _: &mut Runner) -> Candidates<'a> {
    let pieces = (1..=steps.len()).rev().flat_map(|len| (0..=steps.len() - len).map(move |at| at..at + len));
    Box::new(pieces.flat_map(|piece| without(steps, |place| piece.contains(&place))))
}

fn without_pairs<'a>(Failing { steps, .. }: &'a Failing, _: &'a Scenario, _: &mut Runner) -> Candidates<'a> {
    let pairs = (0..steps.len()).flat_map(|one| (one + 2..steps.len()).map(move |other| [one, other]));
    Box::new(pairs.flat_map(|pair| without(steps, |place| pair.contains(&place))))
}

/// The schedules without the dropped steps. Dropped time either disappears, or is added to the next
/// step of time: a deadline may have been set before or after it.
fn without(steps: &[Step], is_dropped: impl Fn(usize) -> bool) -> Vec<Vec<Step>> {
    let (mut relative, mut absolute) = (Vec::new(), Vec::new());
    let mut missing = std::time::Duration::ZERO;
    for (place, &step) in steps.iter().enumerate() {
        match step {
            Step::Advance(span) if is_dropped(place) => missing += span,
            _ if is_dropped(place) => {}
            Step::Advance(span) => {
                relative.push(step);
                absolute.push(Step::Advance(span + std::mem::take(&mut missing)));
            }
            _ => {
                relative.push(step);
                absolute.push(step);
            }
        }
    }
    if relative == absolute { vec![relative] } else { vec![absolute, relative] }
}

fn with_shorter_jumps(
    Failing { steps, shorter, .. }: &Failing,
    _: &Scenario,
    _: &mut Runner,
) -> Vec<Vec<Step>> {
    let within = shorter.iter().filter(|(place, _)| *place < steps.len());
    let replaced = within.map(|&(place, step)| {
        let mut steps = steps.clone();
        steps[place] = step;
        steps
    });
    replaced.collect()
}

/// Replaces a fault by another fault, at any place.
fn with_another_fault(
    Failing { steps, .. }: &Failing,
    scenario: &Scenario,
    runner: &mut Runner,
) -> Vec<Vec<Step>> {
    let faults = (0..steps.len()).filter(|&place| steps[place].is_fault());
    let replaced = faults.flat_map(|fault| {
        let mut rest = steps.clone();
        rest.remove(fault);
        let rest = Schedule { steps: rest };
        let listing = || Listing { replay: Replay::new(&rest), faults: Vec::new() };
        let (executed, listing) = runner.run_fresh(scenario, listing, Recording::Lean);
        let within = listing.faults.into_iter().filter(|(place, _)| *place < steps.len());
        let with = |(place, fault)| {
            let (before, after) = executed.steps.split_at(place);
            [before, &[fault], after].concat()
        };
        within.map(with).collect::<Vec<_>>()
    });
    replaced.collect()
}

/// Follows a schedule, and lists the faults that were possible, each with its place.
struct Listing {
    replay: Replay,
    faults: Vec<(usize, Step)>,
}

impl Policy for Listing {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let faults = enabled.iter().copied().filter(|step| step.is_fault());
        self.faults.extend(faults.map(|step| (history.steps.len(), step)));
        self.replay.choose(enabled, history)
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

/// Exchanges actors with equal code. As far as possible, names follow the order of appearance.
fn renamed(Failing { steps, .. }: &Failing, scenario: &Scenario, _: &mut Runner) -> Vec<Vec<Step>> {
    let mut by_appearance: Vec<Actor> = Vec::new();
    for actor in steps.iter().filter_map(|&step| concerned(step)) {
        if !by_appearance.contains(&actor) {
            by_appearance.push(actor);
        }
    }
    // For each code, the first names.
    let mut free: Vec<Actor> = (0..scenario.actors.len()).map(Actor).collect();
    let names = by_appearance.iter().filter_map(|&actor| {
        let place = free.iter().position(|&name| scenario.do_the_same(name, actor))?;
        Some(free.remove(place))
    });
    let names: Vec<Actor> = names.collect();
    let orders = if names.len() <= PERMUTED_MAX { permutations(&names) } else { vec![names] };
    let fits = |names: &&Vec<Actor>| {
        by_appearance.iter().zip(*names).all(|(&actor, &name)| scenario.do_the_same(name, actor))
    };
    let rename = |names: &Vec<Actor>| {
        let name = |actor| {
            by_appearance.iter().position(|other| *other == actor).map_or(actor, |place| names[place])
        };
        steps.iter().map(|&step| with_actor(step, name)).collect()
    };
    orders.iter().filter(fits).map(rename).collect()
}

fn with_actor(step: Step, name: impl Fn(Actor) -> Actor) -> Step {
    match step {
        Step::Run(actor, connection) => Step::Run(name(actor), connection),
        Step::Send(actor, connection) => Step::Send(name(actor), connection),
        Step::Receive(actor, connection) => Step::Receive(name(actor), connection),
        Step::Start(actor) => Step::Start(name(actor)),
        Step::Fault(fault) => Step::Fault(fault.renamed(name)),
        Step::Late(actor, connection) => Step::Late(name(actor), connection),
        Step::Advance(_) | Step::Wait => step,
    }
}

/// All orders, the given one first.
fn permutations(names: &[Actor]) -> Vec<Vec<Actor>> {
    if names.is_empty() {
        return vec![Vec::new()];
    }
    let first = |place: usize| {
        let mut rest = names.to_vec();
        let first = rest.remove(place);
        permutations(&rest).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (0..names.len()).flat_map(first).collect()
}

/// Moves consecutive steps of one actor to other places. This reduces switches, and gives
/// independent steps a fixed order.
fn moved<'a>(Failing { steps, .. }: &'a Failing, _: &'a Scenario, _: &mut Runner) -> Candidates<'a> {
    let is_row = |piece: &[Step]| piece.iter().all(|step| step.actor() == piece[0].actor());
    let len = steps.len();
    let pieces = (0..len).flat_map(move |start| (start + 1..=len).map(move |end| start..end));
    let pieces = pieces.filter(move |piece| is_row(&steps[piece.clone()]));
    Box::new(pieces.flat_map(|piece| {
        let mut rest = steps.clone();
        let row: Vec<Step> = rest.drain(piece.clone()).collect();
        (0..=rest.len()).filter(move |&place| place != piece.start).map(move |place| {
            let mut moved = rest.clone();
            moved.splice(place..place, row.iter().copied());
            moved
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Faults;
    use crate::oracle::Violation;
    use crate::shrink::Cost;
    use crate::trace::StepFootprint;

    fn steps(text: &str) -> Vec<Step> {
        text.replace(", ", "\n").parse::<Schedule>().unwrap().steps
    }

    fn failing(text: &str) -> Failing {
        let steps = steps(text);
        let footprints = steps.iter().map(|_| StepFootprint::default().into()).collect();
        let history = History { steps: steps.clone(), footprints, ..History::default() };
        let violation = Violation { step: steps.len(), what: String::new() };
        let cost = Cost::of(&history, steps.len());
        Failing { steps, cost, violation, history, shorter: Vec::new() }
    }

    /// Two actors with one code, and then one with another.
    fn scenario() -> Scenario {
        Scenario::new("passes").actors(2, |_| async { Ok(()) }).actors(1, |_| async { Ok(()) })
    }

    fn shown(candidates: impl IntoIterator<Item = Vec<Step>>) -> Vec<String> {
        let line = |steps| Schedule { steps }.to_string().trim_end().replace('\n', ", ");
        candidates.into_iter().map(line).collect()
    }

    /// The candidates of a pass.
    fn tried(pass: Pass, failing: &Failing) -> Vec<String> {
        shown(pass(failing, &scenario(), &mut Runner::new()))
    }

    #[test]
    fn passes_that_remove_steps() {
        // Steps of one actor depend on each other.
        assert_eq!(tried(few!(causal_past_alone), &failing("A, B, A")), ["A, A"]);
        assert!(tried(few!(causal_past_alone), &failing("")).is_empty());
        assert_eq!(
            tried(few!(without_faults), &failing("crash A, B, crash B, A")),
            ["B, A", "B, crash B, A", "crash A, B, A"]
        );
        assert_eq!(
            tried(few!(without_an_actor), &failing("A, crash B, wait, A")),
            ["crash B, wait", "A, wait, A"]
        );
        assert_eq!(tried(without_pieces, &failing("A, B, C")), ["", "C", "A", "B, C", "A, C", "A, B"]);
        assert_eq!(tried(without_pairs, &failing("A, B, C, A")), ["B, A", "B, C", "A, C"]);
    }

    /// Time that is removed disappears, or passes later.
    #[test]
    fn removed_time_may_pass_later() {
        let steps = steps("time +5ms, A, time +6ms, B, time +7ms");
        let without = |places: &'static [usize]| shown(without(&steps, |place| places.contains(&place)));
        assert_eq!(without(&[1]), ["time +5ms, time +6ms, B, time +7ms"]);
        assert_eq!(without(&[0]), ["A, time +11ms, B, time +7ms", "A, time +6ms, B, time +7ms"]);
        assert_eq!(without(&[0, 2]), ["A, B, time +18ms", "A, B, time +7ms"]);
        assert_eq!(without(&[3, 4]), ["time +5ms, A, time +6ms"]);
    }

    #[test]
    fn replies_become_prompt() {
        let tried = |text| tried(few!(with_prompt_replies), &failing(text));
        assert_eq!(
            tried("send A, send B, receive A, C, receive B"),
            ["A, B, C", "A, send B, C, receive B", "send A, B, receive A, C"]
        );
        // Each command has the next arrival, and a reply that never arrives is prompt, too.
        assert_eq!(
            tried("send A, receive A, send A, receive A"),
            ["A, A", "A, send A, receive A", "send A, receive A, A"]
        );
        assert_eq!(tried("send A, B"), ["A, B", "A, B"]);
        assert!(tried("A, B").is_empty());
    }

    #[test]
    fn spans_that_are_noted_are_tried() {
        let span = |millis| Step::Advance(std::time::Duration::from_millis(millis));
        let shorter = vec![(1, span(3)), (1, span(4)), (3, span(1))];
        let failing = Failing { shorter, ..failing("A, time +5ms, B") };
        assert_eq!(tried(few!(with_shorter_jumps), &failing), ["A, time +3ms, B", "A, time +4ms, B"]);
    }

    /// It may come before the other step, or after it.
    #[test]
    fn a_fault_is_exchanged_for_those_that_were_possible() {
        let pings = Scenario::new("pings").faults(Faults::none().lost(1)).actors(1, |client| async move {
            for _ in 0..2 {
                _ = redis::cmd("PING").exec_async(&mut client.connection()).await;
            }
            Ok(())
        });
        let tried = with_another_fault(&failing("A, lose-reply A"), &pings, &mut Runner::new());
        assert_eq!(
            shown(tried),
            [
                "lose-request A, A, A",
                "lose-reply A, A, A",
                "resend A, A, A",
                "A, lose-request A, A",
                "A, lose-reply A, A",
                "A, resend A, A",
            ]
        );
    }

    /// Only A and B do the same.
    #[test]
    fn names_are_exchanged_among_equal_actors() {
        assert_eq!(tried(few!(renamed), &failing("B, C, crash A")), ["A, C, crash B", "B, C, crash A"]);
        let every_kind =
            "B, send B.2, receive B.2, start B, lose-reply B, late B, pause B +5ms, wait, time +5ms";
        let of_a = "A, send A.2, receive A.2, start A, lose-reply A, late A, pause A +5ms, wait, time +5ms";
        assert_eq!(tried(few!(renamed), &failing(every_kind)), [of_a]);
        let names = [0, 1, 2].map(Actor);
        let orders: Vec<Vec<usize>> =
            permutations(&names).iter().map(|order| order.iter().map(|name| name.0).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
    }

    /// Only steps of one actor move together.
    #[test]
    fn rows_of_one_actor_move() {
        assert_eq!(tried(moved, &failing("A, B")), ["B, A", "B, A"]);
        let of_two = tried(moved, &failing("A, A, B"));
        assert_eq!(of_two, ["A, A, B", "A, B, A", "B, A, A", "A, A, B", "A, B, A", "B, A, A", "A, B, A"]);
    }
}
