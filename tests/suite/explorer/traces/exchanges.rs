//! Independent steps and interchangeable actors may change places. The reduction relies on both.

use std::collections::{BTreeMap, BTreeSet};

use harness::actor::Actor;
use harness::execution::{Learning, Runner};
use harness::explore::{Dpor, RandomWalk, probe_timers};
use harness::fault::Fault;
use harness::schedule::Step;
use harness::sim::Recording;
use harness::trace::{EventKind, HappensBefore, History, KeyChange, Process};
use harness::{Scenario, Schedule, replay};

use super::programs::{programs, programs_of_a_kind, random_program, rare_programs, uniform_program};
use crate::bounds;

/// The trace with its actors renamed.
fn renamed(form: &[Vec<Step>], names: &[usize]) -> Vec<Vec<Step>> {
    let rename = |actor: Actor| Actor(names[actor.0]);
    let rename_step = |step: &Step| match *step {
        Step::Run(actor, nth) => Step::Run(rename(actor), nth),
        Step::Send(actor, nth) => Step::Send(rename(actor), nth),
        Step::Receive(actor, nth) => Step::Receive(rename(actor), nth),
        Step::Start(actor) => Step::Start(rename(actor)),
        Step::Fault(fault) => Step::Fault(Fault { target: fault.target.renamed(rename), ..fault }),
        step => step,
    };
    let layers = form.iter().map(|layer| {
        let mut layer: Vec<Step> = layer.iter().map(rename_step).collect();
        layer.sort_unstable();
        layer
    });
    layers.collect()
}

/// With interchangeable actors the explorer runs every trace up to a renaming of the actors. The
/// comparison runs all traces without that reduction.
#[test]
fn interchangeable_actors_change_places_in_no_trace() {
    const NAMES: &[&[usize]] = &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    let mut runner = Runner::new().learning(Learning::Eager);
    let (compared, mut fewer) = (bounds::EXCHANGED.get(), 0);
    for seed in 0..compared {
        let scenario = uniform_program(seed);
        let mut forms = |scenario: &Scenario| {
            let (mut dpor, mut forms) = (Dpor::default(), Vec::new());
            while let Some(history) = dpor.run_next(&mut runner, scenario) {
                if !dpor.is_blocked() {
                    // The order in which clients start depends on no step, so the form does not
                    // contain it.
                    let form = HappensBefore::of(&history).foata_normal_form(&history);
                    forms.push(NAMES.iter().map(|names| renamed(&form, names)).min());
                }
            }
            forms
        };
        let (all, some) = (forms(&scenario), forms(&scenario.clone().interchangeable()));
        fewer += all.len() - some.len();
        let [all, some] = [all, some].map(|forms| forms.into_iter().collect::<BTreeSet<_>>());
        assert_eq!(some, all, "{scenario:?}");
    }
    assert!(2 * fewer as u64 > 25 * compared, "{fewer} fewer");
}

/// Per actor, in its own order: its commands and replies, its faults and errors, and its stays in a
/// section.
fn seen_by_actors(history: &History) -> Vec<Vec<String>> {
    let mut reached = vec![Vec::new(); 3];
    for event in &history.events {
        match &event.kind {
            EventKind::Command { actor, text, reply, .. } => {
                reached[actor.0].push(format!("{text} -> {reply}"));
            }
            EventKind::Fault { fault, request } => {
                let actor = fault.target.actor().into_iter();
                let request = request.as_ref().map_or("", |request| &request.text);
                actor.for_each(|actor| reached[actor.0].push(format!("{:?} {request}", fault.kind)));
            }
            EventKind::Enter { actor, until, .. } => reached[actor.0].push(format!("inside until {until:?}")),
            EventKind::Leave { actor, .. } => reached[actor.0].push(format!("outside at {:?}", event.at)),
            EventKind::Failed { actor, error } => reached[actor.0].push(format!("fails: {error}")),
            EventKind::GaveUp { actor, error } => reached[actor.0].push(format!("gives up: {error}")),
            _ => {}
        }
    }
    reached
}

/// The value of every key after its last change.
fn left_behind(history: &History) -> BTreeMap<(usize, String), &KeyChange> {
    let changes = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { server, changed, .. } => Some((server, changed)),
        _ => None,
    });
    let changes = changes.flat_map(|(&server, changed)| changed.iter().map(move |change| (server, change)));
    changes.map(|(server, change)| ((server, change.name()), change)).collect()
}

/// If two neighbouring steps are independent, swapping them changes nothing that an actor or a
/// server sees.
#[test]
fn independent_neighbours_may_change_places() {
    let mut runner = Runner::new();
    let mut swaps = 0;
    for (seed, scenario) in
        (0..).zip((0..programs()).map(random_program).chain(rare_programs(programs_of_a_kind())))
    {
        let history = runner.run(&scenario, &mut RandomWalk::new(seed, 0), Recording::Full);
        probe_timers(&mut runner, &scenario, &history);
        let history = replay(
            &mut runner,
            &scenario,
            &Schedule { steps: history.into_history().steps },
            Recording::Full,
        );
        for place in 1..history.steps.len() {
            let processes = [place - 1, place].map(|place| Process::of(history.steps[place]));
            if processes[0] == processes[1]
                || processes[0] == Process::Setup
                || history.footprints[place - 1].conflicts_with(&history.footprints[place])
            {
                continue;
            }
            let mut steps = history.steps.clone();
            steps.swap(place - 1, place);
            let swapped = replay(&mut runner, &scenario, &Schedule { steps: steps.clone() }, Recording::Full);
            assert_eq!(swapped.steps, steps, "{scenario:?}: a step was no longer possible");
            assert_eq!(seen_by_actors(&swapped), seen_by_actors(&history), "{scenario:?}: {steps:?}");
            assert_eq!(left_behind(&swapped), left_behind(&history), "{scenario:?}: {steps:?}");
            swaps += 1;
        }
    }
    assert!(swaps > programs(), "{swaps}");
}
