//! Checks an algorithm of the `locks` crate: the scenario of each fault class, and the verdict on
//! each property.

use std::fmt;
use std::time::Duration;

use locks::Terms;
use locks::registry::{ALGORITHMS, Algorithm, AlgorithmKind, AnyConnection, DynLock, FaultClass, Property};

use crate::actor::Actor;
use crate::client::Client;
use crate::execution::Runner;
use crate::explore::{Exploration, Report, explore_all, explore_few, explore_random};
use crate::fault::{Fault, FaultKind, Faults, Target};
use crate::oracle::{
    ExclusiveBelief, ExclusiveFact, NoLeak, NoLostWakeUp, OverIssue, OwnerSafe, Recovers, WriterAlone,
};
use crate::replay::{Expectation, SavedSchedule, SavedStep, Subject, replay};
use crate::scenario::{ActorError, Scenario};
use crate::schedule::{Schedule, Step};
use crate::shrink::Finding;
use crate::sim::Recording;
use crate::trace::Reached;

/// How long a grant lasts in every scenario.
pub const LEASE: Duration = Duration::from_secs(10);
/// The section that the clients of a scenario enter.
const SECTION: &str = "cs";
/// The sections of a read-write lock.
const READING: &str = "reading";
const WRITING: &str = "writing";
/// The largest number of clients in a scenario. Three clients show races that two cannot. No race
/// has been found yet that needs four.
const CLIENTS_MAX: usize = 3;
/// The number of clients whose replies can be late.
const CLIENTS_LATE: usize = 2;
/// The largest number of schedules of these clients that is explored completely. If there are more,
/// a sample of them is run.
const LATE_SCHEDULES_MAX: u64 = 10_000;
/// The largest estimated number of schedules of a scenario that is explored completely. The
/// exploration runs far fewer, because it runs one schedule for each trace.
const SCHEDULES_MAX: u64 = 100_000_000;

/// The limit for a lock whose clients wait. A waiting client wakes once more for each client before
/// it, so a larger part of the estimated schedules must run.
const WAITING_SCHEDULES_MAX: u64 = 20_000_000;

/// The numbers of clients and permits of a scenario. `Display` prints `Clients: 3; permits: 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participants {
    /// The number of clients. Each acquires once, and releases if it was granted.
    pub clients: usize,
    /// Permits of a semaphore; 1 for a lock.
    pub permits: u32,
    /// For a read-write lock, how many of the clients read. The first clients read, and the others
    /// write.
    pub readers: Option<usize>,
}

impl Participants {
    /// Keeps only the first so many clients.
    fn first(self, clients: usize) -> Participants {
        Participants { clients, readers: self.readers.map(|readers| readers.min(clients)), ..self }
    }

    fn is_mixed(self) -> bool {
        self.readers.is_some_and(|readers| 0 < readers && readers < self.clients)
    }
}

impl fmt::Display for Participants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clients: {}", self.clients)?;
        self.readers.iter().try_for_each(|readers| write!(f, "; readers: {readers}"))?;
        write!(f, "; permits: {}", self.permits)
    }
}

/// The verdict on one property of one algorithm in one fault class.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// The property.
    pub property: Property,
    /// The faults that could happen.
    pub class: FaultClass,
    /// The result.
    pub outcome: Outcome,
    /// How many schedules were run.
    pub schedules: u64,
    /// How many more executions ended early because other executions cover all that could follow.
    pub blocked: u64,
    /// Whether there were too many schedules of three clients. If so, a sample of them was run, and
    /// all schedules of two clients.
    pub is_sampled: bool,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// No schedule violates the property.
    Holds,
    /// The shortest violation that was found, with the size of its scenario. No completely explored
    /// scenario has a shorter one.
    Violated(Box<Finding>, Participants),
    /// No schedule violates the property, and none could: this event never happened.
    Vacuous(&'static str),
}

impl Verdict {
    /// Whether the algorithm's `SPEC` states that the property holds.
    pub fn is_expected_to_hold(&self) -> bool {
        self.algorithm.spec.holds(self.property, self.class)
    }

