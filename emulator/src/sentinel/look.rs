//! What a Sentinel concludes when it looks at the other servers.

use std::time::Duration;

use super::failover::new_role;
use super::instance::{Instance, Role};
use super::outside::{Deed, Elect, Survey};
use super::primary::{Candidacy, Companion, Primary};
use super::settings::Periods;
use super::state::Sentinel;
use crate::clock::Timestamp;
use crate::replication::{Address, Answer, Opinion, Order, View, is_same};

impl Sentinel {
    /// Concludes what follows from the answers of the other servers, and from the time.
    pub(crate) fn look(&mut self, survey: &Survey, now: Timestamp, elect: Elect<'_>) -> Vec<Deed> {
        let mut deeds = Vec::new();
        let mut primaries = std::mem::take(&mut self.primaries);
        for primary in &mut primaries {
            primary.reach(survey, now);
            primary.meet(survey, now, &mut deeds);
            primary.judge(&self.periods, now, &mut deeds);
            self.learn(primary, survey, now, &mut deeds);
            primary.observe(survey, now, &mut deeds);
            primary.agree(now, &mut deeds);
            self.replace(primary, now, elect, &mut deeds);
            primary.correct(&self.periods, now, &mut deeds);
        }
        let times = primaries.iter().flat_map(|primary| primary.times(&self.periods));
        self.next_look = times.filter(|&at| at > now).min();
        self.primaries = primaries;
        deeds
    }

    /// Takes over what other Sentinels know: epochs, candidates and new primaries.
    fn learn(&mut self, primary: &mut Primary, survey: &Survey, now: Timestamp, deeds: &mut Vec<Deed>) {
        for place in 0..primary.sentinels.len() {
            let address = &primary.sentinels[place].instance.address;
            let Answer::Sentinel(opinion) = answer_of(survey, address) else { continue };
            if opinion.epoch > self.epoch {
                self.epoch = opinion.epoch;
                deeds.push(Deed::Publish("+new-epoch", self.epoch.to_string().into()));
            }
            let Some(view) = view_of(opinion, &primary.name) else { continue };
            if let Some(epoch) = view.candidacy
                && epoch > primary.voted_epoch
                && primary.instance.down_since.is_some()
            {
                deeds.push(primary.vote(&opinion.id, epoch, now));
            }
            if view.config_epoch > primary.config_epoch {
                primary.config_epoch = view.config_epoch;
                if !is_same(&view.primary, &primary.instance.address) {
                    let other = &primary.sentinels[place].instance;
                    deeds.push(primary.sentinel_event("+config-update-from", other));
                    primary.switch(view.primary.clone(), view.config_epoch, now, deeds);
                }
            }
        }
    }

    /// Tries to replace a primary that is down.
    fn replace(&mut self, primary: &mut Primary, now: Timestamp, elect: Elect<'_>, deeds: &mut Vec<Deed>) {
        if primary.agreed_down_since.is_some()
            && primary.candidacy.is_none()
            && primary.next_try().is_none_or(|at| at <= now)
            && let Some(epoch) = elect(&primary.name, self.epoch)
        {
            self.epoch = epoch;
            primary.try_failover(epoch, &self.id, now, deeds);
            primary.asked_epoch = Some(epoch);
            primary.candidacy = Some(Candidacy { epoch, since: now });
        }
        let Some(candidacy) = primary.candidacy else { return };
        let mut votes = 1;
        for other in &mut primary.sentinels {
            if other.instance.is_connected && other.instance.silent_since.is_none() {
                other.voted_epoch = candidacy.epoch;
                votes += 1;
            }
        }
        let needed = primary.majority().max(primary.settings.quorum as usize);
        if votes >= needed {
            primary.lead(candidacy.epoch, now, deeds);
        } else if primary.election_ends(candidacy, &self.periods) <= now {
            primary.candidacy = None;
            deeds.push(primary.event("-failover-abort-not-elected", ""));
        }
    }
}

impl Primary {
    /// Notes which servers answer.
    fn reach(&mut self, survey: &Survey, now: Timestamp) {
        for instance in std::iter::once(&mut self.instance).chain(&mut self.replicas) {
            instance.note(answer_of(survey, &instance.address), now);
        }
    }

