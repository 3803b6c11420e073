use crate::actor::Actor;
use crate::fault::{Fault, FaultKind, Target};
use crate::schedule::Step;
use crate::trace::{History, StepFootprint};

/// What earlier schedules of a scenario showed, by which later ones are drawn.
#[derive(Debug, Default)]
pub struct AccessProfile {
    /// Of each actor what each of its steps touched when it was seen last.
    touched: Vec<Vec<StepFootprint>>,
    steps_max: usize,
}

impl AccessProfile {
    /// Takes in one more execution.
    pub fn learn(&mut self, history: &History) {
        self.steps_max = self.steps_max.max(history.steps.len());
        let mut taken = vec![0; self.touched.len()];
        for (step, touch) in history.steps.iter().zip(&history.footprints) {
            let Some(Actor(actor)) = step.actor() else { continue };
            if actor >= taken.len() {
                taken.resize(actor + 1, 0);
                self.touched.resize_with(actor + 1, Vec::new);
            }
            let (of_actor, nth) = (&mut self.touched[actor], taken[actor]);
            match of_actor.get_mut(nth) {
                Some(known) => known.clone_from(touch),
                None => of_actor.push(touch.clone()),
            }
            taken[actor] += 1;
        }
    }

    /// Most steps in one execution; at least one.
    pub fn steps_max(&self) -> usize {
        self.steps_max.max(1)
    }

    /// How many more steps the actor may take, going by the most that it ever took; at least one.
    pub fn remaining(&self, actor: Actor, history: &History) -> usize {
        self.touched.get(actor.0).map_or(0, Vec::len).saturating_sub(taken(actor, history)).max(1)
    }

    /// Whether the order of a step that could come next and of the one that was taken last can matter, going by what the step
    /// touched when it was seen last. One that was never seen may touch anything.
    pub fn races(&self, step: Step, last: &StepFootprint, history: &History) -> bool {
        let guessed = |touch| last.conflicts_with(&touch);
        let budget = step.budget();
        match step {
            Step::Run(actor, _) | Step::Start(actor) => {
                let seen = self.touched.get(actor.0).and_then(|touched| touched.get(taken(actor, history)));
                seen.is_none_or(|touch| last.conflicts_with(touch))
            }
            Step::Advance(_) | Step::Wait => {
                guessed(StepFootprint { moves_time: true, budget, ..StepFootprint::default() })
            }
            Step::Fault(Fault { kind: FaultKind::Crash, target: Target::Client(actor), .. }) => {
                guessed(StepFootprint { actors: 1 << actor.0, budget, ..StepFootprint::default() })
            }
            _ => true,
        }
    }
}

/// How many steps the actor has taken.
fn taken(actor: Actor, history: &History) -> usize {
    history.steps.iter().filter(|step| step.actor() == Some(actor)).count()
}