    /// Whether the verdict is the one that the `SPEC` states.
    pub fn is_as_stated(&self) -> bool {
        match self.outcome {
            Outcome::Holds => self.is_expected_to_hold(),
            Outcome::Violated(..) => !self.is_expected_to_hold(),
            Outcome::Vacuous(_) => false,
        }
    }
}

/// Returns the verdicts on all properties of an algorithm in a fault class.
///
/// It runs every schedule for as many clients as possible, up to three. If that is fewer than
/// three, it also draws `samples` schedules of three clients from the seed.
///
/// If clients stall, these replies arrive at once. Schedules of two clients whose replies can be
/// late are run in addition: all of them, or `samples` if there are too many.
///
/// # Errors
/// The algorithm's code fails.
pub fn check(
    runner: &mut Runner,
    algorithm: &'static Algorithm,
    class: FaultClass,
    samples: u64,
    seed: u64,
) -> Result<Vec<Verdict>, Box<Report>> {
    let sizes = sizes(runner, algorithm, class);
    let mut explorations: Vec<(Participants, Exploration)> = Vec::new();
    let variants = variants(class, LEASE);
    for (&size, &faults) in sizes.iter().flat_map(|size| variants.iter().map(move |faults| (size, faults))) {
        let scenario = scenario(algorithm, class, size).prompt_replies().faults(faults);
        explorations.push((size, explore_all(runner, &scenario)?));
    }
    // Late replies make explorations much larger, so they are left to two clients.
    for size in mixes(algorithm.spec.kind, CLIENTS_LATE, 1).filter(|_| class == FaultClass::Slow) {
        let scenario = scenario(algorithm, class, size);
        let late = match explore_few(runner, &scenario, LATE_SCHEDULES_MAX)? {
            Some(all) => all,
            None => explore_random(runner, &scenario, samples, seed)?,
        };
        explorations.push((size, late));
    }
    let is_sampled = sizes.iter().all(|size| size.clients < CLIENTS_MAX);
    for size in mixes(algorithm.spec.kind, CLIENTS_MAX, 1).filter(|_| is_sampled) {
        for &faults in &variants {
            let scenario = scenario(algorithm, class, size).prompt_replies().faults(faults);
            explorations.push((size, explore_random(runner, &scenario, samples, seed)?));
        }
    }
    let schedules = explorations.iter().map(|(_, exploration)| exploration.schedules).sum();
    let blocked = explorations.iter().map(|(_, exploration)| exploration.blocked).sum();
    let seen =
        explorations.iter().fold(Reached::default(), |seen, (_, exploration)| seen.or(exploration.reached));
    let missing = seen.missing(must_reach(class));
    let is_judged = |name| explorations.iter().any(|(_, exploration)| exploration.judged.contains(&name));
    let verdict = |&property: &Property| {
        let unjudged = (!is_judged(property.name())).then_some("there was nothing to judge");
        let found = explorations.iter().filter_map(|(size, e)| Some((e.finding(property.name())?, *size)));
        let shortest = found.min_by_key(|(finding, _)| (finding.violation.step, finding.actors));
        let outcome = match (shortest, missing.or(unjudged)) {
            (Some((finding, size)), _) => {
                Outcome::Violated(Box::new(finding.clone()), size.first(finding.actors))
            }
            (None, Some(missing)) => Outcome::Vacuous(missing),
            (None, None) => Outcome::Holds,
        };
        Verdict { algorithm, property, class, outcome, schedules, blocked, is_sampled }
    };
    Ok(properties(algorithm.spec.kind, class).iter().map(verdict).collect())
}

