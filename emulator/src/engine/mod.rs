//! The state that all commands share: the data, the scripts, the clock, and the clients with their
//! watches, blocked commands and subscriptions.

mod departed;
mod outbox;
mod output_limit;
mod watch;
mod state;
mod waiting;
mod access;
mod delivery;
mod connections;
mod loan;
mod settings;
mod tracking;
mod effects;
mod restart;
mod replication;
mod cluster;
mod sentinel;
mod blocked;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::quality::FixedState;
use tokio::sync::Notify;

use crate::client::{Client, Slot};
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::error::Error;
use crate::fault::Faults;
use crate::footprint::{Access, Footprint};
use crate::keyspace::{Event, Keyspace};
use crate::reply::Reply;
use crate::script::{Known, Libraries, ScriptBudget};
use crate::stats::Stats;
use crate::topic::Topic;

pub use departed::Departed;
pub use restart::Loss;
pub use state::{Attempt, Blocked, Commands, Engine, Job, PauseMode, Until};
use watch::Watches;

/// The number of databases of an emulator unless [`with_databases`] sets another: the default of
/// Redis.
///
/// [`with_databases`]: crate::Emulator::with_databases
pub const DATABASES: usize = 16;

impl Engine {
    /// An empty server.
    pub fn new(clock: Clock, databases: usize) -> Engine {
        let mut config = Config::default();
        if databases != DATABASES {
            config
                .start_with("databases", &databases.to_string())
                .expect("the number of databases is too large");
        }
        let stats = Stats::new(clock.now());
        let keyspace = Keyspace::new(databases);
        let started_with = config.clone();
        let mut engine = Engine { keyspace, config, started_with, stats, clock, ..Engine::default() };
        engine.apply_settings();
        engine
    }

    /// Makes the server empty again. Compiled scripts stay compiled, but clients cannot see them.
    /// Blocked commands time out.
    pub fn reset(&mut self, clock: Clock) {
        self.keyspace.reset();
        self.client_check_at = None;
        if !self.config.is_same(&self.started_with) {
            self.config = self.started_with.clone();
            self.apply_settings();
        }
        self.check_clients_from_now();
        self.stats = Stats::new(clock.now());
        self.scripts.flush();
        self.functions.flush();
        self.clock = clock;
        self.watches = Watches::default();
        self.pause = None;
        self.asleep_until = None;
        self.faults = Faults::default();
        for slot in self.waiting.slots() {
            self.give_up(slot);
        }
        self.deliver();
        self.begin_journal_anew();
        self.set_next_wake_up();
    }

    /// Sets a parameter as if the server had started with it.
    ///
    /// # Errors
    /// There is no such parameter, or it does not accept this value.
    pub fn start_with(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let is_unchanged = self.config.is_same(&self.started_with);
        self.started_with.start_with(name, value)?;
        if is_unchanged {
            self.config = self.started_with.clone();
        } else {
            self.config.start_with(name, value)?;
        }
        self.apply_settings();
        Ok(())
    }

