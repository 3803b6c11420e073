//! The verdict table at a glance: a line for each algorithm.

use comfy_table::CellAlignment;
use locks::registry::FaultClass;

use super::{Found, Table, VerdictRow};
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
        for algorithm in &self.algorithms {
            let own: Vec<&VerdictRow> =
                self.verdicts.iter().filter(|row| row.algorithm == *algorithm).collect();
            let of = |class: &FaultClass| cell(own.iter().filter(|row| row.fault_class == class.name()));
            let as_stated = if own.iter().all(|row| row.is_as_stated()) { "yes" } else { "NO" };
            let cells = FaultClass::ALL.iter().map(of);
            grid.add_row(std::iter::once(algorithm.clone()).chain(cells).chain([as_stated.into()]));
        }
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Center);
        }
        let as_stated = self.verdicts.iter().filter(|row| row.is_as_stated()).count();
        let partial = self.partial();
        format!(
            "{partial}{}\n{LEGEND}\n{}{as_stated} of {} verdicts are as stated.\n\n{NEXT}{partial}",
            drawn(&grid),
            self.not_as_stated(),
            self.verdicts.len()
        )
    }
}

/// The verdicts of an algorithm in a fault class.
fn cell<'a>(verdicts: impl Iterator<Item = &'a &'a VerdictRow>) -> String {
    let (mut holds, mut sampled, mut violated, mut vacuous) = (0, false, 0, 0);
    for VerdictRow { found, sampled: is_sampled, .. } in verdicts {
        match found {
            Found::Holds => (holds, sampled) = (holds + 1, sampled || *is_sampled),
            Found::Violated { .. } => violated += 1,
            Found::Vacuous => vacuous += 1,
        }
    }
    match (holds, violated, vacuous) {
        (0, 0, 0) => "–".into(),
        (_, 0, 0) if sampled => "✓~".into(),
        (_, 0, 0) => "✓".into(),
        (_, 0, _) => "vacuous".into(),
        _ => format!("✗ {violated}"),
    }
}
