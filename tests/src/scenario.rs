//! What is to be tested: actors, what may go wrong, what must hold.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::{ACTORS_MAX, Actor};
use crate::client::Client;
use crate::fault::Faults;
use crate::oracle::Oracle;
use crate::trace::{Reached, TimerCache};

/// How long redis-rs's multiplexed connections wait for a reply, unless told otherwise.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// What an actor may end with: anything that `?` can turn into an error.
pub type ActorError = Box<dyn std::error::Error + Send + Sync>;

/// An actor's code.
pub(crate) type Act<R> =
    Arc<dyn Fn(Client) -> Pin<Box<dyn Future<Output = Result<R, ActorError>> + Send>> + Send + Sync>;

/// A test: who does what, what may go wrong, and what must hold.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) actors: Vec<Act<()>>,
    /// Of those whose lease is not that of the scenario, by their numbers.
    leases: BTreeMap<usize, Duration>,
    pub(crate) before: Option<Act<()>>,
    pub(crate) probe: Option<(u32, Act<bool>)>,
    pub(crate) servers: usize,
    pub(crate) lease: Duration,
    pub(crate) response_timeout: Option<Duration>,
    pub(crate) faults: Faults,
    pub(crate) oracles: Vec<Arc<dyn Oracle>>,
    pub(crate) must_reach: Reached,
    pub(crate) is_interchangeable: bool,
    pub(crate) timers: TimerCache,
}

impl Scenario {
    /// A scenario without actors. The name is for people.
    pub fn new(name: impl Into<String>) -> Scenario {
        Scenario {
            name: name.into(),
            actors: Vec::new(),
            leases: BTreeMap::new(),
            before: None,
            probe: None,
            servers: 1,
            lease: Duration::from_secs(10),
            response_timeout: None,
            faults: Faults::none(),
            oracles: Vec::new(),
            must_reach: Reached::default(),
            is_interchangeable: false,
            timers: TimerCache::default(),
        }
    }

    /// Adds `count` actors that all run this code. An actor that ends with an error fails the test.
    ///
    /// # Panics
    /// More than 26 actors: each has a letter for its name.
    pub fn actors<F, Fut>(mut self, count: usize, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let act = boxed(act);
        self.actors.extend(std::iter::repeat_n(act, count));
        self.timers = TimerCache::default();
        assert!(self.actors.len() <= ACTORS_MAX, "a scenario has at most {ACTORS_MAX} actors");
        self
    }

    /// The same of actors whose grants last for so long, whatever those of others do: [`Client::lease`] tells their code.
    pub fn actors_with_lease<F, Fut>(mut self, count: usize, lease: Duration, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let first = self.actors.len();
        self.leases.extend((first..first + count).map(|actor| (actor, lease)));
        self.actors(count, act)
    }

    /// Has all actors so far do what they do so many times, one after the other.
    pub fn rounds(mut self, rounds: usize) -> Scenario {
        let mut repeated: Vec<(Act<()>, Act<()>)> = Vec::new();
        for act in &mut self.actors {
            // Who ran the same code still does.
            let known =
                repeated.iter().find(|(once, _)| Arc::ptr_eq(once, act)).map(|(_, again)| again.clone());
            let again = known.unwrap_or_else(|| {
                let once = act.clone();
                boxed(move |client: Client| {
                    let once = once.clone();
                    async move {
                        for _ in 0..rounds {
                            once(client.clone()).await?;
                        }
                        Ok(())
                    }
                })
            });
            repeated.push((std::mem::replace(act, again.clone()), again));
        }
        self.timers = TimerCache::default();
        self
    }

    /// Runs first, alone and outside of all steps: data that must be there, scripts to be loaded. It runs once, and every
    /// execution finds the server as it left it; it must not wait for time to pass.
    pub fn before<F, Fut>(mut self, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        self.before = Some(boxed(act));
        self
    }

