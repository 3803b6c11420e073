//! Replays a saved schedule on a real Redis. The gate orders real connections, steps of time wait
//! in real time, and every reply is compared with the emulator's.
//!
//! The lease is shortened so that a person can wait for it. Steps of time lead well before or well
//! past the end of a key's time to live. If the emulator shows the violation with these times, the
//! real server must show it, too. If the real execution was too slow to compare, a longer lease is
//! tried.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use emulator::command::{Flag, lookup};
use emulator::{Access, Resource};
use redis::Client;

use super::failovers::{Failovers, FollowOn, losing_last};
use crate::actor::Actor;
use crate::execution::{Executed, Runner};
use crate::fault::Fault;
use crate::oracle::{Oracle, Violation};
use crate::replay::{
    Claim, ClaimError, Comparison, Edge, Follow, OnRedis, OnRedisError, RedisServers, ReplyComparison,
    Rescale, SavedSchedule, SavedStep, are_enough, match_scenario,
};
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::sim::{Recording, START, Server};
use crate::trace::{EventKind, History};

/// The leases to try, one after the other. They are whole seconds, because some algorithms count in
/// seconds.
const LEASES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(8)];
/// The part of a lease that is the slack before and after the end of a key's time to live.
const SLACK_DIVISOR: u32 = 5;

/// The longest execution to wait for.
const EXECUTION_MAX: Duration = Duration::from_secs(60);

/// Replays a saved schedule on a real server, in the selected database. If the scenario has several
/// servers, it uses the databases after it, too. They must be empty, and are empty again
/// afterwards. `scenario` makes the scenario for a lease.
///
/// [`Runner::stopper`] stops it. Its keys are deleted then, too.
///
/// Meanwhile the databases are claimed: a connection to each is named, for example,
/// `lockstep-replay-9`. Another replay there is refused. The claim is not a key, because the
/// replayed code may count keys. Only keys that its commands may have written are deleted.
///
/// # Errors
/// - A database is not empty, is claimed, or another client writes there meanwhile.
/// - The server does not answer.
/// - The schedule cannot run on a real server. If it has failovers, it needs
///   [`replay_on_servers`].
pub fn replay_on_redis(
    runner: &mut Runner,
    client: &Client,
    saved: &SavedSchedule,
    scenario: impl Fn(Duration) -> Scenario,
) -> Result<OnRedis, OnRedisError> {
    let (as_saved, oracle) = match_scenario(&scenario(saved.lease), saved)?;
    expect_failovers_alone(saved, &as_saved)?;
    if let Some(SavedStep { step, .. }) = saved.steps.iter().find(|saved| saved.step.server().is_some()) {
        return Err(OnRedisError::NeedsServers { what: format!("the schedule has the step `{step}`") });
    }
    if as_saved.reads_replicas {
        return Err(OnRedisError::NeedsServers { what: "the clients read from replicas".into() });
    }
    let rehearsal = Rehearsal::of(runner, &as_saved, &*oracle, &saved.schedule().steps)?;
    let (claim, databases) = Claim::of(client, as_saved.servers)?;
    replay_at(runner, Place::Databases(claim, databases), &rehearsal, saved, scenario)
}

/// Replays a saved schedule on servers of its own, which have been started for this scenario. In a
/// failover, a replica takes over there, too. `scenario` makes the scenario for a lease.
///
/// [`Runner::stopper`] stops it.
///
/// # Errors
/// - A server does not start, or does not answer.
/// - The schedule cannot run on real servers.
///
/// # Panics
/// The servers were started for a scenario with another number of them.
pub fn replay_on_servers(
    runner: &mut Runner,
    servers: &mut RedisServers,
    saved: &SavedSchedule,
    scenario: impl Fn(Duration) -> Scenario,
) -> Result<OnRedis, OnRedisError> {
    let (as_saved, oracle) = match_scenario(&scenario(saved.lease), saved)?;
    expect_failovers_alone(saved, &as_saved)?;
    assert_eq!(servers.clients().len(), as_saved.nodes(), "they were started for another scenario");
    let mut rehearsal = Rehearsal::of(runner, &as_saved, &*oracle, &saved.schedule().steps)?;
    if let Err(interleaved) = rehearsal.failovers() {
        let sorted = Rehearsal::of(runner, &as_saved, &*oracle, &rehearsal.losing_last())?;
        let what = |of: &Rehearsal<'_>| of.violation.as_ref().map(|violation| violation.what.clone());
        if sorted.failovers().is_err() || what(&sorted) != what(&rehearsal) {
            return Err(interleaved);
        }
        rehearsal = sorted;
    }
    if let Some(step) = rehearsal.failovers()?.unacknowledged(&rehearsal.executed) {
        return Err(OnRedisError::servers_of(step));
    }
    replay_at(runner, Place::Servers(servers), &rehearsal, saved, scenario)
}

