//! Renders a counterexample as a picture for READMEs and pull requests: an SVG without scripts,
//! fonts or other files.
//!
//! SVG does not lay out text. So this file gives each line its place, and wraps or cuts what is too
//! long. The template draws what [`Picture`] has.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::view::{Bar, Change, DetailRow, PageRow, View};
use super::{Counterexample, FaultInStep};
use crate::render::printable;
use crate::render::story::Entry;

impl Counterexample {
    /// The counterexample as an SVG picture.
    pub fn to_svg(&self) -> String {
        let values = context! { picture => Serde(&Picture::of(self)) };
        // The end of the name says that values are escaped.
        let picture = Environment::new().render_named_str("page.svg.xml", include_str!("page.svg"), values);
        picture.expect("the template is valid, and names only what there is")
    }

    /// Writes the picture to a file, and makes its folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_svg(&self, file: impl AsRef<Path>) -> io::Result<()> {
        super::write(file.as_ref(), &self.to_svg())
    }
}

/// The least width of a picture, and the space around its content. Lengths are in pixels.
const WIDTH_MIN: usize = 880;
const MARGIN: usize = 16;
/// The height of a line of text, and the width of ten of its columns. No common monospaced font is
/// wider. The claim is larger.
const LINE: usize = 17;
const TEN_COLUMNS: usize = 73;
const TEN_CLAIM_COLUMNS: usize = 86;
/// The widths of the numbers of steps, of all lanes if they are not too many, and of one lane.
const NUMBERS: usize = 36;
const LANES_MAX: usize = 330;
const LANE_MIN: usize = 20;
const LANE_MAX: usize = 46;
/// The fewest columns of text. If they do not fit, the picture becomes wider.
const COLUMNS_MIN: usize = 40;
/// The space between two acts, and between two that are not at the same time.
const GAP: usize = 6;
const TIME_GAP: usize = 16;
/// The indents of a change.
const CHANGE: [&str; 2] = ["  ", "    "];
/// The most lines of a picture, of one text, and the most details of one act.
const LINES_MAX: usize = 300;
const TEXT_LINES_MAX: usize = 3;
const DETAILS_MAX: usize = 12;
/// The most characters of a text for screen readers, and of the name of a lane.
const TOLD_MAX: usize = 200;
const CAPTION_MAX: usize = 12;
/// The width of a character of such a name.
const CAPTION_COLUMN: usize = 8;
/// Most characters of a value that are shown before its change.
const UNCHANGED_MAX: usize = 40;
/// It stands between the pieces of a text, and has no width. No text has it, because `printable`
/// escapes it.
const BREAK: char = '\u{1}';

/// A part of a text with its kind: it is `new`, `old`, or neither.
type Piece<'a> = (&'static str, &'a str);

/// Everything that the template draws.
#[derive(Serialize)]
struct Picture {
    /// The texts for screen readers.
    title: String,
    description: String,
    width: usize,
    height: usize,
    /// All texts but the names of lanes, the numbers and the times.
    lines: Vec<Line>,
    times: usize,
    lanes: Vec<Lane>,
    /// The middle of the names of the lanes.
    lanes_y: usize,
    bars: Vec<PlacedBar>,
    acts: Vec<Act>,
    /// The top and the height of the background of the violation.
    violation: (usize, usize),
    /// The same for each row of the step that is stressed.
    stressed: Vec<(usize, usize)>,
    legend: Vec<Sign>,
    legend_y: usize,
}

#[derive(Serialize)]
struct Line {
    kind: &'static str,
    x: usize,
    /// The base line of the text.
    y: usize,
    parts: Vec<Part>,
}

