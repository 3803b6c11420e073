//! The policy of an exhaustive exploration. It plans schedules from races, and does not know the
//! oracles.

use std::sync::Arc;

use super::single::single;
use super::timer_probe::probe_timers;
use crate::execution::{Choice, Executed, Mode, Policy, Runner};
use crate::fault::Budget;
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::sim::{Checkpoints, Lack};
use crate::trace::{HappensBefore, History, Process, StepFootprint};

/// Runs every trace once: dynamic partial order reduction with source sets and sleep sets.
///
/// Two neighbouring independent steps can change places without any effect. All executions that
/// differ only in this way are one trace, and one of them is run. The footprint of a step is known
/// only after the step has run. If two steps of an execution race, the other order is planned at
/// the place of the first one. Source: Abdulla, Aronis, Jonsson and Sagonas, "Source Sets: A
/// Foundation for Optimal Dynamic Partial Order Reduction" (2017), algorithm 1.
///
/// Some executions turn out to be covered by others only after they have begun. They end early, as
/// blocked. The wakeup trees of that paper avoid such executions, but they need the footprint of a
/// step at a place where it has not run. The footprint of a compare-and-set there is unknown. If
/// the trees use its footprint from elsewhere, traces are lost. To know it, the step has to be
/// taken in a copy of the world. A blocked execution does just that: it begins at a checkpoint,
/// ends after about one more step, and what servers and clients do in it is remembered. So to look
/// ahead would cost what it saves.
///
/// No execution ends at a state that was reached before, because few states repeat. A state
/// consists of the servers' data, what each client has received, the time, and who is inside. In
/// large explorations there are about as many states as traces. A search by states would also have
/// to run every possible step in each state.
///
/// An execution begins where it differs from the previous one, as long as the local states of the
/// clients are known. Otherwise it runs from its start, because the state of the clients' code
/// cannot be copied.
#[derive(Debug, Default)]
pub struct Dpor {
    path: Vec<Node>,
    depth: usize,
    /// This many nodes at the start are fixed: their other steps belong to other branches.
    rooted: usize,
    /// If set, executions end after this many choices. Their continuations are branches.
    trunk: Option<usize>,
    happens_before: HappensBefore,
    has_begun: bool,
    is_blocked: bool,
    is_branch_point: bool,
    nondeterminism: Option<(Vec<Step>, Vec<Step>)>,
    /// The places from which the next execution can continue.
    checkpoints: Checkpoints,
    /// The last execution took the steps of this many nodes at the start of the path.
    common: usize,
}

/// A place with a choice.
#[derive(Clone, Debug)]
struct Node {
    /// How many steps were taken before this place.
    steps: usize,
    enabled: Vec<Step>,
    taken: Step,
    /// The footprint of the step that was taken.
    footprint: Arc<StepFootprint>,
    /// The processes whose steps are to be tried here.
    backtrack: Vec<Process>,
    /// Steps whose every continuation is covered elsewhere, until a dependent step wakes them.
    sleep_set: Vec<(Step, Arc<StepFootprint>)>,
    /// The footprints of those in the sleep set that the taken step wakes.
    woken: Vec<Arc<StepFootprint>>,
}

