//! The log of the judge: who was inside, and when.

use std::collections::BTreeMap;

/// How many clients may be inside at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// One.
    One,
    /// So many.
    Many(usize),
    /// Any number that reads, or one that writes.
    Readers,
}

/// An entry. On the server, it is the name of a client and these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The client reads or writes, and has this fencing token.
    Enters {
        writes: bool,
        token: Option<i64>,
    },
    Leaves,
    /// The client left, and its grant was lost by then: from when on is not known.
    LeavesLate,
    /// The process of the client is dead. The name is that of the process.
    Dead,
}

impl Entry {
    pub(super) fn to_words(&self) -> String {
        match self {
            Entry::Enters { writes, token: None } => format!("enters {writes}"),
            Entry::Enters { writes, token: Some(token) } => format!("enters {writes} {token}"),
            Entry::Leaves => "leaves".into(),
            Entry::LeavesLate => "leaves late".into(),
            Entry::Dead => "dead".into(),
        }
    }

    fn from_words(words: &[&str]) -> Entry {
        match words {
            ["enters", writes] => Entry::Enters { writes: writes.parse().unwrap(), token: None },
            ["enters", writes, token] => {
                Entry::Enters { writes: writes.parse().unwrap(), token: Some(token.parse().unwrap()) }
            }
            ["leaves"] => Entry::Leaves,
            ["leaves", "late"] => Entry::LeavesLate,
            ["dead"] => Entry::Dead,
            other => panic!("not an entry: {other:?}"),
        }
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// How often each client was inside, if its process lives. The name of a client begins with
    /// that of its process.
    pub(super) entries: BTreeMap<String, usize>,
    /// The clients of the dead process that were inside.
    pub(super) of_dead: usize,
    /// How often a client was inside to write, and its grant was not lost.
    pub(super) writes: usize,
    pub(super) late: usize,
    /// Events that must never happen, in words.
    pub(super) violations: Vec<String>,
}

/// Reads a log, the oldest entry first.
pub(super) fn judge(log: &[String], limit: Limit) -> Findings {
    let entries: Vec<(&str, Entry)> = log.iter().map(|line| parse(line)).collect();
    let mut findings = Findings::default();
    let mut inside: BTreeMap<&str, bool> = BTreeMap::new();
    let mut last_token = 0;
    for (nth, (client, entry)) in entries.iter().enumerate() {
        match *entry {
            Entry::Enters { writes, token } => {
                *findings.entries.entry((*client).to_owned()).or_default() += 1;
                findings.writes += usize::from(writes);
                if let Some(token) = token
                    && std::mem::replace(&mut last_token, token) >= token
                {
                    findings.violations.push(format!("entry {nth}: {client} has token {token} too late"));
                }
                // Nobody judges a client whose grant was lost.
                if leaves(&entries[nth..], client) == Some(&Entry::LeavesLate) {
                    continue;
                }
                inside.insert(client, writes);
                if !is_allowed(&inside, limit) {
                    findings.violations.push(format!("entry {nth}: inside are {inside:?}"));
                }
            }
            Entry::Leaves => _ = inside.remove(client),
            Entry::LeavesLate => findings.late += 1,
            Entry::Dead => {
                inside.retain(|other, _| !other.starts_with(client));
                findings.of_dead += findings.entries.len();
                findings.entries.retain(|other, _| !other.starts_with(client));
                findings.of_dead -= findings.entries.len();
            }
        }
    }
    findings
}

fn parse(line: &str) -> (&str, Entry) {
    let words: Vec<&str> = line.split(' ').collect();
    (words[0], Entry::from_words(&words[1..]))
}

/// How a client that has entered leaves again.
fn leaves<'a>(entries: &'a [(&str, Entry)], client: &str) -> Option<&'a Entry> {
    entries.iter().skip(1).find(|(other, _)| *other == client).map(|(_, entry)| entry)
}

fn is_allowed(inside: &BTreeMap<&str, bool>, limit: Limit) -> bool {
    match limit {
        Limit::One => inside.len() <= 1,
        Limit::Many(permits) => inside.len() <= permits,
        Limit::Readers => inside.len() <= 1 || inside.values().all(|writes| !writes),
    }
}

#[test]
fn a_log_shows_who_was_inside_together() {
    let violations = |limit, log: &str| {
        let lines: Vec<String> = log.split("; ").map(ToOwned::to_owned).collect();
        judge(&lines, limit).violations.len()
    };
    assert_eq!(violations(Limit::One, "p1 enters true 7; p1 leaves; q1 enters true 8; q1 leaves"), 0);
    assert_eq!(violations(Limit::One, "p1 enters true; q1 enters true; p1 leaves; q1 leaves"), 1);
    assert_eq!(violations(Limit::One, "p1 enters true; q1 enters true; p1 leaves late; q1 leaves"), 0);
    assert_eq!(violations(Limit::One, "p1 enters true; p dead; q1 enters true; q1 leaves"), 0);
    assert_eq!(violations(Limit::One, "p1 enters true 8; p1 leaves; q1 enters true 8; q1 leaves"), 1);
    assert_eq!(violations(Limit::Many(2), "p1 enters true; q1 enters true; q2 enters true"), 1);
    assert_eq!(violations(Limit::Readers, "p1 enters false; q1 enters false; q2 enters true"), 1);
}
