//! What `SENTINEL SET`, `SENTINEL CONFIG` and `SENTINEL DEBUG` change.

use std::time::Duration;

/// The settings of one primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many Sentinels must find the primary down before it is replaced.
    pub quorum: u64,
    /// How long a server must be out of reach before it counts as down.
    pub down_after: Duration,
    /// Twice this time must pass between two attempts to replace the primary.
    pub failover_timeout: Duration,
    /// How many replicas follow a new primary at once. It changes nothing here.
    pub parallel_syncs: u64,
}

impl Settings {
    /// The defaults of Redis.
    pub(crate) fn with_quorum(quorum: u64) -> Settings {
        Settings {
            quorum,
            down_after: Duration::from_secs(30),
            failover_timeout: Duration::from_secs(180),
            parallel_syncs: 1,
        }
    }
}

/// The periods of `SENTINEL DEBUG`, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods([u64; PERIODS.len()]);

/// Each period with its default.
const PERIODS: [(&str, u64); 13] = [
    ("INFO-PERIOD", 10_000),
    ("PING-PERIOD", 1000),
    ("ASK-PERIOD", 1000),
    ("PUBLISH-PERIOD", 2000),
    ("DEFAULT-DOWN-AFTER", 30_000),
    ("DEFAULT-FAILOVER-TIMEOUT", 180_000),
    ("TILT-TRIGGER", 2000),
    ("TILT-PERIOD", 30_000),
    ("SLAVE-RECONF-TIMEOUT", 10_000),
    ("MIN-LINK-RECONNECT-PERIOD", 15_000),
    ("ELECTION-TIMEOUT", 10_000),
    ("SCRIPT-MAX-RUNTIME", 60_000),
    ("SCRIPT-RETRY-DELAY", 30_000),
];
const INFO: usize = 0;
const PUBLISH: usize = 3;
const ELECTION: usize = 10;

impl Default for Periods {
    fn default() -> Periods {
        Periods(PERIODS.map(|(_, default)| default))
    }
}

impl Periods {
    /// The names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PERIODS.iter().map(|(name, _)| *name).zip(self.0)
    }

    /// A period by its name, in any case.
    pub(crate) fn get_mut(&mut self, name: &[u8]) -> Option<&mut u64> {
        let place = PERIODS.iter().position(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()))?;
        Some(&mut self.0[place])
    }

    /// How long a primary may report the role of a replica, beyond the time for being down.
    pub(super) fn wrong_role(&self) -> Duration {
        Duration::from_millis(self.0[INFO].saturating_mul(2))
    }

    /// How long a replica may report the role of a primary: until then, another Sentinel may tell
    /// of a failover.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.0[PUBLISH].saturating_mul(4))
    }

    /// The most time of an election.
    pub(super) fn election(&self) -> Duration {
        Duration::from_millis(self.0[ELECTION])
    }
}

/// The options of `SENTINEL CONFIG`, with their defaults, in the order of `GET *`.
pub const OPTIONS: [(&str, &str); 6] = [
    ("resolve-hostnames", "no"),
    ("announce-hostnames", "no"),
    ("announce-ip", ""),
    ("announce-port", "0"),
    ("sentinel-user", ""),
    ("sentinel-pass", ""),
];