impl Node {
    /// Makes the node after this history, whose last step was taken at `parent`. Plans the first
    /// steps to try.
    fn new(parent: Option<&Node>, enabled: Vec<Step>, history: &History) -> Node {
        let sleep_set = parent.map(|parent| {
            let footprint = &history.footprints[parent.steps];
            parent.sleep_set.iter().filter(|(_, asleep)| !asleep.conflicts_with(footprint)).cloned().collect()
        });
        let mut node = Node {
            steps: history.steps.len(),
            taken: enabled[0],
            enabled,
            footprint: Arc::default(),
            backtrack: Vec::new(),
            sleep_set: sleep_set.unwrap_or_default(),
            woken: Vec::new(),
        };

        // A fleeting step is one that any other step makes impossible. It is tried first, before
        // other steps of this node are in the sleep set. A step of an actor comes after it.
        let has_begun = |actor| history.steps.iter().any(|step| step.actor() == Some(actor));
        let is_turn = |step: &Step| match *step {
            Step::Run(actor, _) => has_begun(actor),
            Step::Send(..) | Step::Receive(..) => true,
            _ => false,
        };
        let can_wait = node.enabled.contains(&Step::Wait) && !node.enabled.iter().any(is_turn);
        let is_fleeting =
            |step: &Step| Process::of(*step) == Process::Setup || can_wait && *step == Step::Wait;
        let awake = |fleeting| {
            let mut steps = node.enabled.iter().filter(|step| is_fleeting(step) == fleeting);
            steps.find(|step| !node.sleeps(step)).copied()
        };
        let (fleeting, turn) = (awake(true), awake(false));
        // A fault can use up the budget of another fault: all steps are tried.
        if turn.and_then(Step::budget).is_some_and(|budget| budget != Budget::STALLS) {
            node.backtrack.extend(fleeting.map(Process::of));
            node.backtrack_all();
        } else {
            node.backtrack.extend([fleeting, turn].into_iter().flatten().map(Process::of));
        }
        node
    }

    /// The next step to try. Processes come in the order in which they were planned.
    fn next(&self) -> Option<Step> {
        let awake = |process| {
            let mut steps = self.enabled.iter().filter(|&&step| Process::of(step) == process);
            steps.find(|step| !self.sleeps(step)).copied()
        };
        self.backtrack.iter().find_map(|&process| awake(process))
    }

    fn sleeps(&self, step: &Step) -> bool {
        self.sleep_set.iter().any(|(asleep, _)| asleep == step)
    }

    /// Whether this footprint wakes a step in the sleep set that the taken step wakes, too.
    fn would_wake(&self, touch: &StepFootprint) -> bool {
        self.woken.iter().any(|asleep| asleep.conflicts_with(touch))
    }

    /// The step that was taken has this footprint.
    fn set_footprint(&mut self, footprint: Arc<StepFootprint>) {
        let asleep = self.sleep_set.iter().map(|(_, asleep)| asleep);
        self.woken = asleep.filter(|asleep| asleep.conflicts_with(&footprint)).cloned().collect();
        self.footprint = footprint;
    }

    /// Plans the steps of all processes.
    fn backtrack_all(&mut self) {
        self.backtrack_where(|_| true);
    }

    /// Plans the steps of the processes for which `is_meant` holds.
    fn backtrack_where(&mut self, is_meant: impl Fn(Process) -> bool) {
        for process in self.enabled.iter().copied().map(Process::of) {
            if is_meant(process) && !self.backtrack.contains(&process) {
                self.backtrack.push(process);
            }
        }
    }

    /// Plans the other order of a race: the step `late` before the step that was taken here. If
    /// `late` is not possible here, a step that must come before it is planned instead.
    fn add_backtrack(&mut self, happens_before: &HappensBefore, history: &History, late: usize) {
        let is_planned = |&step: &Step| self.backtrack.contains(&Process::of(step));
        if self.enabled.iter().all(is_planned) {
            return;
        }
        let early = self.steps;
        let between = (early + 1..late).filter(|&step| !happens_before.precedes(early, step));
        let moved: Vec<usize> = between.chain([late]).collect();
        let is_first =
            |step: &usize| !moved.iter().any(|&other| other < *step && happens_before.precedes(other, *step));
        let firsts = moved.iter().copied().filter(is_first).map(|step| Process::of(history.steps[step]));
        let can_move = |process: &Process| self.enabled.iter().any(|&step| Process::of(step) == *process);
        let processes: Vec<Process> = firsts.filter(can_move).collect();
        if !processes.iter().any(|process| self.backtrack.contains(process)) {
            let late = Process::of(history.steps[late]);
            self.backtrack.extend(processes.iter().find(|&&process| process == late).or(processes.first()));
        }
    }
}

