//! The part of the table that a run checks.

use std::fmt;
use std::str::FromStr;

use harness::check::properties;
use locks::registry::{Algorithm, FaultClass};
use serde::{Deserialize, Serialize};

/// The largest number of shards. There are fewer cells than that.
const SHARDS_MAX: usize = 1_000;

/// The names of an algorithm, a fault class and a property.
pub(crate) type Question<'a> = (&'a str, &'a str, &'a str);

/// One part of the table, written `2/3`. Each cell, an algorithm in a fault class, belongs to
/// exactly one shard.
///
/// Cells are assigned along the diagonals. For each algorithm, and for each class, the shards'
/// numbers of cells differ by at most one. An algorithm with many commands is expensive, and so is
/// a class with many places for its fault. The diagonals spread both. The assignment depends only
/// on the names, and not on running times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Shard {
    /// The number of the shard, from 1.
    nth: usize,
    of: usize,
}

impl Shard {
    pub(crate) const WHOLE: Shard = Shard { nth: 1, of: 1 };

    /// All shards of this division, in order.
    pub(crate) fn all(self) -> impl Iterator<Item = Shard> {
        (1..=self.of).map(move |nth| Shard { nth, ..self })
    }

    /// Whether the cell in this row and column belongs to this shard.
    pub(crate) fn has(self, row: usize, column: usize) -> bool {
        (row + column) % self.of == self.nth - 1
    }

    /// The cells of this shard in the table of these algorithms, row by row.
    pub(crate) fn cells(self, algorithms: &[&'static Algorithm]) -> Vec<(&'static Algorithm, FaultClass)> {
        let rows = algorithms.iter().enumerate();
        let all = rows.flat_map(|(row, &algorithm)| {
            let columns = FaultClass::ALL.iter().enumerate();
            columns.map(move |(column, &class)| ((row, column), (algorithm, class)))
        });
        all.filter(|&((row, column), _)| self.has(row, column)).map(|(_, cell)| cell).collect()
    }

    /// The names of the algorithm, class and property of each verdict in its cells.
    pub(crate) fn questions(self, algorithms: &[&'static Algorithm]) -> Vec<Question<'static>> {
        let cells = self.cells(algorithms).into_iter();
        let asked = cells.flat_map(|(algorithm, class)| {
            let properties = properties(algorithm, class).into_iter();
            properties.map(move |property| (algorithm.name, class.name(), property.name()))
        });
        asked.collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(nth, of)| Some((nth.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((nth, of)) if 1 <= nth && nth <= of && of <= SHARDS_MAX => Ok(Shard { nth, of }),
            _ => Err(format!(
                "write I/N for part I of N, as in 2/3: I from 1 to N, and N at most {SHARDS_MAX}"
            )),
        }
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Shard, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use locks::registry::{ALGORITHMS, FaultClass};

    use super::Shard;

    #[test]
    fn every_cell_is_of_one_shard_and_no_row_or_column_of_few() {
        let algorithms: Vec<_> = ALGORITHMS.iter().collect();
        let cells = |shard: Shard| {
            let named =
                shard.cells(&algorithms).into_iter().map(|(algorithm, class)| (algorithm.name, class));
            named.collect::<Vec<_>>()
        };
        let whole = cells(Shard::WHOLE);
        assert_eq!(whole.len(), ALGORITHMS.len() * FaultClass::ALL.len());
        for of in 1..=whole.len() + 1 {
            let shards: Vec<_> = Shard { nth: 1, of }.all().map(cells).collect();
            assert_eq!(shards.len(), of);
            for cell in &whole {
                assert_eq!(shards.iter().filter(|cells| cells.contains(cell)).count(), 1);
            }
            let spread = |is_counted: &dyn Fn(&(&str, FaultClass)) -> bool| {
                let counts = shards.iter().map(|cells| cells.iter().filter(|cell| is_counted(cell)).count());
                counts.clone().max().unwrap() - counts.min().unwrap()
            };
            assert!(FaultClass::ALL.iter().all(|&class| spread(&|cell| cell.1 == class) <= 1), "{of}");
            assert!(ALGORITHMS.iter().all(|one| spread(&|cell| cell.0 == one.name) <= 1), "{of}");
        }
    }
}
