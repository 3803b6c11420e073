//! The scenario of an algorithm in a fault class.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use locks::Terms;
use locks::registry::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Property, Spec};

use super::bounds::{CLUSTER, must_reach, replicas};
use super::code::{Code, Manner, load_scripts};
use super::work::{self, JOB, REQUEST};
use super::{LEASE, Participants, bounds, properties};
use crate::client::Client;
use crate::oracle::{
    AtLeastOnce, AtMostOnce, ExclusiveBelief, ExclusiveFact, Fenced, NoLeak, NoLostWakeUp, OverIssue,
    OwnerSafe, Progress, Rate, Recovers, Unbroken, WriterAlone,
};
use crate::scenario::{ActorError, Scenario, boxed};
use crate::trace::Reached;

/// The section that the clients of a scenario enter.
const SECTION: &str = "cs";
/// The sections of a read-write lock.
const READING: &str = "reading";
const WRITING: &str = "writing";
const SECTIONS: [&str; 3] = [SECTION, READING, WRITING];
/// The resource that checks the tokens of a lock with fencing tokens.
const RESOURCE: &str = "lock";
/// How often each client acquires in the class [`FaultClass::Rounds`].
const ROUNDS: usize = 2;

/// The scenario of an algorithm in a fault class.
///
/// Each client acquires once, and releases if it was granted. At the end, fresh clients try to get
/// every permit. For a read-write lock, a fresh client tries to write.
///
/// Each client of a limiter makes two requests, half a window apart. In other work, each client
/// looks once whether it is to be done. A fresh client looks at the end, too.
pub fn scenario(algorithm: &'static Algorithm, class: FaultClass, size: Participants) -> Scenario {
    scenario_of_lease(algorithm, class, size, LEASE)
}

/// The scenario of [`scenario`] with another lease. Clocks are wrong by that lease, too. The faults
/// are those of the first of [`bounds`].
pub fn scenario_of_lease(
    algorithm: &'static Algorithm,
    class: FaultClass,
    size: Participants,
    lease: Duration,
) -> Scenario {
    let kind = algorithm.spec.kind;
    let is_lock = kind.is_lock();
    let manner = Manner { has_rounds: class == FaultClass::Rounds, is_cluster: class == FaultClass::Cluster };
    let code = code(algorithm, manner, lease, size.permits);
    let readers = size.readers.map_or(0, |readers| readers.min(size.clients));
    let faults = bounds(class, lease)[0].faults;
    let mut scenario = Scenario::new(format!("{} ({class})", algorithm.name))
        .servers(algorithm.servers())
        .replicas(replicas(class))
        .lease(lease)
        .faults(faults)
        .must_reach(Reached { contention: is_lock, ..must_reach(kind, &faults) });
    if manner.is_cluster {
        scenario = scenario.cluster(CLUSTER);
    }
    for (act, count) in [(code.reads, readers), (code.takes, size.clients - readers)] {
        scenario.actors.extend(std::iter::repeat_n(act, count));
    }
    scenario.before = Some(code.before);
    // A limiter lets one request through at least.
    let probes = if is_lock { size.permits } else { 1 };
    scenario.probe = (kind != AlgorithmKind::Once).then_some((probes, code.probes));
    let may_fail = !matches!(class, FaultClass::Order | FaultClass::Skew | FaultClass::Slow);
    scenario.finals.extend(code.last.map(|[if_undone, always]| if may_fail { always } else { if_undone }));
    // A lock is free when all have released it, however many there were.
    let scenario = scenario.or_fewer();
    // Some semaphores rank holders by name if their scores are equal. Their clients are not
    // interchangeable.
    let scenario = if kind == AlgorithmKind::Semaphore { scenario } else { scenario.interchangeable() };
    let asked = properties(algorithm, class);
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
        Property::NoLostWakeUp => scenario.always(NoLostWakeUp::of_all(&SECTIONS, lease)),
        Property::Progress => scenario.always(Progress::of(&SECTIONS)),
        Property::Unbroken => scenario.always(Unbroken::of(SECTION)),
        Property::Fenced => scenario.always(Fenced::of(RESOURCE)),
        Property::Rate => scenario.always(Rate::of(REQUEST, size.permits as usize, lease)),
        Property::AtMostOnce => scenario.always(AtMostOnce::of(JOB)),
        Property::AtLeastOnce => scenario.always(AtLeastOnce::of(JOB)),
    })
}

