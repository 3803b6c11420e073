//! A test as a scenario: actors, fault budgets, and oracles.

mod code;
mod properties;
mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use code::{Act, Judge, boxed};
pub use code::{ActorError, from_fn};

use crate::actor::{ACTORS_MAX, Actor};
use crate::client::Client;
use crate::fault::Faults;
use crate::lint::{Allowance, LINTS};
use crate::oracle::Oracle;
use crate::schedule::SPAN_MAX;
use crate::sim::{GRACE, Invariant, Recording};
use crate::trace::Reached;

/// How long redis-rs's multiplexed connections wait for a reply by default.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The shortest time in scenarios, because leases are counted in milliseconds.
const SPAN_MIN: Duration = Duration::from_millis(1);

/// The limits of one execution. Code that reaches one of them is reported as code that does not
/// come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The number of steps; 5,000 by default.
    pub steps: usize,
    /// How often the code of one actor is polled in one step; 100,000 by default. Code that calls
    /// `yield_now` for ever reaches it.
    pub polls: u64,
    /// The real time that one execution takes on emulators; 30 seconds by default. If the code of
    /// an actor loops without an `await`, nothing can stop it. The process then exits five seconds
    /// later.
    pub wall_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 5_000, polls: 100_000, wall_time: Duration::from_secs(30) }
    }
}

/// Which replies may be late, if time can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateReplies {
    All,
    /// Those before a client reads its clock inside a section.
    BeforeReadings,
    None,
}

/// A test: its actors, the faults that may happen, and the oracles that must hold.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) actors: Vec<Act<()>>,
    /// The numbers of the actors that are services.
    pub(crate) services: BTreeSet<usize>,
    /// The leases that differ from the scenario's lease, by the number of the actor.
    leases: BTreeMap<usize, Duration>,
    pub(crate) before: Option<Act<()>>,
    pub(crate) invariants: Vec<Invariant>,
    pub(crate) finals: Vec<Judge>,
    pub(crate) probe: Option<(u32, Act<bool>)>,
    pub(crate) may_be_fewer: bool,
    /// The scenario of which this one has the first actors, if that demands all of them.
    whole: Option<Arc<Scenario>>,
    pub(crate) servers: usize,
    pub(crate) server_names: Vec<&'static str>,
    pub(crate) replicas: usize,
    pub(crate) reads_replicas: bool,
    pub(crate) is_cluster: bool,
    pub(crate) lease: Duration,
    pub(crate) response_timeout: Option<Duration>,
    pub(crate) faults: Faults,
    pub(crate) oracles: Vec<Arc<dyn Oracle>>,
    pub(crate) allowances: Vec<Allowance>,
    pub(crate) must_reach: Reached,
    pub(crate) is_interchangeable: bool,
    pub(crate) late_replies: LateReplies,
    pub(crate) limits: Limits,
}

impl Scenario {
    /// A scenario without actors. The name appears in reports.
    pub fn new(name: impl Into<String>) -> Scenario {
        Scenario {
            name: name.into(),
            actors: Vec::new(),
            services: BTreeSet::new(),
            leases: BTreeMap::new(),
            before: None,
            invariants: Vec::new(),
            finals: Vec::new(),
            probe: None,
            may_be_fewer: false,
            whole: None,
            servers: 1,
            server_names: Vec::new(),
            replicas: 0,
            reads_replicas: false,
            is_cluster: false,
            lease: Duration::from_secs(10),
            response_timeout: None,
            faults: Faults::none(),
            oracles: Vec::new(),
            allowances: Vec::new(),
            must_reach: Reached::default(),
            is_interchangeable: false,
            late_replies: LateReplies::All,
            limits: Limits::default(),
        }
    }

    /// Adds `count` actors that all run this code: a closure, or [`from_fn`] of a function.
    ///
    /// If an actor ends with an error, the test fails, with two exceptions. An actor may end with
    /// an error after a fault has given it one, such as a lost reply. It may also do so after the
    /// lease of its last hold has ended, or after its grant was lost while it was inside. If the
    /// code returns an error in other cases that are no bug, such as a timeout, return `Ok(())` in
    /// its place.
    ///
    /// # Panics
    /// There are more than 26 actors: the name of each is a letter.
    #[track_caller]
    pub fn actors<F, Fut>(mut self, count: usize, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let room = ACTORS_MAX - self.actors.len();
        assert!(count <= room, "a scenario has at most {ACTORS_MAX} actors");
        self.actors.extend(std::iter::repeat_n(boxed(act), count));
        self
    }