/// The sizes that are explored completely: as many clients as possible, and as many permits. If
/// some clients read and some write, smaller numbers are included, too. If all run equal code,
/// [`explore_all`] does that itself.
fn sizes(runner: &mut Runner, algorithm: &'static Algorithm, class: FaultClass) -> Vec<Participants> {
    // The number of orders follows from the number of commands of one client alone. That number is
    // largest after a server has lost its scripts.
    let alone = scenario(algorithm, class, Participants { clients: 1, permits: 1, readers: None });
    let start = Schedule {
        steps: vec![Step::Fault(Fault::new(FaultKind::Restart, Target::Server(0))), Step::Run(Actor(0), 0)],
    };
    let history = replay(runner, &alone, &start, Recording::Lean);
    let steps = history.steps.iter().filter(|step| step.actor().is_some()).count() as u64;
    let schedules = |clients: usize| {
        let places = clients as u64 * steps;
        let faults = match class {
            FaultClass::Order => 1,
            // No clock is wrong, or the clock of one client is ahead or behind.
            FaultClass::Skew => 1 + 2 * clients as u64,
            FaultClass::Crash => 1 + places,
            // Time moves to the next instant, or past it.
            FaultClass::Slow => 1 + 2 * places,
            // The request is lost, the reply is lost, or the request is sent again after a lost
            // reply.
            FaultClass::Lost => 1 + 3 * places,
            // One of the servers jumps or restarts.
            FaultClass::Server => 1 + 2 * algorithm.servers() as u64 * places,
        };
        orders(steps, clients).saturating_mul(faults)
    };
    let schedules_max = match algorithm.spec.kind {
        AlgorithmKind::Waiting => WAITING_SCHEDULES_MAX,
        AlgorithmKind::Mutex
        | AlgorithmKind::Reentrant
        | AlgorithmKind::ReadWrite
        | AlgorithmKind::Semaphore => SCHEDULES_MAX,
    };
    let clients = (2..=CLIENTS_MAX).rev().find(|&clients| schedules(clients) <= schedules_max).unwrap_or(2);
    let permits_max = match algorithm.spec.kind {
        AlgorithmKind::Mutex
        | AlgorithmKind::Reentrant
        | AlgorithmKind::Waiting
        | AlgorithmKind::ReadWrite => 1,
        // With as many permits as clients, there is never contention.
        AlgorithmKind::Semaphore => clients as u32 - 1,
    };
    let affordable =
        (1..=permits_max).take_while(|&n| n == 1 || u64::from(n) * schedules(clients) <= schedules_max);
    let sizes = affordable.flat_map(|permits| {
        (2..=clients).flat_map(move |clients| mixes(algorithm.spec.kind, clients, permits))
    });
    sizes.filter(|size| size.clients == clients || size.is_mixed()).collect()
}

/// The sizes of a scenario of `clients` clients. For a read-write lock, any number of them may
/// read.
fn mixes(kind: AlgorithmKind, clients: usize, permits: u32) -> impl Iterator<Item = Participants> {
    let readers_max = (kind == AlgorithmKind::ReadWrite).then_some(clients);
    (0..=readers_max.unwrap_or(0)).map(move |readers| Participants {
        clients,
        permits,
        readers: readers_max.map(|_| readers),
    })
}

/// In how many orders `clients` clients can take `steps` steps each: (n s)! / (s!)^n, as a product
/// of binomial coefficients.
fn orders(steps: u64, clients: usize) -> u64 {
    (2..=clients as u64).map(|n| binomial(n * steps, steps)).fold(1, u64::saturating_mul)
}

fn binomial(n: u64, k: u64) -> u64 {
    (1..=k).fold(1u64, |product, i| product.saturating_mul(n - k + i) / i)
}

/// The scenario of an algorithm in a fault class.
///
/// Each client acquires once, and releases if it was granted. At the end, fresh clients try to get
/// every permit. For a read-write lock, a fresh client tries to write.
pub fn scenario(algorithm: &'static Algorithm, class: FaultClass, size: Participants) -> Scenario {
    scenario_of_lease(algorithm, class, size, LEASE)
}

