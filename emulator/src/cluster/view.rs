//! What one server knows of its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::Node;
use super::claim::Claim;
use super::slot::{HashSlot, SLOTS, even_ranges};
use super::slot_map::SlotMap;
use crate::clock::Timestamp;
use crate::script::sha1_hex;

/// The most servers of a cluster: the size up to which Redis Cluster is meant to work.
pub const NODES_MAX: usize = 1_000;

/// A cluster, as one of its servers sees it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The server whose view this is.
    pub own: Node,
    /// All servers.
    nodes: Vec<Known>,
    /// The owner of each slot.
    owners: Vec<Option<u16>>,
    /// The number of slots that have an owner.
    assigned: usize,
    /// The slots that this server gives away, and to whom.
    pub migrating: BTreeMap<HashSlot, Node>,
    /// The slots that this server gets, and from whom.
    pub importing: BTreeMap<HashSlot, Node>,
    /// The highest epoch that it knows.
    pub last_epoch: u64,
    /// After a time in a minority, a primary serves again from this time on.
    pub rejoins_at: Option<Timestamp>,
    /// The servers that miss others, for one execution: a script sees one state of the cluster.
    pub missed: Option<BTreeSet<(Node, Node)>>,
    /// When it last found out which servers it misses, for clients that wait.
    pub looked_at: Timestamp,
    /// The slots whose owners have changed, until clients are told.
    pub moved: Vec<HashSlot>,
    /// The number of primaries and of replicas at the start.
    began_with: [usize; 2],
}

/// What is known of a server.
#[derive(Clone, Debug)]
struct Known {
    primary: Option<Node>,
    epoch: u64,
    /// The number of its slots.
    slots: usize,
}

/// What a claim has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The slots whose owner has changed.
    pub moved: Vec<HashSlot>,
    /// The slots among them that this server has lost.
    pub lost: Vec<HashSlot>,
    /// Whether the others must be told what this server is now.
    pub is_news: bool,
}

impl Cluster {
    /// The view of a server at the start, when all slots are divided evenly among the primaries.
    /// They come first, and then the replicas of each.
    pub(crate) fn new(own: Node, primaries: usize, replicas: usize) -> Cluster {
        let known = |node: Node| {
            let primary = (node >= primaries).then(|| (node - primaries) / replicas.max(1));
            // `redis-cli --cluster create` gives each server an epoch of its own.
            Known { primary, epoch: node as u64 + 1, slots: 0 }
        };
        let nodes: Vec<Known> = (0..primaries * (1 + replicas)).map(known).collect();
        let mut cluster = Cluster {
            own,
            last_epoch: nodes.len() as u64,
            nodes,
            owners: vec![None; SLOTS.into()],
            assigned: 0,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            rejoins_at: None,
            missed: None,
            looked_at: Timestamp::default(),
            moved: Vec::new(),
            began_with: [primaries, replicas],
        };
        for (node, slots) in even_ranges(primaries).enumerate() {
            slots.for_each(|slot| cluster.assign(slot, Some(node)));
        }
        cluster
    }

    /// The view of a server that knows its cluster by a map of the slots.
    pub(crate) fn of_slot_map(own: Node, slot_map: &SlotMap) -> Cluster {
        let mut cluster = Cluster::new(own, slot_map.count(), 0);
        slot_map.moved().for_each(|(slot, owner)| cluster.assign(slot, Some(owner)));
        for (slot, target) in slot_map.moving() {
            match slot_map.owner(slot) {
                owner if owner == own => _ = cluster.migrating.insert(slot, target),
                owner if target == own => _ = cluster.importing.insert(slot, owner),
                _ => {}
            }
        }
        cluster
    }

    /// The view of this server at the start.
    pub(crate) fn at_first(&self) -> Cluster {
        let [primaries, replicas] = self.began_with;
        Cluster::new(self.own, primaries, replicas)
    }

    /// All servers.
    pub(crate) fn nodes(&self) -> std::ops::Range<Node> {
        0..self.nodes.len()
    }

    /// The name of a server: forty hexadecimal digits.
    pub(crate) fn id(node: Node) -> String {
        String::from_utf8_lossy(&sha1_hex(format!("node {node} of a cluster").as_bytes())).into_owned()
    }

    /// The server with this name.
    pub(crate) fn by_id(&self, id: &[u8]) -> Option<Node> {
        self.nodes().find(|&node| Cluster::id(node).as_bytes() == id)
    }

    /// The server that a server replicates.
    pub(crate) fn primary_of(&self, node: Node) -> Option<Node> {
        self.nodes[node].primary
    }

    /// The server that this one replicates.
    pub(crate) fn own_primary(&self) -> Option<Node> {
        self.primary_of(self.own)
    }

    /// The replicas of a server.
    pub(crate) fn replicas_of(&self, primary: Node) -> impl Iterator<Item = Node> {
        self.nodes().filter(move |&node| self.primary_of(node) == Some(primary))
    }

