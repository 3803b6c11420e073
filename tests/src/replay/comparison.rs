//! Compares the replies of two servers.
//!
//! Random names may differ, if each name in one always corresponds to one name in the other. Times
//! may differ by the difference of the two starts, and a little more.

use std::collections::BTreeMap;
use std::time::Duration;

use emulator::Timestamp;

/// Names shorter than this are not random.
const CHANCE_BYTES_MIN: usize = 8;
/// A number counts as an instant if it is no further than this from the start of the execution.
const EXECUTION_MAX: Duration = Duration::from_secs(10 * 24 * 60 * 60);
/// The commands whose replies may be remaining times, with the unit. Scripts and transactions may
/// return milliseconds.
const SPANS: [(&str, Duration); 12] = [
    ("TTL", SECOND),
    ("PTTL", MILLI),
    ("EXPIRETIME", SECOND),
    ("PEXPIRETIME", MILLI),
    ("EVAL", MILLI),
    ("EVAL_RO", MILLI),
    ("EVALSHA", MILLI),
    ("EVALSHA_RO", MILLI),
    ("FCALL", MILLI),
    ("FCALL_RO", MILLI),
    ("MULTI", MILLI),
    ("EXEC", MILLI),
];
const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// The known facts about two executions of one schedule.
pub(crate) struct ReplyComparison {
    /// The starts of both.
    starts: (Timestamp, Timestamp),
    /// By how much more times may differ.
    slack: Duration,
    /// The names in the second that correspond to those in the first, and the reverse.
    names: [BTreeMap<String, String>; 2],
    /// Some words were times, which differ by little.
    pub(crate) has_times: bool,
}

impl ReplyComparison {
    pub(crate) fn new(starts: (Timestamp, Timestamp), slack: Duration) -> ReplyComparison {
        ReplyComparison { starts, slack, names: Default::default(), has_times: false }
    }

    /// Whether two texts mean the same. Each is a command or its reply. `command` is the command's
    /// name, and the second one ran `late`.
    pub(crate) fn is_same(&mut self, command: &str, first: &str, second: &str, late: Duration) -> bool {
        // Two clocks always differ, so their replies are not compared.
        command == "TIME" || {
            let (first, second) = (words(first), words(second));
            first.len() == second.len()
                && first
                    .into_iter()
                    .zip(second)
                    .all(|(first, second)| self.is_same_word(command, first, second, late))
        }
    }

    fn is_same_word(&mut self, command: &str, first: &str, second: &str, late: Duration) -> bool {
        first == second
            || match (first.parse::<i64>(), second.parse::<i64>()) {
                (Ok(first), Ok(second)) => {
                    let is_time = self.is_same_instant(first, second, late)
                        || self.is_same_span(command, first, second);
                    self.has_times |= is_time;
                    is_time
                }
                _ => self.is_same_name(first, second),
            }
    }

    /// Instants may be in seconds, milliseconds or microseconds.
    fn is_same_instant(&self, first: i64, second: i64, late: Duration) -> bool {
        let slack = self.slack + late;
        [1, 1_000, 1_000_000].into_iter().any(|per_second: i64| {
            let unit = Duration::from_secs(1).as_micros() as i64 / per_second;
            let since =
                |number: i64, start: Timestamp| number.saturating_mul(unit).saturating_sub(start.micros());
            let (first, second) = (since(first, self.starts.0), since(second, self.starts.1));
            let longest = EXECUTION_MAX.as_micros() as u64;
            first.unsigned_abs() < longest
                && second.unsigned_abs() < longest
                && first.abs_diff(second) <= slack.as_micros() as u64 + unit as u64
        })
    }

    /// Numbers as small as the slack are not times in milliseconds, but counts.
    fn is_same_span(&self, command: &str, first: i64, second: i64) -> bool {
        let Some((_, unit)) = SPANS.iter().find(|(name, _)| *name == command) else { return false };
        let slack = (self.slack.as_micros() / unit.as_micros()) as u64;
        let differ = first.abs_diff(second);
        if *unit == SECOND {
            differ <= slack + 1
        } else {
            first.min(second) > slack as i64 && differ <= slack
        }
    }

