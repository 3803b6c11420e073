//! How the clients of an execution use their servers: the commands of each, and which of them get a
//! grant, hold it, or give it back. No lint is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use emulator::{Access, Footprint, Part, Resource};

use crate::actor::Actor;
use crate::fault::SERVERS_MAX;
use crate::trace::{EventKind, History, KeyChange, LeftBy, Sent};

/// The commands of an execution, in order.
pub(super) struct Usage<'a> {
    pub(super) calls: Vec<Call<'a>>,
    /// The stays of the clients, in the order in which they began.
    pub(super) stays: Vec<Stay>,
    /// The keys at which servers keep grants, as holds name them.
    pub(super) records: BTreeSet<Key>,
    /// The lease of each client.
    pub(super) leases: &'a [Duration],
}

/// A request that ran in a step of its client.
pub(super) struct Call<'a> {
    pub(super) actor: Actor,
    pub(super) server: usize,
    pub(super) sent: &'a Sent,
    pub(super) text: String,
    pub(super) reply: &'a str,
    changed: &'a [KeyChange],
    /// The actions of the server. They are not known of commands that waited, or that ran outside
    /// of steps.
    footprints: Vec<&'a Footprint>,
}

/// A stay of a client in a section. The numbers are those of its calls.
#[derive(Default)]
pub(super) struct Stay {
    /// The calls of the attempt that got the grant.
    pub(super) attempt: Vec<usize>,
    pub(super) inside: Vec<usize>,
    /// The calls from the release on.
    pub(super) after: Vec<usize>,
}

/// A key of a server.
pub(super) type Key = (usize, Vec<u8>);

impl<'a> Usage<'a> {
    pub(super) fn of(history: &'a History, leases: &'a [Duration]) -> Usage<'a> {
        let mut usage = Usage { calls: Vec::new(), stays: Vec::new(), records: records(history), leases };
        // For each client, its calls since its last stay, and its stays that have not ended.
        let mut trying: BTreeMap<Actor, Vec<usize>> = BTreeMap::new();
        let mut inside: BTreeMap<Actor, Vec<usize>> = BTreeMap::new();
        let mut last_stay: BTreeMap<Actor, usize> = BTreeMap::new();
        let mut seen_step = 0;
        for event in &history.events {
            match event.kind {
                EventKind::Command {
                    actor,
                    server,
                    ref text,
                    ref script,
                    ref reply,
                    ref changed,
                    ref sent,
                    ..
                } => {
                    let is_first = std::mem::replace(&mut seen_step, event.step) != event.step;
                    let footprints =
                        if is_first { footprints(history, event.step, actor, server) } else { Vec::new() };
                    let nth = usage.calls.len();
                    let text = history.request_text(text, script.as_ref());
                    usage.calls.push(Call { actor, server, sent, text, reply, changed, footprints });
                    trying.entry(actor).or_default().push(nth);
                    match inside.get(&actor).filter(|stays| !stays.is_empty()) {
                        Some(stays) => {
                            stays.iter().for_each(|&stay| usage.stays[stay].inside.push(nth));
                        }
                        None => {
                            let last = last_stay.get(&actor).map(|&stay| &mut usage.stays[stay]);
                            last.into_iter().for_each(|stay| stay.after.push(nth));
                        }
                    }
                }
                EventKind::Enter { actor, .. } => {
                    let attempt = trying.remove(&actor).unwrap_or_default();
                    inside.entry(actor).or_default().push(usage.stays.len());
                    usage.stays.push(Stay { attempt, ..Stay::default() });
                }
                EventKind::Leave { actor, by, .. } => {
                    let ended = inside.get_mut(&actor).and_then(Vec::pop);
                    last_stay.extend(ended.filter(|_| by != LeftBy::Crash).map(|stay| (actor, stay)));
                    trying.remove(&actor);
                }
                _ => {}
            }
        }
        usage
    }

    /// The keys that the attempt of a stay wrote.
    pub(super) fn attempted(&self, stay: &Stay) -> BTreeSet<Key> {
        stay.attempt.iter().flat_map(|&nth| self.calls[nth].written()).collect()
    }
}

