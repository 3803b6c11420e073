//! The servers of one process that reach each other: a replica finds its primary here.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::address::{Address, default_address, is_same};
use super::copy::Copy;
use super::report::Answer;
use crate::clock::{Clock, Timestamp};
use crate::cluster::{Claim, HashSlot, Node};
use crate::keyspace::Content;
use crate::topic::Topic;

/// From this many orders on that a server has not taken, it gets no more messages: nobody looks at
/// it, so nobody listens there.
const WAITING_ORDERS_MAX: usize = 65_536;
/// The most rounds in which servers notice what the others have done. A failover takes a few.
const ROUNDS_MAX: usize = 16;

/// Servers in this process that reach each other by their addresses. A clone is a handle to the
/// same servers.
#[derive(Clone, Debug, Default)]
pub struct Network {
    state: Arc<Mutex<State>>,
    /// Whether a link may be missing that could begin.
    is_stirred: Arc<AtomicBool>,
    /// Whether servers do what follows from a change right now.
    is_settling: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    /// The pairs of servers that do not reach each other, each with the smaller index first. Each
    /// pair has the time since which that is so, on the clock of each.
    cuts: BTreeMap<(Node, Node), [Timestamp; 2]>,
    /// The last election of Sentinels for each name of a primary: its epoch, and who has won.
    elections: BTreeMap<Vec<u8>, (u64, Node)>,
}

#[derive(Debug)]
struct Member {
    address: Address,
    /// The server that it followed first.
    first_primary: Option<Node>,
    clock: Clock,
    peer: Weak<dyn Peer>,
    wake_up: Arc<Notify>,
    orders: Vec<Order>,
    /// What it has claimed in a cluster.
    claim: Option<Claim>,
}

/// What a server is to do before it runs anything else.
#[derive(Clone, Debug)]
pub enum Order {
    /// Become a primary, and close the connections of clients.
    TakeOver,
    /// Follow this server, and close the connections of clients.
    Follow(Address),
    /// Call a server by another address.
    Rename(Address, Address),
    /// Become empty, and what it was at first: a primary, or a replica of this server.
    Reset(Option<Address>),
    /// Hear what a server of the cluster claims.
    Hear(Claim),
    /// Find out what it means that servers were out of reach until now. For each, this has the
    /// time since which it was so; then the time now.
    Rejoin(Vec<(Node, Timestamp)>, Timestamp),
    /// Hand over to a replica as soon as that has everything: `CLUSTER FAILOVER`.
    HandOver(Address),
    /// Take keys of a slot. If they come from a server, the slot is still on its way from there.
    Import(HashSlot, Option<Node>, Vec<(Bytes, Content)>),
    /// Publish a message that a client has published elsewhere in the cluster.
    Publish(Topic, Bytes, Bytes),
    /// For a Sentinel: the first address has handed over to the second, as a Sentinel would have
    /// made it.
    Announce(Address, Address),
}

/// A server that others can follow and watch.
pub trait Peer: std::fmt::Debug + Send + Sync {
    /// Takes a replica and returns a copy of the data, if the server is free. It asks at most so
    /// many primaries in a chain for their data.
    fn copy_for(&self, replica: Replica, hops: usize) -> Option<Copy>;

    /// Begins the link to its primary, if that is missing. A Sentinel looks at the other servers.
    /// Returns whether the server was free.
    fn look_around(&self) -> bool;

    /// What the server shows of itself.
    fn report(&self) -> Answer;

    /// Takes a replica when the server is free.
    fn copy_when_free(
        self: Arc<Self>,
        replica: Replica,
    ) -> Pin<Box<dyn Future<Output = Option<Copy>> + Send + Sync>>;
}

/// A server that begins to follow another one.
pub struct Replica {
    /// Its address.
    pub address: Address,
    /// Notified when it has to look at its link.
    pub wake_up: Arc<Notify>,
}

impl Network {
    /// Adds a server that follows another one or none. Until it listens, its address is a free one
    /// of this machine.
    pub(crate) fn join(
        &self,
        first_primary: Option<Node>,
        clock: Clock,
        peer: Weak<dyn Peer>,
        wake_up: Arc<Notify>,
    ) -> Node {
        let mut state = self.state();
        let node = state.members.len();
        let address = default_address(node);
        let (orders, claim) = (Vec::new(), None);
        state.members.push(Member { address, first_primary, clock, peer, wake_up, orders, claim });
        node
    }