/// Checks that the servers are no cluster, and that failovers are their only faults.
fn expect_failovers_alone(saved: &SavedSchedule, scenario: &Scenario) -> Result<(), OnRedisError> {
    if scenario.is_cluster {
        return Err(OnRedisError::Cluster);
    }
    let is_other = |fault: &Fault| fault.target.server().is_some() && !fault.is_failover();
    let other = saved.steps.iter().find(|saved| saved.step.fault().as_ref().is_some_and(is_other));
    other.map_or(Ok(()), |other| Err(OnRedisError::servers_of(other.step)))
}

/// Replays a schedule with one lease after the other, until the result is conclusive.
fn replay_at(
    runner: &mut Runner,
    place: Place<'_>,
    rehearsal: &Rehearsal<'_>,
    saved: &SavedSchedule,
    scenario: impl Fn(Duration) -> Scenario,
) -> Result<OnRedis, OnRedisError> {
    let mut redis_replay = RedisReplay { runner, place, rehearsal, named: BTreeSet::new() };
    let mut last = None;
    for lease in LEASES {
        let (scenario, _) = match_scenario(&scenario(lease), saved)?;
        redis_replay.place.begin()?;
        let on_redis = redis_replay.run(&scenario, (saved.lease, lease));
        redis_replay.place.empty(&redis_replay.named)?;
        if redis_replay.runner.is_stopped() {
            return Err(OnRedisError::Stopped);
        }
        let on_redis = on_redis?;
        let is_conclusive = !matches!(on_redis.comparison, Comparison::Inconclusive { .. });
        last = Some(on_redis);
        if is_conclusive {
            break;
        }
    }
    Ok(last.expect("there are leases to try"))
}

/// Where a schedule is replayed.
enum Place<'a> {
    /// In claimed databases, one for each server of the scenario.
    Databases(Claim, Vec<Client>),
    /// On servers that are there for nothing else.
    Servers(&'a mut RedisServers),
}

impl Place<'_> {
    /// An execution is about to begin.
    fn begin(&mut self) -> Result<(), OnRedisError> {
        match self {
            Place::Databases(..) => Ok(()),
            Place::Servers(servers) => Ok(servers.renew()?),
        }
    }

    /// Deletes these keys, if anything but this replay could see them.
    fn empty(&mut self, named: &BTreeSet<(usize, Vec<u8>)>) -> Result<(), OnRedisError> {
        let Place::Databases(claim, _) = self else { return Ok(()) };
        claim.empty(named).map_err(|error| match error {
            ClaimError::Redis(error) => OnRedisError::left(named, error),
            error => error.into(),
        })
    }
}

/// An execution of the schedule as it is, on emulators.
struct Rehearsal<'a> {
    oracle: &'a dyn Oracle,
    executed: Executed,
    survey: Rescale,
    violation: Option<Violation>,
}