    /// A copy of the data, the settings, the known scripts and the libraries.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            keyspace: self.keyspace.clone(),
            config: self.config.clone(),
            scripts: self.scripts.known().clone(),
            libraries: self.functions.libraries().clone(),
        }
    }

    /// Whether a snapshot is complete: if a freshly started server restores it, that server gets
    /// the state of this one.
    pub fn is_snapshot_complete(&self) -> bool {
        self.clients.have_no_state()
            && self.pause.is_none()
            && self.asleep_until.is_none()
            && self.watches.is_empty()
            && !self.stats.were_read
            && self.config.is_same(&self.started_with)
            && self.scripts.has_default_settings()
            && self.functions.libraries().is_empty()
    }

    /// Restores a snapshot. For clients that watch keys, every key counts as changed.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.keyspace.clone_from(&snapshot.keyspace);
        if !self.config.is_same(&snapshot.config) {
            self.config = snapshot.config.clone();
            self.apply_settings();
        }
        self.scripts.set_known(&snapshot.scripts);
        self.functions.set_libraries(&snapshot.libraries);
        self.watches.notice_all();
        self.copy_anew();
        self.set_next_wake_up();
    }

    /// Restores the data of a snapshot, as one execution.
    pub fn restore_data(self: &mut Box<Self>, snapshot: &Snapshot) {
        self.execution(None, |engine| {
            engine.load_data(snapshot);
            Reply::NOTHING
        });
    }

    /// Replaces the data and the functions by those of a snapshot.
    pub(crate) fn load(&mut self, snapshot: &Snapshot) {
        self.load_data(snapshot);
        self.functions(Access::Write).set_libraries(&snapshot.libraries);
    }

    fn load_data(&mut self, snapshot: &Snapshot) {
        self.keyspace.replace(&snapshot.keyspace);
        for db in 0..self.keyspace.databases() {
            let awaited = self.waiting.keys(db).cloned().map(|key| (db, key));
            self.keyspace.events.appeared.extend(awaited);
        }
        self.watches.notice_all();
        self.copy_anew();
    }

    /// What `INFO` and `HELLO` call the kind of server.
    pub(crate) fn mode(&self) -> &'static str {
        match () {
            () if self.sentinel.is_some() => "sentinel",
            () if self.cluster.is_some() => "cluster",
            () => "standalone",
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.requests_at.unwrap_or_else(|| self.clock().now())
    }

    /// Sets the budget of each script and each function from now on.
    pub fn set_script_budget(&mut self, budget: ScriptBudget) {
        self.scripts.set_budget(budget);
        self.functions.set_budget(budget);
    }

    /// Starts a batch of requests that arrived together and run in sequence.
    ///
    /// One reading of the machine's clock serves all of them, until a request has run that may take
    /// long. Any other clock may be moved in between, so it is read for each request.
    pub(crate) fn begin_requests(&mut self) {
        self.requests_at = (self.clock().is_machines() && self.control.is_none()).then(|| self.clock().now());
    }

    /// Ends a batch of requests, or ends the use of one clock reading after a long request.
    pub(crate) fn end_requests(&mut self) {
        self.requests_at = None;
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time of the next wake-up, and the notification that it moved to an earlier time.
    pub(crate) fn next_wake_up(&self) -> (Option<Timestamp>, Arc<Notify>) {
        (self.next_wake_up, self.wake_up_moved.clone())
    }

    /// Runs one execution. `slot` is the client whose command it is; its output is returned. All
    /// other messages are delivered.
    pub(crate) fn execution(
        self: &mut Box<Self>,
        slot: Option<Slot>,
        act: impl FnOnce(&mut Box<Self>) -> Reply,
    ) -> Reply {
        self.begin();
        let posted = act(self);
        self.end();
        self.broadcast();
        let output = match slot {
            Some(slot) => self.post_late(slot, posted),
            None => posted,
        };
        self.deliver();
        output
    }

    /// Starts one execution: reads the clock once, clears the previous footprint, and runs what is
    /// due.
    pub(crate) fn begin(self: &mut Box<Self>) {
        let now = self.now();
        self.keyspace.begin(now);
        if let Some(cluster) = &mut self.cluster {
            cluster.missed = None;
        }
        self.units.clear();
        self.tracker.seen = 0;
        self.watches.seen = 0;
        if self.next_wake_up.is_some_and(|next_wake_up| next_wake_up <= now) {
            self.run_due(now);
            self.publish_events(None);
        }
        self.dismiss_observers();
        self.serve_acknowledged();
    }

    /// Runs what is due, without a command.
    pub fn tick(self: &mut Box<Self>) {
        self.execution(None, |engine| {
            engine.invalidate(&Client::nobody());
            Reply::NOTHING
        });
    }

    /// Ends one execution. Blocked clients get the keys that they wait for, watches record the
    /// changes, and subscribers get the events.
    pub(crate) fn end(self: &mut Box<Self>) {
        self.end_unit();
        self.publish_events(None);
        self.serve_blocked();
        self.notice_moved_slots();
        self.answer_observers();
        self.watches.notice(&mut self.keyspace);
        self.keyspace.events.is_tracked = !self.tracker.is_idle();
        self.set_next_wake_up();
    }

    /// Keeps the footprint from growing without bound. It is called after each command, which need
    /// not be the last one of its execution.
    pub(crate) fn trim_footprint(&mut self) {
        let is_needed = !self.leaves_no_footprint || !self.tracker.is_idle() || !self.watches.is_empty();
        self.keyspace.footprint_mut().set_recording(is_needed);
        if is_needed && self.footprint().is_long() {
            self.drop_duplicates();
        }
    }

    /// Removes duplicate entries from the footprint.
    ///
    /// The watches read the new entries first, because positions in the footprint change.
    fn drop_duplicates(&mut self) {
        self.watches.notice(&mut self.keyspace);
        self.keyspace.footprint_mut().drop_duplicates();
        (self.watches.seen, self.tracker.seen) = (self.footprint().len(), self.footprint().len());
    }

    /// The footprint of the last execution.
    pub fn footprint(&self) -> &Footprint {
        self.keyspace.footprint()
    }

    /// Publishes the key events since the last call.
    ///
    /// The client at `slot` is the one whose command caused them. Its own messages that belong
    /// after a part of its reply go to `asides`.
    pub(crate) fn publish_events(&mut self, slot: Option<Slot>) {
        self.keyspace.events.answered = 0;
        if self.keyspace.events.happened.is_empty() {
            return;
        }
        let wanted = self.keyspace.events.wanted;
        for Event { name, db, key, place, .. } in std::mem::take(&mut self.keyspace.events.happened) {
            let mark = self.outbox.mark();
            if wanted.by_key() {
                let channel = [format!("__keyspace@{db}__:").as_bytes(), &key].concat();
                self.publish(Topic::Channel, &channel.into(), &Bytes::from_static(name.as_bytes()));
            }
            if wanted.by_event() {
                self.publish(Topic::Channel, &format!("__keyevent@{db}__:{name}").into(), &key);
            }
            if place > 0
                && let Some(slot) = slot
            {
                self.outbox.move_into_reply(slot, mark, place);
            }
        }
    }

    /// Exchanges two databases. Clients that wait for a key are served if the exchange brings that
    /// key.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        self.keyspace.swap(a, b);
        for db in [a, b] {
            let awaited = self.waiting.keys(db).cloned().map(|key| (db, key));
            self.keyspace.events.appeared.extend(awaited);
        }
    }

    fn run_due(self: &mut Box<Self>, now: Timestamp) {
        self.keyspace.expire_due();
        self.end_unit_after_each_removal();
        if self.client_check_at.is_some_and(|at| at <= now) {
            self.check_clients(now);
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.looked_at = now;
            self.redirect_blocked();
        }
        if self.pause.is_some_and(|(until, _)| until <= now) {
            self.unpause();
        }
        if self.asleep_until.is_some_and(|until| until <= now) {
            self.asleep_until = None;
            self.run_held_back();
            self.note_change();
        }
        while let Some((deadline, slot)) = self.waiting.first_deadline()
            && deadline <= now
        {
            match self.waiting.get(slot).map(|blocked| &blocked.until) {
                Some(Until::Arrival) => self.attempt(slot, b""),
                Some(&Until::Acknowledged { offset, .. }) => self.answer_wait(slot, offset),
                _ => self.give_up(slot),
            }
        }
    }

    /// Finds out when the next wake-up is.
    pub(crate) fn set_next_wake_up(&mut self) {
        let waiting = self.waiting.first_deadline().map(|(deadline, _)| deadline);
        let pause = self.pause.map(|(until, _)| until);
        let next_wake_up = [
            self.keyspace.next_expiry(),
            waiting,
            pause,
            self.asleep_until,
            self.client_check_at,
            self.next_look_at_links(),
            self.next_miss(),
            self.sentinel.as_ref().and_then(|sentinel| sentinel.next_look),
        ];
        let next_wake_up = next_wake_up.into_iter().flatten().min();
        let is_earlier = next_wake_up
            .is_some_and(|next_wake_up| self.next_wake_up.is_none_or(|before| next_wake_up < before));
        self.next_wake_up = next_wake_up;
        if is_earlier {
            self.wake_up_moved.notify_waiters();
        }
    }
}

/// A copy of the contents of a server: its data with absolute deadlines, its settings, and its
/// known scripts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) keyspace: Keyspace,
    config: Config,
    scripts: Known,
    libraries: Libraries,
}

impl Snapshot {
    /// A hash of what a later command can notice of the data and of the known scripts. Two complete
    /// snapshots with equal hashes are snapshots of equal servers.
    ///
    /// The order in which keys were created counts, too: `SCAN` and `RANDOMKEY` show it.
    pub fn digest(&self) -> u64 {
        let hasher = FixedState::default();
        // Nothing shows the order in which scripts were loaded.
        let scripts = self.scripts.keys().fold(0_u64, |sum, sha| sum.wrapping_add(hasher.hash_one(sha)));
        hasher.hash_one((&self.keyspace, scripts))
    }

    /// About how many bytes the data take.
    pub fn data_bytes(&self) -> usize {
        self.keyspace.total_bytes()
    }

    /// The sources of the known scripts, each with its SHA1.
    pub fn scripts(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        let digits = |sha| std::str::from_utf8(sha).expect("a SHA1 has hexadecimal digits");
        self.scripts.iter().map(move |(sha, source)| (digits(sha), source))
    }
}
