//! The parts of a table or an exploration that several processes run. A part depends on names and
//! numbers alone, so that every process knows which one it has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fingerprint::fingerprint;

/// The largest number of parts.
const SHARDS_MAX: usize = 1_000;

/// The number of a branch: the number of actors, and its number among their branches.
pub type BranchId = (usize, usize);

/// The number of the trunk among the branches.
pub(super) const TRUNK: usize = 0;

/// One part of a whole, written `2/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// The number of parts.
    of: usize,
    /// The number of this part, from 1.
    nth: usize,
}

/// Why a text or two numbers are no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write I/N for part I of N, as in 2/3: I from 1 to N, and N at most {SHARDS_MAX}")]
pub struct ShardError;

impl Shard {
    /// The only part: everything.
    pub const WHOLE: Shard = Shard { nth: 1, of: 1 };

    /// Part `nth` of `of`, counted from 1.
    ///
    /// # Errors
    /// There is no such part, or there are too many.
    pub fn new(nth: usize, of: usize) -> Result<Shard, ShardError> {
        let is_valid = 1 <= nth && nth <= of && of <= SHARDS_MAX;
        is_valid.then_some(Shard { nth, of }).ok_or(ShardError)
    }

    /// All parts of this division, in order.
    pub fn all(self) -> impl Iterator<Item = Shard> {
        (1..=self.of).map(move |nth| Shard { nth, ..self })
    }

    /// Whether this part has what cannot be divided and has this name. Many small things are
    /// spread.
    pub fn has(self, name: &str) -> bool {
        (fingerprint(name) % self.of as u64) as usize == self.nth - 1
    }

    /// The numbers of this part among `0..count`. Each number belongs to one part, and two parts
    /// differ by at most one number. Neighbours, which are often alike, are spread at random.
    pub fn deal(self, name: &str, count: usize) -> Vec<usize> {
        let hash = |nth: &usize| fingerprint((name, nth));
        let mut shuffled: Vec<usize> = (0..count).collect();
        shuffled.sort_unstable_by_key(hash);
        let mut dealt: Vec<usize> = shuffled.into_iter().skip(self.nth - 1).step_by(self.of).collect();
        dealt.sort_unstable();
        dealt
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let (nth, of) = text.split_once('/').ok_or(ShardError)?;
        let number = |digits: &str| digits.parse().map_err(|_| ShardError);
        Shard::new(number(nth)?, number(of)?)
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Shard, ShardError> {
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
    use super::{Shard, ShardError};

    #[test]
    fn every_number_is_of_one_part() {
        for (count, of) in [(0, 3), (1, 3), (100, 8), (7, 8), (133, 1)] {
            let parts = Shard { nth: 1, of }.all().map(|shard| shard.deal("my lock", count));
            let parts: Vec<Vec<usize>> = parts.collect();
            let mut all: Vec<usize> = parts.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            let sizes = parts.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    fn every_name_is_of_one_part_and_no_part_has_few() {
        let mut counts = [0; 4];
        for nth in 0..400 {
            let name = format!("lock {nth}");
            let owners: Vec<Shard> = Shard { nth: 1, of: 4 }.all().filter(|shard| shard.has(&name)).collect();
            assert_eq!(owners.len(), 1);
            counts[owners[0].nth - 1] += 1;
        }
        assert!(counts.iter().all(|&count| count > 70), "{counts:?}");
    }

    #[test]
    fn a_part_is_written_i_of_n() {
        assert_eq!("2/3".parse(), Shard::new(2, 3));
        for wrong in ["9/8", "0/8", "x", "", "/", "1/", "1/1001", "-1/8", "1/8/8", " 1/8", "1.0/8"] {
            assert_eq!(wrong.parse::<Shard>(), Err(ShardError), "{wrong:?}");
        }
    }
}
