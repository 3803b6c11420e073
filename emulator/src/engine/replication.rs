//! The part of the server in replication: its role, its links, and what follows from them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::state::Engine;
use crate::client::{Client, Closing, Slot};
use crate::clock::Timestamp;
use crate::config::Id;
use crate::error;
use crate::keyspace::DueKeys;
use crate::replication::{
    Address, Copy, Failover, Follower, Lag, Link, Order, ReplicaEnd, Replication, Sent, Upstream, is_same,
};
use crate::reply::Reply;
use crate::script::sha1_hex;

const MIN_REPLICAS_TO_WRITE: Id = Id::of("min-replicas-to-write");
const MIN_REPLICAS_MAX_LAG: Id = Id::of("min-replicas-max-lag");
const REPLICA_READ_ONLY: Id = Id::of("replica-read-only");
const REPLICA_SERVE_STALE_DATA: Id = Id::of("replica-serve-stale-data");
/// For how long a primary holds back writes for `CLUSTER FAILOVER` (Redis: `CLUSTER_MF_TIMEOUT`).
const HAND_OVER_MAX: Duration = Duration::from_secs(5);

/// How the link to a primary ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// The primary hands over.
    TakesOver,
    /// There is no connection any more.
    Cut,
}

impl Engine {
    /// The name of the server's history: forty hexadecimal digits.
    pub(crate) fn history(&self) -> String {
        let inherited = self.replication.inherited.clone();
        inherited.unwrap_or_else(|| self.identity(&format!("history {}", self.replication.promotions)))
    }

    /// Forty hexadecimal digits that no other server has, and not this one after another start.
    pub(crate) fn identity(&self, what: &str) -> String {
        let node = self.replication.place.as_ref().map_or(0, |(_, node)| *node);
        let seed = format!("{what} of {node} since {}, {}", self.stats.began.micros(), self.restarts);
        String::from_utf8_lossy(&sha1_hex(seed.as_bytes())).into_owned()
    }

    /// Whether writes require more replicas than there are.
    pub(crate) fn lacks_replicas(&self) -> bool {
        let [wanted, lag_max_secs] =
            [MIN_REPLICAS_TO_WRITE, MIN_REPLICAS_MAX_LAG].map(|id| self.config.number(id));
        if wanted == 0 || lag_max_secs == 0 || self.replication.upstream.is_some() {
            return false;
        }
        let is_good = |follower: &&Follower| follower.link.silence().as_secs() <= lag_max_secs.unsigned_abs();
        let good = self.replication.followers.iter().filter(is_good).count();
        (good as i64) < wanted
    }

    /// Whether clients may not write, because the server is a replica.
    pub(crate) fn is_read_only(&self) -> bool {
        self.replication.upstream.is_some() && self.config.is_on(REPLICA_READ_ONLY)
    }

    /// Whether the data may be old and must not be shown.
    pub(crate) fn hides_stale_data(&self) -> bool {
        self.replication.is_stale() && !self.config.is_on(REPLICA_SERVE_STALE_DATA)
    }

    /// Whether writes wait for the end of a `FAILOVER`.
    pub(crate) fn fails_over(&self) -> bool {
        self.replication.failover.is_some()
    }

    /// Follows a primary from now on. The data stays until that of the primary comes.
    pub(crate) fn follow(self: &mut Box<Self>, host: Bytes, port: u16) {
        // A link to another primary ends with it.
        self.replication.upstream =
            Some(Upstream { host, port, link: None, down_since: self.now(), has_synced: false });
        self.keyspace.due_keys = DueKeys::Hidden;
        self.replication.failover = None;
        self.drop_followers();
        self.unblock_all();
        self.run_held_back();
        self.concern_all();
        self.note_change();
    }

    /// Becomes a primary, with the data that it has.
    pub(crate) fn become_primary(self: &mut Box<Self>) {
        if self.replication.upstream.is_none() {
            return;
        }
        let history = self.history();
        self.replication.upstream = None;
        self.replication.previous = Some((history, self.replication.offset + 1));
        self.replication.inherited = None;
        self.replication.promotions += 1;
        self.outgoing.selected = None;
        self.keyspace.due_keys = DueKeys::Removed;
        self.update_outgoing();
        self.concern_all();
        self.set_next_wake_up();
        self.note_change();
    }

    /// Answers as a replica of this primary, over a link by which nothing arrives, or as a primary.
    pub(crate) fn show_primary(&mut self, primary: Option<Address>) {
        let now = self.now();
        let link =
            || Link::new(self.clock.clone(), [(); 2].map(|()| self.wake_up()), self.replication.offset);
        let upstream = primary.map(|(host, port)| {
            let link = Some(ReplicaEnd(Arc::new(link())));
            Upstream { host: host.into(), port, link, down_since: now, has_synced: true }
        });
        self.keyspace.due_keys = if upstream.is_some() { DueKeys::Hidden } else { DueKeys::Removed };
        self.replication.upstream = upstream;
        self.update_outgoing();
    }