impl Usage<'_> {
    /// The keys that keep the grant of a stay: the attempt wrote them, and the release removes
    /// them. Other keys, such as a counter of fencing tokens, stay on purpose. A sorted set is none
    /// of them, because it may keep the ends of its members itself.
    pub(super) fn lock_keys(&self, stay: &Stay) -> impl Iterator<Item = Key> {
        let is_released = |key: &Key| stay.after.iter().any(|&nth| self.calls[nth].has_removed(key));
        let own = self.attempted(stay).into_iter();
        own.filter(move |key| is_released(key) && !self.is_sorted_set(key))
    }

    pub(super) fn is_sorted_set(&self, key: &Key) -> bool {
        let touched = self.calls.iter().flat_map(Call::touched);
        touched.filter(|(own, ..)| own == key).any(|(_, resource, ..)| {
            matches!(resource, Resource::Key { part: Part::Member(_) | Part::Places(..), .. })
        })
    }
}

impl Call<'_> {
    /// The name in upper case and the arguments, if the request is one command.
    pub(super) fn command(&self) -> Option<(String, &[Vec<u8>])> {
        let [words] = &self.sent.commands[..] else { return None };
        let (name, args) = words.split_first()?;
        Some((String::from_utf8_lossy(name).to_uppercase(), args))
    }

    /// The arguments of the command of one of these names.
    pub(super) fn args_of(&self, names: &[&str]) -> Option<&[Vec<u8>]> {
        self.command().filter(|(name, _)| names.contains(&&**name)).map(|(_, args)| args)
    }

    /// Whether the command has this option.
    pub(super) fn has_option(&self, options: &[&str]) -> bool {
        let is_option =
            |word: &Vec<u8>| options.iter().any(|option| word.eq_ignore_ascii_case(option.as_bytes()));
        self.command().is_some_and(|(_, args)| args.iter().any(is_option))
    }

    /// The key at the beginning of these arguments.
    pub(super) fn first_key(&self, args: &[Vec<u8>]) -> Option<Key> {
        Some((self.server, args.first()?.clone()))
    }

    /// Each key that it read or wrote, with the deadline that it saw or left there.
    pub(super) fn touched(&self) -> impl Iterator<Item = (Key, Resource<'_>, Access, Option<i64>)> {
        let entries = self.footprints.iter().flat_map(|footprint| footprint.iter());
        entries.filter_map(|(resource, access, deadline)| match resource {
            Resource::Key { key, .. } => Some(((self.server, key.to_vec()), resource, access, deadline)),
            _ => None,
        })
    }

    /// The keys that it wrote.
    pub(super) fn written(&self) -> impl Iterator<Item = Key> {
        self.touched().filter(|&(_, _, access, _)| access == Access::Write).map(|(key, ..)| key)
    }

    /// Whether a key that it wrote did not exist after it.
    pub(super) fn has_removed(&self, key: &Key) -> bool {
        let key = show(key);
        self.changed.iter().any(|change| change.value.is_none() && change.key == key)
    }

    /// Whether a key that it wrote was a string after it.
    pub(super) fn has_made_string(&self, key: &Key) -> bool {
        let key = show(key);
        let is_string = |value: &String| value.starts_with('"');
        self.changed.iter().any(|change| change.key == key && change.value.as_ref().is_some_and(is_string))
    }

    /// How long a key that it changed had to live after it, in milliseconds.
    pub(super) fn left_ms(&self, key: &Key) -> Option<i64> {
        let key = show(key);
        self.changed.iter().find(|change| change.key == key)?.left_ms
    }

    /// `A sends SET lock A1 → OK.`
    pub(super) fn said(&self) -> String {
        format!("{} sends {} → {}.", self.actor, self.text, self.reply)
    }
}

/// The keys of all grants for which the servers were checked. Those of a majority are on each.
fn records(history: &History) -> BTreeSet<Key> {
    let checked = history.footprints.iter().flat_map(|footprint| &footprint.records_checked);
    let keys = checked.flat_map(|&(server, ref record)| {
        let servers = if record.is_of_majority() { 0..SERVERS_MAX } else { server..server + 1 };
        servers.map(|server| (server, record.key().as_bytes().to_vec()))
    });
    keys.collect()
}

/// The actions of a server in a step of this client.
fn footprints(history: &History, step: usize, actor: Actor, server: usize) -> Vec<&Footprint> {
    let Some(place) = step.checked_sub(1) else { return Vec::new() };
    if history.steps[place].actor() != Some(actor) {
        return Vec::new();
    }
    let touched = history.footprints[place].servers.iter().filter(|&&(other, _)| other == server);
    touched.map(|(_, footprint)| Arc::as_ref(footprint)).collect()
}

/// A key for people.
pub(super) fn show((_, key): &Key) -> String {
    key.escape_ascii().to_string()
}
