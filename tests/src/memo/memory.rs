//! Clients whose code is known.
//!
//! A client is a function of what it has been told: replies, times, cancellations. Its local state
//! is a hash of that. An execution with tasks records, for each local state, what the client does
//! in its turn. As long as all states that an execution reaches are known, no code has to run: the
//! acts are performed again, and the execution is plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::servers::KnownServers;
use super::{CodeId, Key, Memo};
use crate::live::{Telling, Told, Turn};
use crate::schedule::Schedule;
use crate::trace::LocalState;

/// When a timer wakes a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    At(Duration),
    /// None does up to this time.
    NotBefore(Duration),
}

/// If clients and servers are known to do more than this, all of it is forgotten before the next
/// exploration.
const KNOWN_MAX: usize = 50_000;
/// If the values in what is known take more bytes than this, nothing more is learned: to run code
/// again takes less than to remember values of many megabytes. Unit tests reach it with small
/// values.
const KNOWN_BYTES_MAX: usize = if cfg!(test) { 8 << 20 } else { 256 << 20 };

#[derive(Clone, Default)]
pub(crate) struct Known {
    turns: Memo<Key, Arc<Turn>>,
    timers: Memo<Key, Timer>,
    /// How local states follow from one another.
    tellings: Memo<LocalState, Telling>,
    pub(crate) servers: KnownServers,
    /// How many executions ran the tasks of these clients.
    taught: BTreeMap<Vec<CodeId>, u64>,
    /// About how many bytes the values take that clients send and receive.
    value_bytes: usize,
}

/// Everything that clients and servers are known to do. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    known: Arc<Mutex<Known>>,
    unlearnable: Arc<Mutex<Unlearnable>>,
}

/// The codes of which nothing is known by what was learned.
#[derive(Debug, Default)]
struct Unlearnable {
    /// Codes with state that is shared outside of Redis, or with streams.
    clients: BTreeSet<CodeId>,
    /// Codes that leave more behind on servers than snapshots have.
    servers: BTreeSet<CodeId>,
    /// Codes that are known to get more than they are told: from each other, or out of streams.
    sharing: BTreeSet<CodeId>,
    /// Codes of which an execution has repeated what was learned.
    repeated: BTreeSet<CodeId>,
    /// The first code that did something else than before, although it was told the same.
    difference: Option<(CodeId, Difference)>,
}

/// How code differed from what was learned of it.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// In words, whole lines of them.
    pub(crate) what: String,
    /// The schedule that showed it, if one is known.
    pub(crate) schedule: Schedule,
}

impl Known {
    fn is_full(&self) -> bool {
        self.value_bytes + self.servers.value_bytes > KNOWN_BYTES_MAX
    }
}

impl Memory {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlearnable(&self) -> MutexGuard<'_, Unlearnable> {
        self.unlearnable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy that learns by itself from now on, so that two threads need not wait for each other.
    pub(crate) fn fork(&self) -> Memory {
        let known = Arc::new(Mutex::new(self.known().clone()));
        Memory { known, unlearnable: self.unlearnable.clone() }
    }

    /// How much is known.
    pub(crate) fn len(&self) -> usize {
        let known = self.known();
        known.turns.len() + known.servers.len()
    }

    /// Replaces a request of clients that is remembered by another one. Returns how often.
    #[cfg(test)]
    pub(crate) fn remember_wrongly(&self, right: &redis::Cmd, wrong: &redis::Cmd) -> usize {
        let mut known = self.known();
        let acts = known.turns.values_mut().flat_map(|turn| &mut Arc::make_mut(turn).acts);
        let requests = acts.filter_map(|act| match act {
            crate::live::Act::Ask { request, .. } => Some(&mut request.request),
            _ => None,
        });
        requests.filter(|request| **request == right.into()).map(|request| *request = wrong.into()).count()
    }

