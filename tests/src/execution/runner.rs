//! The surroundings of executions: a paused runtime, emulators, and the timers of clients that are
//! already known. A runner does not know which schedules are worth running.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use emulator::{Clock, Emulator};

use super::known_code::{KnownCode, Timers};
use super::lesson::Lessons;
use super::run::{Execution, Prepared};
use super::watchdog::Watch;
use super::{Policy, enabled};
use crate::actor::Actor;
use crate::live::{Code, Collecting, Live, Quiescence};
use crate::memo::{CodeId, Difference, Memory, UnknownTimer};
use crate::scenario::Scenario;
use crate::sim::{
    Checkpoints, Clients, Lack, Livelock, Recording, Retry, START, Server, Sighting, Simulation, Tries,
};
use crate::trace::History;

/// The number of executions that run the tasks of clients before learned clients take part.
const TAUGHT_MIN: u64 = 61;

/// One in this many executions runs again, to check that it is deterministic. It is a prime number,
/// because orders come in patterns of two and more. Before it, executions 1, 2, 4, 8 and so on run
/// again: many explorations are small.
const CHECKED_EVERY: u64 = 61;

/// When a runner repeats what clients and servers did before, in place of running them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learning {
    /// Never.
    Off,
    /// When the clients have run in 61 executions. Their code may depend on more than they are
    /// told; few executions take little time.
    #[default]
    Cautious,
    /// At once.
    Eager,
}

/// Whether the clients and servers of an execution run, or repeat what they did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// All clients and servers run. This is the truth.
    Real,
    /// All clients run, and servers run what is not known. Both are learned.
    Teaching,
    /// No client runs. Servers run what is not known.
    Learned,
}

/// How many runners can work at the same time: one on each core that the process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs executions, one after the other, and keeps between them what is expensive to make.
pub struct Runner {
    lessons: Lessons,
    watch: Arc<Watch>,
    emulators: Vec<Emulator>,
    /// The state of the emulators after the code before the actors.
    prepared: Option<Prepared>,
    pub(crate) timers: Timers,
    learning: Learning,
    learned: Memory,
    /// The number of executions that were explored.
    explored: u64,
}

/// An execution that has ended: its history, and what else it showed.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The history, which is all that oracles judge.
    pub history: Arc<History>,
    pub(crate) mode: Mode,
    /// Clients for which it is not known whether they have a timer.
    pub(crate) unknown_timers: Vec<UnknownTimer>,
    /// The clients that tried in vain.
    pub(crate) retries: BTreeMap<Tries, Retry>,
    /// The clients that read their clocks inside a section, each with its latest request.
    pub(crate) readings_inside: BTreeSet<(Actor, u64)>,
    /// The clients keep each other from getting on, as it seems.
    pub(crate) livelock: Option<Livelock>,
    /// The keys that commands to real servers named and may have written, each with its server.
    pub(crate) named_keys: BTreeSet<(usize, Vec<u8>)>,
    /// What replicas had when that showed, on emulators.
    pub(crate) sightings: Vec<Sighting>,
}

impl Executed {
    /// The history alone.
    pub fn into_history(self) -> History {
        Arc::unwrap_or_clone(self.history)
    }
}

impl Deref for Executed {
    type Target = History;

    fn deref(&self) -> &History {
        &self.history
    }
}

/// Stops the executions of a [`Runner`].
#[derive(Clone)]
pub struct Stopper(Arc<Quiescence>);

impl Stopper {
    /// Ends the execution that runs now before its next step, and all later ones at once. They end
    /// as those that reach a limit.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Default for Runner {
    fn default() -> Runner {
        Runner::new()
    }
}

impl Runner {
    /// A runner with emulators of its own.
    pub fn new() -> Runner {
        Runner::with_timers(Timers::default())
    }