    /// Adds `count` actors whose grants last for `lease`, instead of the scenario's lease. Their
    /// code reads it by [`Client::lease`].
    ///
    /// # Panics
    /// As for [`actors`](Scenario::actors) and [`lease`](Scenario::lease).
    #[track_caller]
    pub fn actors_with_lease<F, Fut>(self, count: usize, lease: Duration, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let (first, lease) = (self.actors.len(), bounded("a lease", lease));
        let mut scenario = self.actors(count, act);
        scenario.leases.extend((first..scenario.actors.len()).map(|actor| (actor, lease)));
        scenario
    }

    /// Adds `count` actors whose code need not end: a worker that pops jobs for ever, a poller, a
    /// reaper, a heartbeat.
    ///
    /// An execution is over when all other actors have ended and every service waits. A service
    /// waits if it blocks on a server without a timeout, as in `BLPOP jobs 0`. It also waits if it
    /// has done the same three times with the same result. Any other one has the longest lease and
    /// two more seconds. Services end before the end is judged. With [`Faults::respawns`], a
    /// service may crash and start anew.
    ///
    /// ```
    /// use harness::{Client, Scenario};
    /// use redis::AsyncCommands as _;
    ///
    /// let queue = Scenario::new("queue")
    ///     .actors(2, |client: Client| async move { Ok(client.connection().lpush("jobs", client.name()).await?) })
    ///     .services(2, |client: Client| async move {
    ///         let mut link = client.connection();
    ///         loop {
    ///             let (_, job): (String, String) = link.brpop("jobs", 0.0).await?;
    ///             () = link.sadd("done", job).await?;
    ///         }
    ///     })
    ///     .finally("every job is done", |client, _| async move {
    ///         let done: usize = client.connection().scard("done").await?;
    ///         if done == 2 { Ok(()) } else { Err(format!("{done} of 2 jobs are done").into()) }
    ///     });
    /// harness::exhaustive(&queue).unwrap();
    /// ```
    ///
    /// # Panics
    /// As for [`actors`](Scenario::actors).
    #[track_caller]
    pub fn services<F, Fut>(self, count: usize, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let first = self.actors.len();
        let mut scenario = self.actors(count, act);
        scenario.services.extend(first..scenario.actors.len());
        scenario
    }

