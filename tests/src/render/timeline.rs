//! A history as text for people: one line for each step, one column for each client, and a sentence
//! at each important event.

use std::fmt::Write as _;
use std::time::Duration;

use super::story::{ClientState, DetailKind, Entry, Teller, format_time, tell};
use crate::actor::Actor;
use crate::oracle::Violation;
use crate::render::printable;
use crate::trace::{Event, History};

/// Renders the history up to the violation.
///
/// A column shows `·` before its client starts, `│` while it runs, `┃` while it is inside, and `●`
/// when it acts.
pub fn render(history: &History, actors: usize, violation: Option<&Violation>) -> String {
    let last_step = violation.map_or(usize::MAX, |violation| violation.step);
    let mut text = head(actors) + &draw(&tell(history, actors, last_step), 0);
    if let Some(violation) = violation {
        _ = writeln!(text, "\n✗ {}.", printable(&violation.what));
    }
    text
}

/// Renders the common part of two executions of one schedule, and the step in which they differ;
/// `None` if they do not differ.
pub fn render_difference(one: &History, other: &History, actors: usize) -> Option<String> {
    let alike = |(one, other): &(&Event, &Event)| format!("{one:?}") == format!("{other:?}");
    let common = one.events.iter().zip(&other.events).take_while(alike).count();
    if common == one.events.len() && common == other.events.len() {
        return None;
    }
    let draw_both = |history: &History| {
        let mut teller = Teller::new(history, actors);
        let (before, after) = history.events.split_at(common);
        before.iter().for_each(|event| teller.event(event));
        let entries = std::mem::take(&mut teller.entries);
        let (before, last) =
            (head(actors) + &draw(&entries, 0), entries.last().map_or(0, |entry| entry.step));
        let Some(first) = after.first() else { return (before, "nothing more happened\n".into()) };
        after.iter().take_while(|event| event.step == first.step).for_each(|event| teller.event(event));
        let mut text = draw(&teller.entries, last);
        // The timeline may not show the event that differs.
        if text.is_empty() {
            text = format!("{:?}\n", first.kind);
        }
        (before, text)
    };
    let ((before, once), (_, again)) = (draw_both(one), draw_both(other));
    Some(format!("{before}\nNext, in the first execution:\n{once}\nNext, in the second execution:\n{again}"))
}

fn head(actors: usize) -> String {
    let names: Vec<String> = (0..actors).map(|n| Actor(n).to_string()).collect();
    format!("step        time  {}\n", names.join(" "))
}

/// Draws entries. The step before them is shown already.
fn draw(entries: &[Entry], mut step: usize) -> String {
    let mut text = String::new();
    for entry in entries {
        if !entry.text.is_empty() {
            // The number and the time of its step, the columns with a mark for the client that
            // acts, and the act.
            let number = if entry.step == step { String::new() } else { entry.step.to_string() };
            step = entry.step;
            let (at, columns) =
                (format_time(Duration::from_millis(entry.at_ms)), columns(&entry.clients, entry.actor));
            _ = writeln!(text, "{number:>4} {at:>11}  {columns}  {}", printable(&entry.text));
        }
        for detail in &entry.details {
            let columns = columns(&detail.clients, None);
            // An error text may have several lines.
            for (nth, line) in detail.text.lines().enumerate() {
                let mark = match detail.kind {
                    DetailKind::Remark if nth == 0 => "  ▸",
                    DetailKind::Remark | DetailKind::Change => "   ",
                };
                _ = writeln!(text, "{:16}  {columns}  {mark} {}", "", printable(line));
            }
        }
    }
    text
}

fn columns(clients: &[ClientState], acting: Option<usize>) -> String {
    let draw = |(n, client): (usize, &ClientState)| match client {
        _ if acting == Some(n) => "●",
        ClientState::NotYet => "·",
        ClientState::Running => "│",
        ClientState::Inside => "┃",
        ClientState::Gone => " ",
    };
    clients.iter().enumerate().map(draw).collect::<Vec<_>>().join(" ")
}
