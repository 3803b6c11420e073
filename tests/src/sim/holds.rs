//! Which clients are inside which section, where the servers keep their grants, and who ends these.

use std::time::Duration;

use locks::Record;

use super::server::{asks, holds};
use super::{Recording, Server, Simulation, State};
use crate::actor::Actor;
use crate::trace::{EventKind, HoldId, LeftBy, changes};

/// A client inside a section.
#[derive(Clone)]
pub(super) struct Grant {
    pub(super) id: HoldId,
    pub(super) actor: Actor,
    pub(super) section: &'static str,
    pub(super) until: Duration,
    /// Where the server keeps the grant. `None` if that is not known, or if the grant was ended.
    pub(super) record: Option<Record>,
    /// The record stays on the server until the lease ends, if nobody changes it.
    pub(super) lasts: bool,
    /// The server has it no longer, and that is told. Only texts need this.
    pub(super) has_lapsed: bool,
}

impl Simulation {
    /// The client enters a section. The lease counts from `since`, or from when its last request
    /// was sent.
    pub(super) fn enter(
        &self,
        id: HoldId,
        section: &'static str,
        since: Option<Duration>,
        record: Option<Record>,
    ) {
        let at = self.now();
        let mut state = self.state();
        let actor = id.0;
        let until = since.unwrap_or(state.actor(actor).sent_at) + self.lease_of(actor);
        // If the record is gone already, nobody ends it later on.
        state.recorder.grants_checked(record.clone());
        let record = record.filter(|record| self.has(record));
        state.record(at, EventKind::Enter { hold: id, actor, section, until, is_recorded: record.is_some() });
        let lasts = record.as_ref().is_some_and(|record| self.lasts(record, until));
        state.grants.push(Grant { id, actor, section, until, record, lasts, has_lapsed: false });
    }

    /// The client was granted the section once more, if it is still inside.
    pub(super) fn extend(&self, id: HoldId, since: Duration, record: Record) {
        let at = self.now();
        let mut state = self.state();
        let Some(grant) = state.grants.iter_mut().find(|grant| grant.id == id) else { return };
        let until = since + self.lease_of(grant.actor);
        grant.until = until;
        // Whether the former record still exists now decides whether anybody ended it.
        let former = grant.record.take();
        grant.record = self.has(&record).then(|| record.clone());
        grant.lasts = grant.record.is_some() && self.lasts(&record, until);
        grant.has_lapsed = false;
        let (actor, section) = (grant.actor, grant.section);
        state.recorder.grants_checked(former.into_iter().chain([record]));
        state.record(at, EventKind::Extended { hold: id, actor, section, until });
    }

    /// The client leaves the section, if it is still inside.
    pub(super) fn leave(&self, id: HoldId) {
        let at = self.now();
        self.state().leave(id, at, LeftBy::Code);
    }

    /// Records a fault of a server. Grants that the server loses by it are ended by no client.
    pub(super) fn record_server_fault(&self, kind: EventKind) {
        let at = self.now();
        let mut state = self.state();
        state.recorder.reached().server |= !state.grants.is_empty();
        state.record(at, kind);
        // If most servers keep a grant, which of them lost it by this fault decides who ends it.
        let looked_at: Vec<Record> = state.grants.iter().filter_map(|grant| grant.record.clone()).collect();
        state.recorder.grants_checked(looked_at);
        let is_kept = |grant: &Grant| grant.record.is_some();
        let before: Vec<bool> = state.grants.iter().map(is_kept).collect();
        self.drop_lost_records(&mut state.grants);
        let lost = state.grants.iter().zip(before).filter(|(grant, before)| *before && !is_kept(grant));
        let losers: Vec<Actor> = lost.map(|(grant, _)| grant.actor).collect();
        for actor in losers {
            state.actor(actor).lost_lease = true;
            if self.is_for_texts() {
                state.record(at, EventKind::Lapsed { actor });
            }
        }
    }

    /// The ends of leases, and of the servers' records of grants, while time moved.
    pub(super) fn ends_of_grants(
        &self,
        grants: &mut [Grant],
        from: Duration,
        to: Duration,
    ) -> Vec<EventKind> {
        let end = |grant: &mut Grant| {
            let (actor, is_kept) = (grant.actor, self.is_seen_kept(grant));
            let is_lapse = self.is_for_texts() && grant.record.is_some() && !is_kept;
            let has_lapsed = grant.has_lapsed;
            grant.has_lapsed |= is_lapse;
            if from < grant.until && grant.until <= to {
                Some(EventKind::Overrun { actor, is_kept })
            } else {
                (is_lapse && !has_lapsed).then_some(EventKind::Lapsed { actor })
            }
        };
        grants.iter_mut().filter_map(end).collect()
    }

    /// Whether events are recorded that only texts need. Real servers are not asked for them.
    fn is_for_texts(&self) -> bool {
        self.recording == Recording::Full && self.real_time.get().is_none()
    }

    /// Whether the servers keep a grant for more than the instant at which a key ends.
    fn is_seen_kept(&self, grant: &Grant) -> bool {
        const AN_INSTANT: Duration = Duration::from_millis(1);
        let Some(record) = grant.record.as_ref().filter(|_| self.is_for_texts()) else { return false };
        let left = self.read(0, |data| data.ttl(record.key())).flatten();
        self.has(record) && left.is_none_or(|left| left > AN_INSTANT)
    }

