//! The verdict table as text. On a narrow terminal it has short cells, and each algorithm stands
//! above its properties.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use comfy_table::CellAlignment;
use harness::check::LEASE;
use harness::explore::Shard;
use locks::registry::{Ability, Algorithm, FaultClass, Property};

use super::{Explored, Found, Table, VerdictRow, grouped};
use crate::grid::{drawn, grid, wrapping};
use crate::output::WIDTH;
use crate::shard::cells;
use crate::stop;

/// A line of the table: a property of an algorithm.
pub(super) struct Line<'a> {
    pub(super) algorithm: &'a str,
    property: Property,
    /// For each fault class.
    pub(super) cells: Vec<TableCell<'a>>,
}

#[derive(Clone, Copy)]
pub(super) enum TableCell<'a> {
    Judged(&'a VerdictRow),
    /// The check was stopped before.
    Unjudged,
    /// The property is not asked.
    NotAsked,
    /// Another shard has the verdict.
    Elsewhere,
}

impl Table {
    /// Renders the table for a terminal of this width; for a file, if there is none.
    pub(super) fn render(&self, width: Option<usize>) -> String {
        let lines = self.lines();
        let wide = wide(&lines);
        let is_wide = width.is_none_or(|width| wide.lines().all(|line| line.chars().count() <= width));
        let grid = if is_wide { wide } else { narrow(&lines) };
        let partial = self.partial();
        let width = width.unwrap_or(WIDTH);
        let judged = self.verdicts.len();
        format!(
            "{partial}{}\n{grid}\n{}\n{}{}{}{}{} of {judged} verdicts are as stated. For a counterexample: \
             lockstep explain NAME\n\
             {} schedules explored; {} more blocked, because others cover them\n\
             Each exploration of a cell, with its size: --format json\n{partial}",
            self.heads(),
            legend(&lines),
            self.other_bounds(width),
            self.sampled(width),
            self.not_as_stated(),
            self.other_shards(),
            self.as_stated(),
            grouped(self.schedules),
            grouped(self.blocked),
        )
    }

    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        let (own, asked) = (cells(self.shard, &self.known_algorithms()), self.questions());
        let mut lines = Vec::new();
        for algorithm in &self.algorithms {
            for &property in Property::ALL {
                let of = |class: &FaultClass| {
                    let question = (algorithm.as_str(), class.name(), property.name());
                    match self.verdicts.iter().find(|row| row.question() == question) {
                        Some(row) => TableCell::Judged(row),
                        None if asked.contains(&question) => TableCell::Unjudged,
                        None if own.iter().any(|(its, other)| its.name == algorithm && other == class) => {
                            TableCell::NotAsked
                        }
                        None => TableCell::Elsewhere,
                    }
                };
                let line = Line { algorithm, property, cells: FaultClass::ALL.iter().map(of).collect() };
                if line.has(|cell| matches!(cell, TableCell::Judged(_) | TableCell::Unjudged)) {
                    lines.push(line);
                }
            }
        }
        lines
    }

    /// How many verdicts are as stated.
    pub(super) fn as_stated(&self) -> usize {
        self.verdicts.iter().filter(|row| row.is_as_stated()).count()
    }

    /// If the check was stopped, says so; it stands above the table and below it.
    pub(super) fn partial(&self) -> String {
        let (judged, asked) = (self.verdicts.len(), self.questions().len());
        if judged == asked {
            return String::new();
        }
        let status = stop::STATUS;
        format!(
            "PARTIAL: stopped after {judged} of {asked} verdicts; ? is not judged. Exit status {status}\n"
        )
    }

    /// Renders the bounds of each column.
    fn heads(&self) -> String {
        let mut text =
            format!("Bounds, with leases of {} ms. Each line is explored by itself.\n", LEASE.as_millis());
        for class in FaultClass::ALL {
            for (nth, bound) in self.bounds[class.name()].iter().enumerate() {
                let name = if nth == 0 { class.name() } else { "" };
                text += &format!("  {name:<8} {bound}\n");
            }
        }
        text
    }

    /// Renders the classes in which an algorithm has more schedules than were run one by one. Each
    /// column has another limit.
    fn sampled(&self, width: usize) -> String {
        let mut classes: BTreeMap<Reverse<u64>, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
        for row in &self.verdicts {
            for Explored { limit, .. } in row.explorations.iter().filter(|explored| explored.sampled) {
                let of_limit = classes.entry(Reverse(*limit)).or_default();
                let known = of_limit.entry(&row.algorithm).or_default();
                if !known.contains(&row.fault_class.as_str()) {
                    known.push(&row.fault_class);
                }
            }
        }
        if classes.is_empty() {
            return String::new();
        }
        let mut grid = wrapping(width);
        let heads = classes.keys().map(|Reverse(limit)| format!("more than {} schedules", grouped(*limit)));
        grid.set_header(std::iter::once("sampled".into()).chain(heads));
        for algorithm in &self.algorithms {
            let of_algorithm = |of_limit: &BTreeMap<&str, Vec<&str>>| {
                of_limit.get(algorithm.as_str()).map_or(String::new(), |classes| classes.join(" "))
            };
            let cells: Vec<String> = classes.values().map(of_algorithm).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                grid.add_row(std::iter::once(algorithm.clone()).chain(cells));
            }
        }
        drawn(&grid) + "\n"
    }

    /// Renders the algorithms whose bounds are not those in the head of the table.
    fn other_bounds(&self, width: usize) -> String {
        let times_out = |algorithm: &&Algorithm| algorithm.spec.can(Ability::TimesOut);
        let names: Vec<_> = self.known_algorithms().into_iter().filter(times_out).map(|of| of.name).collect();
        if names.is_empty() {
            return String::new();
        }
        let mut grid = wrapping(width);
        grid.add_row([names.join(", ")]);
        format!("Late replies in every bound with stalls:\n{}\n", drawn(&grid))
    }

    /// Renders the verdicts that are not as the algorithm states, each with the command that shows
    /// more.
    pub(super) fn not_as_stated(&self) -> String {
        let rows = self.verdicts.iter().filter(|row| !row.is_as_stated());
        let lines = rows.map(|row| {
            let VerdictRow { algorithm, property, fault_class, .. } = row;
            format!(
                "✗ {property} of {algorithm} in {fault_class}: {}\n  \
                 lockstep explain {algorithm} --property {property} --class {fault_class}\n",
                row.judgement()
            )
        });
        let lines: String = lines.collect();
        if lines.is_empty() { lines } else { format!("Not as stated:\n{lines}\n") }
    }

    pub(super) fn other_shards(&self) -> String {
        if self.shard == Shard::WHOLE {
            String::new()
        } else {
            format!("Shard {} alone: other shards have the verdicts of blank cells.\n", self.shard)
        }
    }
}

