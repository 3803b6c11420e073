//! The parts of a drawn counterexample: lanes, bars, rows and arrows. The page and the picture
//! place them. A kind is the class by which the styles of both draw a part.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Alternative, Counterexample};
use crate::render::story::{
    ClientState, Detail, DetailKind, Entry, Exchange, KeyState, Message, Sender, Strikes,
};

/// Everything that the page and the picture draw.
#[derive(Serialize)]
pub(super) struct View<'a> {
    /// The names above the lanes: time and faults, the clients, the servers.
    pub(super) lanes: Vec<String>,
    pub(super) bars: Vec<Bar>,
    pub(super) rows: Vec<PageRow<'a>>,
    /// The number of characters of the longest name above the lanes but that of time.
    pub(super) name_columns: usize,
    /// The number of digits of the last step.
    pub(super) digits: usize,
    /// The kinds of signs that are drawn, for the legend.
    pub(super) signs: BTreeSet<&'static str>,
    /// The number of acts at the start that have no room.
    pub(super) left_out: usize,
}

/// The state of a client over some rows.
#[derive(Serialize)]
pub(super) struct Bar {
    pub(super) lane: usize,
    pub(super) kind: &'static str,
    /// Its first row, and the row after its last one, from 0.
    pub(super) from: usize,
    pub(super) to: usize,
}

#[derive(Serialize)]
pub(super) struct PageRow<'a> {
    pub(super) step: usize,
    pub(super) kinds: Vec<&'static str>,
    /// The time, if it is not that of the row before.
    pub(super) at_ms: Option<u64>,
    /// The lane of who acts, from 1.
    pub(super) actor: usize,
    pub(super) arrows: Vec<Arrow>,
    pub(super) text: &'a str,
    pub(super) script: &'a [Exchange],
    pub(super) details: Vec<DetailRow<'a>>,
    /// The other steps that were possible here, and their verdicts in words.
    pub(super) others: Vec<&'a Alternative>,
    pub(super) what_if: String,
}

/// A request, its reply, or both.
#[derive(Serialize)]
pub(super) struct Arrow {
    pub(super) kinds: Vec<&'static str>,
    /// The lane of the server, from 1.
    pub(super) server: usize,
}

#[derive(Serialize)]
pub(super) struct DetailRow<'a> {
    pub(super) kind: &'static str,
    pub(super) text: &'a str,
    pub(super) change: Option<Change<'a>>,
}

/// A key whose value has changed from `head`, `old`, `tail` to `head`, `new`, `tail`.
#[derive(Serialize)]
pub(super) struct Change<'a> {
    pub(super) key: String,
    pub(super) is_gone: bool,
    pub(super) head: &'a str,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) tail: &'a str,
    pub(super) left_ms: Option<i64>,
}

impl<'a> View<'a> {
    /// The view of the last acts, as many as have room. `size` is what an act needs of it.
    pub(super) fn of(
        counterexample: &'a Counterexample,
        mut room: usize,
        size: impl Fn(&Entry) -> usize,
    ) -> View<'a> {
        let Counterexample { entries, clients, servers, server_names, neighbours, stressed, .. } =
            counterexample;
        let fits = |entry: &&Entry| {
            let fits = room.checked_sub(size(entry));
            room = fits.unwrap_or_default();
            fits.is_some()
        };
        let left_out = entries.len() - entries.iter().rev().take_while(fits).count();
        let entries = &entries[left_out..];
        let server = |n: usize| {
            let number = || if *servers > 1 { format!("S{}", n + 1) } else { "server".into() };
            server_names.get(n).cloned().unwrap_or_else(number)
        };
        let names = clients.iter().cloned().chain((0..*servers).map(server));
        let lanes: Vec<String> = [String::from("time")].into_iter().chain(names).collect();
        let before = |nth: usize| nth.checked_sub(1).map(|nth| &entries[nth]);
        let near = neighbours.iter().flat_map(|near| &near.alternatives);
        let rows = entries.iter().enumerate().map(|(nth, entry)| {
            let is_first = before(nth).is_none_or(|before| before.step != entry.step);
            let others: Vec<&Alternative> =
                near.clone().filter(|other| is_first && other.step == entry.step).collect();
            // That all others fail, too, says nothing of this step.
            let decides = others.iter().any(|other| other.violation.is_none());
            let others = if decides { others } else { Vec::new() };
            PageRow::new(entry, before(nth), others, lanes[1..].split_at(clients.len()))
        });
        let mut rows: Vec<PageRow<'_>> = rows.collect();
        let is_stressed = |row: &&mut PageRow<'_>| *stressed == Some(row.step);
        rows.iter_mut().filter(is_stressed).for_each(|row| row.kinds.push("stressed"));
        if let Some(last) = rows.last_mut() {
            last.kinds.push("violation");
        }
        let digits = rows.last().map_or(1, |row| row.step.to_string().len());
        let bars = bars(entries, clients.len(), lanes.len());
        let name_columns = lanes[1..].iter().map(|name| name.chars().count()).max().unwrap_or(0);
        View { name_columns, digits, signs: signs(&bars, &rows), bars, rows, lanes, left_out }
    }
}

