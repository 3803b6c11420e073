//! After its last step, a history may go on for long: while a lease passes, a task renews its grant
//! again and again. What repeats there is told once.

use std::time::Duration;

use super::format::format_time;
use super::story::{Detail, DetailKind, Entry};

/// The number of entries of a round: time passes, and a client acts.
const ROUND: usize = 2;
/// The fewest rounds that are folded.
const ROUNDS_MIN: usize = 3;

/// Folds the rounds after the last step that differ in their times alone.
pub(super) fn fold(mut entries: Vec<Entry>) -> Vec<Entry> {
    let Some(last) = entries.last().map(|entry| entry.step) else { return entries };
    let mut at = entries.partition_point(|entry| entry.step < last) + 1;
    while at + ROUND <= entries.len() {
        let rounds = entries[at..].chunks_exact(ROUND);
        let equal = rounds.take_while(|round| repeats(&entries[at..], round)).count();
        if equal >= ROUNDS_MIN {
            let end = at + equal * ROUND;
            let until = format_time(Duration::from_millis(entries[end - 1].at_ms));
            entries.drain(at + ROUND..end);
            let act = &mut entries[at + 1];
            let text = format!("The same happens {} more times, until {until}.", equal - 1);
            let clients = act.clients.clone();
            act.details.push(Detail { kind: DetailKind::Remark, text, clients, key: None });
        }
        at += 1;
    }
    entries
}

/// Whether a round is like the first one but for its times.
fn repeats(first: &[Entry], round: &[Entry]) -> bool {
    let texts = |entry: &Entry| {
        let details = entry.details.iter().map(|detail| detail.text.clone());
        (entry.actor, entry.text.clone(), details.collect::<Vec<_>>(), entry.clients.clone())
    };
    let is_round = round[0].actor.is_none() && !round[0].is_fault && round[1].actor.is_some();
    is_round && first.iter().zip(round).all(|(one, other)| texts(one) == texts(other))
}
