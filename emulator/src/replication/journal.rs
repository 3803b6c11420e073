//! What a server has on its disk: a copy of the data, and the writes since then. A restart restores
//! the data as they were at some time.

use std::sync::Arc;
use std::time::Duration;

use super::effect::Unit;
use crate::clock::Timestamp;
use crate::keyspace::Keyspace;
use crate::script::Libraries;

/// The most writes after one copy of the data, and the most bytes that these have in a stream.
const UNITS_MAX: usize = 1 << 16;
const BYTES_MAX: u64 = 64 << 20;

/// The last two copies of the data, each with the writes after it. So many writes can be undone.
#[derive(Debug)]
pub struct Journal {
    before: Option<Chapter>,
    last: Chapter,
}

#[derive(Debug)]
struct Chapter {
    keyspace: Keyspace,
    libraries: Libraries,
    began: Timestamp,
    /// Whether there was nothing before it that could be undone.
    is_first: bool,
    units: Vec<(Timestamp, Arc<Unit>)>,
    bytes: u64,
}

/// The data at some time: a copy, and the writes to be applied to it.
pub struct Past {
    /// The copy.
    pub keyspace: Keyspace,
    /// The functions.
    pub libraries: Libraries,
    /// The writes.
    pub units: Vec<Arc<Unit>>,
}

impl Journal {
    /// Begins with these data.
    pub(crate) fn new(keyspace: Keyspace, libraries: Libraries, now: Timestamp) -> Journal {
        Journal { before: None, last: Chapter::new(keyspace, libraries, now, true) }
    }

    /// Adds a write. Returns whether it is time for another copy of the data.
    pub(crate) fn add(&mut self, unit: Arc<Unit>, now: Timestamp) -> bool {
        self.last.bytes += unit.stream_bytes();
        self.last.units.push((now, unit));
        self.last.units.len() >= UNITS_MAX || self.last.bytes >= BYTES_MAX
    }

    /// Takes another copy of the data.
    pub(crate) fn copy(&mut self, keyspace: Keyspace, libraries: Libraries, now: Timestamp) {
        let last = std::mem::replace(&mut self.last, Chapter::new(keyspace, libraries, now, false));
        self.before = Some(last);
    }

    /// The data before the writes of the last time span.
    ///
    /// # Errors
    /// The journal does not reach that far back: the span that it has.
    pub(crate) fn before_last(&self, span: Duration, now: Timestamp) -> Result<Past, Duration> {
        let is_kept = |at: Timestamp| at + span <= now;
        let chapter = match &self.before {
            Some(before) if !is_kept(self.last.began) => before,
            _ => &self.last,
        };
        if !is_kept(chapter.began) && !chapter.is_first {
            return Err(now.since(chapter.began));
        }
        let units = chapter.units.iter().filter(|(at, _)| is_kept(*at));
        Ok(Past {
            keyspace: chapter.keyspace.clone(),
            libraries: chapter.libraries.clone(),
            units: units.map(|(_, unit)| unit.clone()).collect(),
        })
    }
}

impl Chapter {
    fn new(keyspace: Keyspace, libraries: Libraries, began: Timestamp, is_first: bool) -> Chapter {
        Chapter { keyspace, libraries, began, is_first, units: Vec::new(), bytes: 0 }
    }
}
