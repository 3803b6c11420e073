//! Runs one execution of a scenario: one paused tokio runtime, actors as tasks, and a step chosen whenever nothing is
//! runnable. Nothing but the policy decides what happens.

mod policy;
mod runner;
mod enabled;
mod heal;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use emulator::{Emulator, Snapshot};
use tokio::task::AbortHandle;

pub use policy::{Choice, Policy};
pub use runner::Runner;

use crate::client::Client;
use crate::fault::Mishap;
use crate::scenario::{Act, Scenario};
use crate::schedule::{ACTORS_MAX, Actor, SPAN_MAX, Step, Whose};
use crate::sim::{ActorState, Lane, Pace, Server, World, no_answer};
use crate::trace::What;

/// Steps in one execution before it is cut: code that retries for ever is cut here.
pub const STEPS_MAX: usize = 1_000;
/// Time after the last lease before fresh clients try: longer than the second that careful algorithms add. And the longest that an
/// execution waits for a timer of its actors.
const GRACE: Duration = Duration::from_secs(2);
const TIMER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

struct Execution<'a> {
    scenario: &'a Scenario,
    policy: &'a mut dyn Policy,
    world: Arc<World>,
    /// Each actor's task, at its place.
    tasks: &'a mut Vec<Option<AbortHandle>>,
    prepared: &'a mut Option<(Act<()>, Vec<Snapshot>)>,
    /// When the execution has had its turns, of all that there have been.
    turns_max: u64,
}