    /// Stops the executions of this runner, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.lessons.runtime.quiescence.clone())
    }

    /// Whether a [`Stopper`] has stopped its executions.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lessons.runtime.quiescence.is_stopped()
    }

    /// Repeats what clients and servers did before from then on.
    pub fn learning(self, learning: Learning) -> Runner {
        Runner { learning, ..self }
    }

    /// A runner with emulators of its own, that knows what this one knows.
    pub(crate) fn fork(&self) -> Runner {
        let Runner { learning, learned, timers, .. } = self;
        Runner { learning: *learning, learned: learned.fork(), ..Runner::with_timers(timers.clone()) }
    }

    /// Knows from now on what the one of its forks knows that has learned most.
    pub(crate) fn adopt(&mut self, forks: Vec<Runner>) {
        if let Some(fork) = forks.into_iter().max_by_key(|fork| fork.learned.len()) {
            self.learned = fork.learned;
        }
    }

    /// A runner with emulators of its own, that shares what is known of timers.
    fn with_timers(timers: Timers) -> Runner {
        let lessons = Lessons::default();
        Runner {
            watch: Watch::new(lessons.runtime.quiescence.clone()),
            lessons,
            emulators: Vec::new(),
            prepared: None,
            timers,
            learning: Learning::default(),
            learned: Memory::default(),
            explored: 0,
        }
    }

    /// The emulators for `count` servers.
    pub(crate) fn emulators(&mut self, count: usize) -> &[Emulator] {
        while self.emulators.len() < count {
            self.emulators.push(Emulator::with_clock(Clock::manual()));
        }
        &self.emulators[..count]
    }

    /// Runs one execution on emulators.
    pub fn run(&mut self, scenario: &Scenario, policy: &mut dyn Policy, recording: Recording) -> Executed {
        let servers = self.servers(scenario);
        self.run_on(servers, scenario, policy, recording)
    }

    /// Runs one execution on any servers, as many as the scenario has. The database of a real
    /// server should be empty. The execution leaves its keys there.
    pub fn run_on(
        &mut self,
        servers: Vec<Server>,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        recording: Recording,
    ) -> Executed {
        self.run_with(servers, scenario, policy, recording, Mode::Real, None).executed
    }

    /// Runs one execution that continues at the last checkpoint, if there is one and clients are
    /// learned. Leaves the checkpoints for the next execution.
    pub(crate) fn run_again(
        &mut self,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        checkpoints: &mut Checkpoints,
        mode: Mode,
    ) -> Result<Executed, Lack> {
        let next = if mode == Mode::Learned { checkpoints.next_simulation() } else { None };
        let Outcome { executed, checkpoints: kept, lack } = match next {
            Some(sim) => {
                let kept = Some(std::mem::take(checkpoints));
                self.run_simulation(sim, None, kept, scenario, policy, mode)
            }
            None => {
                let kept = (mode != Mode::Real).then(|| std::mem::take(checkpoints));
                let servers = self.servers(scenario);
                self.run_with(servers, scenario, policy, scenario.recording(), mode, kept)
            }
        };
        *checkpoints = kept.unwrap_or_default();
        checkpoints.set_history(executed.history.clone());
        self.done(scenario, lack).map_or(Ok(executed), Err)
    }

    /// Runs one execution on emulators by what is known, as far as possible. `policy` makes the
    /// policy, once for each try. Returns also the policy that made the choices.
    pub(crate) fn run_fresh<P: Policy>(
        &mut self,
        scenario: &Scenario,
        policy: impl Fn() -> P,
        recording: Recording,
    ) -> (Executed, P) {
        self.run_from(self.best_mode(scenario), scenario, policy, recording)
    }

    /// Runs one execution on emulators in this mode, or in one that knows less.
    pub(crate) fn run_from<P: Policy>(
        &mut self,
        mut mode: Mode,
        scenario: &Scenario,
        policy: impl Fn() -> P,
        recording: Recording,
    ) -> (Executed, P) {
        loop {
            let (servers, mut tried) = (self.servers(scenario), policy());
            let Outcome { executed, lack, .. } =
                self.run_with(servers, scenario, &mut tried, recording, mode, None);
            let Some(lack) = self.done(scenario, lack) else { return (executed, tried) };
            mode = self.mode_after(scenario, lack);
        }
    }

    /// Notes if the servers of a scenario have to run everything, or if there is no memory to learn
    /// more.
    fn done(&self, scenario: &Scenario, lack: Option<Lack>) -> Option<Lack> {
        if lack == Some(Lack::NoSnapshot) || self.learned.is_full() {
            self.unlearn(scenario);
        }
        lack
    }

    /// The fastest mode that shows the truth.
    pub(crate) fn best_mode(&self, scenario: &Scenario) -> Mode {
        // Commands are recorded where they run.
        if scenario.recording() == Recording::Full {
            return Mode::Real;
        }
        let codes = self.timers.of(scenario).codes;
        let may_repeat = match self.learning {
            Learning::Off => return Mode::Real,
            Learning::Cautious => self.learned.taught(&codes) >= TAUGHT_MIN,
            Learning::Eager => true,
        };
        if !self.learned.are_servers_learnable(&codes) {
            Mode::Real
        } else if may_repeat && self.learned.are_clients_learnable(&codes) {
            Mode::Learned
        } else {
            Mode::Teaching
        }
    }

    /// The fastest mode that shows the truth, after the execution of these places.
    pub(crate) fn next_mode(&self, scenario: &Scenario, checkpoints: &Checkpoints) -> Mode {
        let is_learnable = |codes: &[CodeId]| {
            self.learned.are_servers_learnable(codes) && self.learned.are_clients_learnable(codes)
        };
        if checkpoints.codes().is_some_and(is_learnable) { Mode::Learned } else { self.best_mode(scenario) }
    }

    /// The mode in which an execution runs again that lacked this.
    pub(crate) fn mode_after(&self, scenario: &Scenario, lack: Lack) -> Mode {
        match lack {
            Lack::UnknownState => self.best_mode(scenario).min(Mode::Teaching),
            Lack::NoSnapshot => Mode::Real,
        }
    }

    /// Whether this execution is one that is checked. To be called once for each that is explored.
    pub(crate) fn is_due_for_check(&mut self) -> bool {
        self.explored += 1;
        let is_early = self.explored < CHECKED_EVERY && self.explored.is_power_of_two();
        is_early || self.explored % CHECKED_EVERY == 1
    }

    /// Forgets what takes too much memory. To be called before an exploration.
    pub(crate) fn limit_learned(&mut self) {
        if self.learned.limit() {
            self.lessons.forget();
        }
    }

    /// The clients of a scenario did something else than was learned, although they were told the
    /// same.
    pub(crate) fn note_difference(&self, scenario: &Scenario, difference: Difference) {
        self.unlearn(scenario);
        self.learned.note_difference(&self.timers.of(scenario).codes, difference);
    }

    /// How clients differed from what was learned of them. That is forgotten.
    pub(crate) fn take_difference(&self) -> Option<Difference> {
        self.learned.take_difference()
    }

    /// The clients of a scenario, or its servers, do not always do what was learned. Returns
    /// whether that is new.
    pub(crate) fn unlearn(&self, scenario: &Scenario) -> bool {
        let is_new = self.best_mode(scenario) != Mode::Real;
        self.learned.unlearn(&self.timers.of(scenario).codes);
        is_new
    }

    /// Replaces a request of clients that is remembered by another one. Returns how often.
    #[cfg(test)]
    pub(crate) fn remember_wrongly(&self, right: &redis::Cmd, wrong: &redis::Cmd) -> usize {
        self.learned.remember_wrongly(right, wrong)
    }

    fn servers(&mut self, scenario: &Scenario) -> Vec<Server> {
        self.emulators(scenario.nodes()).iter().cloned().map(Server::Emulator).collect()
    }

    fn run_with(
        &mut self,
        servers: Vec<Server>,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        recording: Recording,
        mode: Mode,
        checkpoints: Option<Checkpoints>,
    ) -> Outcome {
        let known = self.timers.of(scenario);
        let clients = match mode {
            Mode::Real => Clients::Tasks,
            Mode::Teaching => Clients::Teachers(self.learned.clone()),
            Mode::Learned => {
                self.learned.note_repeated(&known.codes);
                Clients::Learned(self.learned.clone())
            }
        };
        let config = self.timers.config(scenario, known.codes.clone());
        let runtime = self.lessons.runtime.get();
        let _entered = runtime.enter();
        let live = (mode != Mode::Learned).then(|| self.lessons.runtime.clients(config.terms.clone(), START));
        let code = live.clone().map(|live| live as Arc<dyn Code>);
        let timers = (scenario.faults.stalls > 0).then(|| known.clone());
        let mut sim = Simulation::new(servers, code, config, recording, timers, clients);
        self.timers.tell(scenario, &mut sim.world.actors);
        let outcome = self.run_simulation(Box::new(sim), live, checkpoints, scenario, policy, mode);
        self.lessons.runtime.end_tasks();
        if mode == Mode::Teaching {
            self.learned.note_taught(&known.codes);
        }
        outcome
    }

    /// Runs this execution.
    fn run_simulation(
        &mut self,
        sim: Box<Simulation>,
        live: Option<Arc<Live>>,
        checkpoints: Option<Checkpoints>,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        mode: Mode,
    ) -> Outcome {
        // A schedule on a real server takes real time.
        let is_real = sim.servers.iter().any(|server| matches!(server, Server::Redis(_)));
        let limit = if is_real { Duration::MAX } else { scenario.limits.wall_time };
        let _collecting = Collecting::begin();
        let watch = self.watch.clone();
        let _watching = watch.begin(&scenario.name, limit);
        let mut execution = Execution {
            scenario,
            policy,
            sim,
            live,
            checkpoints,
            prepared: &mut self.prepared,
            kinds: enabled::kinds(&scenario.faults),
            lessons: &mut self.lessons,
            n_lessons: 0,
        };
        execution.run();
        execution.live.iter().for_each(|live| live.end_all());
        let Execution { mut sim, checkpoints, .. } = execution;
        let world = &mut sim.world;
        let lack = world.lack();
        let executed = Executed {
            history: Arc::new(world.recorder.take()),
            mode,
            unknown_timers: std::mem::take(&mut world.unknown_timers),
            retries: std::mem::take(&mut world.retries),
            readings_inside: std::mem::take(&mut world.readings_inside),
            livelock: world.livelock.take(),
            named_keys: std::mem::take(&mut world.named_keys),
            sightings: std::mem::take(&mut world.sightings),
        };
        Outcome { executed, checkpoints: checkpoints.map(|kept| kept.after(sim)), lack }
    }
}

