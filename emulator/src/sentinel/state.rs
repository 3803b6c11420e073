//! The state of a Sentinel, and what its commands change.

use super::failover::Orders;
use super::outside::{Deed, Elect};
use super::primary::Primary;
use super::settings::{OPTIONS, Periods, Settings};
use crate::clock::Timestamp;
use crate::glob;
use crate::replication::{Address, Opinion, View, is_same};

/// The most primaries that a Sentinel watches. Redis has no limit.
const PRIMARIES_MAX: usize = 1000;

/// The state of a Sentinel.
#[derive(Clone, Debug)]
pub struct Sentinel {
    /// Its identity.
    pub id: String,
    /// The greatest epoch that it knows.
    pub epoch: u64,
    /// The primaries that it watches, in the order in which it began.
    pub primaries: Vec<Primary>,
    /// The periods of `SENTINEL DEBUG`.
    pub periods: Periods,
    /// The values of the options of `SENTINEL CONFIG`.
    pub options: [Vec<u8>; OPTIONS.len()],
    /// When it looks again, if nothing makes it look before.
    pub next_look: Option<Timestamp>,
    /// What it has watched since it started.
    started_with: Vec<(Vec<u8>, Address, u64)>,
}

/// Why a failover does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another one is in progress.
    InProgress,
    /// No replica can take over.
    NoGoodReplica,
}

/// Why a primary is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWatched {
    /// The name is taken.
    Duplicate,
    /// There are too many.
    TooMany,
}

impl Sentinel {
    /// A Sentinel that watches these primaries, each with a name, an address and a quorum.
    pub(crate) fn new(id: String, primaries: Vec<(Vec<u8>, Address, u64)>, now: Timestamp) -> Sentinel {
        let mut sentinel = Sentinel {
            id,
            epoch: 0,
            primaries: Vec::new(),
            periods: Periods::default(),
            options: OPTIONS.map(|(_, default)| default.into()),
            next_look: None,
            started_with: primaries,
        };
        sentinel.start(now);
        sentinel
    }

    fn start(&mut self, now: Timestamp) {
        for (name, address, quorum) in self.started_with.clone() {
            self.primaries.push(Primary::new(name, address, Settings::with_quorum(quorum), now));
        }
    }

    /// Watches what it watched at first, with the settings that it had.
    pub(crate) fn restart(&mut self, now: Timestamp) {
        *self = Sentinel::new(self.id.clone(), std::mem::take(&mut self.started_with), now);
    }

    /// A primary by its name.
    pub(crate) fn primary(&self, name: &[u8]) -> Option<&Primary> {
        self.primaries.iter().find(|primary| primary.name == name)
    }

    /// A primary by its name.
    pub(crate) fn primary_mut(&mut self, name: &[u8]) -> Option<&mut Primary> {
        self.primaries.iter_mut().find(|primary| primary.name == name)
    }

    /// What it tells other Sentinels.
    pub(crate) fn opinion(&self) -> Opinion {
        let views = self.primaries.iter().map(|primary| View {
            name: primary.name.clone(),
            primary: primary.instance.address.clone(),
            config_epoch: primary.config_epoch,
            is_down: primary.instance.down_since.is_some(),
            candidacy: primary.asked_epoch,
        });
        Opinion { id: self.id.clone(), epoch: self.epoch, views: views.collect() }
    }

    /// Begins to watch a primary.
    pub(crate) fn monitor(
        &mut self,
        name: &[u8],
        address: Address,
        quorum: u64,
        now: Timestamp,
    ) -> Result<Vec<Deed>, NotWatched> {
        if self.primary(name).is_some() {
            return Err(NotWatched::Duplicate);
        }
        if self.primaries.len() >= PRIMARIES_MAX {
            return Err(NotWatched::TooMany);
        }
        let primary = Primary::new(name.to_vec(), address, Settings::with_quorum(quorum), now);
        let event = primary.event("+monitor", &format!(" quorum {quorum}"));
        self.primaries.push(primary);
        Ok(vec![event])
    }