    /// Begins replication anew after a restart, in the same role.
    pub(super) fn restart_replication(&mut self) {
        let now = self.clock().now();
        let replication = &mut self.replication;
        (replication.offset, replication.inherited, replication.previous) = (0, None, None);
        (replication.promotions, replication.failover) = (replication.promotions + 1, None);
        self.outgoing.selected = None;
        let is_replica = self.replication.upstream.is_some();
        self.keyspace.due_keys = if is_replica { DueKeys::Hidden } else { DueKeys::Removed };
        if let Some(upstream) = &mut self.replication.upstream {
            (upstream.link, upstream.down_since, upstream.has_synced) = (None, now, false);
        }
        self.drop_followers();
    }

    /// Lets all replicas get a copy of the data, after a change that no command has made.
    pub(crate) fn copy_anew(&mut self) {
        self.begin_journal_anew();
        if !self.replication.followers.is_empty() {
            self.drop_followers();
            self.note_change();
        }
    }

    /// Ends the links to all replicas.
    pub(crate) fn drop_followers(&mut self) {
        self.replication.followers.drain(..).for_each(|follower| follower.link.cut());
        self.update_outgoing();
    }

    /// Ends the commands of blocked clients, which a replica cannot serve, and their connections.
    fn unblock_all(&mut self) {
        let mut slots = self.waiting.slots();
        slots.retain(|&slot| self.waiting.can_be_unblocked(slot));
        for slot in slots {
            self.unblock(slot);
            self.deliver_to(slot, Reply::Error(error::ROLE_CHANGED));
            self.client(slot).close(Closing::WhenWritten);
        }
    }

    /// The address of the primary to which there is no connection.
    pub(crate) fn lacks_link_to(&self) -> Option<Address> {
        let upstream = self.replication.upstream.as_ref().filter(|upstream| upstream.link.is_none())?;
        Some(upstream.address())
    }

    /// Takes a replica, and returns a copy of the data for it. `None` if this server has no data of
    /// its own primary yet.
    pub(crate) fn accept(&mut self, address: Address, wake_up: Arc<Notify>) -> Option<Copy> {
        if self.replication.is_stale() {
            return None;
        }
        let ends = [self.wake_up_moved.clone(), wake_up];
        let link = Arc::new(Link::new(self.clock.clone(), ends, self.replication.offset));
        self.replication.followers.push(Follower { address, link: link.clone() });
        self.update_outgoing();
        self.outgoing.selected = None;
        Some(Copy {
            keyspace: self.keyspace.clone(),
            libraries: self.functions.libraries().clone(),
            history: self.history(),
            offset: self.replication.offset,
            link: ReplicaEnd(link),
        })
    }

    /// What wakes the server up.
    pub(crate) fn wake_up(&self) -> Arc<Notify> {
        self.wake_up_moved.clone()
    }

    /// A link may begin that could not begin before.
    pub(crate) fn note_change(&self) {
        match &self.replication.place {
            Some((network, _)) => network.stir(),
            None => self.move_wake_up(),
        }
    }

    /// Begins a link to the primary at this address, with a copy of its data. Nothing happens
    /// without a copy, or if the server follows another one by now.
    pub(crate) fn begin_link(self: &mut Box<Self>, primary: &Address, copy: Option<Copy>) {
        let Some(copy) = copy else { return };
        if self.lacks_link_to().as_ref() != Some(primary) {
            return;
        }
        let Copy { keyspace, libraries, history, offset, link } = copy;
        self.execution(None, |engine| {
            engine.keyspace.replace(&keyspace);
            engine.functions.set_libraries(&libraries);
            engine.watches.notice_all();
            Reply::NOTHING
        });
        self.drop_followers();
        self.begin_journal_anew();
        (self.replication.inherited, self.replication.offset) = (Some(history), offset);
        link.0.set_lag(self.replication.lag);
        if let Some(upstream) = &mut self.replication.upstream {
            (upstream.link, upstream.has_synced) = (Some(link), true);
        }
    }

    /// Whether nothing of replication can be due.
    pub(crate) fn is_alone(&self) -> bool {
        let Replication { upstream, followers, place, .. } = &self.replication;
        upstream.is_none() && followers.is_empty() && place.is_none()
    }

