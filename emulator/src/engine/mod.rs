//! Everything that commands share: data, scripts, the clock, and the clients with what they watch, await and listen to.

mod connections;
mod loan;
mod mail;
mod settings;
mod tracking;
mod waiting;
mod watch;

use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::busy::Busy;
use crate::client::{Client, Clients, Slot};
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::error::Error;
use crate::fault::Faults;
use crate::footprint::{Access, Footprint};
use crate::keyspace::{Event, Keyspace};
use crate::log::Hook;
use crate::pubsub::{PubSub, Topic};
use crate::reply::Reply;
use crate::script::{Functions, Known, Libraries, Scripts};
use crate::stats::Stats;
use crate::tracking::Tracker;

pub use connections::Departed;
pub use loan::Commands;
use loan::ScriptHost;
pub use settings::OutputLimit;
pub use waiting::{Attempt, Blocked, Until, Waiting};
pub use watch::Watches;

/// One server's state. Whoever holds it runs commands; that is what makes them atomic. Commands are handed it boxed, so that to
/// lend it to a script moves a pointer.
#[derive(Default)]
pub struct Engine {
    /// The databases.
    pub keyspace: Keyspace,
    /// The settings.
    pub config: Config,
    /// The settings that the server started with: a reset comes back to them.
    started_with: Config,
    /// What is counted.
    pub stats: Stats,
    /// The script cache.
    pub scripts: Scripts,
    /// The libraries of functions.
    pub functions: Functions,
    /// What was lent to the last script, to be lent again: it is too large to be made for each.
    host: Option<Box<ScriptHost>>,
    /// The script that runs, as others see it.
    pub busy: Arc<Busy<Job>>,
    /// A script that others are told of has this on loan: whoever runs a command does so between two steps of the script.
    pub is_amid_script: bool,
    /// The connections.
    pub clients: Clients,
    /// Those among them that are gone, and that nobody has closed yet.
    pub departed: Arc<Departed>,
    /// Who listens to what.
    pub pubsub: PubSub,
    /// Who watches what.
    pub watches: Watches,
    /// Whose command waits for what.
    pub waiting: Waiting,
    /// Who is told of changes to what it has read.
    pub tracker: Tracker,
    /// Until when `CLIENT PAUSE` holds commands back, and whether all of them or only writes.
    pub pause: Option<(Timestamp, PauseMode)>,
    /// What `AUTH` asks for; empty if it asks for nothing.
    pub password: Bytes,
    /// Who sees every command.
    pub monitors: Vec<Slot>,
    /// Nobody asks what an execution has touched.
    pub leaves_no_footprint: bool,
    /// Who hears what is logged.
    pub on_log: Option<Weak<Hook>>,
    /// What clients may leave unread: those that listen to nothing, and those that do.
    output_limits: [OutputLimit; 2],
    /// When one looks after clients again: whether they have been idle for too long.
    client_check_at: Option<Timestamp>,
    /// There was not enough memory when the command began, so what needs more is refused.
    pub lacked_memory: bool,
    /// What is to go wrong.
    pub faults: Faults,
    /// Whether there is the command `EMULATOR`: the clock as it was when that was allowed.
    pub control: Option<Clock>,
    /// What is to be sent to clients once the execution is over, in order.
    pub mail: Vec<(Slot, Reply)>,
    /// What the client whose command runs is to be sent in the midst of the reply or right behind it, each after so many parts
    /// ([`Event::place`]).
    pub asides: Vec<(usize, Reply)>,
    /// What the client whose command runs is to be sent behind the reply.
    pub postscripts: Vec<Reply>,
    clock: Option<Clock>,
    /// When the requests came that run now one after the other, while no reading of the clock could tell them apart.
    requests_at: Option<Timestamp>,
    /// When something happens next without any command: a key expires, somebody has waited long enough.
    next_wake_up: Option<Timestamp>,
    /// Told when the alarm is set to an earlier time.
    wake_up_moved: Arc<Notify>,
}

