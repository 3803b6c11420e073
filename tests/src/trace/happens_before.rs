//! Which steps of an execution depend on each other. If two independent steps change places,
//! nothing else changes. Executions that differ only in such changes are one *trace*, and it is
//! enough to run one of them.

use fixedbitset::FixedBitSet;

use super::{Event, EventKind, History};
use crate::actor::Actor;
use crate::schedule::Step;

/// Takes steps. Two orders of one process's steps are two different executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Process {
    /// The clocks of all clients and servers before anything happens.
    Setup,
    /// An actor, with all its connections.
    Actor(Actor),
    /// Faults of servers.
    Servers,
    /// Time.
    Time,
}

impl Process {
    /// The process that takes this step.
    pub fn of(step: Step) -> Process {
        match step {
            Step::Advance(_) | Step::Wait => Process::Time,
            Step::Fault(fault) if fault.is_setup() => Process::Setup,
            _ => step.actor().map_or(Process::Servers, Process::Actor),
        }
    }
}

/// The happens-before order of an execution: each step comes after the steps that it depends on,
/// directly or through others.
#[derive(Clone, Debug, Default)]
pub struct HappensBefore {
    /// The places of the steps in the order. After `len` come places whose memory is used again.
    places: Vec<StepOrder>,
    len: usize,
    /// For each actor, an actor that must begin before it, if there is one.
    predecessors: Vec<Option<Actor>>,
}

/// The place of a step in the order.
#[derive(Clone, Debug, Default)]
struct StepOrder {
    /// All steps before it.
    before: FixedBitSet,
    /// The steps that it races with. No step lies between the two in the order, so that the other
    /// order is possible.
    races: Vec<usize>,
}

impl HappensBefore {
    /// The order of a whole execution.
    pub fn of(history: &History) -> HappensBefore {
        let mut happens_before = HappensBefore::default();
        happens_before.extend(history);
        happens_before
    }

    /// The order of executions in which some actors begin only after others.
    pub(crate) fn with_predecessors(predecessors: Vec<Option<Actor>>) -> HappensBefore {
        HappensBefore { predecessors, ..HappensBefore::default() }
    }

    /// Those of the steps whose actors may begin after this history.
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

    /// Adds the steps that came since.
    pub fn extend(&mut self, history: &History) {
        let process = |place: usize| Process::of(history.steps[place]);
        let begins = |place: usize, actor: Actor| {
            let is_its = |step: usize| process(step) == Process::Actor(actor);
            is_its(place) && !(0..place).any(is_its)
        };
        for late in self.len..history.steps.len() {
            if late == self.places.len() {
                self.places.push(StepOrder::default());
            }
            let (earlier, place) = self.places.split_at_mut(late);
            let StepOrder { before, races } = &mut place[0];
            before.clear();
            before.grow(late);
            races.clear();
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
                    before.union_with(&earlier[early].before);
                    before.insert(early);
                    if !is_its_turn {
                        races.push(early);
                    }
                }
            }
        }
        self.len = self.len.max(history.steps.len());
    }

    /// Removes all but the first steps.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The number of steps in the order.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether a step happened before a later one.
    pub fn precedes(&self, early: usize, late: usize) -> bool {
        self.places[late].before.contains(early)
    }

    /// The earlier steps that race with this one.
    pub fn races(&self, late: usize) -> &[usize] {
        &self.places[late].races
    }

    /// The causal past of the last of the first `steps` steps: its place and those of all that
    /// happened before it, in order. There is none before the first step.
    pub fn causal_past(&self, steps: usize) -> Vec<usize> {
        let last = steps.checked_sub(1);
        last.map_or_else(Vec::new, |last| self.places[last].before.ones().chain([last]).collect())
    }

    /// Whether a client sent a command that could have run while another client was inside a
    /// section. If that did not happen in this order, it happened in an equivalent one.
    pub fn has_contention(&self, history: &History) -> bool {
        let place = |event: &Event| event.step.checked_sub(1);
        let enters = history.events.iter().filter_map(|event| match event.kind {
            EventKind::Enter { hold, actor, .. } => Some((hold, actor, place(event)?)),
            _ => None,
        });
        enters.into_iter().any(|(hold, holder, enter)| {
            let leave = history.events.iter().find_map(|event| match event.kind {
                EventKind::Leave { hold: left, .. } if left == hold => place(event),
                _ => None,
            });
            let could_run_inside = |&late: &usize| {
                leave != Some(enter)
                    && !self.precedes(late, enter)
                    && leave.is_none_or(|leave| late != leave && !self.precedes(leave, late))
            };
            let of_others = (0..self.len())
                .filter(|&step| matches!(history.steps[step], Step::Run(actor, _) | Step::Send(actor, _) if actor != holder));
            of_others.into_iter().any(|step| could_run_inside(&step))
        })
    }

    /// The Foata normal form: each step as early as its dependencies allow. All executions of one
    /// trace have the same form.
    pub fn foata_normal_form(&self, history: &History) -> Vec<Vec<Step>> {
        let mut layers: Vec<Vec<Step>> = Vec::new();
        let mut depths: Vec<usize> = Vec::new();
        for (place, StepOrder { before, .. }) in self.places[..self.len].iter().enumerate() {
            let depth = before.ones().map(|cause| depths[cause] + 1).max().unwrap_or(0);
            depths.push(depth);
            layers.resize_with(layers.len().max(depth + 1), Vec::new);
            layers[depth].push(history.steps[place]);
        }
        layers.iter_mut().for_each(|layer| layer.sort_unstable());
        layers
    }
}