impl Rehearsal<'_> {
    /// Follows these steps, which must not wait on a server.
    fn of<'a>(
        runner: &mut Runner,
        scenario: &Scenario,
        oracle: &'a dyn Oracle,
        steps: &[Step],
    ) -> Result<Rehearsal<'a>, OnRedisError> {
        let emulators = runner.emulators(scenario.nodes()).to_vec();
        let survey = || Rescale::survey(&emulators, steps.to_vec());
        let (executed, survey) = runner.run_with_thresholds(scenario, survey, Recording::Full);
        if let Some((step, command)) =
            conversation(&executed).find_map(|said| Some((said.step, waiting(&said)?)))
        {
            return Err(OnRedisError::Waits { step, command });
        }
        let violation = oracle.check(&executed);
        Ok(Rehearsal { oracle, executed, survey, violation })
    }

    /// What real replicas do in it.
    fn failovers(&self) -> Result<Failovers, OnRedisError> {
        let failovers = Failovers::of(&self.executed, &self.executed.sightings);
        failovers.map_err(|step| OnRedisError::Interleaved { step })
    }

    /// The steps in an equivalent order, in which lost writes come last.
    fn losing_last(&self) -> Vec<Step> {
        losing_last(self.survey.taken_steps(), &self.executed, &self.executed.sightings)
    }
}

/// The name of the command, if it may block. `WAIT` does not if enough replicas have acknowledged.
fn waiting(said: &Said<'_>) -> Option<String> {
    let name = said.brief.split(' ').next()?;
    let (row, _) = lookup(name.as_bytes())?;
    let waits = row.flags.contains(&Flag::Blocking)
        || name == "WAIT" && !are_enough(said.text, said.reply, said.reply);
    waits.then(|| name.to_owned())
}

/// The values that stay equal for all leases.
struct RedisReplay<'a> {
    runner: &'a mut Runner,
    place: Place<'a>,
    rehearsal: &'a Rehearsal<'a>,
    /// The keys that may have been written, each with the index of its database.
    named: BTreeSet<(usize, Vec<u8>)>,
}