    /// Forgets what clients and servers do, if that takes much memory. No place of an execution may
    /// be kept. Returns whether it did.
    pub(crate) fn limit(&self) -> bool {
        let mut known = self.known();
        let is_over = known.turns.len() + known.servers.len() > KNOWN_MAX || known.is_full();
        if is_over {
            *known = Known { taught: std::mem::take(&mut known.taught), ..Known::default() };
        }
        is_over
    }

    /// Whether what is known takes too much memory to learn more.
    pub(crate) fn is_full(&self) -> bool {
        self.known().is_full()
    }

    /// A local state follows from another one.
    pub(crate) fn note_telling(&self, before: LocalState, at: Duration, told: &Told, after: LocalState) {
        let mut known = self.known();
        let Known { tellings, value_bytes, .. } = &mut *known;
        let known = tellings.get_or_learn(after, |_| {
            *value_bytes += told.value_bytes();
            Telling { before, at, told: told.clone(), after }
        });
        debug_assert_eq!((known.before, known.at), (before, at), "two ways to one local state");
    }

    /// Everything that a client in this state was told, in order.
    pub(crate) fn tellings(&self, mut state: LocalState) -> Vec<Telling> {
        let known = self.known();
        let mut tellings = Vec::new();
        while let Some(telling) = known.tellings.get(&state) {
            state = telling.before;
            tellings.push(telling.clone());
        }
        tellings.reverse();
        tellings
    }

    /// An execution has run the tasks of these clients.
    pub(crate) fn note_taught(&self, codes: &[CodeId]) {
        *self.known().taught.entry(codes.to_vec()).or_default() += 1;
    }

    /// How many executions ran the tasks of these clients.
    pub(crate) fn taught(&self, codes: &[CodeId]) -> u64 {
        self.known().taught.get(codes).copied().unwrap_or(0)
    }

    /// The turn of a client in this state, if that is known.
    pub(crate) fn turn(&self, key: &Key) -> Option<Arc<Turn>> {
        self.known().turns.get(key).cloned()
    }

    /// When the next timer of a client in this state fires, as far as that is known.
    pub(crate) fn timer(&self, key: &Key) -> Option<Timer> {
        self.known().timers.get(key).copied()
    }

    /// Whether the codes of all these clients can be learned.
    pub(crate) fn are_clients_learnable(&self, codes: &[CodeId]) -> bool {
        let unlearnable = self.unlearnable();
        !codes.iter().any(|code| unlearnable.clients.contains(code))
    }

    /// Whether snapshots of servers have all that these clients leave there.
    pub(crate) fn are_servers_learnable(&self, codes: &[CodeId]) -> bool {
        let unlearnable = self.unlearnable();
        !codes.iter().any(|code| unlearnable.servers.contains(code))
    }

    /// These codes do not always do what was learned, or servers do not.
    pub(crate) fn unlearn(&self, codes: &[CodeId]) {
        let mut unlearnable = self.unlearnable();
        unlearnable.clients.extend(codes);
        unlearnable.servers.extend(codes);
    }

    /// An execution repeats what was learned of these codes.
    pub(crate) fn note_repeated(&self, codes: &[CodeId]) {
        self.unlearnable().repeated.extend(codes);
    }

    /// Code of these did something else than was learned.
    pub(crate) fn note_difference(&self, codes: &[CodeId], difference: Difference) {
        let mut unlearnable = self.unlearnable();
        if let Some(&code) = codes.iter().find(|code| !unlearnable.sharing.contains(code)) {
            unlearnable.difference.get_or_insert((code, difference));
        }
    }

    /// How code differed from what was learned of it. That is forgotten.
    pub(crate) fn take_difference(&self) -> Option<Difference> {
        let mut unlearnable = self.unlearnable();
        let (code, difference) = unlearnable.difference.take()?;
        (!unlearnable.sharing.contains(&code)).then_some(difference)
    }

    /// A client, told the same as before, did something else.
    fn differ(&self, (code, actor, _): Key, [before, now]: [String; 2]) {
        let what = format!(
            "{actor} was told the same as before, and did something else.\nBefore: {before}\nNow: {now}\n"
        );
        self.unlearn(&[code]);
        self.note_difference(&[code], Difference { what, schedule: Schedule::default() });
    }