/// What others want of the engine while a script has it.
pub type Job = Box<dyn FnOnce(&mut Box<Engine>) + Send>;

/// Which commands `CLIENT PAUSE` holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// Those that may write.
    Write,
    /// All.
    All,
}

impl Engine {
    /// An empty server.
    pub fn new(clock: Clock, databases: usize) -> Engine {
        let mut config = Config::default();
        if databases != crate::DATABASES {
            config
                .start_with("databases", &databases.to_string())
                .expect("so many would not fit into memory");
        }
        let stats = Stats::new(clock.now());
        let keyspace = Keyspace::new(databases);
        let started_with = config.clone();
        let mut engine =
            Engine { keyspace, config, started_with, stats, clock: Some(clock), ..Engine::default() };
        engine.apply_settings();
        engine
    }

    /// Back to an empty server. Compiled scripts stay compiled, unknown to clients. Who waits
    /// waits no longer.
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
        self.clock = Some(clock);
        self.watches = Watches::default();
        self.pause = None;
        self.faults.clear();
        for slot in self.waiting.slots() {
            self.give_up(slot);
        }
        self.deliver();
        self.set_next_wake_up();
    }

    /// Sets a parameter as if the server had started with it.
    ///
    /// # Errors
    /// There is no such parameter, or it does not take this value.
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

    /// A copy of the data, of the settings, of the known scripts and of the libraries.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            keyspace: self.keyspace.clone(),
            config: self.config.clone(),
            scripts: self.scripts.known().clone(),
            libraries: self.functions.libraries().clone(),
        }
    }

    /// Whether a copy tells all by which the server, as it was when it began, can be brought to where it is.
    pub fn is_snapshot_complete(&self) -> bool {
        self.clients.have_no_state()
            && self.pause.is_none()
            && self.watches.is_empty()
            && !self.stats.were_told
            && self.config.is_same(&self.started_with)
            && self.scripts.has_default_settings()
            && self.functions.libraries().is_empty()
    }

    /// Back to a copy. For clients that watch keys, every key has changed.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.keyspace.clone_from(&snapshot.keyspace);
        if !self.config.is_same(&snapshot.config) {
            self.config = snapshot.config.clone();
            self.apply_settings();
        }
        self.scripts.set_known(&snapshot.scripts);
        self.functions.set_libraries(&snapshot.libraries);
        self.watches.notice_all();
        self.set_next_wake_up();
    }

    /// Back to the data of a copy, as one execution.
    pub fn restore_data(self: &mut Box<Self>, snapshot: &Snapshot) {
        self.begin();
        self.keyspace.replace(&snapshot.keyspace);
        for db in 0..self.keyspace.databases() {
            let awaited = self.waiting.keys(db).cloned().map(|key| (db, key));
            self.keyspace.events.appeared.extend(awaited);
        }
        self.watches.notice_all();
        self.end();
        self.broadcast();
        self.deliver();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.requests_at.unwrap_or_else(|| self.clock().now())
    }

    /// Requests have come together and run one after the other: to read the machine's clock once is enough for them, until one
    /// has run that may take long. Any other clock may be moved in between.
    pub(crate) fn begin_requests(&mut self) {
        self.requests_at = (self.clock().is_machines() && self.control.is_none()).then(|| self.clock().now());
    }

    /// They have run, or one has that may have taken long: the clock is read again.
    pub(crate) fn end_requests(&mut self) {
        self.requests_at = None;
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.clock.as_ref().expect("an engine in use was made with a clock")
    }

    /// When something happens without any command, and who says that it happens earlier.
    pub(crate) fn next_wake_up(&self) -> (Option<Timestamp>, Arc<Notify>) {
        (self.next_wake_up, self.wake_up_moved.clone())
    }

    /// Starts one execution: reads the clock once, forgets the footprint of the one before, and lets happen what is due.
    pub(crate) fn begin(self: &mut Box<Self>) {
        let now = self.now();
        self.keyspace.begin(now);
        self.tracker.seen = 0;
        self.watches.seen = 0;
        if self.next_wake_up.is_some_and(|next_wake_up| next_wake_up <= now) {
            self.run_due(now);
            self.publish_events(None);
        }
    }

    /// Lets happen what is due, without any command.
    pub fn tick(self: &mut Box<Self>) {
        self.begin();
        self.invalidate(&Client::nobody());
        self.end();
        self.broadcast();
        self.deliver();
    }

    /// Ends one execution: whoever waited for a key gets it, whoever watches one is told at `EXEC`, and whoever listens is sent
    /// what happened.
    pub(crate) fn end(self: &mut Box<Self>) {
        self.publish_events(None);
        self.serve_blocked();
        self.watches.notice(&self.keyspace);
        self.keyspace.events.is_tracked = !self.tracker.is_idle();
        self.set_next_wake_up();
    }

    /// A command has run, which need not be the last of its execution. Keeps what executions leave from growing without end.
    pub(crate) fn trim_footprint(&mut self) {
        let is_needed = !self.leaves_no_footprint || !self.tracker.is_idle() || !self.watches.is_empty();
        self.keyspace.footprint_mut().set_recording(is_needed);
        if is_needed && self.footprint().is_long() {
            self.drop_duplicates();
        }
    }

    /// Who goes by what is new in the footprint has seen all of it first.
    fn drop_duplicates(&mut self) {
        self.watches.notice(&self.keyspace);
        self.keyspace.footprint_mut().drop_duplicates();
        (self.watches.seen, self.tracker.seen) = (self.footprint().len(), self.footprint().len());
    }

    /// What the last execution touched.
    pub fn footprint(&self) -> &Footprint {
        self.keyspace.footprint()
    }

    /// Sends a message to all who listen, and says to how many.
    pub(crate) fn publish(&mut self, topic: Topic, channel: &Bytes, payload: &Bytes) -> usize {
        let messages = self.pubsub.publish(topic, channel, payload);
        let (count, footprint) = (messages.len(), self.keyspace.footprint_mut());
        footprint.listeners(channel);
        if count > 0 {
            footprint.channel(Access::Write, channel);
        }
        self.mail.extend(messages);
        count
    }

    /// Publishes what happened to keys since the last time. What the client at `slot`, whose command it was, is to hear after a
    /// part of the reply goes to the asides.
    pub(crate) fn publish_events(&mut self, slot: Option<Slot>) {
        self.keyspace.events.answered = 0;
        if self.keyspace.events.happened.is_empty() {
            return;
        }
        let wanted = self.keyspace.events.wanted;
        for Event { name, db, key, place, .. } in std::mem::take(&mut self.keyspace.events.happened) {
            let first = self.mail.len();
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
                let own = self.take_mail(slot, first);
                self.asides.extend(own.into_iter().map(|message| (place, message)));
            }
        }
    }

    /// Has the client's command wait.
    pub(crate) fn block(&mut self, client: &mut Client, blocked: Blocked) {
        client.is_blocked = true;
        self.keyspace.footprint_mut().connections(Access::Read);
        if let Until::Key { db, keys, .. } = &blocked.until {
            let deadline = blocked.deadline.map(Timestamp::millis);
            keys.iter().for_each(|key| self.keyspace.footprint_mut().waiting(*db, key, deadline));
        }
        self.waiting.insert(client.slot, blocked);
        self.keyspace.events.is_awaited = self.waiting.awaits_keys();
    }

    /// Ends a client's waiting, if it waits, without a reply.
    pub(crate) fn unblock(&mut self, slot: Slot) -> Option<Blocked> {
        let blocked = self.waiting.remove(slot)?;
        self.keyspace.events.is_awaited = self.waiting.awaits_keys();
        let now = self.keyspace.instant();
        if let Some(client) = self.clients.get(slot) {
            client.is_blocked = false;
            client.active_at = now;
        }
        Some(blocked)
    }

    /// Exchanges two databases. Who waits for a key that comes with it is served.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        self.keyspace.swap(a, b);
        for db in [a, b] {
            let awaited = self.waiting.keys(db).cloned().map(|key| (db, key));
            self.keyspace.events.appeared.extend(awaited);
        }
    }

    /// Ends `CLIENT PAUSE`: what was held back runs now.
    pub(crate) fn unpause(self: &mut Box<Self>) {
        self.pause = None;
        for slot in self.waiting.for_unpause() {
            self.attempt(slot, b"");
        }
    }

    fn run_due(self: &mut Box<Self>, now: Timestamp) {
        self.keyspace.expire_due();
        if self.client_check_at.is_some_and(|at| at <= now) {
            self.check_clients(now);
        }
        if self.pause.is_some_and(|(until, _)| until <= now) {
            self.unpause();
        }
        while let Some((deadline, slot)) = self.waiting.first_deadline()
            && deadline <= now
        {
            match self.waiting.get(slot).map(|blocked| &blocked.until) {
                Some(Until::Arrival) => self.attempt(slot, b""),
                _ => self.give_up(slot),
            }
        }
    }

    fn give_up(&mut self, slot: Slot) {
        if let Some(blocked) = self.unblock(slot) {
            self.mail.push((slot, blocked.on_timeout));
        }
    }

    /// Keys appeared: those who wait for them are served, first come first, key by key in the order of appearance. What they do
    /// may make further keys appear.
    fn serve_blocked(self: &mut Box<Self>) {
        while !self.keyspace.events.appeared.is_empty() {
            for (db, key) in std::mem::take(&mut self.keyspace.events.appeared) {
                let mut database = self.keyspace.db(db);
                let Some(value) = database.lookup(&key) else { continue };
                for slot in self.waiting.for_key(db, &key, value) {
                    self.attempt(slot, &key);
                }
            }
        }
    }

    /// Tries what a client waits for.
    fn attempt(self: &mut Box<Self>, slot: Slot, key: &[u8]) {
        let Some(attempt) = self.waiting.get(slot).map(|blocked| blocked.attempt.clone()) else { return };
        let mut client = self.clients.take(slot);
        let postscripts_of_others = std::mem::take(&mut self.postscripts);
        let outcome = attempt(self, &mut client, key);
        self.invalidate(&client);
        self.clients.put_back(client);
        self.publish_events(Some(slot));
        let reply = outcome.unwrap_or_else(|error| Some(Reply::Error(error)));
        let is_served = reply.is_some();
        let (reply, behind) = self.settle(reply.unwrap_or(Reply::NOTHING));
        if is_served {
            self.unblock(slot);
            self.mail.push((slot, reply));
        }
        let postscripts = std::mem::replace(&mut self.postscripts, postscripts_of_others);
        self.mail.extend(behind.into_iter().chain(postscripts).map(|message| (slot, message)));
    }

    fn set_next_wake_up(&mut self) {
        let waiting = self.waiting.first_deadline().map(|(deadline, _)| deadline);
        let pause = self.pause.map(|(until, _)| until);
        let next_wake_up =
            [self.keyspace.next_expiry(), waiting, pause, self.client_check_at].into_iter().flatten().min();
        let is_earlier = next_wake_up
            .is_some_and(|next_wake_up| self.next_wake_up.is_none_or(|before| next_wake_up < before));
        self.next_wake_up = next_wake_up;
        if is_earlier {
            self.wake_up_moved.notify_waiters();
        }
    }
}

/// What a server holds: its data, with absolute deadlines, its settings, and the scripts that it knows.
#[derive(Clone, Debug)]
pub struct Snapshot {
    keyspace: Keyspace,
    config: Config,
    scripts: Known,
    libraries: Libraries,
}
