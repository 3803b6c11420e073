//! Renders a counterexample as a page of its own: no network, no other files.
//!
//! The page has grids with a row for each act. The template writes what [`View`] has; it computes
//! nothing.

use std::io;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use super::Counterexample;
use super::view::{Bar, PageRow, View};
use crate::render::story::{Detail, Entry, Exchange};

/// The most bytes of texts on a page. A page with more opens slowly.
const TEXT_BYTES_MAX: usize = 1_700_000;
/// The bytes around the text of an act, about.
const ROW_BYTES: usize = 100;
/// Most rows in a group. The style has an estimate of how high such a group is.
const GROUP_ROWS: usize = 100;

impl Counterexample {
    /// The counterexample as an HTML page.
    pub fn to_html(&self) -> String {
        let (style, script) = (include_str!("page.css"), include_str!("page.js"));
        let view = View::of(self, TEXT_BYTES_MAX, size);
        let groups = groups(&view);
        let values =
            context! { of => Serde(self), view => Serde(&view), groups => Serde(&groups), style, script };
        // The end of the name says that values are escaped.
        let page = Environment::new().render_named_str("page.html", include_str!("page.html"), values);
        page.expect("the template is valid, and names only what there is")
    }

    /// Writes the page to a file, and makes its folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_html(&self, file: impl AsRef<Path>) -> io::Result<()> {
        super::write(file.as_ref(), &self.to_html())
    }
}

/// Some rows in a grid of their own. A group that is far from the screen is not laid out.
#[derive(Serialize)]
struct Group<'a> {
    rows: &'a [PageRow<'a>],
    /// The parts of the bars that are beside its rows.
    bars: Vec<Bar>,
}

fn groups<'a>(view: &'a View<'_>) -> Vec<Group<'a>> {
    let group = |(nth, rows): (usize, &'a [PageRow<'_>])| {
        let (from, to) = (nth * GROUP_ROWS, nth * GROUP_ROWS + rows.len());
        let beside = view.bars.iter().filter(|bar| bar.from < to && bar.to > from);
        let part = |bar: &Bar| Bar { from: bar.from.max(from) - from, to: bar.to.min(to) - from, ..*bar };
        Group { rows, bars: beside.map(part).collect() }
    };
    view.rows.chunks(GROUP_ROWS).enumerate().map(group).collect()
}

/// About how many bytes of text the row of an entry has.
fn size(Entry { text, script, details, .. }: &Entry) -> usize {
    let script = script.iter().map(|Exchange { command, reply }| escaped(command) + escaped(reply) + 20);
    let details = details.iter().map(|Detail { text, key, .. }| {
        let before = key.as_ref().and_then(|key| key.before.as_deref()).map_or(0, escaped);
        escaped(text) + before + 100
    });
    ROW_BYTES + escaped(text) + script.sum::<usize>() + details.sum::<usize>()
}

/// The most bytes of a text in HTML. `&quot;` and other characters of markup have six.
fn escaped(text: &str) -> usize {
    text.len() + 5 * text.bytes().filter(|byte| b"<>&\"'/".contains(byte)).count()
}
