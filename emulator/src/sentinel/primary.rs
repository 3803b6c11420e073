//! A primary that a Sentinel watches, with its replicas and the other Sentinels.

use super::instance::{Instance, Role};
use super::outside::Deed;
use super::settings::Settings;
use crate::clock::Timestamp;
use crate::replication::{Address, is_same};

/// A primary that a Sentinel watches.
#[derive(Clone, Debug)]
pub struct Primary {
    /// The name under which clients ask for it.
    pub name: Vec<u8>,
    /// Its settings.
    pub settings: Settings,
    /// The primary.
    pub instance: Instance,
    /// Since when enough Sentinels have agreed that it is down.
    pub agreed_down_since: Option<Timestamp>,
    /// The epoch of the failover that made it the primary.
    pub config_epoch: u64,
    /// Its replicas.
    pub replicas: Vec<Instance>,
    /// The other Sentinels that watch it.
    pub sentinels: Vec<Companion>,
    /// The attempt to replace it that waits for votes.
    pub candidacy: Option<Candidacy>,
    /// When this Sentinel last tried to replace it, or voted for another that does.
    pub tried_at: Option<Timestamp>,
    /// The last epoch for which this Sentinel has asked the others for their votes.
    pub asked_epoch: Option<u64>,
    /// The last epoch for which this Sentinel has voted.
    pub voted_epoch: u64,
    /// The identity of the Sentinel for which it has voted.
    pub voted_for: String,
}

/// Another Sentinel that watches the same primary.
#[derive(Clone, Debug)]
pub struct Companion {
    /// The process.
    pub instance: Instance,
    /// Whether it finds the primary down.
    pub finds_down: bool,
    /// The last epoch for which it was asked for its vote.
    pub voted_epoch: u64,
}

/// A failover that waits until enough Sentinels vote for it.
#[derive(Clone, Copy, Debug)]
pub struct Candidacy {
    /// Its epoch.
    pub epoch: u64,
    /// Since when it waits.
    pub since: Timestamp,
}

impl Primary {
    /// A primary that has not been reached yet.
    pub(super) fn new(name: Vec<u8>, address: Address, settings: Settings, now: Timestamp) -> Primary {
        Primary {
            name,
            settings,
            instance: Instance::new(address, Role::Primary, now),
            agreed_down_since: None,
            config_epoch: 0,
            replicas: Vec::new(),
            sentinels: Vec::new(),
            candidacy: None,
            tried_at: None,
            asked_epoch: None,
            voted_epoch: 0,
            voted_for: String::new(),
        }
    }

    /// An event that concerns it.
    pub(crate) fn event(&self, event: &'static str, detail: &str) -> Deed {
        let mut text = [b"master ", &self.name[..], b" ", self.instance.shown().as_bytes()].concat();
        text.extend(detail.bytes());
        Deed::Publish(event, text)
    }

    /// An event that concerns one of its replicas.
    pub(super) fn replica_event(&self, event: &'static str, replica: &Instance, detail: &str) -> Deed {
        let (host, port) = &replica.address;
        self.event_of(event, &format!("slave {host}:{port}"), replica, detail)
    }

    /// An event that concerns another Sentinel.
    pub(super) fn sentinel_event(&self, event: &'static str, sentinel: &Instance) -> Deed {
        self.event_of(event, &format!("sentinel {}", sentinel.id), sentinel, "")
    }

    fn event_of(&self, event: &'static str, who: &str, instance: &Instance, detail: &str) -> Deed {
        let mut text = format!("{who} {} @ ", instance.shown()).into_bytes();
        text.extend_from_slice(&self.name);
        text.extend(format!(" {}{detail}", self.instance.shown()).bytes());
        Deed::Publish(event, text)
    }

    /// Votes for a Sentinel, which may be this one.
    pub(super) fn vote(&mut self, id: &str, epoch: u64, now: Timestamp) -> Deed {
        (self.voted_epoch, self.tried_at) = (epoch, Some(now));
        id.clone_into(&mut self.voted_for);
        Deed::Publish("+vote-for-leader", format!("{id} {epoch}").into())
    }

    /// Whether it can be reached and takes itself for a primary.
    pub(super) fn looks_sane(&self) -> bool {
        self.instance.role == Role::Primary
            && self.instance.down_since.is_none()
            && self.agreed_down_since.is_none()
    }

    /// The replica at an address.
    pub(super) fn replica_at(&self, address: &Address) -> Option<usize> {
        self.replicas.iter().position(|replica| is_same(&replica.address, address))
    }

    /// How many Sentinels can be reached, this one included.
    pub(crate) fn usable_sentinels(&self) -> usize {
        1 + self.sentinels.iter().filter(|other| other.instance.down_since.is_none()).count()
    }

    /// How many Sentinels are the majority, this one included.
    pub(crate) fn majority(&self) -> usize {
        let voters = 1 + self.sentinels.len();
        voters / 2 + 1
    }

    /// The replica that is to take over, by the rules of Redis: none that is out of reach, has lost
    /// its primary for long, or has the priority 0. Of the others, the one with the smallest
    /// priority, then with the greatest offset, then with the smallest identity.
    pub(super) fn best_replica(&self, now: Timestamp) -> Option<usize> {
        let down_for = self.instance.down_since.map_or(std::time::Duration::ZERO, |since| now.since(since));
        let link_down_max = self.settings.down_after * 10 + down_for;
        let is_good = |replica: &Instance| {
            replica.is_connected
                && replica.silent_since.is_none()
                && replica.down_since.is_none()
                && replica.link_down_for() <= link_down_max
        };
        let candidates = self.replicas.iter().enumerate().filter(|(_, replica)| is_good(replica));
        let ranked = candidates.filter_map(|(place, replica)| {
            let report = replica.report.as_ref().filter(|report| report.priority > 0)?;
            Some(((report.priority, u64::MAX - report.offset, &replica.id), place))
        });
        ranked.min().map(|(_, place)| place)
    }
}