/// A part of a line: it is `new`, `old`, or neither.
#[derive(Debug, PartialEq, Serialize)]
struct Part {
    kind: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Lane {
    x: usize,
    name: String,
}

#[derive(Serialize)]
struct PlacedBar {
    kind: &'static str,
    x: usize,
    y: usize,
    height: usize,
}

/// The marks of an act in the lanes.
#[derive(Serialize)]
struct Act {
    kind: &'static str,
    number: Option<usize>,
    at_ms: Option<u64>,
    /// Time has passed since the act before.
    is_later: bool,
    /// The middle of the lane of who acts, and the middle of its first line.
    x: usize,
    y: usize,
    arrows: Vec<PlacedArrow>,
}

#[derive(Serialize)]
struct PlacedArrow {
    kind: &'static str,
    from: usize,
    to: usize,
    y: usize,
}

/// A sign with its meaning.
#[derive(Serialize)]
struct Sign {
    kind: &'static str,
    x: usize,
    meaning: &'static str,
}

/// The places of the columns of a picture.
struct Columns {
    /// The end of the times, and the start of the lanes.
    times: usize,
    lane: usize,
    text: usize,
    text_columns: usize,
    width: usize,
}

impl Columns {
    fn of(counterexample: &Counterexample) -> Columns {
        let last_ms = counterexample.entries.last().map_or(0, |entry| entry.at_ms);
        let times = MARGIN + NUMBERS + (format!("+{last_ms} ms").len() + 1) * TEN_COLUMNS / 10;
        let lanes = 1 + counterexample.clients.len() + counterexample.servers;
        let names = counterexample.server_names.iter().map(|name| name.chars().count());
        let caption = names.max().map_or(0, |longest| (longest.min(CAPTION_MAX) + 1) * CAPTION_COLUMN);
        let lane = (LANES_MAX / lanes).clamp(LANE_MIN, LANE_MAX).max(caption);
        let text = times + lanes * lane + GAP;
        let text_columns = (WIDTH_MIN.saturating_sub(text + MARGIN) * 10 / TEN_COLUMNS).max(COLUMNS_MIN);
        let width = (text + text_columns * TEN_COLUMNS / 10 + MARGIN).max(WIDTH_MIN);
        Columns { times, lane, text, text_columns, width }
    }

    /// The middle of a lane. Lanes are counted from 0.
    fn lane(&self, nth: usize) -> usize {
        self.times + nth * self.lane + self.lane / 2
    }

    /// About how many lines an entry has.
    fn lines(&self, Entry { text, details, .. }: &Entry) -> usize {
        let lines = |text: &str| (text.len() / self.text_columns + 1).min(TEXT_LINES_MAX);
        let details = details.iter().take(DETAILS_MAX + 1).map(|detail| lines(&detail.text));
        lines(text) + details.sum::<usize>()
    }
}

impl Picture {
    fn of(counterexample: &Counterexample) -> Picture {
        let columns = Columns::of(counterexample);
        let view = View::of(counterexample, LINES_MAX, |entry| columns.lines(entry));
        let mut drawing = Drawing { lines: Vec::new(), y: MARGIN, columns: &columns };
        drawing.head(counterexample, &view);
        let lanes = view.lanes.iter().enumerate();
        let lane =
            |(nth, name): (usize, &String)| Lane { x: columns.lane(nth), name: start(name, CAPTION_MAX) };
        let lanes_y = drawing.y + LINE / 2;
        drawing.y += LINE + GAP;
        let (mut tops, mut acts) = (Vec::new(), Vec::new());
        for row in &view.rows {
            tops.push(drawing.y);
            acts.push(drawing.act(row));
        }
        let violation = tops.last().copied().unwrap_or(drawing.y);
        drawing.text("broken", &[("", &format!("✗ {}.", counterexample.violation))], ["", "  "]);
        drawing.y += GAP;
        tops.push(drawing.y);
        let heights = view.rows.iter().zip(tops.windows(2));
        let stressed = heights.filter(|(row, _)| row.kinds.contains(&"stressed"));
        let stressed = stressed.map(|(_, top)| (top[0], top[1] - top[0])).collect();
        let bars = view.bars.iter().map(|bar| PlacedBar::new(bar, &tops, &columns)).collect();
        let told = view.rows.iter().filter(|row| !row.text.is_empty());
        let told = told.map(|row| format!(" Step {}: {}.", row.step, start(row.text, TOLD_MAX)));
        Picture {
            title: start(&claim(counterexample), TOLD_MAX),
            description: start(&counterexample.violation, TOLD_MAX) + "." + &told.collect::<String>(),
            width: columns.width,
            height: drawing.y + 2 * MARGIN + LINE,
            violation: (violation, drawing.y - violation),
            stressed,
            legend: legend(&view.signs),
            legend_y: drawing.y + MARGIN + LINE / 2,
            lines: drawing.lines,
            times: columns.times,
            lanes: lanes.map(lane).collect(),
            lanes_y,
            bars,
            acts,
        }
    }
}

impl PlacedBar {
    /// A bar from the top of its first row to the top of the row after its last one.
    fn new(&Bar { lane, kind, from, to }: &Bar, tops: &[usize], columns: &Columns) -> PlacedBar {
        let (top, bottom) = (tops[from], tops[to]);
        PlacedBar { kind, x: columns.lane(lane), y: top, height: bottom - top }
    }
}

impl PlacedArrow {
    /// An arrow between the middles of two lanes. One that is lost ends halfway.
    fn new(kind: &'static str, client: usize, server: usize, y: usize) -> PlacedArrow {
        let (client, server) = (client + 8, server - 3);
        let halfway = usize::midpoint(client, server);
        let (from, to, y) = match kind {
            "request" => (client, server, y - 3),
            "lost-request" => (client, halfway, y - 3),
            "reply" => (server, client, y + 4),
            _ => (server, halfway, y + 4),
        };
        PlacedArrow { kind, from, to, y }
    }
}

/// A picture in the making, from its top down to `y`.
struct Drawing<'a> {
    lines: Vec<Line>,
    y: usize,
    columns: &'a Columns,
}

