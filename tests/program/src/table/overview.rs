//! The verdict table at a glance: a line for each algorithm.

use comfy_table::CellAlignment;
use locks::registry::FaultClass;

use super::layout::{Line, TableCell, as_stated};
use super::{Found, Table, grouped};
use crate::grid::{drawn, grid};

/// The meaning of the cells, and what to type next.
const LEGEND: &str = " \
 ✓    every property holds in all schedules within the bounds, or ✓~ in samples of some\n \
 ✗ n  n properties are violated\n \
 –    nothing is asked\n";
const NEXT: &str = "\
Next:
  lockstep NAME           each property of an algorithm, with the size of its counterexample
  lockstep explain NAME   the shortest counterexample, step by step
  lockstep check          each property of every algorithm, and the bounds
  lockstep --help         all else\n";

impl Table {
    /// Renders a line for each algorithm.
    pub(super) fn overview(&self) -> String {
        let mut grid = grid();
        let classes = FaultClass::ALL.iter().map(|class| class.name());
        grid.set_header(["algorithm"].into_iter().chain(classes).chain(["as stated"]));
        for own in self.lines().chunk_by(|one, other| one.algorithm == other.algorithm) {
            let cells = (0..FaultClass::ALL.len()).map(|class| merged(own, class));
            let cells = cells.chain([as_stated(own).to_owned()]);
            grid.add_row(std::iter::once(own[0].algorithm.to_owned()).chain(cells));
        }
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Center);
        }
        let partial = self.partial();
        format!(
            "{partial}{}\n{LEGEND}\n{}{}{} of {} verdicts are as stated.\n\n{NEXT}{partial}",
            drawn(&grid),
            self.not_as_stated(),
            self.other_shards(),
            self.as_stated(),
            self.verdicts.len()
        )
    }
}

/// The cells of an algorithm in a fault class as one. What is not judged must not look like a
/// verdict.
fn merged(lines: &[Line<'_>], class: usize) -> String {
    let count =
        |is_meant: fn(TableCell<'_>) -> bool| lines.iter().filter(|line| is_meant(line.cells[class])).count();
    let violated = count(|cell| is_found(cell, |found| matches!(found, Found::Violated { .. })));
    if violated > 0 {
        return format!("✗ {violated}");
    }
    if count(|cell| matches!(cell, TableCell::Unjudged)) > 0 {
        return "?".into();
    }
    if count(|cell| is_found(cell, |found| matches!(found, Found::Vacuous))) > 0 {
        return "vacuous".into();
    }
    if count(|cell| matches!(cell, TableCell::Judged(row) if row.sampled)) > 0 {
        return "✓~".into();
    }
    match count(|cell| matches!(cell, TableCell::Judged(_))) {
        // Nothing is asked, or another shard has all of it.
        0 => lines[0].cells[class].text(grouped),
        _ => "✓".into(),
    }
}

fn is_found(cell: TableCell<'_>, is_meant: fn(&Found) -> bool) -> bool {
    matches!(cell, TableCell::Judged(row) if is_meant(&row.found))
}
