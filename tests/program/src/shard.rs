//! The shards of the verdict table: which cells a run checks.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use harness::check::properties;
use harness::explore::Shard;
use locks::registry::{Algorithm, FaultClass, Property};

/// The CPU time of cells, each a line such as `mutex slow 120`, in milliseconds. Only their ratios
/// matter. `lockstep check --costs` prints them anew.
static COSTS: LazyLock<BTreeMap<(&str, &str), u64>> = LazyLock::new(|| {
    let cost = |line: &'static str| {
        let mut words = line.split(' ');
        let cell = (words.next()?, words.next()?);
        Some((cell, words.next()?.parse().ok()?))
    };
    let costs = include_str!("costs.txt").lines();
    costs.map(|line| cost(line).unwrap_or_else(|| panic!("costs.txt: {line:?}"))).collect()
});
/// The cost of a cell that is not in the table of costs.
const COST_UNKNOWN: u64 = 100;

/// An algorithm in a fault class.
pub(crate) type Cell = (&'static Algorithm, FaultClass);

/// The names of an algorithm, a fault class and a property.
pub(crate) type Question<'a> = (&'a str, &'a str, &'a str);

/// The cells of a shard in the table of these algorithms, row by row. Each cell belongs to exactly
/// one shard.
///
/// Cells are dealt by their costs, the most expensive ones first, each to the shard that has least
/// so far. The costs are a part of the program, so all machines deal alike.
pub(crate) fn cells(shard: Shard, algorithms: &[&'static Algorithm]) -> Vec<Cell> {
    let all =
        algorithms.iter().flat_map(|&algorithm| FaultClass::ALL.iter().map(move |&class| (algorithm, class)));
    let mut dearest: Vec<(usize, Cell)> = all.enumerate().collect();
    dearest.sort_by_key(|&(place, cell)| (Reverse(cost(cell)), place));
    let mut loads: Vec<(u64, Shard)> = shard.all().map(|shard| (0, shard)).collect();
    let mut own = Vec::new();
    for (place, cell) in dearest {
        let (load, owner) = loads.iter_mut().min().expect("there is a shard");
        *load += cost(cell);
        if *owner == shard {
            own.push((place, cell));
        }
    }
    own.sort_by_key(|&(place, _)| place);
    own.into_iter().map(|(_, cell)| cell).collect()
}

/// The names of the algorithm, class and property of each verdict of a shard.
pub(crate) fn questions(shard: Shard, algorithms: &[&'static Algorithm]) -> Vec<Question<'static>> {
    let asked = cells(shard, algorithms).into_iter().flat_map(|(algorithm, class)| {
        let properties = properties(algorithm, class).into_iter();
        properties.map(move |property| (algorithm.name, class.name(), property.name()))
    });
    asked.collect()
}

/// The properties that are asked of an algorithm in some fault class.
pub(crate) fn asked(algorithm: &Algorithm) -> Vec<Property> {
    let is_asked = |property: &Property| {
        FaultClass::ALL.iter().any(|&class| properties(algorithm, class).contains(property))
    };
    Property::ALL.iter().copied().filter(is_asked).collect()
}

/// The cost of a cell, and at least one, so that cells without any are spread, too.
pub(crate) fn cost((algorithm, class): Cell) -> u64 {
    COSTS.get(&(algorithm.name, class.name())).copied().unwrap_or(COST_UNKNOWN).max(1)
}

#[cfg(test)]
mod tests {
    use harness::explore::Shard;
    use locks::registry::{ALGORITHMS, FaultClass};

    use super::{COSTS, cells, cost};

    #[test]
    fn every_cell_is_of_one_shard() {
        let all: Vec<_> = ALGORITHMS.iter().collect();
        // Two algorithms have fewer cells than there are shards in the end.
        let more_than_cells = 2 * FaultClass::ALL.len() + 1;
        for (algorithms, divisions) in [(&all[..], &[1, 2, 3, 8, 50][..]), (&all[..2], &[more_than_cells])] {
            let named = |shard| {
                let cells = cells(shard, algorithms).into_iter();
                cells.map(|(algorithm, class)| (algorithm.name, class.name())).collect::<Vec<_>>()
            };
            let whole = named(Shard::WHOLE);
            assert_eq!(whole.len(), algorithms.len() * FaultClass::ALL.len());
            for &of in divisions {
                let shards: Vec<_> = Shard::new(1, of).unwrap().all().map(named).collect();
                assert_eq!(shards.len(), of);
                for cell in &whole {
                    assert_eq!(shards.iter().filter(|cells| cells.contains(cell)).count(), 1);
                }
            }
        }
    }

    /// The shard with the highest cost has at most a ninth more than all shards have on average.
    #[test]
    fn shards_are_balanced() {
        let algorithms: Vec<_> = ALGORITHMS.iter().collect();
        for of in 2..=8 {
            let shards = Shard::new(1, of).unwrap().all().map(|shard| cells(shard, &algorithms));
            let loads: Vec<u64> = shards.map(|cells| cells.into_iter().map(cost).sum()).collect();
            let (sum, most) = (loads.iter().sum::<u64>(), loads.iter().max().unwrap());
            assert!(most * of as u64 * 9 <= sum * 10, "{loads:?}");
        }
    }

    #[test]
    fn costs_are_those_of_cells() {
        for (name, class) in COSTS.keys() {
            assert!(ALGORITHMS.iter().any(|algorithm| algorithm.name == *name), "{name} {class}");
            assert!(FaultClass::named(class).is_some(), "{name} {class}");
        }
    }
}