impl Drawing<'_> {
    /// The claim that is broken, and its bounds.
    fn head(&mut self, of: &Counterexample, view: &View<'_>) {
        self.across("claim", &claim(of), TEN_CLAIM_COLUMNS);
        let faults =
            of.faults.iter().map(|FaultInStep { step, summary, .. }| format!("{summary} (step {step})"));
        let faults: Vec<String> = faults.collect();
        let faults = if faults.is_empty() { "none".into() } else { faults.join("; ") };
        let bounds = format!("Clients: {}, with {}. Faults: {faults}.", of.clients.join(", "), of.bounds);
        self.across("faint", &bounds, TEN_COLUMNS);
        if let (1.., Some(first)) = (view.left_out, view.rows.first()) {
            let left_out = format!(
                "It begins at step {}: the first {} acts are left out, because the picture would be too tall.",
                first.step, view.left_out
            );
            self.across("broken", &left_out, TEN_COLUMNS);
        }
        self.y += GAP;
    }

    /// The texts of an act, and its marks.
    fn act(&mut self, row: &PageRow<'_>) -> Act {
        let is_later = row.kinds.contains(&"later");
        if is_later {
            self.y += TIME_GAP;
        }
        let middle = self.y + LINE / 2;
        let is_told = !row.text.is_empty();
        if is_told {
            self.text("act", &[("", row.text)], ["", "  "]);
        }
        for detail in row.details.iter().take(DETAILS_MAX) {
            match detail {
                DetailRow { change: Some(change), .. } => self.change(change),
                DetailRow { kind: "remark", text, .. } => self.text("remark", &[("", text)], ["• ", "  "]),
                DetailRow { text, .. } => self.text("change", &[("", text)], CHANGE),
            }
        }
        if let more @ 1.. = row.details.len().saturating_sub(DETAILS_MAX) {
            self.text("change", &[("", &format!("… and {more} more"))], CHANGE);
        }
        self.y += GAP;
        let actor = self.columns.lane(row.actor - 1);
        let arrows = row.arrows.iter().flat_map(|arrow| {
            let server = self.columns.lane(arrow.server - 1);
            arrow.kinds.iter().map(move |kind| PlacedArrow::new(kind, actor, server, middle))
        });
        Act {
            kind: row.sign(),
            number: (is_told && !row.kinds.contains(&"same")).then_some(row.step),
            at_ms: row.at_ms,
            is_later,
            x: actor,
            y: middle,
            arrows: arrows.collect(),
        }
    }

    /// A key with its new value.
    fn change(&mut self, Change { key, is_gone, head, old, new, tail, left_ms }: &Change<'_>) {
        if *is_gone {
            return self.text("change", &[("", &format!("{key} is gone"))], CHANGE);
        }
        let cut = head.char_indices().rev().nth(UNCHANGED_MAX).map(|(at, _)| at);
        let head = cut.map_or((*head).to_owned(), |at| format!("…{}", &head[at..]));
        let left = left_ms.map_or(String::new(), |left_ms| format!(" ({left_ms} ms left)"));
        let (start, end) = (format!("{key} = {head}"), format!("{tail}{left}"));
        let between = if old.is_empty() || new.is_empty() { "" } else { " " };
        self.text("change", &[("", &start), ("old", old), ("", between), ("new", new), ("", &end)], CHANGE);
    }

    /// Text over the whole width.
    fn across(&mut self, kind: &'static str, text: &str, ten_columns: usize) {
        let columns = (self.columns.width - 2 * MARGIN) * 10 / ten_columns;
        self.lines(kind, MARGIN, wrap(&[("", text)], columns, ["", ""]));
    }

    /// Text beside the lanes.
    fn text(&mut self, kind: &'static str, text: &[Piece<'_>], indents: [&str; 2]) {
        self.lines(kind, self.columns.text, wrap(text, self.columns.text_columns, indents));
    }

    fn lines(&mut self, kind: &'static str, x: usize, lines: Vec<Vec<Part>>) {
        for parts in lines {
            self.lines.push(Line { kind, x, y: self.y + LINE * 3 / 4, parts });
            self.y += LINE;
        }
    }
}

