//! The part of the server in a cluster: what it hears of others, whether it may serve, and what
//! follows for its role, its clients and its keys.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::Snapshot;
use super::state::{Engine, Until};
use crate::client::Slot;
use crate::clock::Timestamp;
use crate::cluster::{Change, Claim, Cluster, HashSlot, Node, SLOTS, SlotMap, key_slot};
use crate::config::Id;
use crate::error::{self, Error};
use crate::footprint::Access;
use crate::keyspace::{Class, Content, Text};
use crate::replication::{Address, Network, Order, Upstream, default_address, is_same};
use crate::reply::Reply;
use crate::topic::Topic;

const NODE_TIMEOUT: Id = Id::of("cluster-node-timeout");
const REQUIRES_FULL_COVERAGE: Id = Id::of("cluster-require-full-coverage");
/// The bounds of the time for which a primary waits after it was in a minority.
const REJOIN_MIN: Duration = Duration::from_millis(500);
const REJOIN_MAX: Duration = Duration::from_millis(5_000);

impl Engine {
    /// The cluster, for a command that tells of it.
    ///
    /// # Errors
    /// The server is part of no cluster.
    pub(crate) fn cluster(&mut self) -> Result<&Cluster, Error> {
        self.keyspace.footprint_mut().settings(Access::Read);
        self.cluster.as_deref().ok_or(error::NO_CLUSTER)
    }

    /// The cluster, for a command that changes the view of this server.
    ///
    /// # Errors
    /// The server is part of no cluster.
    pub(crate) fn cluster_mut(&mut self) -> Result<&mut Cluster, Error> {
        self.concern_all();
        self.cluster.as_deref_mut().ok_or(error::NO_CLUSTER)
    }

    /// The servers of the cluster, and this one among them.
    pub(crate) fn cluster_place(&self) -> Option<(&Cluster, &Network)> {
        let (network, _) = self.replication.place.as_ref()?;
        Some((self.cluster.as_deref()?, network))
    }

    /// The address of a server of the cluster.
    pub(crate) fn address_of(&self, node: Node) -> Address {
        match self.cluster_place() {
            Some((_, network)) => network.address(node),
            None => default_address(node),
        }
    }

    /// The pairs of servers of which the first misses the second: it has not reached the other for
    /// `cluster-node-timeout`. There are none if this server reaches all others.
    pub(crate) fn missed(&mut self) -> BTreeSet<(Node, Node)> {
        if let Some(missed) = self.cluster.as_ref().and_then(|cluster| cluster.missed.clone()) {
            return missed;
        }
        let missed = match self.cluster_place() {
            Some((cluster, network)) if network.has_cuts(cluster.own) => self.missed_by_all(),
            _ => BTreeSet::new(),
        };
        if let Some(cluster) = &mut self.cluster {
            cluster.missed = Some(missed.clone());
        }
        missed
    }

    /// Like [`missed`](Engine::missed), for a server that may reach all others.
    pub(crate) fn missed_by_all(&mut self) -> BTreeSet<(Node, Node)> {
        // It depends on the time.
        self.keyspace.now();
        let timeout = self.node_timeout();
        self.cluster_place().map_or_else(BTreeSet::new, |(_, network)| network.missed(timeout))
    }

    /// Whether the cluster is down, as far as this server knows: it serves no keys.
    pub(crate) fn is_cluster_down(&mut self) -> bool {
        let missed = self.missed();
        let needs_all = self.config.is_on(REQUIRES_FULL_COVERAGE);
        let rejoins_at = self.cluster.as_ref().and_then(|cluster| cluster.rejoins_at);
        let is_early = rejoins_at.is_some_and(|at| self.keyspace.now() < at);
        let Some(cluster) = &self.cluster else { return false };
        let lacks_slots = needs_all
            && (cluster.assigned() < SLOTS.into()
                || cluster.failed(&missed).into_iter().any(|node| cluster.slot_count(node) > 0));
        let rejoins = is_early && cluster.own_primary().is_none();
        lacks_slots || !cluster.is_in_majority(&missed) || rejoins
    }

    fn node_timeout(&self) -> Duration {
        Duration::from_millis(self.config.number(NODE_TIMEOUT).unsigned_abs())
    }

    /// When this server next misses another one.
    pub(super) fn next_miss(&self) -> Option<Timestamp> {
        let (cluster, network) = self.cluster_place()?;
        let timeout = self.node_timeout();
        let misses = network.cuts_of(cluster.own).into_iter().map(|since| since + timeout);
        misses.filter(|&at| at > cluster.looked_at).min()
    }