    /// Forgets the records that no server has any more, and looks how long the others last.
    fn drop_lost_records(&self, grants: &mut [Grant]) {
        for grant in grants {
            grant.record.take_if(|record| !self.has(record));
            grant.lasts &= grant.record.as_ref().is_some_and(|record| self.lasts(record, grant.until));
        }
    }

    /// Whether a record that exists stays there until then, if nobody changes it. This is not known
    /// of records on several servers, nor of those on real ones, nor if a clock drifts.
    fn lasts(&self, record: &Record, until: Duration) -> bool {
        if matches!(record, Record::Majority(..)) || self.config.faults.server_drift_ppm != 0 {
            return true;
        }
        let left = until.saturating_sub(self.now());
        self.read(0, |data| data.ttl(record.key())).flatten().is_none_or(|ttl| ttl >= left)
    }

    /// Whether the servers still have this grant: most of them for a majority record, or else the
    /// first server.
    fn has(&self, record: &Record) -> bool {
        let all = 0..self.servers.len();
        match record {
            Record::Majority(..) => {
                2 * all.clone().filter(|&server| self.holds(server, record)).count() > all.len()
            }
            _ => self.holds(0, record),
        }
    }

    /// Whether a server still has this grant.
    fn holds(&self, server: usize, record: &Record) -> bool {
        match &self.servers[server] {
            Server::Redis(client) => asks(client, record),
            Server::Emulator(_) => self.read(server, |data| holds(data, record)).unwrap_or(false),
        }
    }

    /// A resource accepts a write of a client: its last command that ran.
    pub(super) fn accept(&self, actor: Actor, resource: &'static str, token: i64) {
        let nth = self.state().actor(actor).last_run;
        self.record(EventKind::Accepted { actor, resource, token, nth });
    }

    /// A request is sent. If it is this release, the actor leaves its section.
    pub(super) fn before_send(&self, release: Option<HoldId>) {
        if let Some(id) = release {
            let at = self.now();
            self.state().leave(id, at, LeftBy::Release);
        }
    }

    /// To be called right before a command of this actor runs.
    pub(super) fn before_command(&self, actor: Actor, release: Option<HoldId>) {
        self.before_send(release);
        let at = self.now();
        let mut state = self.state();
        let idx = state.idx(actor);
        if release.is_none() && state.grants.iter().any(|grant| grant.actor != actor) {
            state.recorder.reached().contention = true;
        }
        // If a grant expired since time moved, no client ended it.
        if std::mem::replace(&mut state.looked_at, at) != at {
            self.drop_lost_records(&mut state.grants);
        }
        if (state.actors[idx].skew_ms, state.actors[idx].drift_ppm) != (0, 0) {
            state.recorder.reached().skew = true;
        }
    }

    /// To be called right after a command: records each unexpired grant that the servers lost by
    /// it.
    pub(crate) fn after_command(&self, by: Actor) {
        let mut state = self.state();
        state.note_run(by);
        if self.config.judges_commands {
            state.recorder.command_ordered();
        }
        if state.grants.is_empty() {
            return;
        }
        let at = self.now();
        // If most servers keep a grant, who ends it depends on which of them each client has
        // changed, its holder included. If a key has several members, it is gone with the last of
        // them. Otherwise the footprint of the command says enough.
        let last = state.history().footprints.last();
        let is_changed = |grant: &Grant| {
            let servers = last.into_iter().flat_map(|footprint| &footprint.servers);
            grant
                .record
                .as_ref()
                .is_some_and(|record| servers.into_iter().any(|(_, print)| changes(print, record)))
        };
        let changed: Vec<bool> = state.grants.iter().map(is_changed).collect();
        let records = state.grants.iter().zip(&changed).filter_map(|(grant, &is_changed)| {
            grant
                .record
                .clone()
                .filter(|record| is_changed && matches!(record, Record::Majority(..) | Record::Key(..)))
        });
        let looked_at: Vec<Record> = records.collect();
        state.recorder.grants_checked(looked_at);
        let mut events = Vec::new();
        for (grant, is_changed) in state.grants.iter_mut().zip(changed).filter(|(grant, _)| at < grant.until)
        {
            let (holder, Some(record)) = (grant.actor, &grant.record) else { continue };
            let is_ended = !self.has(record);
            let lasted = grant.lasts;
            if is_ended {
                grant.record = None;
            } else if is_changed {
                grant.lasts = self.lasts(record, grant.until);
            }
            // If a client ends its own grant while it stays inside, no other client ends that later
            // on.
            if holder == by {
                continue;
            }
            if is_ended {
                events.push(EventKind::Ended { holder, by });
            } else if lasted && !grant.lasts {
                events.push(EventKind::Shortened { holder, by });
            }
        }
        events.into_iter().for_each(|event| state.record(at, event));
    }

    /// How long the grants of an actor last.
    pub(crate) fn lease_of(&self, actor: Actor) -> Duration {
        self.config.terms.lease_of(actor)
    }
}

impl State {
    pub(super) fn leave(&mut self, id: HoldId, at: Duration, by: LeftBy) {
        if let Some(idx) = self.grants.iter().position(|grant| grant.id == id) {
            let Grant { actor, section, record, .. } = self.grants.remove(idx);
            self.recorder.grants_checked(record);
            self.record(at, EventKind::Leave { hold: id, actor, section, by });
        }
    }
}