impl Dpor {
    /// Divides what is left. The first exploration is the trunk: the first `choices` choices, with
    /// every step tried. [`Dpor::branch`] explores what follows. The second is a branch that has
    /// begun: what is left below the choices of the last execution.
    pub fn divide(&self, choices: usize) -> (Dpor, Option<Dpor>) {
        let part = |path: &[Node]| Dpor {
            path: path.to_vec(),
            has_begun: self.has_begun,
            happens_before: self.happens_before.clone(),
            ..Dpor::default()
        };
        let common = &self.path[..choices.min(self.path.len())];
        let mut trunk = Dpor { trunk: Some(choices), rooted: self.rooted, ..part(common) };
        trunk.path.iter_mut().for_each(Node::backtrack_all);
        let has_begun_branch = self.path.len() > choices;
        (trunk, has_begun_branch.then(|| Dpor { rooted: choices, ..part(&self.path) }))
    }

    /// If the last execution ended at the limit of a trunk, returns an exploration of all
    /// executions that begin with its choices. Two branches have no trace in common.
    pub fn branch(&self) -> Option<Dpor> {
        let branch = || Dpor { path: self.path.clone(), rooted: self.path.len(), ..Dpor::default() };
        self.is_branch_point.then(branch)
    }

    /// This exploration comes next on the runner of `before`. Its first execution begins where it
    /// leaves the last one of `before`, and not at the start.
    pub fn follow(&mut self, before: Dpor) {
        let Dpor { path, happens_before, checkpoints, common, .. } = before;
        let pairs = self.path.iter().zip(&path[..common.min(path.len())]);
        let is_equal = |(own, other): &(&Node, &Node)| (own.steps, own.taken) == (other.steps, other.taken);
        self.common = pairs.take_while(is_equal).count();
        self.checkpoints = checkpoints;
        if !self.has_begun {
            self.happens_before = happens_before;
            self.happens_before.truncate(self.path.get(self.common).map_or(0, |node| node.steps));
        }
    }

    /// Runs the next schedule; `None` if there is none. The execution may have ended early: see
    /// [`Dpor::is_blocked`] and [`Dpor::nondeterminism`].
    pub fn run_next(&mut self, runner: &mut Runner, scenario: &Scenario) -> Option<Executed> {
        if !self.has_begun && self.common == 0 {
            self.happens_before = HappensBefore::with_predecessors(scenario.predecessors());
        }
        if !self.advance() {
            return None;
        }
        let kept = self.path.len();
        let common = std::mem::replace(&mut self.common, usize::MAX).min(kept.saturating_sub(1));
        let mut mode = runner.next_mode(scenario, &self.checkpoints);
        loop {
            (self.depth, self.is_blocked, self.is_branch_point) = (0, false, false);
            self.checkpoints.rewind(self.path.get(common).map_or(0, |node| node.steps));
            if mode == Mode::Learned && !self.checkpoints.is_empty() {
                self.depth = common;
            }
            let executed = match self.run_again(runner, scenario, mode) {
                Ok(executed) => executed,
                Err(lack) => {
                    mode = runner.mode_after(scenario, lack);
                    self.nondeterminism = None;
                    self.path.truncate(kept);
                    continue;
                }
            };
            // It may have ended where an earlier one had a choice, and not because of a limit.
            let missed = self.path.get(self.depth);
            if let Some(node) = missed.filter(|_| !executed.is_endless()) {
                self.nondeterminism.get_or_insert_with(|| (node.enabled.clone(), Vec::new()));
            }
            if missed.is_some() || self.nondeterminism.is_some() {
                return Some(executed);
            }
            // An execution that reached a limit is a report, whatever timers there are.
            if executed.is_endless() || !probe_timers(runner, scenario, &executed) {
                self.learn(&executed);
                return Some(executed);
            }
            // The timer cache now holds the missing timers. They change which steps depend on time,
            // so the sleep sets must be computed again.
            self.path.truncate(kept);
        }
    }

    fn run_again(&mut self, runner: &mut Runner, scenario: &Scenario, mode: Mode) -> Result<Executed, Lack> {
        let mut checkpoints = std::mem::take(&mut self.checkpoints);
        let executed = runner.run_again(scenario, self, &mut checkpoints, mode);
        self.checkpoints = checkpoints;
        executed
    }