    /// Finds out whether this server was in a minority while it did not reach others.
    pub(super) fn rejoin(&mut self, missed: &[(Node, Timestamp)], at: Timestamp) {
        let timeout = self.node_timeout();
        let Some(cluster) = &mut self.cluster else { return };
        let own = cluster.own;
        let over = missed.iter().filter(|(_, since)| *since + timeout <= at);
        let missed: BTreeSet<_> = over.map(|&(node, _)| (own, node)).collect();
        if !cluster.is_in_majority(&missed) {
            cluster.rejoins_at = Some(at + timeout.clamp(REJOIN_MIN, REJOIN_MAX));
        }
    }

    /// Changes the view of this server by what another one claims, and its role, if that follows.
    pub(super) fn hear(self: &mut Box<Self>, claim: &Claim) {
        let Some(cluster) = &mut self.cluster else { return };
        let change = cluster.hear(claim);
        self.settle_change(&change);
    }

    /// Does what follows from a change of the view of this server.
    fn settle_change(self: &mut Box<Self>, change: &Change) {
        let Some((cluster, network)) = self.cluster_place() else { return };
        if change.is_news {
            network.publish(cluster.own, &cluster.claim());
        }
        self.concern_all();
        self.settle_role();
        if let Some(cluster) = &mut self.cluster {
            cluster.moved.extend(&change.moved);
            if cluster.own_primary().is_none() {
                self.remove_keys_in(&change.lost);
            }
        }
    }

    /// Does what follows when a command has changed the view of this server, and the owners of
    /// these slots.
    pub(crate) fn note_moved(self: &mut Box<Self>, slots: &[HashSlot]) {
        self.settle_change(&Change { moved: slots.to_vec(), lost: Vec::new(), is_news: true });
    }

    /// Tells the clients which are concerned that slots have other owners now.
    pub(super) fn notice_moved_slots(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        let moved = std::mem::take(&mut cluster.moved);
        if !moved.is_empty() {
            self.end_shard_subscriptions(moved);
            self.redirect_blocked();
        }
    }

    /// Becomes a primary or a replica, as the view of this server says.
    pub(crate) fn settle_role(self: &mut Box<Self>) {
        let primary = self.cluster.as_ref().and_then(|cluster| cluster.own_primary());
        match primary.map(|primary| self.address_of(primary)) {
            None => self.become_primary(),
            Some(address) => {
                let followed = self.replication.upstream.as_ref().map(Upstream::address);
                if followed.is_none_or(|followed| !is_same(&followed, &address)) {
                    self.follow(address.0.into(), address.1);
                }
            }
        }
    }

    /// What a replica of this primary claims when it takes over. `None` without a cluster.
    pub(crate) fn claim_for(&self, replica: &Address) -> Option<Claim> {
        let (cluster, network) = self.cluster_place()?;
        Some(cluster.claim_of_successor(network.at(replica)?))
    }

    /// Lets the whole cluster hear a claim that this server makes, for itself or for another one.
    pub(crate) fn spread(self: &mut Box<Self>, claim: &Claim) {
        if let Some((cluster, network)) = self.cluster_place() {
            network.publish(cluster.own, claim);
            self.hear(claim);
        }
    }

    /// The keys of a slot that this server has.
    pub(crate) fn keys_in(&mut self, slot: HashSlot) -> Vec<Bytes> {
        self.keyspace.expire_rest();
        let mut db = self.keyspace.db(0);
        db.keys().map(Text::to_bytes).filter(|key| key_slot(key) == slot).collect()
    }

    fn remove_keys_in(&mut self, slots: &[HashSlot]) {
        if slots.is_empty() {
            return;
        }
        let slots: BTreeSet<HashSlot> = slots.iter().copied().collect();
        let mut db = self.keyspace.db(0);
        let mut keys: Vec<Bytes> = db.keys().map(Text::to_bytes).collect();
        keys.retain(|key| slots.contains(&key_slot(key)));
        for key in keys {
            self.keyspace.db(0).remove(&key);
            self.keyspace.db(0).notify(Class::Generic, "del", &key);
            self.name_effect(0, || vec!["DEL".into(), key]);
        }
    }

    /// Is a server of a cluster from now on, without a way to the others.
    pub(crate) fn serve_slots(&mut self, own: Node, slot_map: &SlotMap) {
        self.cluster = Some(Box::new(Cluster::of_slot_map(own, slot_map)));
    }

    /// Has lost slots: removes their keys.
    pub(crate) fn lose_slots(&mut self, own: Node, slot_map: &SlotMap) {
        let before = self.cluster.take();
        let mut cluster = Cluster::of_slot_map(own, slot_map);
        let had = |slot: &HashSlot| before.as_ref().is_some_and(|before| before.owner(*slot) == Some(own));
        let has = |slot: &HashSlot| cluster.owner(*slot) == Some(own);
        let lost: Vec<HashSlot> = (0..SLOTS).filter(|slot| had(slot) && !has(slot)).collect();
        cluster.moved.clone_from(&lost);
        self.cluster = Some(Box::new(cluster));
        self.concern_all();
        self.remove_keys_in(&lost);
    }

