//! The verdict table as text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table as Grid, presets};
use harness::check::LEASE;
use harness::explore::Shard;
use locks::registry::{Ability, Algorithm, FaultClass, Property};

use super::{Explored, Row, Table, grouped};
use crate::shard::cells;

impl Table {
    /// Renders one line for each algorithm and property, with one column for each fault class.
    pub(super) fn render(&self) -> String {
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING);
        let classes = FaultClass::ALL.iter().map(|class| class.name());
        grid.set_header(["algorithm", "property"].into_iter().chain(classes).chain(["as stated"]));
        let mut last_name = "";
        let own = cells(self.shard, &self.known_algorithms());
        for algorithm in &self.algorithms {
            for property in Property::ALL {
                let of = |class: &FaultClass| {
                    let question = (algorithm.as_str(), class.name(), property.name());
                    self.verdicts.iter().find(|row| row.question() == question)
                };
                let row: Vec<Option<&Row>> = FaultClass::ALL.iter().map(of).collect();
                if row.iter().all(Option::is_none) {
                    continue;
                }
                let shown_name = if algorithm == last_name { "" } else { algorithm };
                last_name = algorithm;
                let is_own = |class| own.iter().any(|&(its, other)| its.name == algorithm && other == class);
                let cells = row.iter().zip(FaultClass::ALL).map(|(verdict, &class)| match verdict {
                    Some(verdict) => verdict.cell(),
                    None if is_own(class) => "–".into(),
                    None => String::new(),
                });
                let as_stated = row.iter().flatten().all(|verdict| verdict.is_as_stated());
                let as_stated = if as_stated { "yes" } else { "NO" };
                grid.add_row(
                    [shown_name.to_string(), property.to_string()]
                        .into_iter()
                        .chain(cells)
                        .chain([as_stated.to_string()]),
                );
            }
        }
        for column in grid.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let shard = if self.shard == Shard::WHOLE {
            String::new()
        } else {
            format!("Shard {} alone: other shards have the verdicts of blank cells.\n", self.shard)
        };
        format!(
            "{}\n{}\n\n✓ n   holds in all n schedules within the bounds\n\
             ✓ ~n  holds in n schedules: some explorations were too large, so that a sample was run, too\n\
             ✗ n   violated; the shortest counterexample has n steps\n\
             –     not asked: without a meaning here, or a class that this one combines breaks it\n\n\
             {}{}{shard}{} of {} verdicts are as stated. For a counterexample: lockstep explain NAME\n\
             {} schedules explored; {} more blocked: they ended early, because others cover them\n\
             Each exploration of a cell, with its size: --format json",
            self.heads(),
            drawn(&grid),
            self.other_bounds(),
            self.sampled(),
            self.verdicts.iter().filter(|row| row.is_as_stated()).count(),
            self.verdicts.len(),
            grouped(self.schedules),
            grouped(self.blocked),
        )
    }

    /// Renders the bounds of each column.
    fn heads(&self) -> String {
        let mut text =
            format!("Bounds, with leases of {} ms. Each line is explored by itself.\n", LEASE.as_millis());
        for class in FaultClass::ALL {
            for (nth, bound) in self.bounds[class.name()].iter().enumerate() {
                let name = if nth == 0 { class.name() } else { "" };
                text += &format!("  {name:<7} {bound}\n");
            }
        }
        text
    }

    /// Renders the classes in which an algorithm has more schedules than were run one by one. Each
    /// column has another limit.
    fn sampled(&self) -> String {
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
        let mut grid = Grid::new();
        let heads = classes.keys().map(|Reverse(limit)| format!("more than {} schedules", grouped(*limit)));
        grid.load_preset(presets::NOTHING).set_header(std::iter::once("sampled".into()).chain(heads));
        for algorithm in &self.algorithms {
            let of_algorithm = |of_limit: &BTreeMap<&str, Vec<&str>>| {
                of_limit.get(algorithm.as_str()).map_or(String::new(), |classes| classes.join(" "))
            };
            let cells: Vec<String> = classes.values().map(of_algorithm).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                grid.add_row(std::iter::once(algorithm.clone()).chain(cells));
            }
        }
        drawn(&grid) + "\n\n"
    }

    /// Renders the algorithms whose bounds are not those in the head of the table.
    fn other_bounds(&self) -> String {
        let times_out = |algorithm: &&Algorithm| algorithm.spec.can(Ability::TimesOut);
        let names: Vec<_> = self.known_algorithms().into_iter().filter(times_out).map(|of| of.name).collect();
        match &names[..] {
            [] => String::new(),
            names => format!("Late replies in every bound with stalls: {}\n\n", names.join(", ")),
        }
    }
}

/// The lines of a grid, without spaces at their ends.
fn drawn(grid: &Grid) -> String {
    let lines: Vec<_> = grid.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}
