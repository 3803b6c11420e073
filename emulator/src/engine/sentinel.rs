//! The part of the server as a Sentinel: what it shows, and what it does.

use bytes::Bytes;

use super::state::Engine;
use crate::config::Id;
use crate::replication::{Address, Answer, Follower, Node, Report, Upstream};
use crate::reply::Reply;
use crate::sentinel::{Deed, Refusal, Sentinel, Survey};
use crate::topic::Topic;

const REPLICA_PRIORITY: Id = Id::of("replica-priority");

impl Engine {
    /// What the server shows to Sentinels.
    pub(crate) fn report(&self) -> Answer {
        let now = self.clock().now();
        if let Some(sentinel) = &self.sentinel {
            return Answer::Sentinel(sentinel.opinion());
        }
        if self.asleep_until.is_some_and(|until| until > now) {
            return Answer::Silent;
        }
        let replication = &self.replication;
        let upstream = replication.upstream.as_ref().map(|upstream: &Upstream| {
            let down_for = upstream.link.is_none().then(|| now.since(upstream.down_since));
            (upstream.address(), down_for)
        });
        Answer::Server(Report {
            run_id: self.identity("run"),
            upstream,
            priority: self.config.number(REPLICA_PRIORITY).unsigned_abs(),
            offset: replication.offset,
            followers: replication.followers.iter().map(|own: &Follower| own.address.clone()).collect(),
        })
    }

    /// Becomes a Sentinel of these primaries, each with a name, an address and a quorum.
    pub(crate) fn become_sentinel(&mut self, primaries: Vec<(Vec<u8>, Address, u64)>) {
        let sentinel = Sentinel::new(self.identity("sentinel"), primaries, self.clock().now());
        self.sentinel = Some(Box::new(sentinel));
        self.note_change();
    }

    /// Watches what it watched at first, if it is a Sentinel.
    pub(super) fn restart_sentinel(&mut self) {
        let now = self.clock().now();
        if let Some(sentinel) = &mut self.sentinel {
            sentinel.restart(now);
        }
    }

    /// Does what follows from the answers of the other servers. Returns whether that is anything.
    pub(crate) fn look(self: &mut Box<Self>, survey: &Survey) -> bool {
        let (now, elects) = (self.clock().now(), self.elects());
        let Some(sentinel) = &mut self.sentinel else { return false };
        let deeds = sentinel.look(survey, now, &elects);
        let acts = !deeds.is_empty();
        if acts {
            self.execution(None, |engine| {
                engine.perform_deeds(deeds);
                Reply::NOTHING
            });
        } else {
            self.set_next_wake_up();
        }
        acts
    }

    /// Lets a replica of a primary take over, although that is up.
    pub(crate) fn sentinel_failover(&mut self, name: &[u8]) -> Result<(), Refusal> {
        let (now, elects) = (self.now(), self.elects());
        let Some(sentinel) = &mut self.sentinel else { return Ok(()) };
        let deeds = sentinel.fail_over(name, now, &elects)?;
        self.perform_deeds(deeds);
        Ok(())
    }

    /// Announces a failover that this Sentinel has not made.
    pub(super) fn announce_failover(&mut self, from: &Address, to: &Address) {
        let (now, elects) = (self.now(), self.elects());
        let Some(sentinel) = &mut self.sentinel else { return };
        let deeds = sentinel.announce(from, to, now, &elects);
        self.perform_deeds(deeds);
    }

    /// How this Sentinel stands for election.
    fn elects(&self) -> impl Fn(&[u8], u64) -> Option<u64> + use<> {
        let place = self.replication.place.clone();
        move |name, known_epoch| {
            let (network, node): &(_, Node) = place.as_ref()?;
            network.elect(*node, name, known_epoch)
        }
    }

    /// Publishes events and gives orders.
    pub(crate) fn perform_deeds(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Publish(event, text) => {
                    self.publish(Topic::Channel, &Bytes::from_static(event.as_bytes()), &text.into());
                }
                Deed::Command(address, order) => {
                    if let Some((network, _)) = &self.replication.place
                        && let Some(node) = network.at(&address)
                    {
                        network.give(node, order);
                    }
                }
            }
        }
        self.note_change();
    }
}
