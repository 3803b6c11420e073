//! Which clients are inside which section, where the servers keep their grants, and who ends these.

use std::time::Duration;

use locks::Record;

use super::server::{asks, holds};
use super::world::Grant;
use super::{ActorState, Recording, Server, Simulation, World};
use crate::actor::Actor;
use crate::live::Turn;
use crate::trace::{EventKind, HoldId, LeftBy, changes};

impl Simulation {
    /// The client enters a section. The lease counts from `since`, or from when its last request
    /// was sent.
    pub(super) fn enter(
        &mut self,
        id: HoldId,
        section: &'static str,
        since: Option<Duration>,
        record: Option<Record>,
    ) {
        let actor = id.0;
        let until = since.unwrap_or(self.world.actor(actor).sent_at) + self.lease_of(actor);
        // If the record is gone already, nobody ends it later on.
        self.world.note_checked(record.clone());
        let record = record.filter(|record| self.has(record));
        let decided = self.world.actor(actor).decided;
        self.world.record(EventKind::Enter {
            hold: id,
            actor,
            section,
            decided,
            until,
            is_recorded: record.is_some(),
        });
        let lasts = record.as_ref().is_some_and(|record| self.lasts(record, until));
        self.world.grants.push(Grant { id, actor, section, until, record, lasts, has_lapsed: false });
    }

    /// The client was granted the section once more, if it is still inside.
    pub(super) fn extend(&mut self, id: HoldId, since: Duration, record: Record) {
        let until = since + self.lease_of(id.0);
        let is_kept = self.has(&record);
        let lasts = is_kept && self.lasts(&record, until);
        let world = &mut self.world;
        let Some(grant) = world.grants.iter_mut().find(|grant| grant.id == id) else { return };
        // Whether the former record still exists now decides whether anybody ended it.
        let former = std::mem::replace(&mut grant.record, is_kept.then(|| record.clone()));
        (grant.until, grant.lasts, grant.has_lapsed) = (until, lasts, false);
        let (actor, section) = (grant.actor, grant.section);
        world.note_checked(former.into_iter().chain([record]));
        world.record(EventKind::Extended { hold: id, actor, section, until });
    }

    /// Records a fault of a server. Grants that the server loses by it are ended by no client.
    pub(super) fn record_server_fault(&mut self, kind: EventKind) {
        self.world.recorder.reached().server |= !self.world.grants.is_empty();
        self.world.record(kind);
        // If most servers keep a grant, which of them lost it by this fault decides who ends it.
        let grants = self.world.grants.iter();
        let looked_at: Vec<Record> = grants.filter_map(|grant| grant.record.clone()).collect();
        self.world.note_checked(looked_at);
        for actor in self.drop_lost_records() {
            self.world.actor(actor).lost_lease = true;
            if self.is_for_texts() {
                self.world.record(EventKind::Lapsed { actor });
            }
        }
    }

    /// The ends of leases, and of the servers' records of grants, since time began to move.
    pub(super) fn ends_of_grants(&mut self, from: Duration) -> Vec<EventKind> {
        let to = self.world.now;
        let mut grants = std::mem::take(&mut self.world.grants);
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
        let ends = grants.iter_mut().filter_map(end).collect();
        self.world.grants = grants;
        ends
    }

    /// Whether events are recorded that only texts need. Real servers are not asked for them.
    fn is_for_texts(&self) -> bool {
        self.recording == Recording::Full && self.real_time.is_none()
    }

    /// Whether the servers keep a grant for more than the instant at which a key ends.
    fn is_seen_kept(&self, grant: &Grant) -> bool {
        const AN_INSTANT: Duration = Duration::from_millis(1);
        let Some(record) = grant.record.as_ref().filter(|_| self.is_for_texts()) else { return false };
        let left = self.ttl(record);
        self.has(record) && left.is_none_or(|left| left > AN_INSTANT)
    }

    /// Forgets the records that no server has any more, and looks how long the others last. Returns
    /// whose records are gone now.
    fn drop_lost_records(&mut self) -> Vec<Actor> {
        let mut losers = Vec::new();
        let mut grants = std::mem::take(&mut self.world.grants);
        for grant in &mut grants {
            let lost = grant.record.take_if(|record| !self.has(record));
            losers.extend(lost.map(|_| grant.actor));
            grant.lasts &= grant.record.as_ref().is_some_and(|record| self.lasts(record, grant.until));
        }
        self.world.grants = grants;
        losers
    }

    /// Whether a record that exists stays there until then, if nobody changes it. This is not known
    /// of records on several servers, nor of those on real ones, nor if a clock drifts.
    fn lasts(&self, record: &Record, until: Duration) -> bool {
        if record.is_of_majority() || self.config.faults.server_drift_ppm != 0 {
            return true;
        }
        let left = until.saturating_sub(self.world.now);
        self.ttl(record).is_none_or(|ttl| ttl >= left)
    }

    /// How long the key of a record still lives, if it does not live for ever.
    fn ttl(&self, record: &Record) -> Option<Duration> {
        let mut keepers = self.world.keepers(record.key());
        keepers.find_map(|node| self.read(node, |data| data.ttl(record.key())).flatten())
    }