    fn is_same_name(&mut self, first: &str, second: &str) -> bool {
        if first.len() != second.len() || first.len() < CHANCE_BYTES_MIN {
            return false;
        }
        let [there, back] = &mut self.names;
        let there = there.entry(first.into()).or_insert_with(|| second.into());
        let back = back.entry(second.into()).or_insert_with(|| first.into());
        there == second && back == first
    }
}

/// Whether both are replies of this `WAIT` that count enough replicas. Redis replies as soon as
/// enough have acknowledged, however many do so later.
pub(crate) fn are_enough(command: &str, first: &str, second: &str) -> bool {
    let Some(wanted) = command.strip_prefix("WAIT ").and_then(|rest| rest.split(' ').next()) else {
        return false;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let Some(wanted) = number(wanted) else { return false };
    [first, second].iter().all(|reply| number(reply).is_some_and(|reached| reached >= wanted))
}

/// Splits a text into words and the separators between them.
fn words(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        words.push(word);
        rest = behind;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies_of_both() -> ReplyComparison {
        let there = Timestamp::from_millis(1_800_000_000_000);
        ReplyComparison::new((Timestamp::EPOCH, there), Duration::from_millis(200))
    }

    #[test]
    fn times_within_slack() {
        let mut replies_of_both = replies_of_both();
        let mut same =
            |command, first, second| replies_of_both.is_same(command, first, second, Duration::ZERO);
        assert!(same("ZADD", "ZADD k 1700000001000 A1", "ZADD k 1800000001150 A1"));
        assert!(!same("ZADD", "ZADD k 1700000001000 A1", "ZADD k 1800000001300 A1"));
        assert!(same("GET", "\"1700000001\"", "\"1800000001\""));
        assert!(same("PTTL", "1000", "850"));
        assert!(!same("PTTL", "1000", "700"));
        assert!(!same("PTTL", "-1", "-2"));
        assert!(same("TTL", "2", "1"));
        assert!(same("EVALSHA", "990", "1000"));
        assert!(!same("EVALSHA", "0", "1"));
        assert!(!same("INCR", "1000", "1001"));
        assert!(same("TIME", "[\"1700000000\", \"0\"]", "[\"1800000000\", \"123456\"]"));
        let late = Duration::from_millis(100);
        assert!(replies_of_both.is_same("ZADD", "1700000001000", "1800000001300", late));
        assert!(!replies_of_both.is_same("ZADD", "1700000001000", "1800000001302", late));
    }

    #[test]
    fn more_replicas_than_wanted_are_enough() {
        assert!(are_enough("WAIT 1 100", "2", "1"));
        assert!(!are_enough("WAIT 2 100", "2", "1"));
        assert!(!are_enough("WAIT 0 100", "0", "error"));
        assert!(!are_enough("WAITAOF 0 1 100", "2", "1"));
    }

    #[test]
    fn times_are_noticed() {
        let mut replies_of_both = replies_of_both();
        assert!(replies_of_both.is_same("GET", "\"5\"", "\"5\"", Duration::ZERO));
        assert!(!replies_of_both.has_times);
        assert!(replies_of_both.is_same("PTTL", "1000", "990", Duration::ZERO));
        assert!(replies_of_both.has_times);
    }

    #[test]
    fn names_drawn_by_chance_stand_for_each_other() {
        let mut replies_of_both = replies_of_both();
        let mut same = |first, second| replies_of_both.is_same("SET", first, second, Duration::ZERO);
        assert!(same("SET lock f81d4fae-7dec-11d0", "SET lock 0d9b22c1-aaaa-4bcd"));
        assert!(same("\"f81d4fae-7dec-11d0\"", "\"0d9b22c1-aaaa-4bcd\""));
        assert!(!same("\"f81d4fae-7dec-11d0\"", "\"77777777-aaaa-4bcd\""));
        assert!(!same("\"12345678-7dec-11d0\"", "\"0d9b22c1-aaaa-4bcd\""));
        assert!(!same("SET lock A1", "SET lock B1"));
        assert!(!same("OK", "OK OK"));
    }
}
