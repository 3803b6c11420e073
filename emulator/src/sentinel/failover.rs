//! A failover, from the choice of a replica to the new primary. It happens at once.

use super::instance::{Instance, Role};
use super::outside::Deed;
use super::primary::Primary;
use crate::clock::Timestamp;
use crate::replication::{Address, Order};

/// Who tells the servers their new roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orders {
    /// The Sentinel.
    Given,
    /// Somebody else has told them: the Sentinel only announces it.
    GivenBefore,
}

impl Primary {
    /// Begins an attempt to replace the primary.
    pub(super) fn try_failover(&mut self, epoch: u64, id: &str, now: Timestamp, deeds: &mut Vec<Deed>) {
        deeds.push(Deed::Publish("+new-epoch", epoch.to_string().into()));
        deeds.push(self.event("+try-failover", ""));
        deeds.push(self.vote(id, epoch, now));
    }

    /// Chooses a replica, as the leader of the Sentinels.
    pub(super) fn lead(&mut self, epoch: u64, now: Timestamp, deeds: &mut Vec<Deed>) {
        self.candidacy = None;
        self.announce_election(deeds);
        match self.best_replica(now) {
            None => deeds.push(self.event("-failover-abort-no-good-slave", "")),
            Some(target) => self.promote(target, epoch, Orders::Given, now, deeds),
        }
    }

    /// Announces that this Sentinel leads the failover.
    pub(super) fn announce_election(&self, deeds: &mut Vec<Deed>) {
        deeds.push(self.event("+elected-leader", ""));
        deeds.push(self.event("+failover-state-select-slave", ""));
    }

    /// Makes a replica the primary. All others that can be reached follow it. The old primary
    /// learns of it later: see `look.rs`.
    pub(super) fn promote(
        &mut self,
        target: usize,
        epoch: u64,
        orders: Orders,
        now: Timestamp,
        deeds: &mut Vec<Deed>,
    ) {
        const CHOSEN: [&str; 2] = ["+selected-slave", "+failover-state-send-slaveof-noone"];
        const FOLLOWED: [&str; 3] = ["+slave-reconf-sent", "+slave-reconf-inprog", "+slave-reconf-done"];
        let promoted = self.replicas[target].clone();
        deeds.extend(CHOSEN.map(|event| self.replica_event(event, &promoted, "")));
        if orders == Orders::Given {
            deeds.push(Deed::Command(promoted.address.clone(), Order::TakeOver));
        }
        deeds.push(self.replica_event("+failover-state-wait-promotion", &promoted, ""));
        deeds.push(self.replica_event("-role-change", &promoted, &new_role(Role::Primary)));
        deeds.push(self.replica_event("+promoted-slave", &promoted, ""));
        deeds.push(self.event("+failover-state-reconf-slaves", ""));
        for (place, other) in self.replicas.iter().enumerate() {
            if place == target || other.silent_since.is_some() {
                continue;
            }
            if orders == Orders::Given {
                let follow = Order::Follow(promoted.address.clone());
                deeds.push(Deed::Command(other.address.clone(), follow));
            }
            deeds.extend(FOLLOWED.map(|event| self.replica_event(event, other, "")));
        }
        deeds.push(self.event("+failover-end", ""));
        self.switch(promoted.address, epoch, now, deeds);
    }

    /// Watches another server as the primary. The old one counts as its replica.
    pub(super) fn switch(&mut self, to: Address, config_epoch: u64, now: Timestamp, deeds: &mut Vec<Deed>) {
        let new = Instance::new(to, Role::Primary, now);
        let mut text = self.name.clone();
        text.extend(format!(" {} {}", self.instance.shown(), new.shown()).bytes());
        deeds.push(Deed::Publish("+switch-master", text));
        if let Some(place) = self.replica_at(&new.address) {
            self.replicas.remove(place);
        }
        let old = std::mem::replace(&mut self.instance, new);
        self.replicas.push(old);
        for replica in &mut self.replicas {
            *replica = Instance::new(replica.address.clone(), Role::Replica, now);
        }
        (self.config_epoch, self.agreed_down_since, self.candidacy) = (config_epoch, None, None);
        let known = self.replicas.iter();
        deeds.extend(known.map(|replica| self.replica_event("+slave", replica, "")));
    }
}

/// The end of an event about a role.
pub(super) fn new_role(role: Role) -> String {
    format!(" new reported role is {}", role.word())
}