    /// Whether the servers still have this grant: most of them for a majority record, or else the
    /// one that keeps its key.
    fn has(&self, record: &Record) -> bool {
        let all = self.world.primaries();
        match record.is_of_majority() {
            true => 2 * all.clone().filter(|&server| self.holds(server, record)).count() > all.count(),
            false => self.world.keepers(record.key()).any(|node| self.holds(node, record)),
        }
    }

    /// Whether a server still has this grant.
    fn holds(&self, server: usize, record: &Record) -> bool {
        match &self.servers[server] {
            Server::Redis(client) => asks(client, record),
            Server::Emulator(_) => self.read(server, |data| holds(data, record)).unwrap_or(false),
        }
    }

    /// To be called right before a command of this actor runs. If it is this release, the actor
    /// leaves its section.
    pub(super) fn before_command(&mut self, actor: Actor, release: Option<HoldId>) {
        self.world.before_send(release);
        let world = &mut self.world;
        if release.is_none() && world.grants.iter().any(|grant| grant.actor != actor) {
            world.recorder.reached().contention = true;
        }
        // If a grant expired since time moved, no client ended it.
        if std::mem::replace(&mut world.looked_at, world.now) != world.now {
            self.drop_lost_records();
        }
        let ActorState { skew_ms, drift_ppm, .. } = *self.world.actor(actor);
        self.world.recorder.reached().skew |= (skew_ms, drift_ppm) != (0, 0);
    }

    /// To be called right after a command: records each unexpired grant that the servers lost by
    /// it.
    pub(crate) fn after_command(&mut self, by: Actor) {
        self.world.note_run(by);
        if self.config.judges_commands {
            self.world.recorder.command_ordered();
        }
        if self.world.grants.is_empty() {
            return;
        }
        let mut grants = std::mem::take(&mut self.world.grants);
        let changed = self.world.changed_by_last(&grants);
        // If most servers keep a grant, who ends it depends on which of them each client has
        // changed, its holder included. If a key has several members, it is gone with the last of
        // them. Otherwise the footprint of the command says enough.
        let records = grants.iter().zip(&changed).filter(|(_, is_changed)| **is_changed);
        let records = records.filter_map(|(grant, _)| grant.record.clone());
        let looked_at = records.filter(|record| record.is_of_majority() || matches!(record, Record::Key(..)));
        self.world.note_checked(looked_at.collect::<Vec<_>>());
        let mut events = Vec::new();
        for (grant, is_changed) in grants.iter_mut().zip(changed) {
            if grant.until <= self.world.now {
                continue;
            }
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
        self.world.grants = grants;
        events.into_iter().for_each(|event| self.world.record(event));
    }

    /// How long the grants of an actor last.
    pub(crate) fn lease_of(&self, actor: Actor) -> Duration {
        self.config.terms.lease_of(actor)
    }
}

impl World {
    /// The servers were checked for these grants.
    fn note_checked(&mut self, records: impl IntoIterator<Item = Record>) {
        for record in records {
            for node in self.keepers(record.key()) {
                self.recorder.grant_checked(node, record.clone());
            }
        }
    }

    /// The client leaves the section, if it is still inside.
    pub(super) fn leave(&mut self, id: HoldId, by: LeftBy) {
        if let Some(idx) = self.grants.iter().position(|grant| grant.id == id) {
            let Grant { actor, section, record, .. } = self.grants.remove(idx);
            self.note_checked(record);
            self.record(EventKind::Leave { hold: id, actor, section, by });
        }
    }

    /// A client is about to do this. If it reads its clock inside a section, its latest request is
    /// noted.
    pub(super) fn note_readings_inside(&mut self, actor: Actor, turn: &Turn) {
        let sections = self.grants.iter().filter(|grant| grant.actor == actor).count();
        if turn.reads_clock_inside(sections) {
            let reading = (actor, self.actors[self.idx(actor)].latest_request);
            self.readings_inside.insert(reading);
        }
    }

    /// A request is sent. If it is this release, the actor leaves its section.
    pub(super) fn before_send(&mut self, release: Option<HoldId>) {
        release.into_iter().for_each(|id| self.leave(id, LeftBy::Release));
    }

    /// A client did something that counts.
    pub(super) fn did(&mut self, actor: Actor, what: &'static str) {
        let decided = self.actor(actor).decided;
        self.record(EventKind::Did { actor, what, decided });
    }

    /// A resource accepts a write of a client: its last command that ran.
    pub(super) fn accept(&mut self, actor: Actor, resource: &'static str, token: i64) {
        let nth = self.actor(actor).last_run;
        self.record(EventKind::Accepted { actor, resource, token, nth });
    }

    /// Which of the grants the last step has changed on servers.
    fn changed_by_last(&self, grants: &[Grant]) -> Vec<bool> {
        let last = self.history().footprints.last();
        let is_changed = |record: &Record| {
            let servers = last.into_iter().flat_map(|footprint| &footprint.servers);
            servers.into_iter().any(|(_, print)| changes(print, record))
        };
        grants.iter().map(|grant| grant.record.as_ref().is_some_and(is_changed)).collect()
    }
}
