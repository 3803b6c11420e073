//! The state of one client: how far it is, and what the execution knows of it.

use std::sync::Arc;
use std::time::Duration;

use emulator::Timestamp;

use super::tries::Exchange;
use crate::actor::Actor;
use crate::fault::Passing;
use crate::trace::LocalState;

/// How far the code of an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Unstarted,
    Running,
    /// With this result, if there was no error. Tasks that it spawned may run on.
    Ended(Option<bool>),
    /// Nothing that it does counts any more, and its connections are closed.
    Crashed,
}

/// The state of one client.
#[derive(Clone, Debug)]
pub(crate) struct ActorState {
    pub(crate) actor: Actor,
    pub(crate) life: Life,
    /// Its code need not end.
    pub(crate) is_service: bool,
    /// A fault gave the client an error in place of a reply.
    pub(crate) got_fault_error: bool,
    /// It lost its grant while it was inside.
    pub(crate) lost_lease: bool,
    /// When the lease of its last hold ends.
    pub(crate) lease_end: Option<Duration>,
    /// The error of its clock at the start, and how much that grows with time.
    pub(crate) skew_ms: i64,
    pub(crate) drift_ppm: i64,
    /// The number of its connections so far.
    pub(super) connections: u64,
    /// How often its code was polled in the step of this number.
    pub(crate) polls: (usize, u64),
    /// Its last command that ran was the one of this number among those of all clients.
    pub(crate) last_run: u64,
    /// The time by its server's clock when that ran, if an oracle judges by that.
    pub(super) decided: Option<Timestamp>,
    /// When its last request came to a gate.
    pub(crate) sent_at: Duration,
    /// Its process stands still.
    pub(crate) pause: Option<Pause>,
    /// The servers from which it is parted, or was.
    pub(super) partitions: Vec<Partition>,
    /// The number of its latest turn among those of all clients.
    pub(super) latest_turn: u64,
    /// A hash of what its code has received.
    pub(crate) local_state: LocalState,
    /// The number of its tasks besides its own.
    pub(crate) spawned: usize,
    /// After the last step: whether it may have a timer, and whether it had a request to send that
    /// was no vain retry.
    pub(crate) may_wake: bool,
    pub(crate) was_ready: bool,
    /// Hashes of equal tries that come to an end by themselves. They are not explored as waits.
    pub(crate) gives_up: Vec<u64>,
    /// Its latest request with a reply, by its [`Gate::brief`].
    pub(super) latest_request: u64,
    /// After the replies to these requests it reads its clock inside a section.
    pub(crate) readings_inside: Vec<u64>,
    /// How often it has entered, extended or left a section.
    pub(crate) stage: u64,
    /// Its commands and their replies since then.
    pub(crate) exchanges: Arc<Vec<Exchange>>,
}

/// A process that stands still.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    /// Something has woken the code.
    pub(super) is_awake: bool,
    /// It stands still at least until no request of it is on its way.
    pub(super) awaits_reply: bool,
}

/// A partition between a client and a server.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub(super) server: usize,
    pub(super) passing: Passing,
    pub(super) until: Duration,
    /// How many more requests and messages do not arrive.
    pub(super) left: usize,
}

impl ActorState {
    /// Its process has crashed, and the next one is to start. What is counted goes on.
    pub(super) fn respawn(&mut self, at: Duration) {
        let ActorState { is_service, skew_ms, drift_ppm, connections, latest_turn, stage, .. } = *self;
        *self = ActorState {
            is_service,
            skew_ms,
            drift_ppm,
            connections,
            latest_turn,
            stage: stage + 1,
            local_state: self.local_state.after(at, "respawn"),
            spawned: self.spawned,
            last_run: self.last_run,
            decided: self.decided,
            partitions: std::mem::take(&mut self.partitions),
            gives_up: std::mem::take(&mut self.gives_up),
            readings_inside: std::mem::take(&mut self.readings_inside),
            ..ActorState::new(self.actor)
        };
    }

    pub(crate) fn new(actor: Actor) -> ActorState {
        ActorState {
            actor,
            life: Life::Unstarted,
            is_service: false,
            got_fault_error: false,
            lost_lease: false,
            lease_end: None,
            skew_ms: 0,
            drift_ppm: 0,
            connections: 0,
            polls: (0, 0),
            latest_turn: 0,
            last_run: 0,
            decided: None,
            sent_at: Duration::ZERO,
            pause: None,
            partitions: Vec::new(),
            local_state: LocalState::default(),
            spawned: 0,
            may_wake: false,
            was_ready: false,
            gives_up: Vec::new(),
            latest_request: 0,
            readings_inside: Vec::new(),
            stage: 0,
            exchanges: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock and the counts are not those of the process. The leases and the errors are.
    #[test]
    fn a_new_process_of_a_client() {
        let used = ActorState {
            life: Life::Crashed,
            is_service: true,
            got_fault_error: true,
            lost_lease: true,
            lease_end: Some(Duration::ZERO),
            skew_ms: 1,
            drift_ppm: 2,
            connections: 3,
            latest_turn: 4,
            last_run: 5,
            decided: Some(Timestamp::from_millis(6)),
            spawned: 7,
            gives_up: vec![8],
            readings_inside: vec![9],
            stage: 10,
            ..ActorState::new(Actor(0))
        };
        let mut new = used.clone();
        new.respawn(Duration::ZERO);
        let clock = |state: &ActorState| (state.is_service, state.skew_ms, state.drift_ppm);
        let counts =
            |state: &ActorState| (state.connections, state.latest_turn, state.last_run, state.spawned);
        let known =
            |state: &ActorState| (state.decided, state.gives_up.clone(), state.readings_inside.clone());
        assert_eq!(clock(&new), clock(&used));
        assert_eq!(counts(&new), counts(&used));
        assert_eq!(known(&new), known(&used));
        assert_eq!(new.stage, 11);
        assert_ne!(new.local_state, used.local_state);
        assert_eq!((new.life, new.got_fault_error), (Life::Unstarted, false));
        assert_eq!((new.lost_lease, new.lease_end), (false, None));
    }
}
