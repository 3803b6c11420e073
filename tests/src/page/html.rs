//! Renders a counterexample as a page of its own: no network, no other files.
//!
//! The page is a grid with a row for each act. The template writes what [`View`] has; it computes
//! nothing.

use std::io;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use super::{Alternative, Counterexample};
use crate::render::story::{ClientState, Detail, DetailKind, Entry, Exchange, KeyState, Message, Sender};

/// The most bytes of texts on a page. A page with more opens slowly.
const TEXT_BYTES_MAX: usize = 1_700_000;
/// The bytes around the text of an act, about.
const ROW_BYTES: usize = 100;

impl Counterexample {
    /// The counterexample as an HTML page.
    pub fn to_html(&self) -> String {
        let (style, script) = (include_str!("page.css"), include_str!("page.js"));
        let view = View::of(self);
        let values = context! { of => Serde(self), view => Serde(&view), style, script };
        // The end of the name says that values are escaped.
        let page = Environment::new().render_named_str("page.html", include_str!("page.html"), values);
        page.expect("the template is valid, and names only what there is")
    }

    /// Writes the page to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_html(&self, file: impl AsRef<Path>) -> io::Result<()> {
        std::fs::write(file, self.to_html())
    }
}

/// Everything that the template draws.
#[derive(Serialize)]
struct View<'a> {
    /// The names above the lanes: time and faults, the clients, the servers.
    lanes: Vec<String>,
    bars: Vec<Bar>,
    rows: Vec<Row<'a>>,
    /// So many acts at the start are not on the page.
    left_out: usize,
}

/// The state of a client over some rows.
#[derive(Serialize)]
struct Bar {
    lane: usize,
    kind: &'static str,
    /// The lines of the grid before its first row and after its last one. The head has the first
    /// row of the grid.
    from: usize,
    to: usize,
}

#[derive(Serialize)]
struct Row<'a> {
    step: usize,
    kind: String,
    /// The time, if it is not that of the row before.
    at_ms: Option<u64>,
    /// The lane of who acts, from 1.
    actor: usize,
    arrows: Vec<Arrow>,
    text: &'a str,
    script: &'a [Exchange],
    details: Vec<DetailRow<'a>>,
    /// The other steps that were possible here, and with how many of them the property holds.
    others: Vec<&'a Alternative>,
    passing: usize,
}

/// A request, its reply, or both.
#[derive(Serialize)]
struct Arrow {
    kind: &'static str,
    /// The lane of the server, from 1.
    server: usize,
}

#[derive(Serialize)]
struct DetailRow<'a> {
    kind: &'static str,
    text: &'a str,
    change: Option<Change<'a>>,
}

/// A key whose value has changed from `head`, something, `tail` to `head`, `new`, `tail`.
#[derive(Serialize)]
struct Change<'a> {
    key: String,
    is_gone: bool,
    head: &'a str,
    new: &'a str,
    tail: &'a str,
    left_ms: Option<i64>,
}