    /// Notes what the primary and its replicas show, and finds new replicas.
    fn observe(&mut self, survey: &Survey, now: Timestamp, deeds: &mut Vec<Deed>) {
        if let Answer::Server(report) = answer_of(survey, &self.instance.address) {
            let (is_role_changed, is_restarted) = self.instance.note_report(report, now);
            if is_restarted {
                deeds.push(self.event("+reboot", ""));
            }
            if is_role_changed {
                let event = if self.instance.role == Role::Primary { "+role-change" } else { "-role-change" };
                deeds.push(self.event(event, &new_role(self.instance.role)));
            }
            if report.upstream.is_none() {
                for follower in &report.followers {
                    if self.replica_at(follower).is_none() {
                        let replica = Instance::new(follower.clone(), Role::Replica, now);
                        deeds.push(self.replica_event("+slave", &replica, ""));
                        self.replicas.push(replica);
                    }
                }
            }
        }
        // After a switch or a discovery, some of them are new.
        self.reach(survey, now);
        let mut replicas = std::mem::take(&mut self.replicas);
        for replica in &mut replicas {
            if let Answer::Server(report) = answer_of(survey, &replica.address)
                && let (true, _) = replica.note_report(report, now)
            {
                let event = if replica.role == Role::Replica { "+role-change" } else { "-role-change" };
                deeds.push(self.replica_event(event, replica, &new_role(replica.role)));
            }
        }
        self.replicas = replicas;
    }

    /// Notes what other Sentinels show, and finds new ones: those that watch this primary, or that
    /// take a replica of it for the primary.
    fn meet(&mut self, survey: &Survey, now: Timestamp, deeds: &mut Vec<Deed>) {
        for (address, answer) in survey {
            let known = self.sentinels.iter().position(|other| is_same(&other.instance.address, address));
            if let Some(place) = known {
                self.sentinels[place].instance.note(answer, now);
            }
            let Answer::Sentinel(opinion) = answer else { continue };
            let Some(view) = view_of(opinion, &self.name) else { continue };
            let finds_down = view.is_down && is_same(&view.primary, &self.instance.address);
            if let Some(place) = known {
                self.sentinels[place].finds_down = finds_down;
            } else if is_same(&view.primary, &self.instance.address)
                || self.replica_at(&view.primary).is_some()
            {
                let mut instance = Instance::new(address.clone(), Role::Primary, now);
                instance.note(answer, now);
                instance.id.clone_from(&opinion.id);
                deeds.push(self.sentinel_event("+sentinel", &instance));
                self.sentinels.push(Companion { instance, finds_down, voted_epoch: 0 });
            }
        }
    }

    /// Decides which processes are down.
    fn judge(&mut self, periods: &Periods, now: Timestamp, deeds: &mut Vec<Deed>) {
        let down_after = self.settings.down_after;
        let is_down = self.down_at(periods).is_some_and(|at| at <= now);
        if let Some(event) = self.instance.set_down(is_down, now) {
            deeds.push(self.event(event, ""));
        }
        let mut replicas = std::mem::take(&mut self.replicas);
        for replica in &mut replicas {
            let is_down = replica.silent_since.is_some_and(|since| since + down_after <= now);
            if let Some(event) = replica.set_down(is_down, now) {
                deeds.push(self.replica_event(event, replica, ""));
            }
        }
        self.replicas = replicas;
        let mut sentinels = std::mem::take(&mut self.sentinels);
        for Companion { instance, .. } in &mut sentinels {
            let is_down = instance.silent_since.is_some_and(|since| since + down_after <= now);
            if let Some(event) = instance.set_down(is_down, now) {
                deeds.push(self.sentinel_event(event, instance));
            }
        }
        self.sentinels = sentinels;
    }

    /// When the primary counts as down: it does not answer, or it shows the role of a replica.
    fn down_at(&self, periods: &Periods) -> Option<Timestamp> {
        let Instance { silent_since, role, role_since, .. } = &self.instance;
        let down_after = self.settings.down_after;
        let silence = silent_since.map(|since| since + down_after);
        let wrong_role = (*role == Role::Replica).then(|| *role_since + down_after + periods.wrong_role());
        silence.into_iter().chain(wrong_role).min()
    }