impl Execution<'_> {
    async fn run(&mut self) {
        for server in &self.world.servers {
            let Server::Redis(client) = server else { continue };
            let pace = Pace::start(client);
            let pace = pace.unwrap_or_else(|error| panic!("{}", no_answer(client, &error)));
            self.world.pace.get_or_init(|| pace);
        }
        if let Some(before) = &self.scenario.before
            && !self.world.tape().skips_start()
        {
            self.prepare(before).await;
        }
        self.world.tape().begin();
        self.world.begin_logs();
        self.world.state().history.started_at = self.world.pace.get().map(|pace| pace.started_at);
        let mut enabled = Vec::new();
        for _ in 0..STEPS_MAX {
            if !self.world.mark() {
                return;
            }
            self.enabled_steps(&mut enabled);
            if enabled.is_empty() {
                break;
            }
            if enabled == [Step::Wait] {
                if !self.policy.lets_time_pass(&self.world.state().history) {
                    return;
                }
                self.take(Step::Wait).await;
                continue;
            }
            let choice = self.policy.choose(&enabled, &self.world.state().history);
            match choice {
                Choice::Take(idx) => self.take(enabled[idx]).await,
                Choice::Advance(span) => self.take(Step::Advance(span)).await,
                Choice::Alone(actor) => return self.leave_alone(actor).await,
                Choice::Finish => break,
                Choice::Cut => return,
            }
        }
        self.world.tape().end();
        self.heal().await;
    }

    /// Brings the servers to where every execution of the scenario begins. On emulators that is done once, and then restored.
    async fn prepare(&mut self, before: &Act<()>) {
        let emulators: Vec<Emulator> = self.world.emulators().cloned().collect();
        if emulators.is_empty() {
            return self.run_before(before).await;
        }
        if !matches!(self.prepared, Some((act, _)) if Arc::ptr_eq(act, before)) {
            self.run_before(before).await;
            *self.prepared = Some((before.clone(), emulators.iter().map(Emulator::snapshot).collect()));
            self.world.reset();
        }
        if let Some((_, snapshots)) = self.prepared {
            emulators.iter().zip(snapshots).for_each(|(emulator, snapshot)| emulator.restore(snapshot));
        }
    }

    /// Runs it, and forgets that there was such an actor.
    async fn run_before(&self, before: &Act<()>) {
        self.run_alone(ACTORS_MAX, before).await;
        assert!(self.world.now().is_zero(), "the code that a scenario runs before its actors must not wait");
        let mut state = self.world.state();
        let mut history = std::mem::take(&mut state.history);
        history.events.retain(|event| matches!(event.what, What::Failed { .. }));
        (state.history.events, state.history.named) = (history.events, history.named);
        state.actors.pop();
        state.lanes.clear();
    }

    async fn take(&mut self, step: Step) {
        self.world.state().begin(step);
        match step {
            Step::Run(actor, _) if !self.world.state().actors[actor.0].is_started => {
                self.start(actor).await;
                // With several requests at the gate, which goes first is a choice.
                if let [connection] = self.waiting_lanes(actor)[..] {
                    self.let_through(actor, connection, None).await;
                }
            }
            Step::Run(actor, connection) => self.let_through(actor, connection, None).await,
            Step::Mishap(actor, _, mishap) if !self.world.state().actors[actor.0].is_started => {
                self.start(actor).await;
                if let Some(&connection) = self.waiting_lanes(actor).first() {
                    self.let_through(actor, connection, Some(mishap)).await;
                }
            }
            Step::Mishap(actor, connection, mishap) => {
                self.let_through(actor, connection, Some(mishap)).await;
            }
            Step::Wait => _ = self.advance_until_a_timer(TIMER_MAX).await,
            Step::Start(actor) => {
                self.start(actor).await;
                self.world.record(What::Started { actor });
            }
            Step::Advance(span) => self.advance(span).await,
            Step::Crash(actor) => self.crash(actor).await,
            Step::Cancel(actor) => {
                self.world.cancel(actor);
                self.world.idle.wait().await;
            }
            Step::Late(actor, connection) => {
                let late = self.world.state().take_late(actor, connection);
                if let Some(late) = late {
                    late.await;
                }
                self.world.idle.wait().await;
            }
            Step::Jump(Whose::Server(server), by_ms) => {
                self.world.jump(server, by_ms);
                self.world.idle.wait().await;
            }
            Step::Jump(whose @ Whose::Client(actor), by_ms) => {
                self.world.set_clock(actor, |state| state.skew_ms += by_ms);
                self.world.record(What::Jumped { whose, by_ms });
            }
            Step::Restart(server) => {
                self.world.restart(server);
                self.world.idle.wait().await;
            }
            Step::Reload(server, lost) => {
                self.world.reload(server, lost);
                self.world.idle.wait().await;
            }
            Step::Flush(server) => {
                self.world.flush(server);
                self.world.idle.wait().await;
            }
            Step::Skew(whose, by_ms) => {
                match whose {
                    Whose::Client(actor) => self.world.set_clock(actor, |state| state.skew_ms = by_ms),
                    Whose::Server(server) => self.world.set_server_clock(server, |clock| clock.jump(by_ms)),
                }
                self.world.record(What::Skewed { whose, by_ms });
            }
            Step::Drift(whose, ppm) => {
                match whose {
                    Whose::Client(actor) => self.world.set_clock(actor, |state| state.drift_ppm = ppm),
                    Whose::Server(server) => self.world.set_server_clock(server, |clock| clock.drift(ppm)),
                }
                self.world.record(What::Drifts { whose, ppm });
            }
        }
        if let Some(actor) = step.actor() {
            self.world.state().moves(actor);
        }
        self.count_tasks();
        self.world.look_for_timers();
    }

    /// Notes which actors have tasks besides their own. Where it is not clear whose came, it may be anybody's; and whose went,
    /// nobody's.
    fn count_tasks(&self) {
        let mut state = self.world.state();
        let runs = |actor: &&ActorState| actor.is_started && !actor.is_finished && !actor.is_crashed;
        let own = state.actors.iter().filter(runs).count();
        let spawned = tokio::runtime::Handle::current().metrics().num_alive_tasks().saturating_sub(own);
        let known = std::mem::replace(&mut state.spawned, spawned);
        let moved = state.history.touched.last().map_or(0, |touch| touch.actors);
        for (nth, actor) in state.actors.iter_mut().enumerate() {
            let may_be_its = moved == 0 || moved >> nth & 1 == 1;
            if spawned == 0 {
                actor.spawned = 0;
            } else if moved == 1 << nth || spawned > known && may_be_its {
                actor.spawned = (actor.spawned + spawned).saturating_sub(known);
            }
        }
    }

    /// Finds out whether an actor has a timer.
    async fn leave_alone(&mut self, actor: Actor) {
        // What somebody's tasks may still do when he has come to his end is not this actor's doing either.
        for other in (0..self.scenario.actors.len()).map(Actor).filter(|&other| other != actor) {
            self.crash(other).await;
        }
        self.take(Step::Wait).await;
    }

    async fn crash(&mut self, actor: Actor) {
        self.world.crash(actor);
        self.tasks[actor.0].take().inspect(AbortHandle::abort);
        self.world.idle.wait().await;
    }

    /// Starts an actor, and waits until its requests are at the gate.
    async fn start(&mut self, actor: Actor) {
        self.world.state().actors[actor.0].is_started = true;
        let task = self.spawn(actor, &self.scenario.actors[actor.0], |_| {});
        self.tasks[actor.0] = Some(task);
        self.world.idle.wait().await;
    }

    fn spawn<R: 'static>(
        &self,
        actor: Actor,
        act: &Act<R>,
        done: impl FnOnce(R) + Send + 'static,
    ) -> AbortHandle {
        let client = Client::new(self.world.clone(), actor);
        let finish = Finish { world: self.world.clone(), actor };
        let (act, world) = (act.clone(), self.world.clone());
        tokio::spawn(async move {
            // Dropped last, and also when the task is aborted.
            let _finish = finish;
            let mut running = pin!(async { act(client).await });
            let running = poll_fn(|cx| {
                world.state().moves(actor);
                world.shows(actor, String::new);
                let poll = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
                poll.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
            });
            match running.await {
                Ok(Ok(result)) => done(result),
                Ok(Err(error)) => {
                    let error = error.to_string();
                    let is_hit = world.state().is_hit(actor);
                    world.record(if is_hit {
                        What::GaveUp { actor, error }
                    } else {
                        What::Failed { actor, error }
                    });
                }
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or(panic.downcast_ref::<&str>().copied());
                    let text = text.unwrap_or("something that is no text");
                    world.record(What::Failed { actor, error: format!("its code panicked: {text}") });
                }
            }
        })
        .abort_handle()
    }

    /// Lets one waiting request through, and waits until the client has dealt with the reply, or with what befell it.
    async fn let_through(&mut self, actor: Actor, connection: usize, mishap: Option<Mishap>) {
        {
            let mut state = self.world.state();
            let waits = |lane: &Lane| lane.actor == actor && lane.nth == connection && lane.waits();
            let Some(lane) = state.lanes.iter().position(waits) else { return };
            state.grant(lane, mishap);
        }
        self.world.idle.wait().await;
    }

    /// Moves time on by `span`. What timers of clients make them send meanwhile waits at the gate.
    async fn advance(&self, span: Duration) {
        let before = self.world.now();
        self.world.let_time_move();
        tokio::select! {
            biased;
            () = self.world.idle.wait_for_turns(self.turns_max) => {}
            () = tokio::time::sleep_until(self.world.instant(before + span.min(SPAN_MAX))) => {}
        }
        self.world.idle.wait().await;
        self.advanced(before);
    }

    /// Moves time on by `span`, or until a timer of a client's made it do something; says whether anything did.
    async fn advance_until_a_timer(&self, span: Duration) -> bool {
        let (before, activity) = (self.world.now(), self.world.idle.activity());
        self.world.let_time_move();
        let is_over = {
            // With the driver asleep too, the runtime moves its paused clock from timer to timer, whosever they are.
            let over = tokio::time::sleep_until(self.world.instant(before + span));
            tokio::select! {
                biased;
                () = self.world.idle.wait_for_activity(activity, self.turns_max) => false,
                () = over => true,
            }
        };
        if is_over {
            self.world.idle.wait().await;
        }
        let has_fired = self.world.idle.activity() != activity;
        self.world.state().touch(|touch| touch.fires_timer |= has_fired);
        self.advanced(before);
        has_fired
    }

    /// Time has moved.
    fn advanced(&self, before: Duration) {
        self.world.stop_time();
        self.world.tick();
        self.world.state().touch(|touch| touch.moves_time = true);
        self.world.advanced(self.world.now() - before);
    }

    /// The actors that can still do something.
    fn active(&self) -> Vec<Actor> {
        let state = self.world.state();
        state.actors.iter().map(|state| state.actor).filter(|&actor| state.can_act(actor)).collect()
    }

    /// Where a request is still on its way.
    fn late(&self) -> Option<(Actor, usize)> {
        let state = self.world.state();
        let lane = state.lanes.iter().find(|lane| !lane.late.is_empty())?;
        Some((lane.actor, lane.nth))
    }

    /// The connections of an actor on which a request waits.
    fn waiting_lanes(&self, actor: Actor) -> Vec<usize> {
        let state = self.world.state();
        let waits = |lane: &&Lane| lane.actor == actor && lane.waits();
        state.lanes.iter().filter(waits).map(|lane| lane.nth).collect()
    }
}

/// Notes that an actor has come to its end, by whatever way.
struct Finish {
    world: Arc<World>,
    actor: Actor,
}

impl Drop for Finish {
    fn drop(&mut self) {
        let mut state = self.world.state();
        let idx = state.idx(self.actor);
        state.actors[idx].is_finished = true;
        self.world.idle.stir();
    }
}