    /// Takes the keys of a slot from what another server held `at` a time of its clock. They live
    /// as long as they would have there.
    pub(crate) fn take_slot(&mut self, slot: HashSlot, from: &Snapshot, at: Timestamp) {
        let mut theirs = from.keyspace.clone();
        theirs.begin(at);
        let keys: Vec<Bytes> = theirs.peek_keys(0, at).map(Text::to_bytes).collect();
        let by_ms = self.keyspace.now().millis() - at.millis();
        let copy = |key: Bytes| Some((key.clone(), theirs.db(0).copy(&key)?.later(by_ms)));
        let contents = keys.into_iter().filter(|key| key_slot(key) == slot).filter_map(copy);
        self.import(slot, None, contents.collect());
    }

    /// Takes keys of a slot from another server of the process.
    pub(super) fn import(&mut self, slot: HashSlot, from: Option<Node>, keys: Vec<(Bytes, Content)>) {
        let Some(cluster) = &mut self.cluster else { return };
        if let Some(from) = from {
            cluster.importing.insert(slot, from);
        }
        self.concern_all();
        for (key, content) in keys {
            self.keyspace.db(0).put(&key, content);
        }
        // No command makes these values, so replicas get them as a whole.
        self.copy_anew();
    }

    /// Ends the subscriptions of shard channels in slots whose owner has changed.
    fn end_shard_subscriptions(&mut self, slots: Vec<HashSlot>) {
        let slots: BTreeSet<HashSlot> = slots.into_iter().collect();
        let subscribers = self.pubsub.subscribers(Topic::ShardChannel);
        let moved = subscribers.iter().filter(|(channel, _)| slots.contains(&key_slot(channel)));
        let moved: Vec<(Bytes, Vec<Slot>)> =
            moved.map(|(channel, slots)| (channel.clone(), slots.iter().copied().collect())).collect();
        for (channel, clients) in moved {
            for slot in clients {
                let mut client = self.clients.take(slot);
                self.unsubscribe(&mut client, Topic::ShardChannel, &channel);
                let left = Reply::count(client.subscriptions[Topic::ShardChannel as usize].len());
                self.clients.put_back(client);
                let channel = Reply::Bulk(channel.clone());
                self.outbox.send(slot, Reply::Push(vec![Reply::bulk("sunsubscribe"), channel, left]));
            }
        }
    }

    /// Answers the clients that wait for keys which this server no longer serves.
    pub(super) fn redirect_blocked(&mut self) {
        if self.cluster.is_none() || !self.waiting.awaits_keys() {
            return;
        }
        let is_down = self.is_cluster_down();
        for slot in self.waiting.slots() {
            let Some(Until::Key { keys, .. }) = self.waiting.get(slot).map(|blocked| &blocked.until) else {
                continue;
            };
            let Some(hash_slot) = keys.first().map(|key| key_slot(key)) else { continue };
            let refusal = if is_down { Some(error::CLUSTERDOWN) } else { self.refusal_of(hash_slot) };
            if let Some(refusal) = refusal {
                self.unblock(slot);
                self.outbox.send(slot, Reply::Error(refusal));
            }
        }
    }

    /// The reason why this server does not serve a slot for a client that waits.
    fn refusal_of(&self, slot: HashSlot) -> Option<Error> {
        let cluster = self.cluster.as_ref()?;
        let is_served = cluster.owner(slot) == Some(cluster.own) || cluster.importing.contains_key(&slot);
        match cluster.owner(slot) {
            _ if is_served => None,
            None => Some(error::SLOT_NOT_SERVED),
            Some(owner) => Some(self.redirection("MOVED", slot, owner)),
        }
    }

    /// `MOVED 3999 127.0.0.1:6381`, or `ASK`.
    pub(crate) fn redirection(&self, word: &str, slot: HashSlot, node: Node) -> Error {
        let (host, port) = self.address_of(node);
        Error::new(format!("{word} {slot} {host}:{port}"))
    }

    /// Publishes a message in the cluster: to all servers, or to those of this shard. Returns the
    /// number of receivers at this server.
    pub(crate) fn publish_to_cluster(&mut self, topic: Topic, channel: &Bytes, payload: &Bytes) -> usize {
        if let Some((cluster, network)) = self.cluster_place() {
            let shard = cluster.shard_of(cluster.own);
            let concerns = |&node: &Node| topic == Topic::Channel || cluster.shard_of(node) == shard;
            let message = Order::Publish(topic, channel.clone(), payload.clone());
            network.carry(cluster.own, cluster.nodes().filter(concerns), &message);
        }
        self.publish(topic, channel, payload)
    }
}