/// The algorithm, how its clients act, their lease, and the permits.
type CodeKey = (&'static str, Manner, Duration, u32);

/// The code of an algorithm. All scenarios share it, so what is known of it in one fault class is
/// known in the others.
fn code(algorithm: &'static Algorithm, manner: Manner, lease: Duration, permits: u32) -> Code {
    static KNOWN: Mutex<BTreeMap<CodeKey, Code>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let code = known.entry((algorithm.name, manner, lease, permits));
    code.or_insert_with(|| new_code(algorithm, manner, lease, permits)).clone()
}

fn new_code(algorithm: &'static Algorithm, manner: Manner, lease: Duration, permits: u32) -> Code {
    if let Some(task) = algorithm.task() {
        return work::code(algorithm, task, manner, lease, permits);
    }
    let terms = Terms { key: "lock".into(), lease, permits };
    let servers = algorithm.servers();
    let open = move |client: &Client| {
        let connect = |server| manner.connect(client, server);
        algorithm.open((0..servers).map(connect).collect(), client.env(), &terms)
    };
    let kind = algorithm.spec.kind;
    let take_part = |section| {
        let open = open.clone();
        boxed(move |client: Client| take_part(algorithm.spec, manner, section, open(&client), client))
    };
    let (reads, takes) =
        (take_part(READING), take_part(if kind == AlgorithmKind::ReadWrite { WRITING } else { SECTION }));
    let probes = boxed(move |client: Client| {
        let mut lock = open(&client);
        async move { manner.unless_refused(lock.try_acquire().await) }
    });
    let before = boxed(move |client: Client| async move { Ok(load_scripts(&client, algorithm).await?) });
    Code { before, reads, takes, probes, last: None }
}

/// The code of a client in a scenario. If it has rounds, it acquires several times with one lock,
/// and goes on after an error.
async fn take_part(
    spec: &'static Spec,
    manner: Manner,
    section: &'static str,
    mut lock: Box<dyn DynLock>,
    client: Client,
) -> Result<(), ActorError> {
    if !manner.has_rounds {
        return manner.unless_refused(acquire_and_release(spec, section, &mut *lock, &client).await);
    }
    let mut last = Ok(());
    for _round in 0..ROUNDS {
        let result = acquire_and_release(spec, section, &mut *lock, &client).await;
        // An error that no fault explains is a failure.
        last = last.and(result);
    }
    last
}

/// Acquires once, to read if the section is that of readers, and releases if it was granted. If the
/// lock can wait, the client waits. If a task renews the grant, the client works before it
/// releases. If the lock is reentrant, it works, acquires again, and releases twice.
///
/// Acquires and releases can be cancelled. If that happens to an inner one, the client still
/// releases the outer one.
///
/// The lease of a hold is that of its acquires. Renewals do not extend it.
async fn acquire_and_release(
    spec: &'static Spec,
    section: &'static str,
    lock: &mut dyn DynLock,
    client: &Client,
) -> Result<(), ActorError> {
    let since = client.true_time();
    let waits = spec.can(Ability::Waits);
    let acquire = match (section == READING, waits) {
        (true, true) => lock.acquire_read(),
        (true, false) => lock.try_read(),
        (false, true) => lock.acquire(),
        (false, false) => lock.try_acquire(),
    };
    if !client.cancellable(acquire).await.transpose()?.unwrap_or(false) {
        return Ok(());
    }
    let hold = client.hold(section).record(lock.record());
    // If the client waited, the lease counts from its last attempt, which is its last request.
    let hold = if waits { hold } else { hold.since(since) };
    let hold = hold.enter();
    // The grant counts as the write: if grants are in the order of their tokens, a resource can
    // tell later grants from earlier ones.
    if let Some(token) = lock.fencing_token() {
        client.accepted(RESOURCE, token);
    }
    if spec.can(Ability::Reenters) || spec.can(Ability::Renews) {
        () = redis::cmd("PING").query_async(&mut client.connection()).await?;
    }
    if spec.can(Ability::Reenters) {
        let since = client.true_time();
        if client.cancellable(lock.try_acquire()).await.transpose()?.unwrap_or(false) {
            hold.extend(since, lock.record());
            client.cancellable(lock.release()).await.transpose()?;
        }
    }
    client.cancellable(hold.until(lock.release())).await.transpose()?;
    Ok(())
}