/// The kinds of signs that are drawn: of bars, of who acts, and of what is lost.
fn signs(bars: &[Bar], rows: &[PageRow<'_>]) -> BTreeSet<&'static str> {
    let arrows = rows.iter().flat_map(|row| &row.arrows).flat_map(|arrow| &arrow.kinds);
    let lost = arrows.filter(|kind| kind.starts_with("lost")).map(|_| "lost");
    let acts = rows.iter().filter(|row| !row.text.is_empty()).map(PageRow::sign);
    bars.iter().map(|bar| bar.kind).chain(lost).chain(acts).collect()
}

/// The bars of all lanes. The first lane is that of time and faults.
fn bars(entries: &[Entry], clients: usize, lanes: usize) -> Vec<Bar> {
    let whole = |lane| Bar { lane, kind: "server", from: 0, to: entries.len() };
    let mut bars: Vec<Bar> = [0].into_iter().chain(clients + 1..lanes).map(whole).collect();
    for client in 0..clients {
        let lane = client + 1;
        for (nth, entry) in entries.iter().enumerate() {
            let states = entry.details.last().map_or(&entry.clients, |detail| &detail.clients);
            let kind = match states[client] {
                ClientState::NotYet => "not-yet",
                ClientState::Running if entry.replying.contains(&client) => "replying",
                ClientState::Running => "runs",
                ClientState::Gone => "gone",
                _ if nth + 1 == entries.len() => "clash",
                ClientState::Inside => "inside",
                ClientState::Believes => "believes",
            };
            match bars.last_mut() {
                Some(last) if last.lane == lane && last.kind == kind => last.to += 1,
                _ => bars.push(Bar { lane, kind, from: nth, to: nth + 1 }),
            }
        }
    }
    bars
}

impl<'a> PageRow<'a> {
    fn new(
        entry: &'a Entry,
        before: Option<&Entry>,
        others: Vec<&'a Alternative>,
        (clients, servers): (&[String], &[String]),
    ) -> PageRow<'a> {
        let clients = clients.len();
        let Entry { step, at_ms, actor, strikes, ref text, ref script, .. } = *entry;
        // The first lane is that of time.
        let lane = match (actor, strikes) {
            (Some(client), _) | (None, Some(Strikes::Client(client))) => client + 2,
            (None, Some(Strikes::Server(server))) => clients + server + 2,
            (None, None) => 1,
        };
        let is_later = before.is_some_and(|before| before.at_ms != at_ms);
        let kinds = [
            (before.is_some_and(|before| before.step == step), "same"),
            (is_later, "later"),
            (actor.is_none(), "outside"),
            (entry.is_fault, "fault"),
        ];
        let kinds = kinds.into_iter().filter_map(|(is_so, kind)| is_so.then_some(kind));
        PageRow {
            step,
            kinds: kinds.collect(),
            at_ms: (is_later || before.is_none()).then_some(at_ms),
            actor: lane,
            arrows: arrows(&entry.messages, clients),
            text,
            script,
            details: entry.details.iter().map(|detail| DetailRow::new(detail, servers)).collect(),
            what_if: what_if(&others),
            others,
        }
    }
}

impl PageRow<'_> {
    /// The sign of who acts, or of what happens.
    pub(super) fn sign(&self) -> &'static str {
        let kinds = ["fault", "outside"].into_iter().find(|kind| self.kinds.contains(kind));
        kinds.unwrap_or("acts")
    }
}