    /// Makes all actors so far repeat their code this many times.
    pub fn rounds(mut self, rounds: usize) -> Scenario {
        let mut repeated: Vec<(Act<()>, Act<()>)> = Vec::new();
        for act in &mut self.actors {
            // Actors that shared their code still share it.
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
        self
    }

    /// Code that runs before all steps, alone, for example to write data.
    ///
    /// It runs once, after all such code that was added earlier. Every execution starts from the
    /// servers as it left them. It must not wait for time to pass.
    pub fn before<F, Fut>(mut self, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let act = boxed(act);
        self.before = Some(match self.before.take() {
            None => act,
            Some(earlier) => boxed(move |client: Client| {
                let (earlier, act) = (earlier.clone(), act.clone());
                async move {
                    earlier(client.clone()).await?;
                    act(client).await
                }
            }),
        });
        self
    }

    /// Loads a script on every server before all steps, as a service does that has run for a while.
    ///
    /// Without it, each actor pays a `NOSCRIPT` error and a `SCRIPT LOAD` for its first use of the
    /// script. These are more steps, in all their orders. A restart of a server still loses the
    /// script.
    pub fn script(self, script: &redis::Script) -> Scenario {
        let script = Arc::new(script.clone());
        self.before(move |client| {
            let script = script.clone();
            async move {
                for server in 0..client.servers() {
                    script.load_async(&mut client.connection_to(server)).await?;
                }
                Ok(())
            }
        })
    }

    /// How long a grant lasts; ten seconds by default.
    ///
    /// # Panics
    /// The lease is shorter than a millisecond, or longer than ten years.
    #[track_caller]
    pub fn lease(self, lease: Duration) -> Scenario {
        Scenario { lease: bounded("a lease", lease), ..self }
    }

    /// Sets how long clients wait for a reply before they get a timeout error. By default,
    /// redis-rs's multiplexed connections wait for [`RESPONSE_TIMEOUT`], and those of a scenario
    /// have no timeout.
    ///
    /// After the error, a request that has not run is still on its way, like a delayed request
    /// ([`Faults::delays`]). While a command blocks on the server, there is no such limit. Time
    /// passes while a request waits only if there are stalls
    /// ([`Faults::stalls`]).
    ///
    /// # Panics
    /// The timeout is shorter than a millisecond, or longer than ten years.
    #[track_caller]
    pub fn response_timeout(self, response_timeout: Duration) -> Scenario {
        Scenario { response_timeout: Some(bounded("a response timeout", response_timeout)), ..self }
    }

    /// The fault budgets.
    ///
    /// # Panics
    /// A clock runs more than a thousand times too fast. Or it is wrong, or a server is away, for
    /// more than ten years.
    #[track_caller]
    pub fn faults(self, faults: Faults) -> Scenario {
        if let Some(excess) = faults.excess(SPAN_MAX) {
            panic!("{excess}");
        }
        Scenario { faults, ..self }
    }

    /// Adds an oracle that must hold in every execution.
    pub fn always(mut self, oracle: impl Oracle + 'static) -> Scenario {
        self.oracles.push(Arc::new(oracle));
        self
    }

    /// Allows the lint of this name, because its habit does no harm here.
    ///
    /// An [`Exploration`](crate::Exploration) then shows the reason as text. If the code does not
    /// show the habit, a warning is printed.
    ///
    /// ```
    /// use harness::Scenario;
    ///
    /// let scenario = Scenario::new("deploy lock").allow("no-ttl", "an operator removes the key by hand");
    /// ```
    ///
    /// # Panics
    /// There is no such lint.
    pub fn allow(mut self, lint: &str, reason: impl Into<String>) -> Scenario {
        let known = LINTS.iter().find(|known| known.name == lint);
        let lint = known.unwrap_or_else(|| {
            let names: Vec<&str> = LINTS.iter().map(|lint| lint.name).collect();
            panic!("there is no lint {lint:?}; the lints are {}", names.join(", "))
        });
        self.allowances.push(Allowance { lint, reason: reason.into(), is_fulfilled: false });
        self
    }

    /// The events that must happen in some execution. Otherwise a pass means nothing.
    pub fn must_reach(self, must_reach: Reached) -> Scenario {
        Scenario { must_reach, ..self }
    }

    /// Leaves out late replies and processes that stand still: no time passes between a reply and
    /// its arrival, and clients notice every timer in time. The exception is a client that reads
    /// its clock inside a section: the reply before may be late.
    ///
    /// With stalls, a command and the arrival of its reply are two steps, so explorations become
    /// larger. This bounds them, and leaves out bugs such as a lease that counts from the reply.
    pub fn prompt_replies(self) -> Scenario {
        Scenario { late_replies: LateReplies::BeforeReadings, ..self }
    }

    /// The limits of one execution.
    pub fn limits(self, limits: Limits) -> Scenario {
        Scenario { limits, ..self }
    }

    /// Declares that actors with equal code are interchangeable: neither they nor the servers
    /// depend on the actors' names or their order. [`crate::exhaustive`] then counts executions
    /// that only swap such actors as one trace.
    pub fn interchangeable(self) -> Scenario {
        Scenario { is_interchangeable: true, ..self }
    }

    /// Whether executions would have late replies, but for [`Scenario::prompt_replies`].
    pub(crate) fn are_replies_prompt(&self) -> bool {
        self.late_replies != LateReplies::All && self.faults.stalls > 0
    }

    /// Everything that bounds its executions, as a text.
    pub(crate) fn bounds(&self) -> String {
        let Scenario { servers, replicas, faults, response_timeout, limits, .. } = self;
        let leases = (0..self.actors.len()).map(|actor| format!("{:?}", self.lease_of(actor)));
        let probes = self.probe.as_ref().map_or(0, |&(count, _)| count);
        let options = [
            (self.is_uniform(), "equal code"),
            (self.is_interchangeable, "interchangeable"),
            (self.late_replies != LateReplies::All, "prompt replies"),
            (self.before.is_some(), "code before"),
            (self.may_be_fewer, "or fewer"),
            (!self.services.is_empty(), "services"),
            (self.is_cluster, "a cluster"),
        ];
        let options = options.into_iter().filter_map(|(is_set, option)| is_set.then_some(option));
        let timeout = response_timeout.map(|timeout| format!("replies within {timeout:?}"));
        let replicas = (*replicas > 0).then(|| format!("{replicas} replicas each"));
        let more: String = options
            .map(str::to_owned)
            .chain(timeout)
            .chain(replicas)
            .map(|more| format!(", {more}"))
            .collect();
        format!(
            "{} actors with leases of {}, {servers} servers, {probes} probes, {faults}{more}, {} steps at most",
            self.actors.len(),
            leases.collect::<Vec<_>>().join(" and "),
            limits.steps,
        )
    }

    /// How long the grants of an actor last.
    pub(crate) fn lease_of(&self, actor: usize) -> Duration {
        self.leases.get(&actor).copied().unwrap_or(self.lease)
    }

    /// The longest lease of all actors.
    pub(crate) fn lease_max(&self) -> Duration {
        self.leases.values().copied().max().unwrap_or_default().max(self.lease)
    }

    /// The oracles that must hold in every execution.
    pub fn oracles(&self) -> impl Iterator<Item = &Arc<dyn Oracle>> {
        self.oracles.iter()
    }

    /// Whether an oracle judges what has come about by the end.
    pub(crate) fn judges_end(&self) -> bool {
        self.oracles.iter().any(|oracle| oracle.judges_end())
    }

    /// How long after a crash, a lost message or a cancellation the end is judged.
    pub(crate) fn recovery(&self) -> Duration {
        let asked = self.oracles.iter().filter_map(|oracle| oracle.recovery()).min();
        asked.unwrap_or(self.lease_max() + GRACE)
    }

    /// How much explorations record.
    pub(crate) fn recording(&self) -> Recording {
        match self.oracles.iter().any(|oracle| oracle.needs_commands()) {
            true => Recording::Full,
            false => Recording::Lean,
        }
    }

    /// For each actor, the last earlier actor that it is interchangeable with. No trace is lost if
    /// an actor never starts before that one.
    pub(crate) fn predecessors(&self) -> Vec<Option<Actor>> {
        let is_alike = |one: usize, other: usize| {
            Arc::ptr_eq(&self.actors[one], &self.actors[other]) && self.lease_of(one) == self.lease_of(other)
        };
        let predecessor = |nth: usize| (0..nth).rev().find(|&other| is_alike(other, nth)).map(Actor);
        (0..self.actors.len()).map(|nth| predecessor(nth).filter(|_| self.is_interchangeable)).collect()
    }

    /// Whether all actors run equal code. If they do, any number of them is a scenario, too.
    pub(crate) fn is_uniform(&self) -> bool {
        self.services.is_empty() && self.actors.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1]))
    }

    /// Whether two actors run equal code.
    pub(crate) fn do_the_same(&self, one: Actor, other: Actor) -> bool {
        Arc::ptr_eq(&self.actors[one.0], &self.actors[other.0])
    }

    /// The scenario with only the first `count` actors.
    pub(crate) fn with_actors(&self, count: usize) -> Scenario {
        let mut fewer = self.clone();
        fewer.actors.truncate(count);
        if count < self.actors.len() && !self.may_be_fewer && !self.is_part() {
            fewer.whole = Some(Arc::new(self.clone()));
        }
        fewer
    }

    /// The scenario with all actors that it demands.
    pub(crate) fn whole(&self) -> &Scenario {
        self.whole.as_deref().unwrap_or(self)
    }

    /// Whether the scenario demands more actors than these.
    pub(crate) fn is_part(&self) -> bool {
        self.whole.is_some()
    }
}

/// A span of time in a scenario, if it is one.
#[track_caller]
fn bounded(what: &str, span: Duration) -> Duration {
    let is_possible = (SPAN_MIN..=SPAN_MAX).contains(&span);
    assert!(is_possible, "{what} lasts for at least a millisecond and at most ten years, not {span:?}");
    span
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
