//! A history as text for people: one line for each step, one column for each client, and a sentence
//! at each important event.

use std::fmt::Write as _;
use std::time::Duration;

use crate::actor::Actor;
use crate::fault::{Description, Fault};
use crate::oracle::{Violation, list};
use crate::render::printable;
use crate::trace::{Event, EventKind, History};

/// The state of a client's column between its events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    NotYet,
    Running,
    Inside,
    Gone,
}

/// Renders the history up to the violation.
///
/// A column shows `·` before its client starts, `│` while it runs, `┃` while it is inside, and `●`
/// when it acts.
pub fn render(history: &History, actors: usize, violation: Option<&Violation>) -> String {
    let last_step = violation.map_or(usize::MAX, |violation| violation.step);
    let mut timeline = Timeline::new(history, actors);
    timeline.events(history.events.iter().filter(|event| event.step <= last_step));
    if let Some(violation) = violation {
        _ = writeln!(timeline.text, "\n✗ {}.", printable(&violation.what));
    }
    timeline.text
}

/// Renders the common part of two executions of one schedule, and the step in which they differ;
/// `None` if they do not differ.
pub fn render_difference(one: &History, other: &History, actors: usize) -> Option<String> {
    let alike = |(one, other): &(&Event, &Event)| format!("{one:?}") == format!("{other:?}");
    let common = one.events.iter().zip(&other.events).take_while(alike).count();
    if common == one.events.len() && common == other.events.len() {
        return None;
    }
    let draw = |history: &History| {
        let mut timeline = Timeline::new(history, actors);
        let (before, after) = history.events.split_at(common);
        timeline.events(before);
        let before = std::mem::take(&mut timeline.text);
        let Some(first) = after.first() else { return (before, "nothing more happened\n".into()) };
        timeline.events(after.iter().take_while(|event| event.step == first.step));
        // The timeline may not show the event that differs.
        if timeline.text.is_empty() {
            timeline.text = format!("{:?}\n", first.kind);
        }
        (before, timeline.text)
    };
    let ((before, once), (_, again)) = (draw(one), draw(other));
    Some(format!("{before}\nNext, in the first execution:\n{once}\nNext, in the second execution:\n{again}"))
}

struct Timeline {
    columns: Vec<Column>,
    text: String,
    step: usize,
    /// The client that is about to send the first command of its release.
    leaving: Option<Actor>,
    /// Whether the history has several sections. Then the timeline names the section of a client.
    has_sections: bool,
}

impl Timeline {
    /// A timeline with only its head.
    fn new(history: &History, actors: usize) -> Timeline {
        let names: Vec<String> = (0..actors).map(|n| Actor(n).to_string()).collect();
        Timeline {
            columns: vec![Column::NotYet; actors],
            text: format!("step        time  {}\n", names.join(" ")),
            step: 0,
            leaving: None,
            has_sections: has_sections(history),
        }
    }

