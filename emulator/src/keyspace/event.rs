//! What happened to keys, for those who listen: keyspace notifications, and clients that wait for a key to appear.
//! <https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>

use bytes::Bytes;

/// Which kind of event: the letters of `notify-keyspace-events`.
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

/// One thing that happened to one key.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its kind.
    pub class: Class,
    /// Redis's name for it: `set`, `lpush`, `expired`, …
    pub name: &'static str,
    /// The index of the database.
    pub db: usize,
    /// The key.
    pub key: Bytes,
    /// After how many parts of the reply to the command: values, and beginnings of arrays, in the order in which they are sent.
    pub place: usize,
}

/// Behind the whole reply.
const BEHIND: usize = usize::MAX;

/// Which events somebody wants to hear of: the value of `notify-keyspace-events`.
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
    /// From letters as in redis.conf; `None` for a letter that means nothing.
    pub fn parse(letters: &[u8]) -> Option<Classes> {
        let bits = |letter: &u8| match letter {
            b'A' => Some(Classes::all()),
            b'K' => Some(KEYSPACE),
            b'E' => Some(KEYEVENT),
            _ => LETTERS.iter().find(|(own, _)| own == letter).map(|&(_, class)| Classes::bit(class)),
        };
        letters.iter().try_fold(0, |all, letter| Some(all | bits(letter)?)).map(Classes)
    }

    /// Whether events of this kind are wanted on `__keyspace@…__` or `__keyevent@…__`.
    pub fn wants(self, class: Class) -> bool {
        self.0 & (KEYSPACE | KEYEVENT) != 0 && self.0 & Classes::bit(class) != 0
    }

    /// Whether events go to `__keyspace@<db>__:<key>`.
    pub fn by_key(self) -> bool {
        self.0 & KEYSPACE != 0
    }

    /// Whether events go to `__keyevent@<db>__:<event>`.
    pub fn by_event(self) -> bool {
        self.0 & KEYEVENT != 0
    }

    /// As a number, which says more than what is shown: in that, `A` hides `n`.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// From such a number.
    pub fn from_bits(bits: u16) -> Classes {
        Classes(bits)
    }

    const fn bit(class: Class) -> u16 {
        1 << class as u16
    }

    /// What `A` stands for: neither misses nor new keys.
    fn all() -> u16 {
        let kinds = LETTERS.iter().filter(|(_, class)| !matches!(class, Class::KeyMiss | Class::New));
        kinds.map(|&(_, class)| Classes::bit(class)).sum()
    }
}

/// As `CONFIG GET notify-keyspace-events` shows it.
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

/// What happened since somebody last asked. Nothing is kept that nobody wants.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Which events are kept.
    pub wanted: Classes,
    /// How often some things happened, wanted or not.
    pub counts: Counts,
    /// Those that happened, in their order.
    pub happened: Vec<Event>,
    /// How many parts of the reply Redis has written by now: a client that listens to what it does itself hears of it behind these.
    pub answered: usize,
    /// Somebody waits for a key: keep those that appear.
    pub is_awaited: bool,
    /// Keys that appeared, with their database.
    pub appeared: Vec<(usize, Bytes)>,
    /// Somebody wants to know of keys that went because their time was over: keep those.
    pub is_tracked: bool,
    /// Keys whose time was over.
    pub expired: Vec<Bytes>,
    /// A database was emptied, or was asked to be and was empty already.
    pub is_flushed: bool,
}

/// What `INFO` counts of keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Keys that were read and were there.
    pub hits: u64,
    /// Keys that were read and were not there.
    pub misses: u64,
    /// Keys whose time had come.
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
            self.happened.push(Event { class, name, db, key, place: self.answered });
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
    }
}