impl RedisReplay<'_> {
    fn run(&mut self, scenario: &Scenario, leases: (Duration, Duration)) -> Result<OnRedis, OnRedisError> {
        let (lease, slack) = (leases.1, leases.1 / SLACK_DIVISOR);
        let (replies, comparison) = match self.emulate(scenario, leases, slack) {
            Ok((stretch, emulated)) => self.compare(scenario, &stretch, &emulated, slack)?,
            Err(inconclusive) => (0, inconclusive),
        };
        Ok(OnRedis { lease, replies, comparison })
    }

    /// Runs the schedule on the emulator with slack for a real server. The execution must be short
    /// enough to wait for.
    fn emulate(
        &mut self,
        scenario: &Scenario,
        leases: (Duration, Duration),
        slack: Duration,
    ) -> Result<(Rescale, Executed), Comparison> {
        let Rehearsal { oracle, survey, violation, .. } = self.rehearsal;
        let rescaled = [Edge::Before, Edge::Past].into_iter().find_map(|edge| {
            let stretch = || survey.rescaled(leases, slack, edge);
            let (emulated, stretch) = self.runner.run_with_thresholds(scenario, stretch, Recording::Full);
            (oracle.check(&emulated) == *violation).then_some((stretch, emulated))
        });
        let Some((stretch, emulated)) = rescaled else {
            let step = violation.as_ref().map_or(0, |violation| violation.step);
            let what = format!(
                "with this lease, and {} ms before and after the end of each time to live, the emulator no longer shows {}; does the code take its lease from `client.lease()`?",
                slack.as_millis(),
                sentence(violation.as_ref())
            );
            return Err(Comparison::Inconclusive { step, what });
        };
        if let Some(event) = emulated.events.iter().find(|event| event.at > EXECUTION_MAX) {
            let what = format!(
                "the execution takes {} s, and a replay waits for at most {} s",
                event.at.as_secs(),
                EXECUTION_MAX.as_secs()
            );
            return Err(Comparison::Inconclusive { step: event.step, what });
        }
        Ok((stretch, emulated))
    }

    /// Runs the schedule on the real servers, and compares. Returns the number of replies, too.
    fn compare(
        &mut self,
        scenario: &Scenario,
        stretch: &Rescale,
        emulated: &Executed,
        slack: Duration,
    ) -> Result<(usize, Comparison), OnRedisError> {
        let real = self.execute(scenario, stretch, emulated)?;
        // A script may write keys that its command does not name.
        self.named.extend(written(emulated).chain(real.named_keys.iter().cloned()));
        let comparison = self.difference(emulated, &real, slack);
        let parting = match comparison {
            Comparison::Different { step, .. } => step,
            _ => usize::MAX,
        };
        let late =
            first_late(&real, |step| stretch.next_end(step), slack).filter(|&(late, _)| late <= parting);
        let inconclusive = late.map(|(step, what)| Comparison::Inconclusive { step, what });
        Ok((conversation(&real).count(), inconclusive.unwrap_or(comparison)))
    }

    /// Runs the schedule on the real servers.
    fn execute(
        &mut self,
        scenario: &Scenario,
        stretch: &Rescale,
        emulated: &Executed,
    ) -> Result<Executed, OnRedisError> {
        let real = |clients: Vec<Client>| clients.into_iter().map(Server::Redis).collect();
        match &mut self.place {
            Place::Databases(_, databases) => {
                let (servers, mut follow) = (real(databases.clone()), Follow::new(stretch.steps().to_vec()));
                Ok(self.runner.run_on(servers, scenario, &mut follow, Recording::Full))
            }
            Place::Servers(own) => {
                let failovers = Failovers::of(emulated, &emulated.sightings);
                let failovers = failovers.map_err(|step| OnRedisError::Interleaved { step })?;
                let servers = real(own.clients());
                let mut follow = FollowOn::new(stretch.taken_steps(), own, failovers);
                let executed = self.runner.run_on(servers, scenario, &mut follow, Recording::Full);
                follow.error.map_or(Ok(executed), |error| Err(error.into()))
            }
        }
    }

    fn difference(&self, emulated: &History, real: &History, slack: Duration) -> Comparison {
        let starts = (START, real.started_at.unwrap_or(START));
        let mut replies_of_both = ReplyComparison::new(starts, slack);
        let (mut here, mut there) = (conversation(emulated), conversation(real));
        loop {
            let (step, what) = match (here.next(), there.next()) {
                (None, None) => break,
                (Some(here), Some(there)) => {
                    let name = here.brief.split(' ').next().unwrap_or_default();
                    let asks_same = (here.step, here.actor) == (there.step, there.actor)
                        && replies_of_both.is_same(name, here.text, there.text, there.late);
                    let is_same = are_enough(here.text, here.reply, there.reply)
                        || replies_of_both.is_same(name, here.reply, there.reply, there.late);
                    if asks_same && is_same {
                        continue;
                    }
                    let is_number = there.reply.parse::<u64>().is_ok();
                    if asks_same && is_number && are_enough(here.text, here.reply, here.reply) {
                        let what = format!("{there}: the replicas were too slow");
                        return Comparison::Inconclusive { step: there.step, what };
                    }
                    (here.step.min(there.step), format!("{here} on the emulator, {there} on the server"))
                }
                (Some(here), None) => (here.step, format!("{here} only on the emulator")),
                (None, Some(there)) => (there.step, format!("{there} only on the server")),
            };
            return Comparison::Different { step, what };
        }
        let Rehearsal { oracle, violation, .. } = self.rehearsal;
        let (violation, seen) = (violation.clone(), oracle.check(real));
        if seen == violation {
            return Comparison::Same(violation);
        }
        let step = seen.as_ref().or(violation.as_ref()).map_or(0, |violation| violation.step);
        let (here, there) = (sentence(violation.as_ref()), sentence(seen.as_ref()));
        let what = format!("{here} on the emulator, {there} on the server");
        // The replies are the same, but for times.
        if replies_of_both.has_times {
            let what = format!("{what}; there are times in the replies, and these differ a little");
            return Comparison::Inconclusive { step, what };
        }
        Comparison::Different { step, what }
    }
}