/// The verdicts on other steps in words.
fn what_if(others: &[&Alternative]) -> String {
    let passing = others.iter().filter(|other| other.violation.is_none()).count();
    match (others.len(), passing) {
        (1, _) => "1 other step: passes".into(),
        (n, 1) => format!("{n} other steps: 1 passes"),
        (n, passing) if n == passing => format!("{n} other steps: all pass"),
        (n, passing) => format!("{n} other steps: {passing} pass"),
    }
}

/// A request and its reply are two kinds of one arrow if both move in the same act.
fn arrows(messages: &[Message], clients: usize) -> Vec<Arrow> {
    let mut arrows: Vec<Arrow> = Vec::new();
    for &Message { server, by, is_lost, .. } in messages {
        let server = clients + server + 2;
        let kind = match (by, is_lost) {
            (Sender::Client, false) => "request",
            (Sender::Client, true) => "lost-request",
            (Sender::Server, false) => "reply",
            (Sender::Server, true) => "lost-reply",
        };
        let is_asked = |arrow: &&mut Arrow| arrow.kinds == ["request"] && arrow.server == server;
        match arrows.last_mut().filter(is_asked) {
            Some(request) if by == Sender::Server => request.kinds.push(kind),
            _ => arrows.push(Arrow { kinds: vec![kind], server }),
        }
    }
    arrows
}

impl<'a> DetailRow<'a> {
    fn new(detail: &'a Detail, servers: &[String]) -> DetailRow<'a> {
        let kind = match detail.kind {
            DetailKind::Change => "change",
            DetailKind::Remark => "remark",
        };
        let change = detail.key.as_ref().map(|key| Change::new(key, servers));
        DetailRow { kind, text: &detail.text, change }
    }
}

impl<'a> Change<'a> {
    fn new(KeyState { server, key, before, value, left_ms }: &'a KeyState, servers: &[String]) -> Change<'a> {
        let key = if servers.len() > 1 { format!("{}: {key}", servers[*server]) } else { key.clone() };
        let (is_gone, left_ms) = (value.is_none(), *left_ms);
        let [before, value] = [before, value].map(|value| value.as_deref().unwrap_or_default());
        let (head, tail) = common(before, value);
        let [old, new] = [before, value].map(|value| &value[head..value.len() - tail]);
        Change { key, is_gone, head: &value[..head], old, new, tail: &value[value.len() - tail..], left_ms }
    }
}

/// How many bytes two texts have in common at their starts and at their ends. If a part of a word
/// or of a number has changed, the whole has.
fn common(one: &str, other: &str) -> (usize, usize) {
    let alike = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum::<usize>()
    };
    let head = alike(&mut one.chars().zip(other.chars()));
    let is_in_word = [one, other].iter().any(|text| text[head..].starts_with(char::is_alphanumeric));
    let whole = one[..head].trim_end_matches(char::is_alphanumeric).len();
    let head = if is_in_word { whole } else { head };
    let (one, other) = (&one[head..], &other[head..]);
    let tail = alike(&mut one.chars().rev().zip(other.chars().rev()));
    let starts = [one, other].map(|text| text.len() - tail);
    let is_in_word = one[..starts[0]].ends_with(char::is_alphanumeric)
        || other[..starts[1]].ends_with(char::is_alphanumeric);
    let whole = one[starts[0]..].trim_start_matches(char::is_alphanumeric).len();
    (head, if is_in_word { whole } else { tail })
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
            ("[A1 1]", "[A1 1700]", (4, 1)),
            ("\"A1\"", "\"B1\"", (1, 1)),
            ("aa", "a", (0, 0)),
            ("é 1", "é 2", (3, 0)),
        ] {
            assert_eq!(common(one, other), expected, "{one} {other}");
        }
    }
}
