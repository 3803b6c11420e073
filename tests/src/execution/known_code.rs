//! The code of clients, as far as it is known: its number, its timers, the spans of time that it
//! distinguishes, and whether its tries come to an end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    giving_up: Noted,
    readings_inside: Noted,
    /// Codes of clients, of those that judge the end, and of probes; the place of a code is its
    /// number.
    codes: Arc<Mutex<Vec<Code<Act<()>>>>>,
    finals: Arc<Mutex<Vec<Code<Judge>>>>,
    probes: Arc<Mutex<Vec<Code<Act<bool>>>>>,
    invariants: Arc<Mutex<Vec<Code<Judges>>>>,
}

/// What was noted of the codes of clients, each with a hash. Clones share it.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<Note>>>);

type Note = (Act<()>, u64);

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
    gives_up: BTreeSet<(usize, u64)>,
    /// The actors that read their clocks inside a section, each with its latest request: see
    /// [`ActorState::readings_inside`].
    readings_inside: BTreeSet<(usize, u64)>,
    /// The spans that the code distinguishes were searched for.
    pub(crate) has_thresholds: bool,
    /// The code does not always do what was learned of it, so everything always runs.
    pub(crate) is_unlearned: bool,
}

impl KnownCode {
    /// The knowledge of both.
    pub(crate) fn or(mut self, other: KnownCode) -> KnownCode {
        self.gives_up.extend(other.gives_up);
        self.readings_inside.extend(other.readings_inside);
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

impl Noted {
    fn known(&self) -> MutexGuard<'_, Vec<Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes this of the code of an actor. Returns whether it is new.
    fn note(&self, scenario: &Scenario, actor: Actor, hash: u64) -> bool {
        let is_new = !self.of(scenario).contains(&(actor.0, hash));
        if is_new {
            self.known().push((scenario.actors[actor.0].clone(), hash));
        }
        is_new
    }

    /// What is known of the actors of a scenario.
    fn of(&self, scenario: &Scenario) -> BTreeSet<(usize, u64)> {
        let known = self.known();
        let actors = scenario.actors.iter().enumerate().filter(|_| !known.is_empty());
        let of = |(actor, act)| {
            let own = known.iter().filter(move |(other, _)| Arc::ptr_eq(other, act));
            own.map(move |&(_, hash)| (actor, hash))
        };
        actors.flat_map(of).collect()
    }
}

impl Timers {
    /// The code of this actor repeats commands in vain, but gives up by itself. The hash is that of
    /// its tries.
    pub(crate) fn gives_up(&self, scenario: &Scenario, actor: Actor, hash: u64) {
        self.giving_up.note(scenario, actor, hash);
    }

    /// After the reply to this request, the code of this actor reads its clock inside a section.
    /// Returns whether that is new.
    pub(super) fn reads_clock_inside(&self, scenario: &Scenario, actor: Actor, request: u64) -> bool {
        self.readings_inside.note(scenario, actor, request)
    }

    /// Tells the actors what is known of their code.
    pub(super) fn tell(&self, scenario: &Scenario, actors: &mut SharedList<ActorState>) {
        for (actor, tries) in self.giving_up.of(scenario) {
            actors[actor].gives_up.push(tries);
        }
        for (actor, request) in self.readings_inside.of(scenario) {
            actors[actor].readings_inside.push(request);
        }
    }

    /// The knowledge of the scenario's code that changes its schedules.
    pub(super) fn known_code(&self, scenario: &Scenario) -> KnownCode {
        KnownCode {
            gives_up: self.giving_up.of(scenario),
            readings_inside: self.readings_inside.of(scenario),
            has_thresholds: self.thresholds.get(&self.of(scenario).codes).is_some(),
            is_unlearned: false,
        }
    }

    /// Takes over what another process found out of single actors.
    pub(super) fn know_code(&self, scenario: &Scenario, known: &KnownCode) {
        let exists = |&&(actor, _): &&(usize, u64)| actor < scenario.actors.len();
        for &(actor, tries) in known.gives_up.iter().filter(exists) {
            self.gives_up(scenario, Actor(actor), tries);
        }
        for &(actor, request) in known.readings_inside.iter().filter(exists) {
            self.reads_clock_inside(scenario, Actor(actor), request);
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
        let Scenario {
            lease, faults, response_timeout, servers, replicas, reads_replicas, is_cluster, ..
        } = *scenario;
        let leases = (0..scenario.actors.len()).map(|actor| scenario.lease_of(actor)).collect();
        SimulationConfig {
            terms: Terms {
                lease,
                leases,
                servers,
                readable: if reads_replicas { replicas } else { 0 },
                response_timeout,
            },
            faults,
            replicas,
            reads_replicas,
            is_cluster,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two codes: A and B run the first one, and C the second one.
    fn scenario() -> Scenario {
        Scenario::new("codes").actors(2, |_| async { Ok(()) }).actors(1, |_| async { Ok(()) })
    }

    #[test]
    fn a_code_with_another_lease_has_another_number() {
        let timers = Timers::default();
        let check = |scenario: &Scenario, expected: [CodeId; 3]| {
            assert_eq!(timers.of(scenario).codes, expected);
        };
        let first = scenario();
        check(&first, [0, 0, 1]);
        check(&first.clone().lease(Duration::from_secs(1)), [2, 2, 3]);
        check(&first.clone().response_timeout(Duration::from_secs(1)), [4, 4, 5]);
        check(&first, [0, 0, 1]);
    }

    #[test]
    fn codes_that_judge_have_numbers_of_their_own() {
        let timers = Timers::default();
        let plain = scenario();
        let finals = plain.clone().finally("one", |_, _| async { Ok(()) });
        let finals = finals.finally("other", |_, _| async { Ok(()) });
        let judged = finals.invariant("one", |_| Ok(())).invariant("other", |_| Ok(()));
        let judged = judged.probe(1, |_| async { Ok(true) });
        let config = timers.config(&judged, Vec::new());
        assert_eq!(config.final_codes, [FINALS, FINALS + 1]);
        assert_eq!(config.invariant_codes, [0, 1]);
        assert_eq!(config.probe_code, PROBES + 1);
        assert_eq!(timers.config(&plain, Vec::new()).probe_code, PROBES);
        let other = plain.probe(1, |_| async { Ok(false) });
        assert_eq!(timers.config(&other, Vec::new()).probe_code, PROBES + 2);
    }

    #[test]
    fn processes_share_what_is_known_of_code() {
        let (timers, scenario) = (Timers::default(), scenario());
        timers.gives_up(&scenario, Actor(2), 7);
        assert!(timers.reads_clock_inside(&scenario, Actor(0), 8));
        assert!(!timers.reads_clock_inside(&scenario, Actor(1), 8), "it is known of A");
        timers.thresholds.insert(&timers.of(&scenario).codes, Vec::new());
        let known = timers.known_code(&scenario);
        assert!(known.has_thresholds);
        assert_eq!(known.gives_up, [(2, 7)].into());
        assert_eq!(known.readings_inside, [(0, 8), (1, 8)].into());

        let others = Timers::default();
        others.know_code(&scenario, &known);
        assert_eq!(others.known_code(&scenario), KnownCode { has_thresholds: false, ..known.clone() });
        // The last actor does not exist there.
        let smaller = Scenario::new("smaller").actors(2, |_| async { Ok(()) });
        others.know_code(&smaller, &known);
        assert_eq!(others.known_code(&smaller).readings_inside, known.readings_inside);
    }

    #[test]
    fn the_knowledge_of_both() {
        let nothing = KnownCode::default;
        let has_thresholds = KnownCode { has_thresholds: true, ..nothing() };
        let is_unlearned = KnownCode { is_unlearned: true, ..nothing() };
        let gives_up = KnownCode { gives_up: [(0, 1)].into(), ..nothing() };
        for known in [has_thresholds, is_unlearned, gives_up] {
            assert_eq!(nothing().or(known.clone()), known);
            assert_eq!(known.clone().or(nothing()), known);
            assert_eq!(known.clone().or(known.clone()), known);
        }
    }
}
