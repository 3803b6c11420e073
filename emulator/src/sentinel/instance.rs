//! A server or another Sentinel, as a Sentinel sees it.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::replication::{Address, Answer, Report};

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A primary.
    Primary,
    /// A replica.
    Replica,
}

impl Role {
    /// The word of Redis.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Primary => "master",
            Role::Replica => "slave",
        }
    }
}

/// What a Sentinel knows of another process.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Where it is.
    pub address: Address,
    /// Its identity. It is empty until it has been reached.
    pub id: String,
    /// When it answered last.
    pub answered_at: Timestamp,
    /// Since when it has not answered, if it does not.
    pub silent_since: Option<Timestamp>,
    /// Whether the connection to it stands.
    pub is_connected: bool,
    /// Since when it has counted as down.
    pub down_since: Option<Timestamp>,
    /// When it last ceased to be down.
    pub up_again_at: Option<Timestamp>,
    /// What a server has shown last.
    pub report: Option<Report>,
    /// The role that a server has shown last.
    pub role: Role,
    /// Since when it has had this role.
    pub role_since: Timestamp,
    /// Since when it has followed the same primary.
    pub follows_since: Timestamp,
}

impl Instance {
    /// A process that has not been reached yet.
    pub(super) fn new(address: Address, role: Role, now: Timestamp) -> Instance {
        Instance {
            address,
            id: String::new(),
            answered_at: now,
            silent_since: None,
            is_connected: false,
            down_since: None,
            up_again_at: None,
            report: None,
            role,
            role_since: now,
            follows_since: now,
        }
    }

    /// Its address, as it stands in replies and events.
    pub(crate) fn shown(&self) -> String {
        let (host, port) = &self.address;
        format!("{host} {port}")
    }

    /// Whether it is not down now, and has not been for this time.
    pub(super) fn is_up_for(&self, span: Duration, now: Timestamp) -> bool {
        let is_late_enough = |at: Timestamp| at + span <= now;
        self.down_since.is_none() && self.up_again_at.is_none_or(is_late_enough)
    }

    /// Notes whether it answers.
    pub(super) fn note(&mut self, answer: &Answer, now: Timestamp) {
        match answer {
            Answer::Busy => {}
            Answer::Gone | Answer::Silent => {
                self.silent_since.get_or_insert(now);
                self.is_connected = matches!(answer, Answer::Silent);
            }
            Answer::Server(_) | Answer::Sentinel(_) => {
                (self.answered_at, self.silent_since, self.is_connected) = (now, None, true);
            }
        }
    }

    /// Notes what a server shows. Returns whether its role, and whether its identity has changed.
    pub(super) fn note_report(&mut self, report: &Report, now: Timestamp) -> (bool, bool) {
        let role = if report.upstream.is_some() { Role::Replica } else { Role::Primary };
        let primary = |report: &Report| report.upstream.as_ref().map(|(primary, _)| primary.clone());
        if self.report.as_ref().and_then(primary) != primary(report) {
            self.follows_since = now;
        }
        let is_restarted = !self.id.is_empty() && self.id != report.run_id;
        self.id.clone_from(&report.run_id);
        self.report = Some(report.clone());
        let is_changed = std::mem::replace(&mut self.role, role) != role;
        if is_changed {
            self.role_since = now;
        }
        (is_changed, is_restarted)
    }

    /// For how long its link to its primary has been down.
    pub(crate) fn link_down_for(&self) -> Duration {
        let upstream = self.report.as_ref().and_then(|report| report.upstream.as_ref());
        upstream.and_then(|(_, down_for)| *down_for).unwrap_or_default()
    }
}
