//! Which steps of an execution depend on each other. Two that do not may change places, and nothing else changes: executions that
//! differ in such changes alone are one *trace*, and to run one of them is enough.

use fixedbitset::FixedBitSet;

use super::{Event, EventKind, History};
use crate::actor::Actor;
use crate::schedule::Step;

/// Who takes a step: of one agent's steps every order is another execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Process {
    /// The clocks of all clients and servers, before anything happens.
    Setup,
    /// An actor, with all its connections.
    Actor(Actor),
    /// What happens to servers.
    Servers,
    /// Time.
    Time,
}

impl Process {
    /// Whose step this is.
    pub fn of(step: Step) -> Process {
        match step {
            Step::Advance(_) | Step::Wait => Process::Time,
            Step::Fault(fault) if fault.is_setup() => Process::Setup,
            _ => step.actor().map_or(Process::Servers, Process::Actor),
        }
    }
}

/// Which steps of an execution happened before which: those that they depend on, directly or by way of others.
#[derive(Clone, Debug, Default)]
pub struct HappensBefore {
    /// Of each step those before it.
    before: Vec<FixedBitSet>,
    /// Of each step those that it depends on with nothing in between: the two could have come in the other order.
    races: Vec<Vec<usize>>,
    /// Of each actor one without which it does not begin, if there is such.
    predecessors: Vec<Option<Actor>>,
}

impl HappensBefore {
    /// Of a whole execution.
    pub fn of(history: &History) -> HappensBefore {
        let mut happens_before = HappensBefore::default();
        happens_before.extend(history);
        happens_before
    }

    /// Of executions in which these actors do not begin before others have.
    pub(crate) fn with_predecessors(predecessors: Vec<Option<Actor>>) -> HappensBefore {
        HappensBefore { predecessors, ..HappensBefore::default() }
    }

    /// Those of these steps whose actors nothing keeps from beginning, after this.
    pub(crate) fn possible(
        &self,
        steps: impl Iterator<Item = Step>,
        history: &History,
    ) -> impl Iterator<Item = Step> {
        let actors = history.steps.iter().filter_map(|step| step.actor());
        let begun = actors.fold(0_u32, |begun, actor| begun | 1 << actor.0);
        let predecessor = |actor: Actor| self.predecessors.get(actor.0).copied().flatten();
        steps.filter(move |step| {
            step.actor().and_then(predecessor).is_none_or(|actor| begun >> actor.0 & 1 == 1)
        })
    }

    /// Takes in the steps that came since.
    pub fn extend(&mut self, history: &History) {
        let process = |place: usize| Process::of(history.steps[place]);
        let begins = |place: usize, actor: Actor| {
            let is_its = |step: usize| process(step) == Process::Actor(actor);
            is_its(place) && !(0..place).any(is_its)
        };
        for late in self.before.len()..history.steps.len() {
            let (mut before, mut races) = (FixedBitSet::with_capacity(late), Vec::new());
            let predecessor = match process(late) {
                Process::Actor(actor) if begins(late, actor) => {
                    self.predecessors.get(actor.0).copied().flatten()
                }
                _ => None,
            };
            for early in (0..late).rev() {
                if before.contains(early) {
                    continue;
                }
                let is_its_turn =
                    process(early) == process(late) || predecessor.is_some_and(|actor| begins(early, actor));
                let (one, other) = (&history.footprints[early], &history.footprints[late]);
                if is_its_turn || one.conflicts_with(other) {
                    before.union_with(&self.before[early]);
                    before.insert(early);
                    if !is_its_turn {
                        races.push(early);
                    }
                }
            }
            self.before.push(before);
            self.races.push(races);
        }
    }

    /// Forgets all but the first steps.
    pub fn truncate(&mut self, len: usize) {
        self.before.truncate(len);
        self.races.truncate(len);
    }

    /// Of how many steps the causes are known.
    pub fn len(&self) -> usize {
        self.before.len()
    }

    /// Whether no step is known.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    /// Whether a step happened before a later one.
    pub fn precedes(&self, early: usize, late: usize) -> bool {
        self.before[late].contains(early)
    }

    /// The steps that race with this one and came first.
    pub fn races(&self, late: usize) -> &[usize] {
        &self.races[late]
    }

    /// The places of a step and of all that happened before it.
    pub fn causal_past(&self, place: usize) -> Vec<usize> {
        self.before[place].ones().chain([place]).collect()
    }

    /// Whether a client sent a command that could have run while another was inside a section: what did not happen in this order
    /// did in one that differs in independent steps alone.
    pub fn has_contention(&self, history: &History) -> bool {
        let place = |event: &Event| event.step.checked_sub(1);
        let enters = history.events.iter().filter_map(|event| match event.kind {
            EventKind::Enter { hold, actor, .. } => Some((hold, actor, place(event)?)),
            _ => None,
        });
        enters.into_iter().any(|(hold, holder, enter)| {
            let leave = history.events.iter().find_map(|event| match event.kind {
                EventKind::Leave { hold: left, .. } if left == hold => {
                    place(event).filter(|&leave| leave > enter)
                }
                _ => None,
            });
            let could_run_inside = |&late: &usize| {
                !self.precedes(late, enter)
                    && leave.is_none_or(|leave| late != leave && !self.precedes(leave, late))
            };
            let of_others = (0..self.len())
                .filter(|&step| matches!(history.steps[step], Step::Run(actor, _) if actor != holder));
            of_others.into_iter().any(|step| could_run_inside(&step))
        })
    }

    /// The normal form of D. Foata: each step as early as what it depends on allows. Executions of one trace have the same.
    pub fn foata_normal_form(&self, history: &History) -> Vec<Vec<Step>> {
        let mut layers: Vec<Vec<Step>> = Vec::new();
        let mut depths: Vec<usize> = Vec::new();
        for (place, before) in self.before.iter().enumerate() {
            let depth = before.ones().map(|cause| depths[cause] + 1).max().unwrap_or(0);
            depths.push(depth);
            layers.resize_with(layers.len().max(depth + 1), Vec::new);
            layers[depth].push(history.steps[place]);
        }
        layers.iter_mut().for_each(|layer| layer.sort_unstable());
        layers
    }
}