    /// Moves to the next schedule. Returns `false` if there is none.
    fn advance(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            return true;
        }
        while self.path.len() > self.rooted
            && let Some(mut node) = self.path.pop()
        {
            node.sleep_set.push((node.taken, node.footprint.clone()));
            if let Some(step) = node.next() {
                self.happens_before.truncate(node.steps);
                node.taken = step;
                self.path.push(node);
                return true;
            }
        }
        false
    }

    /// Whether the last execution ended early because its sleep set covers all that could follow.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The steps that were possible in an earlier execution, and those that were possible now,
    /// after equal steps. `None` if they did not differ. If they did, the execution ended there.
    pub fn nondeterminism(&self) -> Option<&(Vec<Step>, Vec<Step>)> {
        self.nondeterminism.as_ref()
    }

    /// The happens-before relation of the last execution.
    pub fn happens_before(&self) -> &HappensBefore {
        &self.happens_before
    }

    /// Adds the execution to the happens-before relation. If two of its steps race, plans the other
    /// order.
    fn learn(&mut self, history: &History) {
        let known = self.happens_before.len();
        self.happens_before.extend(history);
        for node in self.path.iter_mut().rev().take_while(|node| node.steps >= known) {
            node.set_footprint(history.footprints[node.steps].clone());
            // Another process's step can make an actor run: a timer fires, or a key arrives. That
            // actor could also have taken its step before.
            let moved: Vec<Process> = node.footprint.clients().map(Process::Actor).collect();
            node.backtrack_where(|process| moved.contains(&process));
        }
        let process = |place: usize| Process::of(history.steps[place]);
        for late in known..history.steps.len() {
            let footprint = &history.footprints[late];
            // `Wait` is impossible while a client has a request to send that is not slow. The wait
            // may therefore have to come before that client's first step, or before what was slow
            // arrives.
            let may_wait = footprint.waits || footprint.awaits_timer;
            let may_sleep = may_wait || footprint.changes_readiness;
            let is_first = |early: usize| (0..early).all(|other| process(other) != process(early));
            let ends_slow = |early: usize| history.footprints[early].ends_slow;
            let before =
                (0..late).filter(|&early| may_wait && is_first(early) || may_sleep && ends_slow(early));
            for early in self.happens_before.races(late).iter().copied().chain(before) {
                // If the policy had no choice at a step, there is no node to change.
                if let Ok(place) = self.path.binary_search_by_key(&early, |node| node.steps) {
                    self.path[place].add_backtrack(&self.happens_before, history, late);
                }
            }
            // A step that was woken may touch less than its footprint in the sleep set. A step that
            // conflicts with that footprint must therefore be tried before it, too.
            for node in self.path.iter_mut().take_while(|node| node.steps < late) {
                if node.would_wake(footprint) && !self.happens_before.precedes(node.steps, late) {
                    node.add_backtrack(&self.happens_before, history, late);
                }
            }
        }
    }
}

impl Policy for Dpor {
    fn choose(&mut self, all_enabled: &[Step], history: &History) -> Choice {
        let possible = || self.happens_before.possible(single(all_enabled), history);
        if self.depth == self.path.len() {
            if self.trunk == Some(self.depth) {
                self.is_branch_point = true;
                return Choice::Abort;
            }
            let mut node = Node::new(self.path.last(), possible().collect(), history);
            if self.trunk.is_some() {
                node.backtrack_all();
            }
            let Some(step) = node.next() else {
                self.is_blocked = true;
                return Choice::Abort;
            };
            node.taken = step;
            self.path.push(node);
        } else if let known = &self.path[self.depth].enabled
            && !possible().eq(known.iter().copied())
        {
            self.nondeterminism = Some((known.clone(), possible().collect()));
            return Choice::Abort;
        }
        let taken = self.path[self.depth].taken;
        self.depth += 1;
        let idx = all_enabled.iter().position(|step| *step == taken);
        idx.map_or(Choice::Abort, Choice::Take)
    }

    fn lets_time_pass(&mut self, history: &History) -> bool {
        self.choose(&[Step::Wait], history) != Choice::Abort
    }
}