    /// Decides whether enough Sentinels find the primary down.
    fn agree(&mut self, now: Timestamp, deeds: &mut Vec<Deed>) {
        let others = self.sentinels.iter().filter(|other| other.finds_down);
        let agreeing = 1 + others.filter(|other| other.instance.silent_since.is_none()).count();
        let quorum = self.settings.quorum;
        let is_agreed = self.instance.down_since.is_some() && agreeing as u64 >= quorum;
        match (is_agreed, self.agreed_down_since) {
            (true, None) => {
                self.agreed_down_since = Some(now);
                deeds.push(self.event("+odown", &format!(" #quorum {agreeing}/{quorum}")));
            }
            (false, Some(_)) => {
                self.agreed_down_since = None;
                deeds.push(self.event("-odown", ""));
            }
            _ => {}
        }
    }

    /// Makes replicas of servers that should follow the primary and do not: an old primary, or a
    /// replica that has missed a failover.
    fn correct(&mut self, periods: &Periods, now: Timestamp, deeds: &mut Vec<Deed>) {
        if !self.looks_sane() || self.instance.report.is_none() {
            return;
        }
        for replica in &self.replicas {
            let Some((at, event)) = self.correction(replica, periods) else { continue };
            let span = if replica.role == Role::Primary {
                periods.patience()
            } else {
                self.settings.failover_timeout
            };
            if at <= now && replica.silent_since.is_none() && replica.is_up_for(span, now) {
                let follow = Order::Follow(self.instance.address.clone());
                deeds.push(Deed::Command(replica.address.clone(), follow));
                deeds.push(self.replica_event(event, replica, ""));
            }
        }
    }

    /// When a server that should follow the primary must be told to, and the event of that.
    fn correction(&self, replica: &Instance, periods: &Periods) -> Option<(Timestamp, &'static str)> {
        let report = replica.report.as_ref()?;
        match &report.upstream {
            None => Some((replica.role_since + periods.patience(), "+convert-to-slave")),
            Some((primary, _)) if !is_same(primary, &self.instance.address) => {
                Some((replica.follows_since + self.settings.failover_timeout, "+fix-slave-config"))
            }
            Some(_) => None,
        }
    }

    /// When this Sentinel may try again to replace the primary.
    fn next_try(&self) -> Option<Timestamp> {
        self.tried_at.map(|at| at + self.settings.failover_timeout * 2)
    }

    /// When an election has failed.
    fn election_ends(&self, candidacy: Candidacy, periods: &Periods) -> Timestamp {
        candidacy.since + periods.election().min(self.settings.failover_timeout)
    }

    /// The times at which something may follow without news of other servers.
    fn times(&self, periods: &Periods) -> Vec<Timestamp> {
        let instances = self.replicas.iter().chain(self.sentinels.iter().map(|other| &other.instance));
        let silences = instances.filter_map(|instance| instance.silent_since);
        let mut times: Vec<Timestamp> = silences.map(|since| since + self.settings.down_after).collect();
        times.extend(self.down_at(periods));
        times.extend(self.next_try());
        times.extend(self.candidacy.map(|candidacy| self.election_ends(candidacy, periods)));
        for replica in &self.replicas {
            let Some((at, _)) = self.correction(replica, periods) else { continue };
            let up_again = replica.up_again_at;
            let spans: [Duration; 2] = [periods.patience(), self.settings.failover_timeout];
            times.push(at);
            times.extend(up_again.into_iter().flat_map(|at| spans.map(|span| at + span)));
        }
        times
    }
}

impl Instance {
    /// Sets whether it is down, and returns the event if that is a change.
    fn set_down(&mut self, is_down: bool, now: Timestamp) -> Option<&'static str> {
        match (is_down, self.down_since) {
            (true, None) => {
                self.down_since = Some(now);
                Some("+sdown")
            }
            (false, Some(_)) => {
                (self.down_since, self.up_again_at) = (None, Some(now));
                Some("-sdown")
            }
            _ => None,
        }
    }
}

fn answer_of<'a>(survey: &'a Survey, address: &Address) -> &'a Answer {
    let known = survey.iter().find(|(own, _)| is_same(own, address));
    known.map_or(&Answer::Gone, |(_, answer)| answer)
}

fn view_of<'a>(opinion: &'a Opinion, name: &[u8]) -> Option<&'a View> {
    opinion.views.iter().find(|view| view.name == name)
}