    /// Whether both are handles to the same servers.
    pub(crate) fn is_same(&self, other: &Network) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Sets the address of a server, and tells all servers.
    pub(crate) fn set_address(&self, node: Node, address: &Address) {
        let mut state = self.state();
        if state.members[node].address == *address {
            return;
        }
        let before = std::mem::replace(&mut state.members[node].address, address.clone());
        for member in &mut state.members {
            member.orders.push(Order::Rename(before.clone(), address.clone()));
        }
        drop(state);
        self.stir();
    }

    /// The address of a server.
    pub(crate) fn address(&self, node: Node) -> Address {
        self.state().members[node].address.clone()
    }

    /// The clocks of all servers.
    pub(crate) fn clocks(&self) -> Vec<Clock> {
        self.state().members.iter().map(|member| member.clock.clone()).collect()
    }

    /// Tells every other server to become what it was at first, and heals all partitions. The
    /// server itself has this clock now. Returns what it followed at first.
    pub(crate) fn reset(&self, node: Node, clock: &Clock) -> Option<Address> {
        let mut state = self.state();
        state.cuts.clear();
        state.elections.clear();
        state.members[node].clock = clock.clone();
        state.members.iter_mut().for_each(|member| member.claim = None);
        let addresses: Vec<Address> = state.members.iter().map(|member| member.address.clone()).collect();
        let first = |member: &Member| member.first_primary.map(|primary| addresses[primary].clone());
        for (other, member) in state.members.iter_mut().enumerate() {
            if other != node {
                member.orders.push(Order::Reset(first(member)));
            }
        }
        let own = first(&state.members[node]);
        drop(state);
        self.stir();
        own
    }