/// The claim of a counterexample.
fn claim(Counterexample { name, property, class, .. }: &Counterexample) -> String {
    let class = class.iter().map(|class| format!(" in the fault class {class}"));
    format!("{name}: {property} is violated{}", class.collect::<String>())
}

/// At most `chars_max` characters of a text, on one line. If it has more, the last one is `…`.
fn start(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars();
    let mut start: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        start.pop();
        start.push('…');
    }
    printable(&start).replace('\n', " ")
}

/// Wraps a text to `columns` columns, with these indents of its first line and of the others. If it
/// needs too many lines, its end is cut.
fn wrap(pieces: &[Piece<'_>], columns: usize, indents: [&str; 2]) -> Vec<Vec<Part>> {
    let texts: Vec<String> = pieces.iter().map(|(_, text)| start(text, columns * TEXT_LINES_MAX)).collect();
    let text = texts.join(&BREAK.to_string());
    let options = Options::new(columns)
        .initial_indent(indents[0])
        .subsequent_indent(indents[1])
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let mut lines: Vec<String> = textwrap::wrap(&text, options).into_iter().map(Into::into).collect();
    if lines.len() > TEXT_LINES_MAX {
        lines.truncate(TEXT_LINES_MAX);
        let last = &mut lines[TEXT_LINES_MAX - 1];
        while display_width(last) >= columns {
            last.pop();
        }
        last.push('…');
    }
    let mut kinds = pieces.iter().map(|&(kind, _)| kind);
    let mut kind = kinds.next().unwrap_or_default();
    let mut parts = |line: &String| {
        let parts = line.split(BREAK).enumerate().map(|(nth, text)| {
            if nth > 0 {
                kind = kinds.next().unwrap_or_default();
            }
            Part { kind, text: text.into() }
        });
        parts.filter(|part| !part.text.is_empty()).collect()
    };
    lines.iter().map(&mut parts).collect()
}

/// The signs that are drawn, one beside the other.
fn legend(drawn: &BTreeSet<&str>) -> Vec<Sign> {
    let mut x = MARGIN + LINE / 2;
    let sign = |(kind, meaning): (&'static str, &'static str)| {
        let sign = Sign { kind, x, meaning };
        x += 2 * LINE + display_width(meaning) * TEN_COLUMNS / 10;
        sign
    };
    SIGNS.into_iter().filter(|(kind, _)| drawn.contains(kind)).map(sign).collect()
}

const SIGNS: [(&str, &str); 9] = [
    ("acts", "acts"),
    ("outside", "time passes"),
    ("fault", "fault"),
    ("runs", "runs"),
    ("replying", "its reply is late"),
    ("inside", "inside"),
    ("believes", "inside, its grant has ended"),
    ("clash", "at the violation"),
    ("lost", "never arrives"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Vec<Part>]) -> Vec<String> {
        lines.iter().map(|parts| parts.iter().map(|part| &*part.text).collect()).collect()
    }

    #[test]
    fn text_is_wrapped_and_then_cut() {
        for (text, expected) in [
            ("", &[""][..]),
            ("a bc def", &["a bc", "  def"]),
            ("abcdefgh", &["abcd", "  efgh"]),
            ("a\nb\u{1b}", &["a b\\u{", "  1b}"]),
            ("abcdef abcd abcd abcd", &["abcdef", "  abcd", "  abc…"]),
            ("漢字漢字漢字漢字", &["漢字", "  漢字", "  漢…"]),
        ] {
            assert_eq!(texts(&wrap(&[("", text)], 6, ["", "  "])), expected, "{text:?}");
        }
    }

    #[test]
    fn the_pieces_of_a_text_keep_their_kinds_when_it_is_wrapped() {
        let lines = wrap(&[("", "k = ["), ("old", ""), ("new", "b\u{1} c"), ("", "]")], 8, ["", ""]);
        let new = lines.iter().flatten().filter(|part| part.kind == "new").map(|part| &*part.text);
        assert_eq!(new.collect::<Vec<_>>(), ["b\\u{1}", "c"]);
        assert_eq!(texts(&lines), ["k =", "[b\\u{1}", "c]"]);
    }
}