impl<'a> Line<'a> {
    fn has(&self, is_meant: impl Fn(TableCell<'a>) -> bool) -> bool {
        self.cells.iter().copied().any(is_meant)
    }
}

/// Whether all lines are as stated.
pub(super) fn as_stated(lines: &[Line<'_>]) -> &'static str {
    let has = |is_meant: fn(TableCell<'_>) -> bool| lines.iter().any(|line| line.has(is_meant));
    if has(|cell| matches!(cell, TableCell::Judged(row) if !row.is_as_stated())) {
        "NO"
    } else if has(|cell| matches!(cell, TableCell::Unjudged)) {
        "?"
    } else {
        "yes"
    }
}

impl TableCell<'_> {
    /// The text of the cell; `number` prints a number of schedules.
    pub(super) fn text(self, number: fn(u64) -> String) -> String {
        match self {
            TableCell::Judged(row) => match &row.found {
                Found::Holds if row.sampled => format!("✓ ~{}", number(row.schedules)),
                Found::Holds => format!("✓ {}", number(row.schedules)),
                Found::Violated { steps, .. } => format!("✗ {steps}"),
                Found::Vacuous => "vacuous".into(),
            },
            TableCell::Unjudged => "?".into(),
            TableCell::NotAsked => "–".into(),
            TableCell::Elsewhere => String::new(),
        }
    }
}

/// The table with whole numbers, the algorithms in a column, and whether lines are as stated.
fn wide(lines: &[Line]) -> String {
    let mut grid = grid();
    let classes = FaultClass::ALL.iter().map(|class| class.name());
    grid.set_header(["algorithm", "property"].into_iter().chain(classes).chain(["as stated"]));
    let mut last_name = "";
    for line in lines {
        let name = if line.algorithm == last_name { "" } else { line.algorithm };
        last_name = line.algorithm;
        let cells = line.cells.iter().map(|cell| cell.text(grouped));
        let names = [name.to_owned(), line.property.to_string()];
        grid.add_row(
            names.into_iter().chain(cells).chain([as_stated(std::slice::from_ref(line)).to_owned()]),
        );
    }
    for column in grid.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    drawn(&grid)
}

/// The table with short numbers, and each algorithm above its properties.
fn narrow(lines: &[Line]) -> String {
    let mut grid = grid();
    // Columns of short numbers are narrower than these names.
    let syllables = [
        ("order", "or-\nder"),
        ("server", "ser-\nver"),
        ("failover", "fail-\nover"),
        ("cluster", "clus-\nter"),
        ("cancel", "can-\ncel"),
    ];
    let classes = FaultClass::ALL.iter().map(|class| {
        let name = class.name();
        syllables.iter().find(|(whole, _)| *whole == name).map_or(name, |(_, divided)| divided).to_owned()
    });
    grid.set_header(std::iter::once(String::new()).chain(classes));
    for line in lines {
        let cells = line.cells.iter().map(|cell| cell.text(short).replace("✓ ", "✓").replace("✗ ", "✗"));
        let cells = cells.map(|cell| if cell == "vacuous" { "vac.".into() } else { cell });
        grid.add_row(std::iter::once(line.property.to_string()).chain(cells));
    }
    for column in grid.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for column in grid.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = drawn(&grid);
    let mut rows = text.lines();
    let heads: Vec<&str> = rows.by_ref().take(2).collect();
    let mut drawn = format!("{}\n", heads.join("\n"));
    let mut last_name = "";
    for (line, row) in lines.iter().zip(rows) {
        if line.algorithm != last_name {
            drawn += &format!("{}\n", line.algorithm);
        }
        last_name = line.algorithm;
        drawn += &format!("{row}\n");
    }
    drawn
}

/// The meaning of the cells that the table has.
fn legend(lines: &[Line]) -> String {
    let mut text = String::from(
        " ✓ n   holds in all n schedules within the bounds\n \
          ✓ ~n  holds in n schedules, and some explorations are samples\n \
          ✗ n   violated; the shortest counterexample has n steps\n \
          –     not asked: no meaning here, or a class that this one combines breaks it\n",
    );
    let is_vacuous = |cell| matches!(cell, TableCell::Judged(VerdictRow { found: Found::Vacuous, .. }));
    if lines.iter().any(|line| line.has(is_vacuous)) {
        text += " vacuous, or vac.: no schedule violates the property, and none tests it;\n       \
                 run more with --limit or --samples\n";
    }
    if lines.iter().any(|line| line.has(|cell| matches!(cell, TableCell::Unjudged))) {
        text += " ?     not judged: the check was stopped before\n";
    }
    text
}

/// At most four characters: `9.9k`, `123k`, `1.2M`. The rest is cut off, so that no number is too
/// large.
fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{}.{}k", n / 1_000, n / 100 % 10),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        1_000_000..10_000_000 => format!("{}.{}M", n / 1_000_000, n / 100_000 % 10),
        _ => format!("{}M", n / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_are_short() {
        let numbers = [999, 1_000, 9_999, 12_345, 999_999, 1_250_000, 12_345_678];
        assert_eq!(numbers.map(short), ["999", "1.0k", "9.9k", "12k", "999k", "1.2M", "12M"]);
    }
}
