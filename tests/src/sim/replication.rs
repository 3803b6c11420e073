//! Servers with replicas: which node is the primary, and what the others may lack.
//!
//! What a replica has got is a beginning of what its primary has written. In an equivalent order of
//! the same steps that may be another beginning. So a replica may lack any set of writes that
//! contains everything that came about because of them. Which set it is, is decided only when it
//! matters. Until then, the order of independent writes does not matter, and replication adds no
//! schedules.

use std::collections::BTreeSet;
use std::sync::Arc;

use emulator::{Snapshot, Unit};
use fixedbitset::FixedBitSet;

use crate::actor::{ACTORS_MAX, Actor};
use crate::fault::{BEHIND_MAX, LostWrites};
use crate::trace::HappensBefore;

/// A server, and the nodes that have its data. A node is one of the emulators: first come those
/// that are primaries at the start, then all others.
#[derive(Clone)]
pub(crate) struct Replication {
    /// The node that clients find.
    pub(super) primary: usize,
    pub(super) followers: Vec<Follower>,
    /// The former primary, if it still serves its clients.
    pub(super) deposed: Option<usize>,
    /// Clients may read from followers, so that none is like another.
    are_read: bool,
    /// What all followers have. `None` if there are none.
    base: Option<Arc<Snapshot>>,
    /// What the primary has written since, in order.
    log: Vec<Write>,
}

/// A node that follows a primary.
#[derive(Clone)]
pub(super) struct Follower {
    pub(super) node: usize,
    /// The writes of the log that it has for certain.
    has: BTreeSet<usize>,
    /// Those of them that its primary knows it to have.
    acknowledged: BTreeSet<usize>,
}

impl Follower {
    fn new(node: usize) -> Follower {
        Follower { node, has: BTreeSet::new(), acknowledged: BTreeSet::new() }
    }

    fn acknowledge(&mut self, writes: impl Iterator<Item = usize> + Clone) {
        self.has.extend(writes.clone());
        self.acknowledged.extend(writes);
    }

    fn may_lack(&self, writes: &FixedBitSet) -> bool {
        !self.has.iter().any(|&write| writes.contains(write))
    }
}

/// What a follower has when it takes over, or runs a request.
pub(super) struct Arrived {
    /// What all followers had.
    pub(super) base: Arc<Snapshot>,
    /// The writes that have arrived since, and what they are.
    pub(super) writes: Vec<usize>,
    pub(super) units: Vec<Arc<Unit>>,
    pub(super) lost: LostWrites,
    /// The places of the steps whose writes it has, and of those that are lost.
    pub(super) steps: [Vec<usize>; 2],
}

/// The writes of the last log that a replica has when that shows: it takes over, or runs a request.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) node: usize,
    /// The place of the step in which it does that.
    pub(crate) step: usize,
    pub(crate) takes_over: bool,
    /// The places of the steps whose writes it has.
    pub(crate) has: Vec<usize>,
    /// The places of the steps whose writes are lost.
    pub(crate) lacks: Vec<usize>,
}

/// Effects that replicas apply together.
#[derive(Clone)]
struct Write {
    /// Whose step it was. `None` if it was no client's.
    by: Option<Actor>,
    /// The place of the step.
    step: usize,
    unit: Arc<Unit>,
}

/// For each write of a log, those that came about because of it, itself included.
pub(super) struct Consequences(Vec<FixedBitSet>);

impl Replication {
    /// So many servers with so many replicas each, which clients may read or not.
    pub(super) fn of(servers: usize, replicas: usize, are_read: bool) -> Vec<Replication> {
        let of = |server| {
            let first = servers + server * replicas;
            Replication {
                primary: server,
                followers: (first..first + replicas).map(Follower::new).collect(),
                deposed: None,
                are_read,
                base: None,
                log: Vec::new(),
            }
        };
        (0..servers).map(of).collect()
    }