    /// The primary of the shard to which a server belongs.
    pub(crate) fn shard_of(&self, node: Node) -> Node {
        self.primary_of(node).unwrap_or(node)
    }

    /// The primaries that own slots. Most of them must agree on whatever the cluster decides.
    pub(crate) fn voters(&self) -> impl Iterator<Item = Node> {
        self.nodes().filter(|&node| self.primary_of(node).is_none() && self.slot_count(node) > 0)
    }

    /// How many of the primaries that own slots are most of them.
    pub(crate) fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// The epoch of a server. A replica has that of its primary.
    pub(crate) fn epoch_of(&self, node: Node) -> u64 {
        self.nodes[self.shard_of(node)].epoch
    }

    /// The owner of a slot.
    pub(crate) fn owner(&self, slot: HashSlot) -> Option<Node> {
        self.owners[usize::from(slot)].map(Node::from)
    }

    /// The number of slots that a server owns.
    pub(crate) fn slot_count(&self, node: Node) -> usize {
        self.nodes[node].slots
    }

    /// The number of slots that have an owner.
    pub(crate) fn assigned(&self) -> usize {
        self.assigned
    }

    /// The ranges of slots with their owner, in order. Slots without an owner are left out.
    pub(crate) fn ranges(&self) -> Vec<(RangeInclusive<HashSlot>, Node)> {
        let mut ranges: Vec<(RangeInclusive<HashSlot>, Node)> = Vec::new();
        for slot in 0..SLOTS {
            let Some(owner) = self.owner(slot) else { continue };
            match ranges.last_mut() {
                Some((range, node)) if *node == owner && range.end() + 1 == slot => {
                    *range = *range.start()..=slot;
                }
                _ => ranges.push((slot..=slot, owner)),
            }
        }
        ranges
    }

    /// The ranges of slots that a server owns.
    pub(crate) fn ranges_of(&self, node: Node) -> Vec<RangeInclusive<HashSlot>> {
        let ranges = self.ranges().into_iter().filter(|(_, owner)| *owner == node);
        ranges.map(|(range, _)| range).collect()
    }

    /// Gives a slot an owner, or none.
    pub(crate) fn assign(&mut self, slot: HashSlot, owner: Option<Node>) {
        if let Some(before) = self.owner(slot) {
            self.nodes[before].slots -= 1;
            self.assigned -= 1;
        }
        if let Some(owner) = owner {
            self.nodes[owner].slots += 1;
            self.assigned += 1;
        }
        self.owners[usize::from(slot)] = owner.map(|node| node as u16);
    }

    /// Gives this server a higher epoch than all others have, unless it has that already. Returns
    /// whether it is a new one.
    pub(crate) fn bump_epoch(&mut self) -> bool {
        let highest = self.nodes.iter().map(|known| known.epoch).max().unwrap_or(0).max(self.last_epoch);
        let is_new = self.nodes[self.own].epoch != highest;
        if is_new {
            self.last_epoch += 1;
            self.nodes[self.own].epoch = self.last_epoch;
        }
        is_new
    }

