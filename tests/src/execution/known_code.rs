//! The code of clients, as far as it is known: its number, its timers, the spans of time that it
//! distinguishes, and whether its tries come to an end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::live::Terms;
use crate::memo::{CodeId, ScenarioTimers, Thresholds, TimerCache};
use crate::scenario::{Act, Judge, Scenario};
use crate::sim::{ActorState, Invariant, Judges, SharedList, SimulationConfig};

/// The timers, thresholds and ends of tries that are known, of clients of any scenario. Clones
/// share them.
#[derive(Clone, Default)]
pub(crate) struct Timers {
    cache: TimerCache,
    pub(super) thresholds: Thresholds,
    pub(super) giving_up: Arc<Mutex<Vec<GivingUp>>>,
    /// Codes of clients, of those that judge the end, and of probes; the place of a code is its
    /// number.
    codes: Arc<Mutex<Vec<Code<Act<()>>>>>,
    finals: Arc<Mutex<Vec<Code<Judge>>>>,
    probes: Arc<Mutex<Vec<Code<Act<bool>>>>>,
    invariants: Arc<Mutex<Vec<Code<Judges>>>>,
}

/// The code of a client that repeats commands in vain, but gives up by itself, and a hash of its
/// tries.
type GivingUp = (Act<()>, u64);

/// The code of a client, its lease, and how long it waits for a reply.
type Code<A> = (A, Duration, Option<Duration>);

/// The least numbers of the codes of clients that judge the end, and of probes.
const FINALS: CodeId = 1 << 32;
const PROBES: CodeId = 1 << 40;

/// The knowledge of a scenario's code that changes which schedules there are. An exploration may
/// find it late, and begins again. Processes that share an exploration must all have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCode {
    /// The actors that give up tries by themselves, with a hash of these tries.
    pub(super) gives_up: BTreeSet<(usize, u64)>,
    /// The spans that the code distinguishes were searched for.
    pub(super) has_thresholds: bool,
    /// The code does not always do what was learned of it, so everything always runs.
    pub(crate) is_unlearned: bool,
}

impl KnownCode {
    /// The knowledge of both.
    pub(crate) fn or(mut self, other: KnownCode) -> KnownCode {
        self.gives_up.extend(other.gives_up);
        self.has_thresholds |= other.has_thresholds;
        self.is_unlearned |= other.is_unlearned;
        self
    }
}

/// The number of a code. It is added if it is new.
fn number_of<A: ?Sized>(codes: &mut Vec<Code<Arc<A>>>, code: Code<Arc<A>>) -> usize {
    let is_same =
        |other: &Code<Arc<A>>| Arc::ptr_eq(&other.0, &code.0) && (other.1, other.2) == (code.1, code.2);
    codes.iter().rposition(is_same).unwrap_or_else(|| {
        codes.push(code);
        codes.len() - 1
    })
}

impl Timers {
    /// The code of this actor repeats commands in vain, but gives up by itself. The hash is that of
    /// its tries.
    pub(crate) fn gives_up(&self, scenario: &Scenario, actor: Actor, hash: u64) {
        let mut giving_up = self.giving_up.lock().unwrap_or_else(PoisonError::into_inner);
        giving_up.push((scenario.actors[actor.0].clone(), hash));
    }

    /// Notes which actors run such code.
    pub(super) fn note_giving_up(&self, scenario: &Scenario, actors: &mut SharedList<ActorState>) {
        let giving_up = self.giving_up.lock().unwrap_or_else(PoisonError::into_inner);
        for (act, actor) in scenario.actors.iter().zip(actors.iter_mut()).filter(|_| !giving_up.is_empty()) {
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

    /// The settings of all executions of a scenario whose clients have these codes.
    pub(super) fn config(&self, scenario: &Scenario, codes: Vec<CodeId>) -> SimulationConfig {
        let Scenario { lease, faults, response_timeout, servers, .. } = *scenario;
        let leases = (0..scenario.actors.len()).map(|actor| scenario.lease_of(actor)).collect();
        SimulationConfig {
            terms: Terms { lease, leases, servers, response_timeout },
            faults,
            services: scenario.services.clone(),
            final_codes: self.final_codes(scenario),
            probe_code: self.probe_code(scenario),
            invariants: scenario.invariants.clone(),
            invariant_codes: self.invariant_codes(scenario),
            thresholds: self.thresholds.get(&codes).unwrap_or_default(),
            codes,
            judges_commands: scenario.oracles.iter().any(|oracle| oracle.judges_commands()),
            judges_times: scenario.oracles.iter().any(|oracle| oracle.judges_times()),
        }
    }

    /// The numbers of the codes that judge the end.
    fn final_codes(&self, scenario: &Scenario) -> Vec<CodeId> {
        let mut finals = self.finals.lock().unwrap_or_else(PoisonError::into_inner);
        let code = |judge: &Judge| (judge.clone(), scenario.lease, scenario.response_timeout);
        scenario.finals.iter().map(|judge| FINALS + number_of(&mut finals, code(judge))).collect()
    }

    /// The numbers of the codes that judge the data.
    fn invariant_codes(&self, scenario: &Scenario) -> Vec<CodeId> {
        let mut invariants = self.invariants.lock().unwrap_or_else(PoisonError::into_inner);
        let code = |invariant: &Invariant| (invariant.judges.clone(), Duration::ZERO, None);
        scenario.invariants.iter().map(|invariant| number_of(&mut invariants, code(invariant))).collect()
    }

    /// The number of the code of the probes.
    fn probe_code(&self, scenario: &Scenario) -> CodeId {
        let Some((_, probe)) = &scenario.probe else { return PROBES };
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        PROBES + 1 + number_of(&mut probes, (probe.clone(), scenario.lease, scenario.response_timeout))
    }
}