    /// No longer watches a primary. `None` if it does not watch it.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Vec<Deed>> {
        let place = self.primaries.iter().position(|primary| primary.name == name)?;
        Some(vec![self.primaries.remove(place).event("-monitor", "")])
    }

    /// Forgets the replicas and Sentinels of the primaries whose names match a pattern, and finds
    /// them anew. Returns an event for each of these primaries.
    pub(crate) fn reset(&mut self, pattern: &[u8], now: Timestamp) -> Vec<Deed> {
        let matching = self.primaries.iter_mut().filter(|primary| glob::matches(pattern, &primary.name));
        let resets = matching.map(|primary| {
            let (name, address) = (primary.name.clone(), primary.instance.address.clone());
            let config_epoch = primary.config_epoch;
            *primary = Primary { config_epoch, ..Primary::new(name, address, primary.settings, now) };
            primary.event("+reset-master", "")
        });
        resets.collect()
    }

    /// Lets a replica take over, although the primary is up.
    pub(crate) fn fail_over(
        &mut self,
        name: &[u8],
        now: Timestamp,
        elect: Elect<'_>,
    ) -> Result<Vec<Deed>, Refusal> {
        let known_epoch = self.epoch;
        let id = self.id.clone();
        let primary = self.primary_mut(name).ok_or(Refusal::NoGoodReplica)?;
        if primary.candidacy.is_some() {
            return Err(Refusal::InProgress);
        }
        primary.best_replica(now).ok_or(Refusal::NoGoodReplica)?;
        let epoch = elect(name, known_epoch).ok_or(Refusal::InProgress)?;
        let mut deeds = Vec::new();
        primary.try_failover(epoch, &id, now, &mut deeds);
        primary.lead(epoch, now, &mut deeds);
        self.epoch = epoch;
        Ok(deeds)
    }

    /// Announces that a primary has handed over to a replica, which nobody else has announced.
    pub(crate) fn announce(
        &mut self,
        from: &Address,
        to: &Address,
        now: Timestamp,
        elect: Elect<'_>,
    ) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for primary in &mut self.primaries {
            if !is_same(&primary.instance.address, from) {
                continue;
            }
            let Some(target) = primary.replica_at(to) else { continue };
            let Some(epoch) = elect(&primary.name, self.epoch) else { continue };
            primary.try_failover(epoch, &self.id, now, &mut deeds);
            primary.announce_election(&mut deeds);
            primary.promote(target, epoch, Orders::GivenBefore, now, &mut deeds);
            self.epoch = epoch;
        }
        deeds
    }

    /// Votes for a Sentinel that asks to lead a failover, unless it has voted in that epoch.
    /// Returns for whom it has voted, and the epoch.
    pub(crate) fn vote(
        &mut self,
        name: &[u8],
        epoch: u64,
        id: &str,
        now: Timestamp,
    ) -> (Vec<Deed>, String, u64) {
        let mut deeds = Vec::new();
        if epoch > self.epoch {
            self.epoch = epoch;
            deeds.push(Deed::Publish("+new-epoch", epoch.to_string().into()));
        }
        let own_epoch = self.epoch;
        let Some(primary) = self.primary_mut(name) else { return (deeds, "*".into(), 0) };
        if primary.voted_epoch < epoch && own_epoch <= epoch {
            deeds.push(primary.vote(id, epoch, now));
        }
        let leader = if primary.voted_for.is_empty() { "*" } else { &primary.voted_for };
        (deeds, leader.to_owned(), primary.voted_epoch)
    }

    /// Calls a server by another address.
    pub(crate) fn rename(&mut self, before: &Address, after: &Address) {
        let change = |address: &mut Address| {
            if is_same(address, before) {
                address.clone_from(after);
            }
        };
        self.started_with.iter_mut().for_each(|(_, address, _)| change(address));
        for primary in &mut self.primaries {
            change(&mut primary.instance.address);
            primary.replicas.iter_mut().for_each(|replica| change(&mut replica.address));
            primary.sentinels.iter_mut().for_each(|other| change(&mut other.instance.address));
        }
    }
}