/// The keys that an execution on emulators has written.
fn written(history: &History) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let footprints = history.footprints.iter().flat_map(|footprint| &footprint.servers);
    footprints.flat_map(|(server, footprint)| {
        footprint.iter().filter_map(|(what, access, _)| match what {
            Resource::Key { key, .. } if access == Access::Write => Some((*server, key.to_vec())),
            _ => None,
        })
    })
}

fn sentence(violation: Option<&Violation>) -> String {
    violation.map_or("no violation".into(), |violation| format!("\"{}\"", violation.what))
}

/// A command and its reply, or a message.
struct Said<'a> {
    step: usize,
    at: Duration,
    actor: Actor,
    text: &'a str,
    brief: &'a str,
    reply: &'a str,
    late: Duration,
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}", self.actor, self.text, self.reply)
    }
}

fn conversation(history: &History) -> impl Iterator<Item = Said<'_>> {
    history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { actor, text, brief, reply, late, .. } => {
            let (step, at) = (event.step, event.at);
            Some(Said { step, at, actor: *actor, text, brief, reply, late: *late })
        }
        EventKind::Message { actor, text, brief, .. } => {
            let (step, at) = (event.step, event.at);
            Some(Said { step, at, actor: *actor, text, brief, reply: "", late: Duration::ZERO })
        }
        _ => None,
    })
}

/// The first command that came too late, with an explanation. `next_end` takes a number of steps,
/// and returns the next end of a time to live after them.
///
/// There are two cases. A time to live may have ended before the command. Or a time to live that
/// the command set may outlive a later step of time that must lead past its end.
fn first_late(
    real: &History,
    next_end: impl Fn(usize) -> Option<Duration>,
    slack: Duration,
) -> Option<(usize, String)> {
    // The time for the client to receive the reply and to answer.
    let margin = slack / 4;
    let is_wait = |step: &Step| step.time_moved().is_some();
    let last_wait = real.steps.iter().rposition(is_wait).map_or(0, |idx| idx + 1);
    conversation(real).find_map(|Said { step, at, late, .. }| {
        let room = next_end(step).and_then(|end| end.checked_sub(at)).filter(|room| !room.is_zero());
        let has_ended = room.is_some_and(|room| late + margin >= room);
        let may_outlive = step < last_wait && late + margin >= slack;
        (has_ended || may_outlive).then(|| {
            let room = room.map_or(String::new(), |room| {
                format!(", {} ms before the next time to live ends", room.as_millis())
            });
            (step, format!("the reply came {} ms late{room}", late.as_millis()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Event;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A history with one command in each of two steps, and 1200 ms between them.
    fn history(late: [u64; 2]) -> History {
        let said = |step, at, late| Event {
            step,
            at: ms(at),
            kind: EventKind::Command {
                actor: Actor(0),
                server: 0,
                text: String::new(),
                script: None,
                brief: String::new(),
                reply: String::new(),
                changed: Vec::new(),
                late: ms(late),
                sent: Box::default(),
            },
        };
        let steps = vec![Step::Run(Actor(0), 0), Step::Advance(ms(1200)), Step::Run(Actor(0), 0)];
        History { events: vec![said(1, 0, late[0]), said(3, 1200, late[1])], steps, ..History::default() }
    }

    #[test]
    fn a_late_reply_is_found() {
        let late = |late, next_end: [Option<Duration>; 2]| {
            first_late(&history(late), |step| next_end[usize::from(step == 3)], ms(200))
        };
        assert_eq!(late([20, 140], [Some(ms(1000)), None]), None);
        assert_eq!(late([20, 9000], [Some(ms(1000)), None]), None, "nothing can end any more");
        // If a time to live is set 160 ms late, it ends at 1160 ms. That is too close to the moment
        // at which it must be over.
        assert_eq!(
            late([160, 170], [Some(ms(1000)), None]),
            Some((1, "the reply came 160 ms late, 1000 ms before the next time to live ends".into()))
        );
        assert_eq!(
            late([20, 760], [Some(ms(1000)), Some(ms(2000))]),
            Some((3, "the reply came 760 ms late, 800 ms before the next time to live ends".into()))
        );
    }
}