    /// When all is over, this many fresh clients try to get everything that there is to get; each says whether it was granted.
    /// [`crate::oracle::NoLeak`] and [`crate::oracle::Recovers`] judge by it.
    pub fn probe<F, Fut>(mut self, count: u32, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool, ActorError>> + Send + 'static,
    {
        self.probe = Some((count, boxed(act)));
        self
    }

    /// How many independent servers there are; one unless told otherwise. [`Client::connection_to`] connects to each.
    pub fn servers(self, servers: usize) -> Scenario {
        Scenario { servers, ..self }
    }

    /// How long a grant lasts; ten seconds unless told otherwise.
    pub fn lease(self, lease: Duration) -> Scenario {
        Scenario { lease, timers: TimerCache::default(), ..self }
    }

    /// Clients give a request up that has not been answered for so long, and hear that it timed out: redis-rs's multiplexed
    /// connections do after [`RESPONSE_TIMEOUT`] unless told otherwise, those of a scenario only if told so. The request is still
    /// on its way, as one that is delayed ([`Faults::delays`]). Time passes while a request waits where there are stalls
    /// ([`Faults::stalls`]).
    pub fn response_timeout(self, response_timeout: Duration) -> Scenario {
        Scenario { response_timeout: Some(response_timeout), ..self }
    }

    /// What may go wrong.
    pub fn faults(self, faults: Faults) -> Scenario {
        Scenario { faults, ..self }
    }

    /// Something that must hold in every execution.
    pub fn always(mut self, oracle: impl Oracle + 'static) -> Scenario {
        self.oracles.push(Arc::new(oracle));
        self
    }

    /// What must have happened in some execution, or a pass means nothing.
    pub fn must_reach(self, must_reach: Reached) -> Scenario {
        Scenario { must_reach, ..self }
    }

    /// Actors that run the same code are interchangeable: nothing that they or the servers do depends on how their names sort, or
    /// on who they are. [`crate::exhaustive`] then runs one of all traces that differ in who is who.
    pub fn interchangeable(self) -> Scenario {
        Scenario { is_interchangeable: true, ..self }
    }

    /// How long the grants of an actor last.
    pub(crate) fn lease_of(&self, actor: usize) -> Duration {
        self.leases.get(&actor).copied().unwrap_or(self.lease)
    }

    /// How long a grant lasts at most.
    pub(crate) fn lease_max(&self) -> Duration {
        self.leases.values().copied().max().unwrap_or_default().max(self.lease)
    }

    /// What must hold in every execution.
    pub fn oracles(&self) -> impl Iterator<Item = &Arc<dyn Oracle>> {
        self.oracles.iter()
    }

    /// Of each actor the one before whom it need not begin: the last one before it that it is interchangeable with.
    pub(crate) fn predecessors(&self) -> Vec<Option<Actor>> {
        let is_alike = |one: usize, other: usize| {
            Arc::ptr_eq(&self.actors[one], &self.actors[other]) && self.lease_of(one) == self.lease_of(other)
        };
        let predecessor = |nth: usize| (0..nth).rev().find(|&other| is_alike(other, nth)).map(Actor);
        (0..self.actors.len()).map(|nth| predecessor(nth).filter(|_| self.is_interchangeable)).collect()
    }

    /// All actors run the same code, so that fewer of them are a scenario too.
    pub(crate) fn is_uniform(&self) -> bool {
        self.actors.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1]))
    }

    /// Whether two actors run the same code.
    pub(crate) fn do_the_same(&self, one: Actor, other: Actor) -> bool {
        Arc::ptr_eq(&self.actors[one.0], &self.actors[other.0])
    }

    /// The same with only the first `count` actors.
    pub(crate) fn with_actors(&self, count: usize) -> Scenario {
        let mut fewer = self.clone();
        fewer.actors.truncate(count);
        fewer
    }
}

fn boxed<R, F, Fut>(act: F) -> Act<R>
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ActorError>> + Send + 'static,
{
    Arc::new(move |client| Box::pin(act(client)))
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .field("actors", &self.actors.len())
            .field("lease", &self.lease)
            .field("faults", &self.faults)
            .field("oracles", &self.oracles)
            .finish_non_exhaustive()
    }
}
