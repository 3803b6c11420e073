//! The surroundings of executions: a paused runtime, emulators, and the timers of clients that are
//! already known. A runner does not know which schedules are worth running.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use emulator::{Clock, Emulator};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use super::panics::Collecting;
use super::watchdog::Watch;
use super::{Execution, Policy, Prepared};
use crate::scenario::{Act, Scenario};
use crate::sim::{
    ActorState, Clients, CodeId, Learned, Livelock, Quiescence, Recording, ReplyLog, Retry, ScenarioTimers,
    Server, Simulation, SimulationConfig, Thresholds, TimerCache, Tries, UnknownTimer,
};
use crate::trace::History;

/// Most times that the runtime parks in one execution: each time a timer fires, or clients do what
/// they can. Code that polls every millisecond ends here, however far a schedule moves the time.
const PARKS_MAX: u64 = 1_000_000;

/// The timers, thresholds and ends of tries that are known, of clients of any scenario. Clones
/// share them.
#[derive(Clone, Default)]
pub(crate) struct Timers {
    cache: TimerCache,
    pub(super) thresholds: Thresholds,
    giving_up: Arc<Mutex<Vec<GivingUp>>>,
    /// Codes of clients, and of probes; the place of a code is its number.
    codes: Arc<Mutex<Vec<Code<()>>>>,
    probes: Arc<Mutex<Vec<Code<bool>>>>,
    learned: Learned,
}

/// The code of a client that repeats commands in vain, but gives up by itself, and a hash of its
/// tries.
type GivingUp = (Act<()>, u64);

/// The code of a client, its lease, and how long it waits for a reply.
type Code<R> = (Act<R>, Duration, Option<Duration>);

/// The number of a code. It is added if it is new.
fn number_of<R>(codes: &mut Vec<Code<R>>, code: Code<R>) -> usize {
    let is_same = |other: &Code<R>| Arc::ptr_eq(&other.0, &code.0) && (other.1, other.2) == (code.1, code.2);
    codes.iter().rposition(is_same).unwrap_or_else(|| {
        codes.push(code);
        codes.len() - 1
    })
}

impl Timers {
    /// The code of this actor repeats commands in vain, but gives up by itself.
    pub(crate) fn gives_up(&self, scenario: &Scenario, Tries { actor, hash, .. }: Tries) {
        let mut giving_up = self.giving_up.lock().unwrap_or_else(PoisonError::into_inner);
        giving_up.push((scenario.actors[actor.0].clone(), hash));
    }

    /// Notes which actors run such code.
    fn note_giving_up(&self, scenario: &Scenario, actors: &mut [ActorState]) {
        let giving_up = self.giving_up.lock().unwrap_or_else(PoisonError::into_inner);
        for (act, actor) in scenario.actors.iter().zip(actors).filter(|_| !giving_up.is_empty()) {
            let own = giving_up.iter().filter(|(other, _)| Arc::ptr_eq(other, act));
            actor.gives_up = own.map(|&(_, tries)| tries).collect();
        }
    }

    /// The timers of the clients of a scenario.
    pub(crate) fn of(&self, scenario: &Scenario) -> ScenarioTimers {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = |actor: usize| {
            let act = scenario.actors[actor].clone();
            number_of(&mut codes, (act, scenario.lease_of(actor), scenario.response_timeout))
        };
        let codes: Vec<CodeId> = (0..scenario.actors.len()).map(&mut number).collect();
        ScenarioTimers { cache: self.cache.clone(), codes }
    }

    /// The number of the code of the probes.
    fn probe_code(&self, scenario: &Scenario) -> CodeId {
        const PROBES: CodeId = 1 << 32;
        let Some((_, probe)) = &scenario.probe else { return PROBES };
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        PROBES + 1 + number_of(&mut probes, (probe.clone(), scenario.lease, scenario.response_timeout))
    }
}

/// Runs executions, one after the other, and keeps between them what is expensive to make.
pub struct Runner {
    runtime: Runtime,
    quiescence: Arc<Quiescence>,
    watch: Arc<Watch>,
    emulators: Vec<Emulator>,
    /// The state of the emulators after the code before the actors.
    prepared: Option<Prepared>,
    pub(crate) timers: Timers,
    /// The clients of the last execution for which it is not known whether they have a timer.
    pub(crate) unknown_timers: Vec<UnknownTimer>,
    /// The clients of the last execution that tried in vain.
    pub(crate) retries: BTreeMap<Tries, Retry>,
    /// The clients of the last execution were learned.
    pub(crate) is_learned: bool,
    /// The clients of the last execution kept each other from getting on, as it seems.
    pub(crate) livelock: Option<Livelock>,
    /// The keys that commands of the last execution named on real servers and may have written.
    pub(crate) named_keys: BTreeSet<(usize, Vec<u8>)>,
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

    /// A runner with emulators of its own, that shares what is known of timers.
    pub(crate) fn with_timers(timers: Timers) -> Runner {
        let quiescence = Arc::new(Quiescence::default());
        Runner {
            runtime: build_runtime(quiescence.clone()),
            watch: Watch::new(quiescence.clone()),
            quiescence,
            emulators: Vec::new(),
            prepared: None,
            timers,
            unknown_timers: Vec::new(),
            retries: BTreeMap::new(),
            livelock: None,
            is_learned: false,
            named_keys: BTreeSet::new(),
        }
    }