impl Runner {
    /// Notes the clients that read their clocks inside a section. Returns whether any is new.
    pub(crate) fn note_readings_inside(
        &self,
        scenario: &Scenario,
        readings: &BTreeSet<(Actor, u64)>,
    ) -> bool {
        // Those that judge the end are no actors of the scenario.
        let actors = readings.iter().filter(|(actor, _)| actor.0 < scenario.actors.len());
        let is_new = |&&(actor, request): &&_| self.timers.reads_clock_inside(scenario, actor, request);
        actors.filter(is_new).count() > 0
    }

    /// The knowledge of the scenario's code that changes its schedules.
    pub(crate) fn known_code(&self, scenario: &Scenario) -> KnownCode {
        self.timers.known_code(scenario)
    }

    /// Takes over what another process found out.
    pub(crate) fn know_code(&mut self, scenario: &Scenario, known: &KnownCode) {
        self.timers.know_code(scenario, known);
        if known.has_thresholds {
            self.find_thresholds(scenario);
        }
        if known.is_unlearned {
            self.unlearn(scenario);
        }
    }
}

/// An execution, and whether it counts.
struct Outcome {
    executed: Executed,
    /// The places from which the next one can continue.
    checkpoints: Option<Checkpoints>,
    /// Why it means nothing, if so.
    lack: Option<Lack>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        Scenario::new("one").actors(1, |_| async { Ok(()) })
    }

    #[test]
    fn a_fork_learns_as_its_runner_does() {
        for (learning, mode) in [(Learning::Off, Mode::Real), (Learning::Eager, Mode::Learned)] {
            let runner = Runner::new().learning(learning);
            assert_eq!((runner.best_mode(&scenario()), runner.fork().best_mode(&scenario())), (mode, mode));
        }
    }

    /// Of two forks, the one that has run anything knows more.
    #[test]
    fn a_runner_adopts_what_its_forks_have_learned() {
        let mut runner = Runner::new().learning(Learning::Eager);
        let mut forks = vec![runner.fork(), runner.fork(), runner.fork()];
        crate::explore::explore_all(&mut forks[1], &scenario()).unwrap();
        runner.adopt(forks);
        assert!(runner.learned.len() > 0);
        assert_eq!(runner.fork().learned.len(), runner.learned.len());
    }

    #[test]
    fn executions_are_checked_often_at_first() {
        let mut runner = Runner::new();
        let due: Vec<u64> = (1..=130).filter(|_| runner.is_due_for_check()).collect();
        assert_eq!(due, [1, 2, 4, 8, 16, 32, 62, 123]);
    }
}
