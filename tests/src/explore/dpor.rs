use std::sync::Arc;

use super::{probe_timers, single};
use crate::execution::{Choice, Policy, Runner};
use crate::fault::Budget;
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::sim::ReplyLog;
use crate::trace::{HappensBefore, History, Process, StepFootprint};

/// Every trace once: dynamic partial order reduction with source sets and sleep sets.
///
/// Two steps that do not touch the same things may change places, so of all executions that differ in that alone one is run. What
/// steps touched is seen when they have run: wherever two of them race, the other order is planned at the place where the first was
/// taken. Abdulla, Aronis, Jonsson and Sagonas, "Source Sets: A Foundation for Optimal Dynamic Partial Order Reduction" (2017),
/// algorithm 1.
///
/// Some executions turn out to be covered by others only when they are under way, and are cut there. The wakeup trees of the same paper
/// begin none of these, but ask what a step would touch where it has not been run. Of a compare-and-set nobody knows: with trees that
/// go by what it touched elsewhere, traces are lost.
///
/// States that were reached before are not recognized: there are too few. In the largest explorations of the verdict table what the
/// servers hold, what each client has seen, the time and who is inside make 0.5 to 2.4 different states for every trace (`slow`:
/// local_reentrant 125,167 for 161,069 traces, renewed_hash 36,489 for 37,043, zset_semaphore 78,222 for 32,172), and whoever goes by
/// states has to run every step that is possible in each of them.
///
/// Every execution is run from its start, since the clients' code cannot be copied where it stands. But up to where it differs from the
/// one before, the servers are not asked again: a client that sends the same request is told the same. Where clients draw names by
/// chance, or do what leaves more than data and scripts, such as to subscribe, the servers are asked each time.
#[derive(Debug, Default)]
pub struct Dpor {
    path: Vec<Node>,
    depth: usize,
    /// At so many nodes nothing else is tried here: each of their other steps is a branch of its own.
    rooted: usize,
    /// Executions end after so many choices, if there is such a limit: from there on they are branches.
    trunk: Option<usize>,
    happens_before: HappensBefore,
    has_begun: bool,
    is_blocked: bool,
    is_branch_point: bool,
    nondeterminism: Option<(Vec<Step>, Vec<Step>)>,
    /// What the servers said in the last execution.
    reply_log: ReplyLog,
    /// That is of no use.
    is_unlogged: bool,
}

/// A place where there was a choice.
#[derive(Clone, Debug)]
struct Node {
    /// How many steps had been taken.
    steps: usize,
    enabled: Vec<Step>,
    taken: Step,
    /// What the step that was taken touched.
    footprint: Arc<StepFootprint>,
    /// Whose steps are to be tried here.
    backtrack: Vec<Process>,
    /// Steps whose every continuation is covered elsewhere, as long as nothing happens that they depend on.
    sleep_set: Vec<(Step, Arc<StepFootprint>)>,
}