    /// The nodes that have its data, or had.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        let followers = self.followers.iter().map(|follower| follower.node);
        [self.primary].into_iter().chain(self.deposed).chain(followers)
    }

    /// All followers have this from now on, and the log is empty.
    pub(super) fn begin_log(&mut self, base: Option<Arc<Snapshot>>) {
        self.base = base;
        self.log.clear();
        self.followers.iter_mut().for_each(|follower| *follower = Follower::new(follower.node));
    }

    /// The place of the last write, if it was made in the last of so many steps.
    pub(super) fn last_write_of(&self, steps: usize) -> Option<usize> {
        let last = self.log.len().checked_sub(1)?;
        (self.log[last].step + 1 == steps).then_some(last)
    }

    /// The number of writes in the log.
    pub(super) fn log_len(&self) -> usize {
        self.log.len()
    }

    /// The consequences of each write, if the steps so far are in this order.
    pub(super) fn consequences(&self, order: &HappensBefore) -> Consequences {
        let of = |write: usize| {
            let follows = |&later: &usize| {
                let (early, late) = (self.log[write].step, self.log[later].step);
                early == late || order.precedes(early, late)
            };
            (write..self.log.len()).filter(follows).collect()
        };
        Consequences((0..self.log.len()).map(of).collect())
    }

    /// The primary has written these, in a step of a client or in another one.
    pub(super) fn log(&mut self, by: Option<Actor>, step: usize, units: &[Arc<Unit>]) {
        if !self.followers.is_empty() {
            self.log.extend(units.iter().map(|unit| Write { by, step, unit: unit.clone() }));
        }
    }

    /// Whether a follower has any writes for certain.
    pub(super) fn has_any(&self, follower: usize) -> bool {
        !self.followers[follower].has.is_empty()
    }

    /// A follower loses the last writes that it had for certain, at most so many. Returns how many.
    pub(super) fn forget(&mut self, follower: usize, count: usize) -> usize {
        let Follower { has, acknowledged, .. } = &mut self.followers[follower];
        let lost: Vec<usize> = has.iter().rev().copied().take(count).collect();
        for write in &lost {
            has.remove(write);
            acknowledged.remove(write);
        }
        lost.len()
    }

    /// Whether nothing distinguishes two followers but their clocks.
    pub(super) fn are_alike(&self, one: &Follower, other: &Follower) -> bool {
        !self.are_read && (&one.has, &one.acknowledged) == (&other.has, &other.acknowledged)
    }

    /// The place of a node among the followers.
    pub(super) fn place(&self, node: usize) -> Option<usize> {
        self.followers.iter().position(|follower| follower.node == node)
    }

    /// The writes that a follower may lack, at most so many.
    pub(super) fn may_lack(&self, follower: usize, order: &HappensBefore, most: u32) -> Vec<LostWrites> {
        let consequences = self.consequences(order);
        let wrote = |&actor: &Actor| self.log.iter().any(|write| write.by == Some(actor));
        let writers: Vec<Actor> = (0..ACTORS_MAX).map(Actor).filter(wrote).collect();
        // Each client is named as often as it loses a write, in order.
        let mut all = vec![(LostWrites::default(), 0)];
        let mut latest = 0;
        for _ in 0..most {
            let longer = all[latest..].iter().flat_map(|&(lost, first)| {
                let later = writers.iter().enumerate().skip(first);
                later.map(move |(nth, &actor)| (lost.with(actor), nth))
            });
            let longer: Vec<_> = longer.collect();
            latest = all.len();
            all.extend(longer);
        }
        let is_possible = |lost: &LostWrites| {
            self.lost(&consequences, *lost).is_some_and(|writes| {
                self.counted(&writes) == Some(*lost) && self.followers[follower].may_lack(&writes)
            })
        };
        all.into_iter().map(|(lost, _)| lost).filter(is_possible).collect()
    }

    /// A follower takes over without these writes and all that came about because of them. If it
    /// cannot lack them, it has everything.
    pub(super) fn arrived(
        &self,
        follower: usize,
        order: &HappensBefore,
        lost: LostWrites,
    ) -> Option<Arrived> {
        let lost = self.lost(&self.consequences(order), lost).and_then(|writes| {
            let is_possible = self.followers[follower].may_lack(&writes);
            self.counted(&writes).filter(|_| is_possible).map(|lost| (writes, lost))
        });
        let (writes, lost) = lost.unwrap_or_default();
        let (lacks, has): (Vec<usize>, _) = (0..self.log.len()).partition(|&write| writes.contains(write));
        let units = has.iter().map(|&write| self.log[write].unit.clone()).collect();
        let steps = [&has, &lacks].map(|own| own.iter().map(|&write| self.log[write].step).collect());
        Some(Arrived { base: self.base.clone()?, writes: has, units, lost, steps })
    }

    /// What a follower has when it runs a request of a client, without these writes and all that
    /// came about because of them. It has all others from now on.
    pub(super) fn catch_up(
        &mut self,
        follower: usize,
        order: &HappensBefore,
        lost: LostWrites,
    ) -> Option<Arrived> {
        let arrived = self.arrived(follower, order, lost)?;
        self.followers[follower].has.extend(&arrived.writes);
        Some(arrived)
    }

    /// A follower is the primary from now on. If the former one `stays`, it still serves its
    /// clients, and otherwise it follows.
    pub(super) fn promote(&mut self, follower: usize, stays: bool) {
        let node = self.followers.remove(follower).node;
        let former = std::mem::replace(&mut self.primary, node);
        if stays {
            self.deposed = Some(former);
        } else {
            self.followers.push(Follower::new(former));
        }
    }

    /// The former primary no longer serves its clients. It follows the new one.
    pub(super) fn demote(&mut self) -> Option<usize> {
        let node = self.deposed.take()?;
        let mut follower = Follower::new(node);
        follower.acknowledge(0..self.log.len());
        self.followers.push(follower);
        Some(node)
    }

    /// The followers that may not have acknowledged a write, as sets of nodes, a bit for each. None
    /// of them lacks more than so many writes.
    pub(super) fn may_not_have(&self, write: usize, order: &HappensBefore, most: u32) -> Vec<i64> {
        if self.count(&self.consequences(order).0[write]) > most as usize {
            return Vec::new();
        }
        let lacking: Vec<&Follower> =
            self.followers.iter().filter(|follower| !follower.acknowledged.contains(&write)).collect();
        let has_bit = |bits: i64, nth: usize| bits >> nth & 1 == 1;
        // Of equal ones, the last lack it.
        let is_canonical = |&bits: &i64| {
            (0..lacking.len()).filter(|&nth| has_bit(bits, nth)).all(|nth| {
                (nth..lacking.len())
                    .all(|later| has_bit(bits, later) || !self.are_alike(lacking[later], lacking[nth]))
            })
        };
        let nodes = |bits: i64| {
            let meant = (0..lacking.len()).filter(|&nth| has_bit(bits, nth));
            meant.fold(0, |nodes, nth| nodes | 1 << lacking[nth].node)
        };
        (1..1_i64 << lacking.len()).filter(is_canonical).map(nodes).collect()
    }

    /// All followers but these have this write, and all that it came about from.
    pub(super) fn acknowledge(&mut self, write: usize, order: &HappensBefore, lacking: i64) {
        let Consequences(of) = self.consequences(order);
        let causes = (0..=write).filter(|&cause| of[cause].contains(write));
        for follower in self.followers.iter_mut().filter(|follower| lacking >> follower.node & 1 == 0) {
            follower.acknowledge(causes.clone());
        }
    }

    /// The writes that are lost if these are. `None` if some of these do not exist.
    fn lost(&self, consequences: &Consequences, lost: LostWrites) -> Option<FixedBitSet> {
        let mut all = FixedBitSet::with_capacity(self.log.len());
        for actor in (0..ACTORS_MAX).map(Actor) {
            let own = (0..self.log.len()).rev().filter(|&write| self.log[write].by == Some(actor));
            let last: Vec<usize> = own.take(lost.of(actor)).collect();
            if last.len() < lost.of(actor) {
                return None;
            }
            last.into_iter().for_each(|write| all.union_with(&consequences.0[write]));
        }
        Some(all)
    }

    /// How many writes of each client are among these. `None` if there are too many.
    fn counted(&self, writes: &FixedBitSet) -> Option<LostWrites> {
        let mut clients = writes.ones().filter_map(|write| self.log[write].by);
        clients.try_fold(LostWrites::default(), |lost, actor| {
            (lost.of(actor) < BEHIND_MAX as usize).then(|| lost.with(actor))
        })
    }

    /// Clients made so many of these writes.
    fn count(&self, writes: &FixedBitSet) -> usize {
        writes.ones().filter(|&write| self.log[write].by.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use emulator::Emulator;

    use super::*;
    use crate::schedule::Step;
    use crate::trace::Recorder;

    /// The sets of replicas that may not have acknowledged the only write of their primary, as the
    /// digits of their nodes. Of the last replica, it is known that it has the write.
    fn lacking(are_read: bool) -> Vec<String> {
        let emulator = Emulator::new();
        emulator.keep_effects();
        emulator.connection().execute(&[b"SET", b"a", b"1"]);
        let mut recorder = Recorder::default();
        recorder.begin_step(Step::Run(Actor(0), 0), None);
        let mut own = Replication::of(1, 4, are_read).remove(0);
        own.log(Some(Actor(0)), 0, &emulator.effects());
        let order = HappensBefore::of(recorder.history());
        own.acknowledge(0, &order, 0b01110);
        let nodes = |&set: &i64| (0..8).filter(move |node| set >> node & 1 == 1).map(|node| node.to_string());
        own.may_not_have(0, &order, 1).iter().map(|set| nodes(set).collect()).collect()
    }

    #[test]
    fn replicas_that_are_alike_lack_a_write_from_the_last_one_on() {
        assert_eq!(lacking(false), ["3", "23", "123"]);
    }

    #[test]
    fn replicas_that_clients_read_are_not_alike() {
        assert_eq!(lacking(true), ["1", "2", "12", "3", "13", "23", "123"]);
    }
}
