//! A depth-first search over all schedules, without any knowledge of which steps are dependent.

use super::single::single;
use crate::execution::{Choice, Policy};
use crate::schedule::Step;
use crate::trace::History;

/// Brute force: tries every choice at every step, depth first.
///
/// It leaves no order out, so every other explorer is checked against it. A step that is two steps
/// in one is not tried, because those two are.
#[derive(Debug, Default)]
pub struct DepthFirst {
    /// The choices of the current schedule. Each entry holds the index of the chosen step, the
    /// number of possible steps, and the chosen step.
    path: Vec<(usize, usize, Option<Step>)>,
    depth: usize,
    steps_max: usize,
    has_begun: bool,
}

impl DepthFirst {
    /// Moves to the next schedule, of at most `steps_max` steps. Returns `false` if there is none.
    pub fn next_schedule(&mut self, steps_max: usize) -> bool {
        self.depth = 0;
        self.steps_max = steps_max;
        if !std::mem::replace(&mut self.has_begun, true) {
            return steps_max > 0;
        }
        self.path.truncate(steps_max);
        while let Some((taken, enabled, _)) = self.path.pop() {
            if taken + 1 < enabled {
                self.path.push((taken + 1, enabled, None));
                return true;
            }
        }
        false
    }
}

impl Policy for DepthFirst {
    fn choose(&mut self, all_enabled: &[Step], _: &History) -> Choice {
        let enabled: Vec<Step> = single(all_enabled).collect();
        if self.depth >= self.steps_max {
            return Choice::Abort;
        }
        if self.depth == self.path.len() {
            self.path.push((0, enabled.len(), None));
        }
        let (taken, was_enabled, step) = &mut self.path[self.depth];
        let taken = *taken;
        assert!(
            *was_enabled == enabled.len() && *step.get_or_insert(enabled[taken]) == enabled[taken],
            "when the steps ran again, other steps were possible: {enabled:?}. Something besides the schedule decides what the code does"
        );
        self.depth += 1;
        let idx = all_enabled.iter().position(|step| *step == enabled[taken]);
        idx.map_or(Choice::Abort, Choice::Take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two binary choices, then none: four schedules, in order.
    #[test]
    fn visits_every_path_once() {
        let steps = [0, 1].map(|lane| Step::Run(crate::actor::Actor(0), lane));
        let mut depth_first = DepthFirst::default();
        let mut seen = Vec::new();
        while depth_first.next_schedule(usize::MAX) {
            let path = [0; 2].map(|_: i32| depth_first.choose(&steps, &History::default()));
            seen.push(path);
        }
        let take = |a, b| [Choice::Take(a), Choice::Take(b)];
        assert_eq!(seen, [take(0, 0), take(0, 1), take(1, 0), take(1, 1)]);
    }
}