impl<'a> View<'a> {
    fn of(counterexample: &'a Counterexample) -> View<'a> {
        let Counterexample { entries, clients, servers, neighbours, .. } = counterexample;
        let mut room = TEXT_BYTES_MAX;
        let fits = |entry: &&Entry| {
            let fits = room.checked_sub(size(entry));
            room = fits.unwrap_or_default();
            fits.is_some()
        };
        let left_out = entries.len() - entries.iter().rev().take_while(fits).count();
        let entries = &entries[left_out..];
        let server = |n| if *servers > 1 { format!("S{}", n + 1) } else { "server".into() };
        let names = clients.iter().cloned().chain((0..*servers).map(server));
        let lanes: Vec<String> = [String::from("time")].into_iter().chain(names).collect();
        let before = |nth: usize| nth.checked_sub(1).map(|nth| &entries[nth]);
        let near = neighbours.iter().flat_map(|near| &near.alternatives);
        let rows = entries.iter().enumerate().map(|(nth, entry)| {
            let is_first = before(nth).is_none_or(|before| before.step != entry.step);
            let others = near.clone().filter(|other| is_first && other.step == entry.step).collect();
            Row::new(entry, before(nth), others, (clients.len(), *servers))
        });
        let mut rows: Vec<Row<'_>> = rows.collect();
        if let Some(last) = rows.last_mut() {
            last.kind += " violation";
        }
        View { bars: bars(entries, clients.len(), lanes.len()), rows, lanes, left_out }
    }
}

/// About how many bytes of text the row of an entry has.
fn size(Entry { text, script, details, .. }: &Entry) -> usize {
    let script = script.iter().map(|exchange| exchange.command.len() + exchange.reply.len() + 20);
    let details = details.iter().map(|detail| detail.text.len() + 100);
    ROW_BYTES + text.len() + script.sum::<usize>() + details.sum::<usize>()
}

/// The bars of all lanes. The first lane is that of time and faults.
fn bars(entries: &[Entry], clients: usize, lanes: usize) -> Vec<Bar> {
    let whole = |lane| Bar { lane, kind: "server", from: 2, to: entries.len() + 2 };
    let mut bars: Vec<Bar> = [0].into_iter().chain(clients + 1..lanes).map(whole).collect();
    for client in 0..clients {
        let lane = client + 1;
        for (nth, entry) in entries.iter().enumerate() {
            let states = entry.details.last().map_or(&entry.clients, |detail| &detail.clients);
            let kind = match states[client] {
                ClientState::NotYet => "not-yet",
                ClientState::Running => "runs",
                ClientState::Gone => "gone",
                _ if nth + 1 == entries.len() => "clash",
                ClientState::Inside => "inside",
                ClientState::Believes => "believes",
            };
            match bars.last_mut() {
                Some(last) if last.lane == lane && last.kind == kind => last.to += 1,
                _ => bars.push(Bar { lane, kind, from: nth + 2, to: nth + 3 }),
            }
        }
    }
    bars
}

impl<'a> Row<'a> {
    fn new(
        entry: &'a Entry,
        before: Option<&Entry>,
        others: Vec<&'a Alternative>,
        (clients, servers): (usize, usize),
    ) -> Row<'a> {
        let Entry { step, at_ms, actor, ref text, ref script, .. } = *entry;
        let is_later = before.is_some_and(|before| before.at_ms != at_ms);
        let kinds = [
            (before.is_some_and(|before| before.step == step), "same"),
            (is_later, "later"),
            (actor.is_none(), "outside"),
            (entry.is_fault, "fault"),
        ];
        let kinds = kinds.into_iter().filter_map(|(is_so, kind)| is_so.then_some(kind));
        Row {
            step,
            kind: kinds.collect::<Vec<_>>().join(" "),
            at_ms: (is_later || before.is_none()).then_some(at_ms),
            actor: actor.map_or(1, |actor| actor + 2),
            arrows: arrows(&entry.messages, clients),
            text,
            script,
            details: entry.details.iter().map(|detail| DetailRow::new(detail, servers)).collect(),
            passing: others.iter().filter(|other| other.violation.is_none()).count(),
            others,
        }
    }
}

/// A request that is answered in the same act is one arrow with its reply.
fn arrows(messages: &[Message], clients: usize) -> Vec<Arrow> {
    let mut arrows: Vec<Arrow> = Vec::new();
    for &Message { server, by, is_lost, .. } in messages {
        let server = clients + server + 2;
        let is_asked = |arrow: &&mut Arrow| arrow.kind == "request" && arrow.server == server;
        if by == Sender::Server
            && let Some(request) = arrows.last_mut().filter(is_asked)
        {
            request.kind = if is_lost { "lost-reply" } else { "exchange" };
            continue;
        }
        let kind = match (by, is_lost) {
            (Sender::Client, false) => "request",
            (Sender::Client, true) => "request lost",
            (Sender::Server, false) => "reply",
            (Sender::Server, true) => "reply lost-reply",
        };
        arrows.push(Arrow { kind, server });
    }
    arrows
}

impl<'a> DetailRow<'a> {
    fn new(detail: &'a Detail, servers: usize) -> DetailRow<'a> {
        let kind = match detail.kind {
            DetailKind::Change => "change",
            DetailKind::Remark => "remark",
        };
        let change = detail.key.as_ref().map(|key| Change::new(key, servers));
        DetailRow { kind, text: &detail.text, change }
    }
}

impl<'a> Change<'a> {
    fn new(KeyState { server, key, before, value, left_ms }: &'a KeyState, servers: usize) -> Change<'a> {
        let key = if servers > 1 { format!("S{}: {key}", server + 1) } else { key.clone() };
        let (is_gone, left_ms) = (value.is_none(), *left_ms);
        let value = value.as_deref().unwrap_or_default();
        let (head, tail) = common(before.as_deref().unwrap_or_default(), value);
        let new = &value[head..value.len() - tail];
        Change { key, is_gone, head: &value[..head], new, tail: &value[value.len() - tail..], left_ms }
    }
}

/// How many bytes two texts have in common at their starts and at their ends.
fn common(one: &str, other: &str) -> (usize, usize) {
    let alike = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum::<usize>()
    };
    let head = alike(&mut one.chars().zip(other.chars()));
    let tail = alike(&mut one[head..].chars().rev().zip(other[head..].chars().rev()));
    (head, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_texts_have_in_common() {
        for (one, other, expected) in [
            ("", "[A1 1]", (0, 0)),
            ("[A1 1]", "[A1 1, B1 2]", (5, 1)),
            ("\"A1\"", "\"A1\"", (4, 0)),
            ("aa", "a", (1, 0)),
            ("é1", "é2", (2, 0)),
        ] {
            assert_eq!(common(one, other), expected, "{one} {other}");
        }
    }
}