    /// The emulators for so many servers.
    pub(crate) fn emulators(&mut self, count: usize) -> &[Emulator] {
        while self.emulators.len() < count {
            self.emulators.push(Emulator::with_clock(Clock::manual()));
        }
        &self.emulators[..count]
    }

    /// Runs one execution on emulators.
    pub fn run(&mut self, scenario: &Scenario, policy: &mut dyn Policy, recording: Recording) -> History {
        let servers = self.servers(scenario);
        self.run_on(servers, scenario, policy, recording)
    }

    /// Runs one execution that begins as the logged one did, with learned clients or with tasks.
    /// Returns the log of this one; if that is invalid, the history means nothing. The history is
    /// `None` if a learned client reached an unknown state.
    pub(crate) fn run_again(
        &mut self,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        reply_log: ReplyLog,
        is_learned: bool,
    ) -> (Option<History>, ReplyLog) {
        let servers = self.servers(scenario);
        let learned = self.timers.learned.clone();
        let clients = if is_learned {
            Clients::Learned(learned, Arc::default())
        } else if reply_log.is_off() {
            Clients::Tasks
        } else {
            Clients::Teachers(learned)
        };
        self.run_with(servers, scenario, policy, Recording::Lean, clients, reply_log)
    }

    /// The clients of a scenario do not always do what was learned.
    pub(crate) fn unlearn(&self, scenario: &Scenario) {
        self.timers.learned.unlearn(&self.timers.of(scenario).codes);
    }

    /// Whether what the clients of a scenario do can be learned.
    pub(crate) fn are_learnable(&self, scenario: &Scenario) -> bool {
        self.timers.learned.are_learnable(&self.timers.of(scenario).codes)
    }

    fn servers(&mut self, scenario: &Scenario) -> Vec<Server> {
        self.emulators(scenario.servers).iter().cloned().map(Server::Emulator).collect()
    }

    /// Runs one execution on any servers, as many as the scenario has. The database of a real
    /// server should be empty. The execution leaves its keys there.
    pub fn run_on(
        &mut self,
        servers: Vec<Server>,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        recording: Recording,
    ) -> History {
        let (history, _) =
            self.run_with(servers, scenario, policy, recording, Clients::Tasks, ReplyLog::default());
        history.expect("clients with tasks need not be known")
    }

    fn run_with(
        &mut self,
        servers: Vec<Server>,
        scenario: &Scenario,
        policy: &mut dyn Policy,
        recording: Recording,
        clients: Clients,
        reply_log: ReplyLog,
    ) -> (Option<History>, ReplyLog) {
        let is_learned = matches!(clients, Clients::Learned(..));
        self.is_learned = is_learned;
        let mut tasks = vec![None; scenario.actors.len()];
        let _collecting = Collecting::begin();
        let watch = self.watch.clone();
        // A schedule on a real server takes real time.
        let is_real = servers.iter().any(|server| matches!(server, Server::Redis(_)));
        let limit = if is_real { Duration::MAX } else { scenario.limits.wall_time };
        let _watching = watch.begin(&scenario.name, limit);
        let running = async {
            let timers = self.timers.of(scenario);
            let (codes, probe_code) = (timers.codes.clone(), self.timers.probe_code(scenario));
            let thresholds = self.timers.thresholds.get(&timers.codes).unwrap_or_default();
            let timers = (scenario.faults.stalls > 0).then_some(timers);
            let quiescence = self.quiescence.clone();
            let leases = (0..scenario.actors.len()).map(|actor| scenario.lease_of(actor)).collect();
            let Scenario { lease, faults, response_timeout, .. } = *scenario;
            let judges_commands = scenario.oracles.iter().any(|oracle| oracle.judges_commands());
            let config = SimulationConfig {
                lease,
                leases,
                faults,
                response_timeout,
                codes,
                probe_code,
                thresholds,
                judges_commands,
            };
            let sim = Simulation::new(servers, quiescence, config, recording, timers, clients, reply_log);
            self.timers.note_giving_up(scenario, &mut sim.state().actors);
            let parks_max = self.quiescence.parks() + PARKS_MAX;
            let (tasks, prepared) = (&mut tasks, &mut self.prepared);
            let mut execution = Execution { scenario, policy, sim, tasks, prepared, parks_max };
            execution.run().await;
            let (mut state, mut reply_log) = (execution.sim.state(), execution.sim.reply_log());
            self.unknown_timers = std::mem::take(&mut state.unknown_timers);
            self.retries = std::mem::take(&mut state.retries);
            self.livelock = state.livelock.take();
            self.named_keys = std::mem::take(&mut state.named_keys);
            let history = (!state.is_unknown).then(|| state.recorder.take());
            (history, std::mem::take(&mut *reply_log))
        };
        if is_learned {
            let mut running = pin!(running);
            let poll = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(outcome) = poll else { unreachable!("learned clients wait for nothing") };
            return outcome;
        }
        let outcome = self.runtime.block_on(running);
        // Tasks of one execution must not run in the next.
        if self.runtime.metrics().num_alive_tasks() > 0 {
            tasks.iter().flatten().for_each(AbortHandle::abort);
            self.runtime.block_on(tokio::task::yield_now());
        }
        if self.runtime.metrics().num_alive_tasks() > 0 {
            self.runtime = build_runtime(self.quiescence.clone());
        }
        outcome
    }
}

fn build_runtime(quiescence: Arc<Quiescence>) -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || quiescence.on_park())
        .build()
        .expect("a runtime without I/O needs nothing that could be missing")
}
