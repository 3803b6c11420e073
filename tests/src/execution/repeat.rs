//! Executions of learned clients repeat steps that followed from equal states. The history gets
//! what is known of such a step, and the simulation stays behind. It catches up when something is
//! to run that is not known.

use std::sync::Arc;

use super::Execution;
use crate::schedule::Step;
use crate::sim::{Clients, Learned, Outcome, Recall, Recording, Saved};
use crate::trace::HistoryMark;

/// Where an execution is between two steps.
#[derive(Default)]
pub(super) struct Position {
    /// The hash of its state, if it has one.
    hash: Option<u64>,
    /// Its state, if that is saved.
    saved: Option<Arc<Saved>>,
    /// The simulation has an earlier state.
    is_behind: bool,
}

impl Position {
    /// An execution is in this state, and its simulation is not.
    fn ahead(saved: Arc<Saved>) -> Position {
        Position { hash: saved.hash, saved: Some(saved), is_behind: true }
    }
}

/// A step that is to be remembered: the hash of the state before it, and its place in the history.
type Remembered = (u64, HistoryMark);

impl Execution<'_> {
    /// Everything that is known of steps, if that is of use: many executions begin alike.
    fn known_steps(&self) -> Option<&Learned> {
        let Clients::Learned(learned) = &self.sim.clients else { return None };
        let is_exploration = self.sim.recording == Recording::Lean && self.sim.has_checkpoints();
        (is_exploration && !self.policy.tries_in_vain() && learned.uses_states()).then_some(learned)
    }

    /// Continues in a state in which an earlier execution was.
    pub(super) fn continue_in(&mut self, saved: Arc<Saved>) {
        self.position = Position::ahead(saved);
        if self.position.hash.is_none() {
            self.catch_up();
            self.note_hash();
        }
    }

    /// Brings the simulation to the state of the execution.
    pub(super) fn catch_up(&mut self) {
        if std::mem::take(&mut self.position.is_behind)
            && let Some(saved) = &self.position.saved
        {
            self.sim.continue_in(saved);
        }
    }

    /// The execution has ended. If the simulation is behind, takes over the results.
    pub(super) fn take_over_results(&self) {
        if let Position { saved: Some(saved), is_behind: true, .. } = &self.position {
            self.sim.end_in(saved);
        }
    }

    /// Computes the hash of the state that the simulation has.
    pub(super) fn note_hash(&mut self) {
        self.position.hash = self.known_steps().and_then(|_| self.sim.hash_state());
    }

    /// Lists the steps that can happen now.
    pub(super) fn list_steps(&mut self, enabled: &mut Vec<Step>) {
        let saved = self.position.saved.as_ref().filter(|_| !self.policy.tries_in_vain());
        if let Some(known) = saved.and_then(|saved| saved.enabled.get()) {
            enabled.clear();
            return enabled.extend_from_slice(known);
        }
        self.catch_up();
        self.enabled_steps(enabled);
        if let Some(saved) = &self.position.saved {
            saved.set_enabled(enabled);
        }
    }

    /// Keeps this place for the next execution: one of these steps is chosen here.
    pub(super) fn checkpoint(&mut self, enabled: &[Step]) {
        let Position { hash, saved, .. } = &mut self.position;
        self.sim.checkpoint(|| {
            let saved = saved.get_or_insert_with(|| self.sim.save(*hash));
            saved.set_enabled(enabled);
            saved.clone()
        });
    }

    /// Takes a step, or repeats what is known to follow.
    pub(super) async fn take_or_repeat(&mut self, step: Step) {
        let Some(remembered) = self.repeat(Some(step)) else { return };
        self.take(step).await;
        self.note_hash();
        if remembered.is_some() && self.position.hash.is_some() {
            let after = self.sim.save(self.position.hash);
            self.position.saved = Some(after.clone());
            self.remember(remembered, Some(step), Some(after));
        }
    }

    /// Ends the execution without further faults, or repeats what is known to follow.
    pub(super) async fn heal_or_repeat(&mut self) {
        let Some(remembered) = self.repeat(None) else { return };
        self.heal().await;
        self.note_panics();
        if self.sim.state().is_whole() {
            self.remember(remembered, None, None);
        }
    }

    /// Repeats what is known to follow, and returns `None`. If it is not known, the simulation
    /// catches up. Returns whether what follows is to be remembered.
    fn repeat(&mut self, step: Option<Step>) -> Option<Option<Remembered>> {
        let before = self.position.hash;
        let recall = before.zip(self.known_steps()).map(|(before, learned)| learned.recall(before, step));
        if let Some(Recall::Known(outcome)) = recall {
            self.sim.state().recorder.repeat(&outcome.added);
            if let Some(after) = &outcome.after {
                self.position = Position::ahead(after.clone());
            }
            return None;
        }
        self.catch_up();
        self.position = Position::default();
        let is_remembered = matches!(recall, Some(Recall::Again));
        let before = before.filter(|_| is_remembered);
        Some(before.map(|before| (before, self.sim.state().history().mark())))
    }

    /// Remembers what followed from a state.
    fn remember(&self, remembered: Option<Remembered>, step: Option<Step>, after: Option<Arc<Saved>>) {
        if let Some(((before, from), learned)) = remembered.zip(self.known_steps()) {
            let added = self.sim.state().history().since(from);
            learned.remember(before, step, Outcome { added, after });
        }
    }
}
