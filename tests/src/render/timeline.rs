//! A history as text for people: a line for each step, a column for each client, and a sentence at
//! each important event.

use std::fmt::Write as _;
use std::time::Duration;

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::format::format_time;
use super::story::{ClientState, DetailKind, Entry};
use super::teller::{Teller, tell};
use crate::actor::Actor;
use crate::oracle::Violation;
use crate::render::printable;
use crate::trace::{Event, History};

/// Renders the history up to the violation.
///
/// A column shows `·` before its client starts, `│` while it runs, `┃` while it is inside, and `●`
/// when it acts. If the client believes to be inside and its grant has ended, the column shows `╏`.
/// No line is longer than `width`, unless a word is.
pub fn render(history: &History, actors: usize, violation: Option<&Violation>, width: usize) -> String {
    let last_step = violation.map_or(usize::MAX, |violation| violation.step);
    let entries = tell(history, actors, last_step);
    let mut text = head(actors, &entries, width) + &draw(&entries, 0, width);
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
        let (before, last) = (
            head(actors, &entries, ANY) + &draw(&entries, 0, ANY),
            entries.last().map_or(0, |entry| entry.step),
        );
        let Some(first) = after.first() else { return (before, "nothing more happened\n".into()) };
        after.iter().take_while(|event| event.step == first.step).for_each(|event| teller.event(event));
        let mut text = draw(&teller.entries, last, ANY);
        // The timeline may not show the event that differs.
        if text.is_empty() {
            text = format!("{:?}\n", first.kind);
        }
        (before, text)
    };
    let ((before, once), (_, again)) = (draw_both(one), draw_both(other));
    Some(format!("{before}\nNext, in the first execution:\n{once}\nNext, in the second execution:\n{again}"))
}

/// The width of text that is not wrapped.
pub(crate) const ANY: usize = usize::MAX;
/// The columns of the numbers and times.
const MARGIN: usize = 16;
/// Text is not wrapped to fewer columns than these.
const TEXT_MIN: usize = 30;

/// The names of the columns, and the meaning of the marks. Without sections, nobody is inside.
fn head(actors: usize, entries: &[Entry], width: usize) -> String {
    let is_inside = |state: &ClientState| matches!(state, ClientState::Inside | ClientState::Believes);
    let states = entries.iter().flat_map(|entry| {
        entry.clients.iter().chain(entry.details.iter().flat_map(|detail| &detail.clients))
    });
    let marks = if states.into_iter().any(is_inside) { MARKS } else { MARKS_OUTSIDE };
    let names: Vec<String> = (0..actors).map(|n| Actor(n).to_string()).collect();
    let head = format!("step        time  {}", names.join(" "));
    if head.chars().count() + 2 + marks.chars().count() > width {
        return format!("{marks}\n{head}\n");
    }
    format!("{head}  {marks}\n")
}

const MARKS_OUTSIDE: &str = "● acts · not begun │ runs";
const MARKS: &str = "● acts · not begun │ runs ┃ inside ╏ its grant has ended";

/// Draws entries. The step before them is shown already.
fn draw(entries: &[Entry], mut step: usize, width: usize) -> String {
    let mut text = String::new();
    for entry in entries {
        if !entry.text.is_empty() {
            // The number and the time of its step, the columns with a mark for the client that
            // acts, and the act.
            let number = if entry.step == step { String::new() } else { entry.step.to_string() };
            step = entry.step;
            let at = format_time(Duration::from_millis(entry.at_ms));
            let lines =
                Lines { first: columns(&entry.clients, entry.actor), more: columns(&entry.clients, None) };
            lines.draw(&mut text, &format!("{number:>4} {at:>11}"), ["", "  "], &entry.text, width);
        }
        for detail in &entry.details {
            let columns = columns(&detail.clients, None);
            let lines = Lines { first: columns.clone(), more: columns };
            // An error text may have several lines.
            for (nth, line) in detail.text.lines().enumerate() {
                let mark = match detail.kind {
                    DetailKind::Remark if nth == 0 => "  ▸ ",
                    DetailKind::Remark | DetailKind::Change => "    ",
                };
                lines.draw(&mut text, "", [mark, "      "], line, width);
            }
        }
    }
    text
}

/// The columns of a text: in its first line, and in the lines to which it is wrapped.
struct Lines {
    first: String,
    more: String,
}

impl Lines {
    /// Draws a text with these indents of the first line and of the others.
    fn draw(&self, to: &mut String, margin: &str, indents: [&str; 2], text: &str, width: usize) {
        let room = width.saturating_sub(MARGIN + 4 + self.first.chars().count()).max(TEXT_MIN);
        let options = Options::new(room)
            .initial_indent(indents[0])
            .subsequent_indent(indents[1])
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .break_words(false);
        for (nth, line) in textwrap::wrap(&printable(text), options).into_iter().enumerate() {
            let (margin, columns) = if nth == 0 { (margin, &self.first) } else { ("", &self.more) };
            _ = writeln!(to, "{margin:MARGIN$}  {columns}  {line}");
        }
    }
}

fn columns(clients: &[ClientState], acting: Option<usize>) -> String {
    let draw = |(n, client): (usize, &ClientState)| match client {
        _ if acting == Some(n) => "●",
        ClientState::NotYet => "·",
        ClientState::Running => "│",
        ClientState::Inside => "┃",
        ClientState::Believes => "╏",
        ClientState::Gone => " ",
    };
    clients.iter().enumerate().map(draw).collect::<Vec<_>>().join(" ")
}