    /// Ends the links to the server at an address.
    pub(crate) fn cut_links_to(&mut self, address: &Address) {
        let upstream =
            self.replication.upstream.iter().filter(|upstream| is_same(&upstream.address(), address));
        upstream.filter_map(|upstream| upstream.link.as_ref()).for_each(|link| link.0.cut());
        let followers = self.replication.followers.iter();
        followers
            .filter(|follower| is_same(&follower.address, address))
            .for_each(|follower| follower.link.cut());
    }

    /// Calls a server by another address.
    fn rename(&mut self, before: &Address, after: &Address) {
        if let Some(sentinel) = &mut self.sentinel {
            sentinel.rename(before, after);
        }
        if let Some(upstream) = &mut self.replication.upstream
            && is_same(&upstream.address(), before)
        {
            (upstream.host, upstream.port) = (Bytes::copy_from_slice(after.0.as_bytes()), after.1);
        }
        let known = self.replication.followers.iter_mut().filter(|follower| follower.address == *before);
        known.for_each(|follower| follower.address = after.clone());
    }

    /// Gives this server, which is empty, the role that it had at first. Tells the others of its
    /// network, if it has one, to become empty and do the same.
    pub(crate) fn reset_network(self: &mut Box<Self>) {
        let place = self.replication.place.as_ref();
        let primary = place.and_then(|(network, node)| network.reset(*node, &self.clock));
        self.restore_role(primary);
    }

    /// Makes the server empty again, and restores the clock with which it started.
    pub(crate) fn reset_to_start(&mut self) {
        let clock = self.clock.clone();
        if let Some(first) = &self.control {
            clock.follow(first);
        }
        self.reset(clock);
    }

    fn restore_role(self: &mut Box<Self>, primary: Option<Address>) {
        self.become_primary();
        self.drop_followers();
        let Replication { place, journal, .. } = std::mem::take(&mut self.replication);
        self.replication = Replication { place, journal, ..Replication::default() };
        self.update_outgoing();
        let is_part = self.replication.place.is_some();
        self.cluster = self.cluster.take().filter(|_| is_part).map(|cluster| Box::new(cluster.at_first()));
        if let Some((host, port)) = primary {
            self.follow(host.into(), port);
        }
        self.restart_sentinel();
    }

    /// What the server is ordered to do from outside.
    pub(crate) fn take_orders(&self) -> Vec<Order> {
        self.replication.place.as_ref().map_or_else(Vec::new, |(network, node)| network.take_orders(*node))
    }

    /// Does what it is ordered to do from outside.
    fn obey(self: &mut Box<Self>, orders: Vec<Order>) {
        for order in orders {
            self.execution(None, |engine| {
                match order {
                    // Another Sentinel may have given the same order.
                    Order::TakeOver if engine.replication.upstream.is_none() => {}
                    Order::Follow(primary) if engine.is_follower_of(&primary) => {}
                    Order::TakeOver => {
                        engine.become_primary();
                        engine.kill_all();
                    }
                    Order::Follow((host, port)) => {
                        engine.follow(host.into(), port);
                        engine.kill_all();
                    }
                    Order::Rename(before, after) => engine.rename(&before, &after),
                    Order::Reset(primary) => {
                        engine.reset_to_start();
                        engine.restore_role(primary);
                    }
                    Order::HandOver(replica) => {
                        let deadline = engine.clock.now() + HAND_OVER_MAX;
                        let failover =
                            Failover { target: Some(replica), deadline: Some(deadline), is_forced: false };
                        engine.set_failover(Some(failover));
                    }
                    Order::Hear(claim) => engine.hear(&claim),
                    Order::Rejoin(missed, at) => engine.rejoin(&missed, at),
                    Order::Import(slot, from, keys) => engine.import(slot, from, keys),
                    Order::Publish(topic, channel, payload) => {
                        engine.publish(topic, &channel, &payload);
                    }
                    Order::Announce(from, to) => engine.announce_failover(&from, &to),
                }
                Reply::NOTHING
            });
        }
    }

    fn is_follower_of(&self, primary: &Address) -> bool {
        self.replication.upstream.as_ref().is_some_and(|upstream| is_same(&upstream.address(), primary))
    }

    /// The units that have arrived, to be applied. If the primary has handed over or the link has
    /// ended, the role of this server changes, too.
    pub(crate) fn receive_units(&mut self) -> Vec<Sent> {
        self.link().map_or_else(Vec::new, |link| link.receive())
    }

    fn link(&self) -> Option<&Arc<Link>> {
        Some(&self.replication.upstream.as_ref()?.link.as_ref()?.0)
    }

    /// How the link to the primary has ended, if it has. What was sent before is still to be
    /// received.
    pub(crate) fn link_end(&self) -> Option<LinkEnd> {
        let link = self.link()?;
        match () {
            () if link.takes_over() => Some(LinkEnd::TakesOver),
            () if link.is_cut() => Some(LinkEnd::Cut),
            () => None,
        }
    }

