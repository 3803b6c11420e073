//! The events of keys, for keyspace notifications and for clients that wait for a key.
//! <https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>

use bytes::Bytes;

/// The class of an event: the letters of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Generic,
    String,
    List,
    Set,
    Hash,
    ZSet,
    Expired,
    Evicted,
    Stream,
    KeyMiss,
    Module,
    New,
}

/// One event of one key.
#[derive(Clone, Debug)]
pub struct Event {
    /// Redis's name for it: `set`, `lpush`, `expired`, …
    pub name: &'static str,
    /// The index of the database.
    pub db: usize,
    /// The key.
    pub key: Bytes,
    /// How many parts of the reply to the command come before it. Parts are values and starts of
    /// arrays, in the order in which they are sent.
    pub place: usize,
}

/// The place after the whole reply.
const BEHIND: usize = usize::MAX;

/// The classes of events that are published: the value of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u16);

const LETTERS: [(u8, Class); 12] = [
    (b'g', Class::Generic),
    (b'$', Class::String),
    (b'l', Class::List),
    (b's', Class::Set),
    (b'h', Class::Hash),
    (b'z', Class::ZSet),
    (b'x', Class::Expired),
    (b'e', Class::Evicted),
    (b't', Class::Stream),
    (b'd', Class::Module),
    (b'm', Class::KeyMiss),
    (b'n', Class::New),
];
const KEYSPACE: u16 = 1 << 14;
const KEYEVENT: u16 = 1 << 15;

impl Classes {
    /// Parses letters as in redis.conf. Returns `None` for an unknown letter.
    pub fn parse(letters: &[u8]) -> Option<Classes> {
        let bits = |letter: &u8| match letter {
            b'A' => Some(Classes::all()),
            b'K' => Some(KEYSPACE),
            b'E' => Some(KEYEVENT),
            _ => LETTERS.iter().find(|(own, _)| own == letter).map(|&(_, class)| Classes::bit(class)),
        };
        letters.iter().try_fold(0, |all, letter| Some(all | bits(letter)?)).map(Classes)
    }

    /// Whether events of this class are published on `__keyspace@…__` or `__keyevent@…__`.
    pub fn wants(self, class: Class) -> bool {
        self.0 & (KEYSPACE | KEYEVENT) != 0 && self.0 & Classes::bit(class) != 0
    }

    /// Whether events are published on `__keyspace@<db>__:<key>`.
    pub fn by_key(self) -> bool {
        self.0 & KEYSPACE != 0
    }

    /// Whether events are published on `__keyevent@<db>__:<event>`.
    pub fn by_event(self) -> bool {
        self.0 & KEYEVENT != 0
    }

    /// The classes as a number. It holds more than the text form, in which `A` hides `n`.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The classes from such a number.
    pub fn from_bits(bits: u16) -> Classes {
        Classes(bits)
    }

    const fn bit(class: Class) -> u16 {
        1 << class as u16
    }

    /// The classes that `A` stands for: all but misses and new keys.
    fn all() -> u16 {
        let kinds = LETTERS.iter().filter(|(_, class)| !matches!(class, Class::KeyMiss | Class::New));
        kinds.map(|&(_, class)| Classes::bit(class)).sum()
    }
}

/// The text that `CONFIG GET notify-keyspace-events` replies.
impl std::fmt::Display for Classes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = Classes::all();
        let kinds: Vec<(u8, u16)> = if self.0 & all == all {
            vec![(b'A', all)]
        } else {
            let kinds = LETTERS.iter().filter(|(_, class)| *class != Class::KeyMiss);
            kinds.map(|&(letter, class)| (letter, Classes::bit(class))).collect()
        };
        let rest = [(b'K', KEYSPACE), (b'E', KEYEVENT), (b'm', Classes::bit(Class::KeyMiss))];
        let shown = kinds.into_iter().chain(rest).filter(|(_, bit)| self.0 & bit != 0);
        shown.map(|(letter, _)| letter as char).try_for_each(|letter| write!(f, "{letter}"))
    }
}

/// The events since they were last taken. Only events that something needs are kept.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The classes of events that are kept.
    pub wanted: Classes,
    /// The counters, which include events that are not kept.
    pub counts: Counts,
    /// The events, in order.
    pub happened: Vec<Event>,
    /// How many parts of the reply Redis has written by now. If the client subscribes to events of
    /// its own command, it receives the next ones after these parts.
    pub answered: usize,
    /// Whether clients wait for keys, so that keys which appear are kept.
    pub is_awaited: bool,
    /// The keys that appeared, each with its database.
    pub appeared: Vec<(usize, Bytes)>,
    /// Whether clients track keys, so that keys which expire are kept.
    pub is_tracked: bool,
    /// The keys that expired.
    pub expired: Vec<Bytes>,
    /// Whether the data is replicated, so that keys which are removed at their deadlines are kept.
    pub is_replicated: bool,
    /// The keys that were removed at their deadlines, each with its database.
    pub removed: Vec<(usize, Bytes)>,
    /// Whether a database was emptied, even if it was empty before.
    pub is_flushed: bool,
}

/// The counters of keys in `INFO`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not find their key.
    pub misses: u64,
    /// Keys that expired.
    pub expired: u64,
}

impl Events {
    pub(super) fn answer(&mut self) {
        self.answered = BEHIND;
    }

    pub(super) fn record(&mut self, class: Class, name: &'static str, db: usize, key: &[u8]) {
        match class {
            Class::Expired => self.counts.expired += 1,
            Class::KeyMiss => self.counts.misses += 1,
            _ => {}
        }
        if self.wanted.wants(class) {
            let key = Bytes::copy_from_slice(key);
            self.happened.push(Event { name, db, key, place: self.answered });
        }
    }

    pub(super) fn appear(&mut self, db: usize, key: &[u8]) {
        self.record(Class::New, "new", db, key);
        if self.is_awaited {
            self.appeared.push((db, Bytes::copy_from_slice(key)));
        }
    }

    pub(super) fn expire(&mut self, db: usize, key: &[u8]) {
        self.record(Class::Expired, "expired", db, key);
        if self.is_tracked {
            self.expired.push(Bytes::copy_from_slice(key));
        }
        if self.is_replicated {
            self.removed.push((db, Bytes::copy_from_slice(key)));
        }
    }
}
