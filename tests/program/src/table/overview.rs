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

/// A verdict at a glance. The worst comes first; what is not judged must not look like a verdict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Violated,
    Unjudged,
    Vacuous,
    Sampled,
    Holds,
}

impl Mark {
    /// The worst of several verdicts, and all of them in a few signs. `None` if there are none.
    pub(crate) fn worst(marks: &[Mark]) -> Option<(Mark, String)> {
        let worst = *marks.iter().min()?;
        let text = match worst {
            Mark::Violated => format!("✗ {}", marks.iter().filter(|mark| **mark == worst).count()),
            Mark::Unjudged => "?".into(),
            Mark::Vacuous => "vacuous".into(),
            Mark::Sampled => "✓~".into(),
            Mark::Holds => "✓".into(),
        };
        Some((worst, text))
    }

    fn of(cell: TableCell<'_>) -> Option<Mark> {
        match cell {
            TableCell::Judged(row) => Some(match row.found {
                Found::Violated { .. } => Mark::Violated,
                Found::Vacuous => Mark::Vacuous,
                Found::Holds if row.sampled => Mark::Sampled,
                Found::Holds => Mark::Holds,
            }),
            TableCell::Unjudged => Some(Mark::Unjudged),
            TableCell::NotAsked | TableCell::Elsewhere => None,
        }
    }
}

/// The cells of an algorithm in a fault class as one.
fn merged(lines: &[Line<'_>], class: usize) -> String {
    let marks: Vec<Mark> = lines.iter().filter_map(|line| Mark::of(line.cells[class])).collect();
    // Nothing is asked, or another shard has all of it.
    Mark::worst(&marks).map_or_else(|| lines[0].cells[class].text(grouped), |(_, text)| text)
}