/// The scenario of [`scenario`] with another lease. Clocks are wrong by that lease, too. The faults
/// are the first of [`variants`].
pub fn scenario_of_lease(
    algorithm: &'static Algorithm,
    class: FaultClass,
    size: Participants,
    lease: Duration,
) -> Scenario {
    let terms = Terms { key: "lock".into(), lease, permits: size.permits };
    let servers = algorithm.servers();
    let open = move |client: &Client| {
        let connect = |server| AnyConnection::subscribing(client.connection_to(server));
        algorithm.open((0..servers).map(connect).collect(), client.env(), &terms)
    };
    let open_probe = open.clone();
    let kind = algorithm.spec.kind;
    let take_part = |section| {
        let open = open.clone();
        move |client: Client| take_part(kind, section, open(&client), client)
    };
    let readers = size.readers.map_or(0, |readers| readers.min(size.clients));
    let section = if kind == AlgorithmKind::ReadWrite { WRITING } else { SECTION };
    let scenario = Scenario::new(format!("{} ({class})", algorithm.name))
        .servers(servers)
        .lease(lease)
        .faults(variants(class, lease)[0])
        .must_reach(must_reach(class))
        .before(move |client| async move {
            for server in 0..servers {
                let mut connection = client.connection_to(server);
                for script in algorithm.scripts {
                    () = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?;
                }
            }
            Ok(())
        })
        .actors(readers, take_part(READING))
        .actors(size.clients - readers, take_part(section))
        .probe(size.permits, move |client| {
            let mut lock = open_probe(&client);
            async move { Ok(lock.try_acquire().await?) }
        });
    // Some semaphores rank holders by name if their scores are equal. Their clients are not
    // interchangeable.
    let scenario = if kind == AlgorithmKind::Semaphore { scenario } else { scenario.interchangeable() };
    let asked = properties(kind, class);
    asked.iter().fold(scenario, |scenario, property| match property {
        Property::ExclusiveFact => scenario.always(ExclusiveFact::of(SECTION)),
        Property::OverIssue => scenario.always(OverIssue::of(SECTION, size.permits)),
        Property::WriterAlone => scenario.always(WriterAlone::of(READING, WRITING)),
        Property::ExclusiveBelief if kind == AlgorithmKind::ReadWrite => {
            scenario.always(WriterAlone::believed(READING, WRITING))
        }
        Property::ExclusiveBelief => scenario.always(ExclusiveBelief::of(SECTION, size.permits)),
        Property::OwnerSafe => scenario.always(OwnerSafe),
        Property::Recovers => scenario.always(Recovers),
        Property::NoLeak => scenario.always(NoLeak),
        Property::NoLostWakeUp => scenario.always(NoLostWakeUp::of(SECTION, lease)),
    })
}

/// The code of a client in a scenario.
///
/// It acquires once, to read if the section is that of readers, and releases if it was granted. If
/// the lock can wait, the client waits. If the lock is reentrant, the client works, acquires again,
/// and releases twice.
///
/// The lease of a hold is that of its acquires. Renewals do not extend it.
async fn take_part(
    kind: AlgorithmKind,
    section: &'static str,
    mut lock: Box<dyn DynLock>,
    client: Client,
) -> Result<(), ActorError> {
    let since = client.now();
    let is_granted = match kind {
        AlgorithmKind::Waiting => lock.acquire().await?,
        _ if section == READING => lock.try_read().await?,
        _ => lock.try_acquire().await?,
    };
    if !is_granted {
        return Ok(());
    }
    let hold = client.hold(section).record(lock.record());
    // If the client waited, the lease counts from its last attempt, which is its last request.
    let hold = if kind == AlgorithmKind::Waiting { hold } else { hold.since(since) };
    let hold = hold.enter();
    if kind.is_reentrant() {
        () = redis::cmd("PING").query_async(&mut client.connection()).await?;
        let since = client.now();
        if lock.try_acquire().await? {
            hold.extend(since, lock.record());
            lock.release().await?;
        }
    }
    hold.until(lock.release()).await?;
    Ok(())
}

/// The counterexample of a verdict as a saved schedule; `None` if the verdict has none.
pub fn save(runner: &mut Runner, verdict: &Verdict) -> Option<SavedSchedule> {
    let Outcome::Violated(finding, size) = &verdict.outcome else { return None };
    let scenario = scenario(verdict.algorithm, verdict.class, *size).faults(finding.faults);
    let history = replay(runner, &scenario, &finding.schedule, Recording::Full);
    Some(SavedSchedule {
        subject: Subject::Algorithm {
            name: verdict.algorithm.name.into(),
            class: verdict.class,
            permits: size.permits,
            readers: size.readers,
        },
        clients: size.clients,
        lease: LEASE,
        property: verdict.property.name().into(),
        expectation: Expectation::Fail,
        steps: SavedStep::of(&history, finding.violation.step),
    })
}

