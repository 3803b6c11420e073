use std::rc::Rc;

use super::single;
use crate::execution::{Choice, Policy};
use crate::history::History;
use crate::schedule::Step;
use crate::touch::Touch;
use crate::trace::{Agent, Causes};

/// Every trace once: dynamic partial order reduction with source sets and sleep sets.
///
/// Two steps that do not touch the same things may change places, so of all executions that differ in that alone one is run. What
/// steps touched is seen when they have run: wherever two of them race, the other order is planned at the place where the first was
/// taken. Abdulla, Aronis, Jonsson and Sagonas, "Source Sets: A Foundation for Optimal Dynamic Partial Order Reduction" (2017),
/// algorithm 1.
#[derive(Debug, Default)]
pub struct Dpor {
    path: Vec<Node>,
    depth: usize,
    causes: Causes,
    has_begun: bool,
    is_blocked: bool,
    surprise: Option<(Vec<Step>, Vec<Step>)>,
    /// Timers of clients have fired, and where those were set is not seen: every step depends on the time.
    all_timed: bool,
}

/// A place where there was a choice.
#[derive(Debug)]
struct Node {
    /// How many steps had been taken.
    steps: usize,
    enabled: Vec<Step>,
    taken: Step,
    /// What the step that was taken touched, with what followed before the next choice.
    touched: Rc<[Touch]>,
    /// Whose steps are to be tried here.
    planned: Vec<Agent>,
    /// Steps whose every continuation is covered elsewhere, as long as nothing happens that they depend on.
    asleep: Vec<(Step, Rc<[Touch]>)>,
}

impl Node {
    /// The next step to be tried, of the agents in the order in which they were planned.
    fn next(&self) -> Option<Step> {
        let is_awake = |step: &&Step| !self.asleep.iter().any(|(asleep, _)| asleep == *step);
        let awake = |agent| self.enabled.iter().filter(is_awake).find(|&&step| Agent::of(step) == agent);
        self.planned.iter().find_map(|&agent| awake(agent)).copied()
    }

    /// Has a later step that races with the one taken here come first, or what it needs for that.
    fn plan(&mut self, causes: &Causes, history: &History, late: usize) {
        let early = self.steps;
        let between = (early + 1..late).filter(|&step| !causes.precede(early, step));
        let moved: Vec<usize> = between.chain([late]).collect();
        let is_first =
            |step: &usize| !moved.iter().any(|&other| other < *step && causes.precede(other, *step));
        let firsts = moved.iter().copied().filter(is_first).map(|step| Agent::of(history.steps[step]));
        let can_move = |agent: &Agent| self.enabled.iter().any(|&step| Agent::of(step) == *agent);
        let agents: Vec<Agent> = firsts.filter(can_move).collect();
        if !agents.iter().any(|agent| self.planned.contains(agent)) {
            let late = Agent::of(history.steps[late]);
            self.planned.extend(agents.iter().find(|&&agent| agent == late).or(agents.first()));
        }
    }
}

impl Dpor {
    /// Goes on to the next schedule; `false` if there is none.
    pub fn next_schedule(&mut self) -> bool {
        self.depth = 0;
        self.is_blocked = false;
        if !std::mem::replace(&mut self.has_begun, true) {
            return true;
        }
        while let Some(mut node) = self.path.pop() {
            node.asleep.push((node.taken, node.touched.clone()));
            if let Some(step) = node.next() {
                self.causes.truncate(node.steps);
                node.taken = step;
                self.path.push(node);
                return true;
            }
        }
        false
    }

    /// Whether the last execution was cut because others cover all that could still have happened.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// What could come next where something else could before, after the same steps; the execution was cut there.
    pub fn surprise(&self) -> Option<&(Vec<Step>, Vec<Step>)> {
        self.surprise.as_ref()
    }

    /// Which steps of the last execution happened before which.
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Learns from the execution of the schedule: plans the other order wherever two of its steps race. `false` if the exploration
    /// has to begin anew, because only now it is known that clients have timers.
    pub fn learn(&mut self, history: &History) -> bool {
        if !self.all_timed && history.touched.iter().any(|touch| touch.fires_timer) {
            *self = Dpor { all_timed: true, ..Dpor::default() };
            return false;
        }
        let known = self.causes.len();
        self.causes.extend(history, self.all_timed);
        let mut end = history.steps.len();
        for node in self.path.iter_mut().rev().take_while(|node| node.steps >= known) {
            node.touched = history.touched[node.steps..end].into();
            end = node.steps;
        }
        for late in known..history.steps.len() {
            for &early in self.causes.races(late) {
                // What was not chosen cannot be chosen otherwise.
                if let Ok(place) = self.path.binary_search_by_key(&early, |node| node.steps) {
                    self.path[place].plan(&self.causes, history, late);
                }
            }
        }
        true
    }
}

impl Policy for Dpor {
    fn choose(&mut self, all_enabled: &[Step], history: &History) -> Choice {
        let enabled = &single(all_enabled)[..];
        if self.depth == self.path.len() {
            let asleep = self.path.last().map(|parent| {
                let touched = &history.touched[parent.steps..];
                let conflict = if self.all_timed { Touch::conflicts_if_timed } else { Touch::conflicts_with };
                let independent = |asleep: &[Touch]| {
                    asleep.iter().all(|one| touched.iter().all(|other| !conflict(one, other)))
                };
                parent.asleep.iter().filter(|(_, asleep)| independent(asleep)).cloned().collect()
            });
            let mut node = Node {
                steps: history.steps.len(),
                enabled: enabled.to_vec(),
                taken: enabled[0],
                touched: Rc::new([]),
                planned: Vec::new(),
                asleep: asleep.unwrap_or_default(),
            };
            // What anything else would make impossible is tried first, while nothing sleeps on its account; then it is somebody's turn.
            let is_stalling = matches!(history.steps.last(), Some(Step::Advance(_)));
            let is_fleeting = |step: &Step| match step {
                Step::Skew(..) => true,
                Step::Advance(_) => is_stalling,
                _ => false,
            };
            let is_asleep = |step: &Step| node.asleep.iter().any(|(asleep, _)| asleep == step);
            let awake = |fleeting: bool| {
                enabled.iter().find(|step| is_fleeting(step) == fleeting && !is_asleep(step))
            };
            let planned = [true, false].map(|fleeting| awake(fleeting).map(|&step| Agent::of(step)));
            node.planned.extend(planned.into_iter().flatten());
            match node.next() {
                Some(step) => node.taken = step,
                None => {
                    self.is_blocked = true;
                    return Choice::Cut;
                }
            }
            self.path.push(node);
        }
        let node = &self.path[self.depth];
        self.depth += 1;
        let idx = all_enabled.iter().position(|step| *step == node.taken);
        if enabled != node.enabled {
            self.surprise = Some((node.enabled.clone(), enabled.to_vec()));
            return Choice::Cut;
        }
        idx.map_or(Choice::Cut, Choice::Take)
    }
}