    /// What this server claims.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            node: self.own,
            primary: self.own_primary(),
            epoch: self.nodes[self.own].epoch,
            last_epoch: self.last_epoch,
            slots: self.ranges_of(self.own),
        }
    }

    /// What a replica claims when it takes over from its primary.
    pub(crate) fn claim_of_successor(&self, replica: Node) -> Claim {
        let epoch = self.last_epoch + 1;
        let slots = self.primary_of(replica).map_or_else(Vec::new, |primary| self.ranges_of(primary));
        Claim { node: replica, primary: None, epoch, last_epoch: epoch, slots }
    }

    /// What a primary claims when it gets one more slot.
    pub(crate) fn claim_of_gain(&self, node: Node, slot: HashSlot) -> Claim {
        let epoch = self.last_epoch + 1;
        let slots = self.ranges_of(node).into_iter().chain([slot..=slot]).collect();
        Claim { node, primary: None, epoch, last_epoch: epoch, slots }
    }

    /// Makes this server a replica.
    pub(crate) fn replicate(&mut self, primary: Node) {
        self.nodes[self.own].primary = Some(primary);
        self.migrating.clear();
        self.importing.clear();
    }

    /// Changes the view by a claim. If it takes all slots of the shard of this server, this server
    /// becomes a replica of the one that claims them.
    pub(crate) fn hear(&mut self, claim: &Claim) -> Change {
        let sender = claim.node;
        let mut change = Change::default();
        if sender == self.own && claim.epoch <= self.nodes[self.own].epoch {
            // It has been made for this server by another one, and has been overtaken.
            return change;
        }
        self.last_epoch = self.last_epoch.max(claim.last_epoch);
        if claim.primary.is_some() && self.primary_of(sender).is_none() {
            let had = self.ranges_of(sender).into_iter().flatten();
            change.moved.extend(had);
            change.moved.iter().for_each(|&slot| self.assign(slot, None));
        }
        let known = &mut self.nodes[sender];
        (known.primary, known.epoch) = (claim.primary, claim.epoch);
        let shard = self.shard_of(self.own);
        let mut shard_has_lost = false;
        for slot in claim.slots.iter().cloned().flatten() {
            let owner = self.owner(slot);
            let is_settled = owner == Some(sender)
                || sender != self.own && self.importing.contains_key(&slot)
                || owner.is_some_and(|owner| self.nodes[owner].epoch >= claim.epoch);
            if !is_settled {
                shard_has_lost |= owner == Some(shard);
                if owner == Some(self.own) {
                    change.lost.push(slot);
                }
                self.assign(slot, Some(sender));
                change.moved.push(slot);
            }
            if sender == self.own {
                self.importing.remove(&slot);
            }
        }
        if sender == self.own {
            change.is_news = true;
        } else if shard_has_lost && self.slot_count(shard) == 0 {
            self.replicate(sender);
            change.is_news = true;
        } else if self.wins_tie_with(claim) {
            self.last_epoch += 1;
            self.nodes[self.own].epoch = self.last_epoch;
            change.is_news = true;
        }
        change
    }

    /// Whether another primary has the same epoch. Then the one with the smaller name gets a new
    /// one.
    fn wins_tie_with(&self, claim: &Claim) -> bool {
        self.own_primary().is_none()
            && claim.primary.is_none()
            && claim.epoch == self.nodes[self.own].epoch
            && Cluster::id(self.own) < Cluster::id(claim.node)
    }

    /// The servers that have failed, as far as this server knows: it misses them, and so do most
    /// primaries of those that it reaches. `missed` has pairs: who misses whom.
    pub(crate) fn failed(&self, missed: &BTreeSet<(Node, Node)>) -> Vec<Node> {
        let reached = |node: &Node| *node == self.own || !missed.contains(&(self.own, *node));
        let has_failed = |node: &Node| {
            let accusers = self.voters().filter(reached).filter(|voter| missed.contains(&(*voter, *node)));
            !reached(node) && accusers.count() >= self.quorum()
        };
        if missed.is_empty() { Vec::new() } else { self.nodes().filter(has_failed).collect() }
    }

    /// Whether this server reaches most primaries.
    pub(crate) fn is_in_majority(&self, missed: &BTreeSet<(Node, Node)>) -> bool {
        let reached = |node: &Node| *node == self.own || !missed.contains(&(self.own, *node));
        self.voters().filter(reached).count() >= self.quorum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_epoch_wins_and_who_has_lost_all_slots_follows() {
        let [mut old, mut replica, mut other] = [0, 3, 1].map(|own| Cluster::new(own, 3, 1));
        let claim = old.claim_of_successor(3);
        for view in [&mut replica, &mut old, &mut other] {
            view.hear(&claim);
            assert_eq!(view.owner(0), Some(3));
        }
        assert_eq!((old.own_primary(), replica.own_primary(), other.own_primary()), (Some(3), None, None));
        // A claim that has been overtaken changes nothing.
        assert_eq!(other.hear(&Cluster::new(0, 3, 1).claim()).moved, []);
        assert_eq!(replica.hear(&claim), Change::default());
    }

    #[test]
    fn of_two_equal_epochs_the_one_with_the_smaller_name_becomes_higher() {
        let mut views = [3, 4].map(|own| Cluster::new(own, 1, 4));
        let claims = [3, 4].map(|node| Cluster::new(node, 1, 4).claim_of_successor(node));
        for nth in 0..2 {
            views[nth].hear(&claims[nth]);
        }
        let news = [0, 1].map(|nth: usize| views[nth].hear(&claims[1 - nth]).is_news);
        let winner = usize::from(Cluster::id(4) < Cluster::id(3));
        assert_eq!(news, [winner == 0, winner == 1]);
        let claim = views[winner].claim();
        views[1 - winner].hear(&claim);
        assert!(views.iter().all(|view| view.owner(0) == Some(3 + winner)));
    }

    #[test]
    fn most_primaries_decide_who_has_failed() {
        let view = Cluster::new(1, 3, 1);
        let cut = |a: Node, b: Node| [(a, b), (b, a)];
        let by_one: BTreeSet<_> = cut(0, 1).into();
        assert_eq!(view.failed(&by_one), []);
        assert!(view.is_in_majority(&by_one));
        let by_two: BTreeSet<_> = cut(0, 1).into_iter().chain(cut(0, 2)).collect();
        assert_eq!(view.failed(&by_two), [0]);
        assert!(!Cluster::new(0, 3, 1).is_in_majority(&by_two));
    }
}