/// The scenario of a saved schedule of an algorithm, with the given lease; `None` if there is no
/// such algorithm.
pub fn scenario_of(saved: &SavedSchedule, lease: Duration) -> Option<Scenario> {
    let Subject::Algorithm { name, class, permits, readers } = &saved.subject else { return None };
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name)?;
    let size = Participants { clients: saved.clients, permits: *permits, readers: *readers };
    // Steps name their faults, so a scenario with all of them replays every schedule of the class.
    let faults = variants(*class, lease).into_iter().fold(Faults::none(), Faults::or);
    Some(scenario_of_lease(algorithm, *class, size, lease).faults(faults))
}

/// The properties that are checked for a kind of lock in a fault class. Without crashes and lost
/// messages, there is nothing to recover from.
pub fn properties(kind: AlgorithmKind, class: FaultClass) -> &'static [Property] {
    use Property::{
        ExclusiveBelief, ExclusiveFact, NoLeak, NoLostWakeUp, OverIssue, OwnerSafe, Recovers, WriterAlone,
    };
    match (kind, class) {
        (
            AlgorithmKind::Mutex | AlgorithmKind::Reentrant | AlgorithmKind::Waiting,
            FaultClass::Crash | FaultClass::Lost,
        ) => &[ExclusiveFact, ExclusiveBelief, OwnerSafe, Recovers, NoLeak],
        (AlgorithmKind::Mutex | AlgorithmKind::Reentrant, _) => {
            &[ExclusiveFact, ExclusiveBelief, OwnerSafe, NoLeak]
        }
        (AlgorithmKind::Waiting, _) => &[ExclusiveFact, ExclusiveBelief, OwnerSafe, NoLeak, NoLostWakeUp],
        (AlgorithmKind::Semaphore, FaultClass::Crash | FaultClass::Lost) => {
            &[OverIssue, ExclusiveBelief, OwnerSafe, Recovers, NoLeak]
        }
        (AlgorithmKind::Semaphore, _) => &[OverIssue, ExclusiveBelief, OwnerSafe, NoLeak],
        (AlgorithmKind::ReadWrite, FaultClass::Crash | FaultClass::Lost) => {
            &[WriterAlone, ExclusiveBelief, OwnerSafe, Recovers, NoLeak]
        }
        (AlgorithmKind::ReadWrite, _) => &[WriterAlone, ExclusiveBelief, OwnerSafe, NoLeak],
    }
}

/// The fault budgets of a class. Each is explored by itself, so faults of two of them never meet in
/// one execution.
pub fn variants(class: FaultClass, lease: Duration) -> Vec<Faults> {
    let none = Faults::none();
    match class {
        FaultClass::Order => vec![none],
        FaultClass::Skew => vec![none.skew(lease), none.skew(2 * lease)],
        FaultClass::Crash => vec![none.crashes(1)],
        FaultClass::Slow => vec![none.stalls(1)],
        FaultClass::Lost => vec![none.lost(1)],
        FaultClass::Server => vec![none.jump(lease + Duration::from_millis(1)).restarts(1)],
    }
}

fn must_reach(class: FaultClass) -> Reached {
    Reached {
        contention: true,
        overrun: class == FaultClass::Slow,
        crash: class == FaultClass::Crash,
        lost: class == FaultClass::Lost,
        cancel: false,
        skew: class == FaultClass::Skew,
        server: class == FaultClass::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::{binomial, orders};

    #[test]
    fn orders_of_interleaved_steps() {
        assert_eq!(binomial(5, 2), 10);
        assert_eq!(orders(1, 3), 6);
        assert_eq!(orders(2, 3), 90);
        assert_eq!(orders(4, 3), 34_650);
        assert_eq!(orders(8, 2), 12_870);
        assert_eq!(orders(8, 3), 9_465_511_770);
    }
}