    /// These codes get more than they are told.
    pub(crate) fn note_sharing(&self, code: CodeId) {
        self.unlearn_clients(&[code]);
        self.unlearnable().sharing.insert(code);
    }

    /// These codes depend on more than they are told.
    pub(crate) fn unlearn_clients(&self, codes: &[CodeId]) {
        self.unlearnable().clients.extend(codes);
    }

    /// Learns a turn. Code that does something else than before depends on more than it is told.
    pub(crate) fn learn(&self, key: Key, turn: Turn) {
        let mut known = self.known();
        match known.turns.get(&key) {
            None => {
                known.value_bytes += turn.value_bytes();
                known.turns.learn(key, Arc::new(turn));
            }
            Some(known) if **known == turn => {}
            // Code may draw tokens by chance, which shows before anything is repeated.
            Some(known) if known.is_like(&turn) && !self.unlearnable().repeated.contains(&key.0) => {
                self.unlearn_clients(&[key.0]);
            }
            // It may wait for another client in its process.
            Some(known) if known.is_idle() || turn.is_idle() => self.note_sharing(key.0),
            Some(known) => self.differ(key, [known.text(), turn.text()]),
        }
    }

    /// Learns when a timer fires. Code whose timer differs from before depends on more than it is
    /// told.
    pub(crate) fn learn_timer(&self, key: Key, timer: Timer) {
        let mut known = self.known();
        let is_news = match (known.timers.get(&key).copied(), timer) {
            (Some(Timer::At(known)), Timer::At(now)) if known != now => {
                let text = |at: Duration| format!("a timer of it fired at {} ms", at.as_millis());
                return self.differ(key, [text(known), text(now)]);
            }
            (Some(Timer::At(_)), _) => false,
            (Some(Timer::NotBefore(before)), Timer::NotBefore(now)) => before < now,
            _ => true,
        };
        if is_news {
            known.timers.learn(key, timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use emulator::{Footprint, Timestamp};
    use redis::Value;

    use super::*;
    use crate::actor::Actor;
    use crate::live::Act;
    use crate::memo::{Reply, Transition};

    fn state(nth: usize) -> LocalState {
        LocalState::told_of(nth)
    }

    fn key(nth: usize) -> Key {
        (0, Actor(0), state(nth))
    }

    fn learn_turns(memory: &Memory, turns: usize) {
        (0..turns).for_each(|nth| memory.learn(key(nth), Turn::default()));
    }

    fn learn_transitions(memory: &Memory, transitions: u64) {
        let servers = &mut memory.known().servers;
        let next = servers.empty();
        for request in 0..transitions {
            let transition = Transition {
                reply: Reply::Now(Value::Nil),
                footprint: Arc::<Footprint>::default(),
                units: Vec::new(),
                next,
                messages: Vec::new(),
                served: Vec::new(),
            };
            servers.learn((next, Timestamp::from_millis(0), request), transition);
        }
    }

    #[test]
    fn turns_and_replies_are_counted_together() {
        let memory = Memory::default();
        learn_turns(&memory, 3);
        learn_transitions(&memory, 4);
        assert_eq!(memory.len(), 7);
    }

    /// All is forgotten but how often the tasks of clients ran.
    #[test]
    fn more_answers_than_the_limit_are_forgotten() {
        let memory = Memory::default();
        memory.note_taught(&[1]);
        learn_turns(&memory, KNOWN_MAX - 4);
        learn_transitions(&memory, 4);
        assert!(!memory.limit());
        learn_turns(&memory, KNOWN_MAX - 3);
        assert!(memory.limit());
        assert_eq!((memory.len(), memory.taught(&[1])), (0, 1));
        assert!(!memory.limit());
    }

    #[test]
    fn more_bytes_than_the_limit_are_forgotten() {
        let memory = Memory::default();
        memory.known().value_bytes = KNOWN_BYTES_MAX - 4;
        memory.known().servers.value_bytes = 4;
        assert!(!memory.is_full() && !memory.limit());
        memory.known().value_bytes += 1;
        assert!(memory.is_full() && memory.limit());
        assert!(!memory.is_full());
        let heard = Told::Heard { nth: 0, message: Some(b"four".to_vec()) };
        memory.note_telling(state(0), Duration::ZERO, &heard, state(1));
        assert_eq!(memory.known().value_bytes, 4);
    }

    #[test]
    fn all_that_a_client_was_told_is_known_in_order() {
        let memory = Memory::default();
        let at = Duration::from_millis;
        let clock = |skew_ms| Told::Clock { skew_ms, drift_ppm: 0 };
        memory.note_telling(state(0), at(1), &clock(1), state(1));
        memory.note_telling(state(1), at(2), &clock(2), state(2));
        memory.note_telling(state(1), at(3), &clock(3), state(3));
        let times = |state| memory.tellings(state).iter().map(|telling| telling.at).collect::<Vec<_>>();
        assert_eq!(times(state(2)), [at(1), at(2)]);
        assert_eq!(times(state(3)), [at(1), at(3)]);
        assert_eq!(times(state(0)), []);
    }

    /// What another runner learns is its own, but what it cannot learn is known to both.
    #[test]
    fn a_fork_knows_what_was_known() {
        let memory = Memory::default();
        learn_turns(&memory, 1);
        let fork = memory.fork();
        learn_turns(&fork, 3);
        assert_eq!((memory.len(), fork.len()), (1, 3));
        assert!(fork.turn(&key(0)).is_some());
        fork.unlearn(&[7]);
        assert!(!memory.are_clients_learnable(&[7]) && !memory.are_servers_learnable(&[7]));
    }

    /// A turn that differs in words alone is one of code that draws names. If the client waits in
    /// one of the turns, it may wait for another client in its process.
    #[test]
    fn other_turns_than_the_known_one() {
        let turn = |act| Turn { acts: vec![act], ..Turn::default() };
        let accepts = |token| turn(Act::Accept { resource: "r", token });
        let check = |known, now, is_repeated, expected| {
            let memory = Memory::default();
            if is_repeated {
                memory.note_repeated(&[0]);
            }
            memory.learn(key(0), known);
            memory.learn(key(0), now);
            let learnable = (memory.are_clients_learnable(&[0]), memory.are_servers_learnable(&[0]));
            let is_sharing = memory.unlearnable().sharing.contains(&0);
            assert_eq!((learnable, is_sharing, memory.take_difference().is_some()), expected);
        };
        check(accepts(1), accepts(1), false, ((true, true), false, false));
        check(accepts(1), accepts(2), false, ((false, true), false, false));
        check(accepts(1), accepts(2), true, ((false, false), false, true));
        check(Turn::default(), accepts(1), false, ((false, true), true, false));
        check(accepts(1), Turn::default(), false, ((false, true), true, false));
        check(accepts(1), turn(Act::Did { what: "it" }), false, ((false, false), false, true));
    }

    /// A later bound says more than an earlier one, and the time at which a timer fires says most.
    #[test]
    fn timers_that_differ_from_the_known_one() {
        let memory = Memory::default();
        let (at, not_before) =
            (|ms| Timer::At(Duration::from_millis(ms)), |ms| Timer::NotBefore(Duration::from_millis(ms)));
        let check = |timer, expected| {
            memory.learn_timer(key(0), timer);
            assert_eq!(format!("{:?}", memory.timer(&key(0)).unwrap()), expected);
        };
        check(not_before(5), "NotBefore(5ms)");
        check(not_before(3), "NotBefore(5ms)");
        check(not_before(7), "NotBefore(7ms)");
        check(at(9), "At(9ms)");
        check(not_before(20), "At(9ms)");
        check(at(9), "At(9ms)");
        assert!(memory.take_difference().is_none());
        check(at(8), "At(9ms)");
        assert!(memory.take_difference().is_some() && !memory.are_clients_learnable(&[0]));
    }
}