    /// Sets how late this server gets effects as a replica.
    pub(crate) fn set_lag(&mut self, lag: Lag) {
        self.replication.lag = lag;
        if let Some(link) = self.link() {
            link.set_lag(lag);
        }
    }

    /// Sends on a unit that has been applied.
    pub(crate) fn forward_applied(&mut self, sent: Sent) {
        self.forward(sent.unit);
        self.replication.offset = sent.end;
    }

    /// Does what it is ordered to do, and what follows from the state of the links: it drops the
    /// ended ones, takes over or hands over, and answers those who wait for acknowledgements.
    pub(crate) fn look_at_links(self: &mut Box<Self>, end: Option<LinkEnd>, orders: Vec<Order>) {
        self.obey(orders);
        let before = self.replication.followers.len();
        self.replication.followers.retain(|follower| !follower.link.is_cut());
        if self.replication.followers.len() != before {
            self.update_outgoing();
        }
        match (end, &mut self.replication.upstream) {
            (Some(LinkEnd::TakesOver), Some(_)) => {
                self.execution(None, |engine| {
                    engine.become_primary();
                    Reply::NOTHING
                });
            }
            (Some(LinkEnd::Cut), Some(upstream)) => {
                (upstream.link, upstream.down_since) = (None, self.clock.now());
            }
            _ => {}
        }
        if self.fails_over() {
            self.proceed_with_failover();
        }
        if self.waiting.for_replicas().iter().any(|&(_, count, offset)| self.has_acknowledged(count, offset))
        {
            self.tick();
        }
        self.set_next_wake_up();
    }

    fn has_acknowledged(&self, count: usize, offset: u64) -> bool {
        self.replication.acknowledged_by(offset) >= count
    }

    /// Answers the clients that wait for acknowledgements which have come.
    pub(super) fn serve_acknowledged(&mut self) {
        for (slot, count, offset) in self.waiting.for_replicas() {
            if self.has_acknowledged(count, offset) {
                self.answer_wait(slot, offset);
            }
        }
    }

    /// Answers a `WAIT` with the number of acknowledgements so far.
    pub(super) fn answer_wait(&mut self, slot: Slot, offset: u64) {
        self.unblock(slot);
        let count = Reply::count(self.replication.acknowledged_by(offset));
        self.outbox.send(slot, count);
    }

    /// When the state of a link next changes by time alone.
    pub(super) fn next_look_at_links(&self) -> Option<Timestamp> {
        if self.is_alone() {
            return None;
        }
        let upstream = self.link().into_iter();
        let followers = self.replication.followers.iter().map(|follower| &follower.link);
        let now = self.clock.now();
        let arrivals = upstream.chain(followers).filter_map(|link| Some(now + link.next_arrival()?));
        let failover = self.replication.failover.iter().filter_map(|failover| failover.deadline);
        arrivals.chain(failover).min()
    }

    /// Hands over to a replica that has everything, or gives up at the deadline.
    fn proceed_with_failover(self: &mut Box<Self>) {
        let Some(failover) = &self.replication.failover else { return };
        let is_over = failover.deadline.is_some_and(|deadline| deadline <= self.clock.now());
        let is_target = |follower: &&Follower| {
            failover.target.as_ref().is_none_or(|target| *target == follower.address)
                && (follower.link.acknowledged() == self.replication.offset || is_over && failover.is_forced)
        };
        let target = self.replication.followers.iter().find(is_target);
        let target = target.map(|follower| (follower.address.clone(), follower.link.clone()));
        if target.is_none() && !is_over {
            return;
        }
        self.execution(None, |engine| {
            engine.replication.failover = None;
            if let Some(((host, port), link)) = target {
                if let Some(claim) = engine.claim_for(&(host.clone(), port)) {
                    engine.spread(&claim);
                } else {
                    engine.replication.followers.retain(|follower| !Arc::ptr_eq(&follower.link, &link));
                    engine.follow(host.into(), port);
                    link.hand_over();
                }
            }
            engine.run_held_back();
            Reply::NOTHING
        });
    }

    /// Begins a planned failover, or gives it up.
    pub(crate) fn set_failover(self: &mut Box<Self>, failover: Option<Failover>) {
        let ends = failover.is_none();
        self.replication.failover = failover;
        self.concern_all();
        if ends {
            self.run_held_back();
        }
        self.note_change();
    }

    /// Notes how far the stream is after a command of a client, for its `WAIT`.
    pub(crate) fn note_offset(&self, client: &mut Client) {
        client.offset = self.replication.offset;
    }
}