    /// The addresses of all servers.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.state().members.iter().map(|member| member.address.clone()).collect()
    }

    /// The server at an address.
    pub(crate) fn at(&self, address: &Address) -> Option<Node> {
        let is_there = |member: &Member| is_same(&member.address, address);
        self.state().members.iter().position(is_there)
    }

    /// The server at an address, if `from` reaches it and it still exists, and who `from` is to it.
    pub(crate) fn reach(&self, from: Node, address: &Address) -> Option<(Arc<dyn Peer>, Replica)> {
        let to = self.at(address).filter(|&to| to != from)?;
        let state = self.state();
        if !state.reaches(from, to) {
            return None;
        }
        let Member { address, wake_up, .. } = &state.members[from];
        let replica = Replica { address: address.clone(), wake_up: wake_up.clone() };
        Some((state.members[to].peer.upgrade()?, replica))
    }

    /// The other servers, and those of them that this one reaches.
    pub(crate) fn others(&self, from: Node) -> Vec<(Address, Option<Arc<dyn Peer>>)> {
        let state = self.state();
        let others = state.members.iter().enumerate().filter(|(node, _)| *node != from);
        let reached =
            |node: Node, member: &Member| member.peer.upgrade().filter(|_| state.reaches(from, node));
        others.map(|(node, member)| (member.address.clone(), reached(node, member))).collect()
    }

    /// Holds an election of Sentinels for a failover of the primary with a name. The first
    /// candidate wins. Each other one loses until it knows the epoch of the winner. Returns the
    /// epoch.
    pub(crate) fn elect(&self, candidate: Node, name: &[u8], known_epoch: u64) -> Option<u64> {
        let mut state = self.state();
        let (last, winner) = state.elections.get(name).copied().unwrap_or((0, candidate));
        if last > known_epoch && winner != candidate {
            return None;
        }
        let epoch = last.max(known_epoch) + 1;
        state.elections.insert(name.to_vec(), (epoch, candidate));
        Some(epoch)
    }

    /// Lets all Sentinels announce that the first address has handed over to the second.
    pub(crate) fn announce(&self, from: &Address, to: &Address) {
        let mut state = self.state();
        for member in &mut state.members {
            member.orders.push(Order::Announce(from.clone(), to.clone()));
        }
        drop(state);
        self.stir();
    }

    /// Gives a server an order.
    pub(crate) fn give(&self, to: Node, order: Order) {
        let mut state = self.state();
        state.members[to].orders.push(order);
        state.members[to].wake_up.notify_waiters();
    }

    /// Takes the orders of a server.
    pub(crate) fn take_orders(&self, node: Node) -> Vec<Order> {
        std::mem::take(&mut self.state().members[node].orders)
    }

    /// Parts two servers. The caller ends the links between them.
    pub(crate) fn part(&self, a: Node, b: Node) {
        let mut state = self.state();
        let pair = (a.min(b), a.max(b));
        let now = [pair.0, pair.1].map(|node| state.members[node].clock.now());
        state.cuts.entry(pair).or_insert(now);
        drop(state);
        self.stir();
    }

    /// Lets all servers reach each other again, and hear what they have missed.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        let State { members, cuts, .. } = &mut *state;
        let mut missed: BTreeMap<Node, Vec<(Node, Timestamp)>> = BTreeMap::new();
        for ((a, b), [since_a, since_b]) in std::mem::take(cuts) {
            missed.entry(a).or_default().push((b, since_a));
            missed.entry(b).or_default().push((a, since_b));
        }
        for (node, missed) in missed {
            let claims = missed.iter().filter_map(|(other, _)| members[*other].claim.clone());
            let claims: Vec<Order> = claims.map(Order::Hear).collect();
            let member = &mut members[node];
            member.orders.push(Order::Rejoin(missed, member.clock.now()));
            member.orders.extend(claims);
        }
        drop(state);
        self.stir();
    }

    /// Whether two servers reach each other.
    pub(crate) fn reaches(&self, from: Node, to: Node) -> bool {
        self.state().reaches(from, to)
    }

    /// Carries a message to each of these servers that is reached.
    pub(crate) fn carry(&self, from: Node, to: impl Iterator<Item = Node>, message: &Order) {
        let mut state = self.state();
        for node in to.filter(|&node| node != from) {
            let is_looked_at = state.members[node].orders.len() < WAITING_ORDERS_MAX;
            if is_looked_at && state.reaches(from, node) {
                state.members[node].orders.push(message.clone());
            }
        }
        drop(state);
        self.stir();
    }

    /// Lets the servers of a cluster hear a claim: all but `from`, which has made it. A server that
    /// is not reached hears it from another one that reaches both.
    pub(crate) fn publish(&self, from: Node, claim: &Claim) {
        let mut state = self.state();
        let author = claim.node;
        let nodes = 0..state.members.len();
        let hears =
            |to: &Node| nodes.clone().any(|via| state.reaches(author, via) && state.reaches(via, *to));
        let hearers: Vec<Node> = nodes.clone().filter(|&to| to != from).filter(hears).collect();
        for to in hearers {
            state.members[to].orders.push(Order::Hear(claim.clone()));
        }
        state.members[author].claim = Some(claim.clone());
        drop(state);
        self.stir();
    }

    /// The pairs of servers of which the first has not reached the second for this time, on its own
    /// clock.
    pub(crate) fn missed(&self, timeout: Duration) -> BTreeSet<(Node, Node)> {
        let state = self.state();
        let is_over = |node: Node, since: Timestamp| since + timeout <= state.members[node].clock.now();
        let cuts = state.cuts.iter().flat_map(|(&(a, b), &[at_a, at_b])| [((a, b), at_a), ((b, a), at_b)]);
        cuts.filter(|&((node, _), since)| is_over(node, since)).map(|(pair, _)| pair).collect()
    }

    /// Whether a server does not reach all others.
    pub(crate) fn has_cuts(&self, node: Node) -> bool {
        self.state().cuts.keys().any(|&(a, b)| node == a || node == b)
    }

    /// Since when a server does not reach others, on its own clock.
    pub(crate) fn cuts_of(&self, node: Node) -> Vec<Timestamp> {
        let state = self.state();
        let cuts = state.cuts.iter().filter_map(|(&(a, b), &[at_a, at_b])| match node {
            _ if node == a => Some(at_a),
            _ if node == b => Some(at_b),
            _ => None,
        });
        cuts.collect()
    }

    /// Begins the links that are missing, and lets Sentinels look around, if something has changed
    /// since the last call.
    pub(crate) fn settle(&self) {
        if !self.is_stirred.load(Ordering::Relaxed) {
            return;
        }
        self.is_settling.store(true, Ordering::Relaxed);
        for _ in 0..ROUNDS_MAX {
            if !self.is_stirred.swap(false, Ordering::Relaxed) {
                break;
            }
            let peers: Vec<_> = self.state().members.iter().map(|member| member.peer.clone()).collect();
            let busy = peers.iter().filter_map(Weak::upgrade).filter(|peer| !peer.look_around()).count();
            if busy > 0 {
                self.is_stirred.store(true, Ordering::Relaxed);
                break;
            }
        }
        self.is_settling.store(false, Ordering::Relaxed);
    }

    /// Does the same after a server was used, which may be a part of [`Network::settle`] itself.
    pub(crate) fn settle_after_use(&self) {
        if !self.is_settling.load(Ordering::Relaxed) {
            self.settle();
        }
    }

    /// Lets every server look at its links.
    pub(crate) fn stir(&self) {
        self.is_stirred.store(true, Ordering::Relaxed);
        self.state().members.iter().for_each(|member| member.wake_up.notify_waiters());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reaches(&self, from: Node, to: Node) -> bool {
        !self.cuts.contains_key(&(from.min(to), from.max(to)))
    }
}