impl Node {
    /// After the history, the last step of which was taken at `parent`. Some of what is enabled is planned already.
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
        };

        // What anything else would make impossible is tried first, while nothing sleeps on its account; then it is somebody's turn.
        let has_begun = |actor| history.steps.iter().any(|step| step.actor() == Some(actor));
        let is_turn = |step: &Step| matches!(*step, Step::Run(actor, _) if has_begun(actor));
        let can_wait = node.enabled.contains(&Step::Wait) && !node.enabled.iter().any(is_turn);
        let is_fleeting =
            |step: &Step| Process::of(*step) == Process::Setup || can_wait && *step == Step::Wait;
        let awake = |fleeting| {
            let mut steps = node.enabled.iter().filter(|step| is_fleeting(step) == fleeting);
            steps.find(|step| !node.sleeps(step)).copied()
        };
        let (fleeting, turn) = (awake(true), awake(false));
        // One fault may leave nothing for another. And to begin leaves no time for what would rouse those who wait for it.
        let is_fault = turn.and_then(Step::budget).is_some_and(|budget| budget != Budget::STALLS);
        if is_fault || can_wait && node.sleeps(&Step::Wait) {
            node.backtrack.extend(fleeting.map(Process::of));
            node.backtrack_all();
        } else {
            node.backtrack.extend([fleeting, turn].into_iter().flatten().map(Process::of));
        }
        node
    }

    /// The next step to be tried, of the agents in the order in which they were planned.
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

    /// Whether a step sleeps here that conflicts with this and with the one that was taken.
    fn would_wake(&self, touch: &StepFootprint) -> bool {
        let mut sleep_set = self.sleep_set.iter();
        sleep_set.any(|(_, asleep)| asleep.conflicts_with(&self.footprint) && asleep.conflicts_with(touch))
    }

    /// Has all steps tried.
    fn backtrack_all(&mut self) {
        self.backtrack_where(|_| true);
    }

    /// Has the steps of such agents tried.
    fn backtrack_where(&mut self, is_meant: impl Fn(Process) -> bool) {
        for process in self.enabled.iter().copied().map(Process::of) {
            if is_meant(process) && !self.backtrack.contains(&process) {
                self.backtrack.push(process);
            }
        }
    }

    /// Has a later step that races with the one taken here come first, or what it needs for that.
    fn add_backtrack(&mut self, happens_before: &HappensBefore, history: &History, late: usize) {
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
    /// Takes the first so many choices in every way that has to be tried, and leaves what comes then to [`Dpor::branch`].
    pub fn trunk(choices: usize) -> Dpor {
        Dpor { trunk: Some(choices), ..Dpor::default() }
    }

    /// What comes after the choices of the last execution, if it was cut for that: it runs all that begins like this. Branches
    /// have no trace in common.
    pub fn branch(&self) -> Option<Dpor> {
        let Dpor { is_unlogged, .. } = *self;
        let branch =
            || Dpor { path: self.path.clone(), rooted: self.path.len(), is_unlogged, ..Dpor::default() };
        self.is_branch_point.then(branch)
    }

    /// Runs the next schedule; `None` if there is none. It may have been cut: see [`Dpor::is_blocked`] and [`Dpor::nondeterminism`].
    pub fn run_next(&mut self, runner: &mut Runner, scenario: &Scenario) -> Option<History> {
        if !self.has_begun {
            self.happens_before = HappensBefore::with_predecessors(scenario.predecessors());
        }
        if !self.advance() {
            return None;
        }
        let kept = self.path.len();
        loop {
            (self.depth, self.is_blocked, self.is_branch_point) = (0, false, false);
            let mut reply_log = std::mem::take(&mut self.reply_log);
            if !self.is_unlogged {
                reply_log.rewind(self.path.last().map_or(0, |node| node.steps));
            }
            let (history, reply_log) = runner.run_again(scenario, self, reply_log);
            if reply_log.is_invalid() {
                (self.is_unlogged, self.nondeterminism) = (true, None);
                self.path.truncate(kept);
                continue;
            }
            self.reply_log = reply_log;
            if self.nondeterminism.is_some() {
                return Some(history);
            }
            if !probe_timers(runner, scenario, &history) {
                self.learn(&history);
                return Some(history);
            }
            // What depends on the time is known now, and what sleeps has to be judged by it.
            self.path.truncate(kept);
        }
    }

    /// Goes on to the next schedule; `false` if there is none.
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

    /// Whether the last execution was cut because others cover all that could still have happened.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// What could come next where something else could before, after the same steps; the execution was cut there.
    pub fn nondeterminism(&self) -> Option<&(Vec<Step>, Vec<Step>)> {
        self.nondeterminism.as_ref()
    }

    /// Which steps of the last execution happened before which.
    pub fn happens_before(&self) -> &HappensBefore {
        &self.happens_before
    }

    /// Learns from the execution of the schedule: plans the other order wherever two of its steps race.
    fn learn(&mut self, history: &History) {
        let known = self.happens_before.len();
        self.happens_before.extend(history);
        for node in self.path.iter_mut().rev().take_while(|node| node.steps >= known) {
            node.footprint = Arc::new(history.footprints[node.steps].clone());
            // Whoever was moved by another's step, a timer that fired or a key that came, could have moved before.
            let moved = node.footprint.actors;
            node.backtrack_where(
                |process| matches!(process, Process::Actor(actor) if moved >> actor.0 & 1 == 1),
            );
        }
        let process = |place: usize| Process::of(history.steps[place]);
        for late in known..history.steps.len() {
            let footprint = &history.footprints[late];
            // Nobody waits for time while somebody has a request to send: it may have to come before that one begins.
            let may_wait = footprint.waits || footprint.awaits_timer;
            let is_first = |early: usize| (0..early).all(|other| process(other) != process(early));
            let firsts = (0..late).filter(|&early| may_wait && is_first(early));
            for early in self.happens_before.races(late).iter().copied().chain(firsts) {
                // What was not chosen cannot be chosen otherwise.
                if let Ok(place) = self.path.binary_search_by_key(&early, |node| node.steps) {
                    self.path[place].add_backtrack(&self.happens_before, history, late);
                }
            }
            // A step that was roused may do less than it would have done where it slept. What conflicts with all of that comes
            // before it, too.
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
