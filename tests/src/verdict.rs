//! Holds an algorithm of the `locks` crate to its word: the scenario of each fault class, and the verdict on each property.

use std::time::Duration;

use locks::{Algorithm, AnyConnection, FaultClass, Kind, Property, Terms};

use crate::fault::Faults;
use crate::history::Seen;
use crate::oracle::{ExclusiveBelief, ExclusiveFact, NoLeak, OverIssue, OwnerSafe, Recovers};
use crate::scenario::Scenario;

const SECTION: &str = "cs";
const LEASE: Duration = Duration::from_secs(10);

/// How many clients and permits a scenario has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Clients that each acquire once, and release if they were granted.
    pub clients: usize,
    /// Permits of a semaphore; a lock has one.
    pub permits: u32,
}

/// The scenario of an algorithm in a fault class.
pub fn scenario(algorithm: &'static Algorithm, class: FaultClass, size: Size) -> Scenario {
    let terms = Terms { key: "lock".into(), lease: LEASE, permits: size.permits };
    let faults = match class {
        FaultClass::Order => Faults::none(),
        FaultClass::Skew => Faults::none().skew(LEASE),
        FaultClass::Crash => Faults::none().crashes(1),
        FaultClass::Slow => Faults::none().stalls(1),
    };
    let must_see = Seen {
        contention: true,
        overrun: class == FaultClass::Slow,
        crash: class == FaultClass::Crash,
        skew: class == FaultClass::Skew,
    };
    let open = {
        let terms = terms.clone();
        move |client: &crate::Client| {
            (algorithm.open)(AnyConnection::new(client.connection()), client.env(), &terms)
        }
    };
    let probe = open.clone();
    let mut scenario = Scenario::new(format!("{} {class}", algorithm.name))
        .lease(LEASE)
        .faults(faults)
        .must_see(must_see)
        .actors(size.clients, move |client| {
            let mut lock = open(&client);
            async move {
                let since = client.now();
                if lock.try_acquire().await? {
                    client.hold(SECTION).since(since).record(lock.record()).until(lock.release()).await?;
                }
                Ok(())
            }
        })
        .before(move |client| async move {
            let mut connection = client.connection();
            for script in algorithm.scripts {
                () = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?;
            }
            Ok(())
        })
        .probe(size.permits, move |client| {
            let mut lock = probe(&client);
            async move { Ok(lock.try_acquire().await?) }
        });
    for &property in properties(algorithm.spec.kind, class) {
        scenario = match property {
            Property::ExclusiveFact => scenario.always(ExclusiveFact::of(SECTION)),
            Property::OverIssue => scenario.always(OverIssue::of(SECTION, size.permits)),
            Property::ExclusiveBelief => scenario.always(ExclusiveBelief::of(SECTION, size.permits)),
            Property::OwnerSafe => scenario.always(OwnerSafe),
            Property::Recovers => scenario.always(Recovers),
            Property::NoLeak => scenario.always(NoLeak),
        };
    }
    scenario
}

/// The properties that can be asked of a kind of lock in a fault class.
pub fn properties(kind: Kind, class: FaultClass) -> &'static [Property] {
    use Property::{ExclusiveBelief, ExclusiveFact, NoLeak, OverIssue, OwnerSafe, Recovers};
    match (kind, class) {
        // Where nobody crashes nothing has to recover.
        (Kind::Mutex, FaultClass::Crash) => &[ExclusiveFact, ExclusiveBelief, OwnerSafe, Recovers, NoLeak],
        (Kind::Mutex, _) => &[ExclusiveFact, ExclusiveBelief, OwnerSafe, NoLeak],
        (Kind::Semaphore, FaultClass::Crash) => &[OverIssue, ExclusiveBelief, OwnerSafe, Recovers, NoLeak],
        (Kind::Semaphore, _) => &[OverIssue, ExclusiveBelief, OwnerSafe, NoLeak],
    }
}