    fn events<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) {
        events.into_iter().for_each(|event| self.event(event));
    }

    fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Command { actor, server, text, reply, changed, .. } => {
                let to = if *server > 0 { format!(" to {}", server + 1) } else { String::new() };
                self.line(event, Some(*actor), &format!("{actor}{to}: {text} → {reply}"));
                changed.iter().for_each(|key| self.note(&format!("now {key}")));
                self.left(*actor);
            }
            EventKind::Message { actor, text, .. } => {
                self.line(event, Some(*actor), &format!("{actor} receives {text}"));
            }
            EventKind::Received { actor } => {
                self.line(event, Some(*actor), &format!("{actor} receives the reply"));
            }
            EventKind::Fault { fault, request } => self.fault(event, *fault, request),
            EventKind::Started { actor } => {
                self.line(
                    event,
                    Some(*actor),
                    &format!("{actor} starts, reads its clock, and stalls before its first command"),
                );
            }
            EventKind::Advanced { by, .. } => self.line(event, None, &format!("{} ms pass", by.as_millis())),
            EventKind::Enter { actor, section, until, .. } => self.entered(*actor, section, *until),
            EventKind::Extended { actor, until, .. } => {
                let until = format_time(*until);
                self.say(&format!("{actor} is granted the section once more. Its lease runs until {until}."));
            }
            // The history records this event just before the first command of the release.
            EventKind::Leave { actor, .. } => {
                self.set(*actor, Column::Running);
                self.leaving = Some(*actor);
            }
            kind => self.say(&sentence(kind).unwrap_or_default()),
        }
    }

    fn entered(&mut self, actor: Actor, section: &str, until: Duration) {
        self.set(actor, Column::Inside);
        let is_inside = |&(_, column): &(usize, &Column)| *column == Column::Inside;
        let inside: Vec<Actor> =
            self.columns.iter().enumerate().filter(is_inside).map(|(n, _)| Actor(n)).collect();
        let now =
            if inside.len() > 1 { format!(" Now {} are inside.", list(&inside)) } else { String::new() };
        let section = if self.has_sections { format!(" ({section})") } else { String::new() };
        self.say(&format!("{actor} is inside{section}. Its lease runs until {}.{now}", format_time(until)));
    }

    fn fault(&mut self, event: &Event, fault: Fault, request: &str) {
        let actor = fault.target.actor();
        match (fault.kind.row().describe)(fault, request) {
            Description::OfClient(what) => {
                self.line(event, actor, &what);
                actor.into_iter().for_each(|actor| self.left(actor));
            }
            Description::EndOfClient(what) => {
                self.leaving = None;
                self.line(event, actor, &what);
                actor.into_iter().for_each(|actor| self.set(actor, Column::Gone));
            }
            Description::Outside(what) => self.line(event, None, &what),
            Description::Remark(what) => self.say(&what),
        }
    }

    /// If this was the first command of the actor's release, notes the release.
    fn left(&mut self, actor: Actor) {
        if self.leaving.take_if(|leaving| *leaving == actor).is_some() {
            self.say(&format!("{actor} releases the lock, and no longer counts as a holder."));
        }
    }

    fn set(&mut self, actor: Actor, state: Column) {
        if let Some(column) = self.columns.get_mut(actor.0) {
            *column = state;
        }
    }

    /// Writes the line of a step: its number and time, the columns with a mark for the acting
    /// client, and the action.
    fn line(&mut self, event: &Event, actor: Option<Actor>, what: &str) {
        // A probe has no column and takes no step.
        if actor.is_some_and(|actor| actor.0 >= self.columns.len()) {
            return self.note(what);
        }
        if let Some(Actor(n)) = actor
            && self.columns[n] == Column::NotYet
        {
            self.columns[n] = Column::Running;
        }
        let number = if event.step == self.step { String::new() } else { event.step.to_string() };
        self.step = event.step;
        let columns = self.draw(actor);
        let what = printable(what);
        _ = writeln!(self.text, "{number:>4} {:>11}  {columns}  {what}", format_time(event.at));
    }

    /// Writes a detail of the line above.
    fn note(&mut self, what: &str) {
        let columns = self.draw(None);
        _ = writeln!(self.text, "{:16}  {columns}      {}", "", printable(what));
    }

    /// Writes a sentence on an important event. An error text may have several lines.
    fn say(&mut self, sentence: &str) {
        let columns = self.draw(None);
        for (nth, line) in sentence.lines().enumerate() {
            let mark = if nth == 0 { "▸" } else { " " };
            _ = writeln!(self.text, "{:16}  {columns}    {mark} {}", "", printable(line));
        }
    }

    fn draw(&self, acting: Option<Actor>) -> String {
        let draw = |(n, column): (usize, &Column)| match column {
            _ if acting == Some(Actor(n)) => "●",
            Column::NotYet => "·",
            Column::Running => "│",
            Column::Inside => "┃",
            Column::Gone => " ",
        };
        self.columns.iter().enumerate().map(draw).collect::<Vec<_>>().join(" ")
    }
}

/// The sentence on an event that has no line of its own.
fn sentence(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Accepted { actor, resource, token, .. } => {
            format!("{resource} accepts {actor}'s write with token {token}.")
        }
        EventKind::Late { actor } => format!("This request comes late: {actor} has given it up."),
        EventKind::Ended { holder, by } => {
            format!("With this, {by} has ended the grant of {holder}, whose lease still runs.")
        }
        EventKind::Shortened { holder, by } => {
            format!("With this, {by} has shortened the grant of {holder}: it ends before the lease.")
        }
        EventKind::Overrun { actor } => {
            format!("The lease of {actor} is over, and {actor} is still inside.")
        }
        EventKind::Probed { granted, wanted, after_lease } => {
            let when = if *after_lease {
                "All clients have ended, and more than a lease has passed."
            } else {
                "All clients have ended, none crashed, and no message was lost."
            };
            format!("{when} Fresh clients try: {granted} of {wanted} are granted.")
        }
        EventKind::Failed { actor, error } => format!("{actor} failed: {error}"),
        EventKind::SubscriptionEnded { actor, channel } => {
            format!("{actor} receives no more messages of {channel}: the connection has broken.")
        }
        EventKind::GaveUp { actor, error } => format!("{actor} gives up: {error}"),
        EventKind::Endless { actor, limit } => format!("{actor} does not come to its end: {limit}."),
        EventKind::Stuck { actor } => format!("{actor} waits for something that never comes."),
        EventKind::Command { .. }
        | EventKind::Message { .. }
        | EventKind::Received { .. }
        | EventKind::Fault { .. }
        | EventKind::Started { .. }
        | EventKind::Advanced { .. }
        | EventKind::Enter { .. }
        | EventKind::Extended { .. }
        | EventKind::Leave { .. }
        | EventKind::RetriesEnded { .. } => return None,
    })
}

fn has_sections(history: &History) -> bool {
    let mut entered = history.events.iter().filter_map(|event| match event.kind {
        EventKind::Enter { section, .. } => Some(section),
        _ => None,
    });
    let first = entered.next();
    entered.any(|section| Some(section) != first)
}

fn format_time(at: Duration) -> String {
    format!("+{} ms", at.as_millis())
}
