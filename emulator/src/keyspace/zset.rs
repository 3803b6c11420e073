//! A sorted set: members ordered by score, then by bytes, with ranks in logarithmic time.

use std::ops::Range;

use indexmap::IndexMap;
use indexset::BTreeSet;
use ordered_float::OrderedFloat;

use super::encoding::{Encoding, Limits, ListPack};
use super::{Hasher, Text};

/// Most members in one node of the order tree. Room for so many is made at once, and most sorted sets in tests are small; where they
/// are large, ranks take least with some 256.
const NODE_LEN_MAX: usize = 128;

type Score = OrderedFloat<f64>;

/// Members with scores. Scores are never NaN: whoever computes one refuses that.
#[derive(Clone, Debug)]
pub struct ZSet {
    scores: IndexMap<Text, Score, Hasher>,
    order: BTreeSet<(Score, Text)>,
    encoding: Encoding,
    limits: ListPack,
}

impl Default for ZSet {
    fn default() -> ZSet {
        ZSet {
            scores: IndexMap::default(),
            order: BTreeSet::with_maximum_node_size(NODE_LEN_MAX),
            encoding: Encoding::ListPack,
            limits: Limits::default().zset,
        }
    }
}

impl ZSet {
    /// What these members make, of which none comes twice: a listpack if they are few and short.
    pub fn of(members: impl IntoIterator<Item = (Text, f64)>, limits: &Limits) -> ZSet {
        let scores: IndexMap<_, _, _> =
            members.into_iter().map(|(member, score)| (member, OrderedFloat(score))).collect();
        let limits = limits.zset;
        let mut zset = ZSet { scores, encoding: Encoding::SkipList, limits, ..ZSet::default() };
        if zset.len() <= limits.len_max && zset.scores.keys().all(|member| limits.takes(member)) {
            zset.encoding = Encoding::ListPack;
            zset.scores.values_mut().for_each(|score| *score = Encoding::ListPack.score(*score));
        }
        for (member, &score) in &zset.scores {
            zset.order.insert((score, member.clone()));
        }
        zset
    }

    /// An empty one for this many members: where they will be too many for a listpack it is none from the start.
    pub fn for_len(len: usize, limits: &Limits) -> ZSet {
        let limits = limits.zset;
        let encoding = if len > limits.len_max { Encoding::SkipList } else { Encoding::ListPack };
        ZSet { encoding, limits, ..ZSet::default() }
    }

    /// From now on these limits hold.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.limits = limits.zset;
    }

    /// It is no listpack any more, whatever is in it.
    pub fn outgrow(&mut self) {
        self.encoding = Encoding::SkipList;
    }

    /// In which form Redis would keep it.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|score| score.0)
    }

    /// A member by its place in no order in particular: new members come last, and a removal moves the last one into the gap.
    pub fn at(&self, place: usize) -> Option<(&Text, f64)> {
        self.scores.get_index(place).map(|(member, score)| (member, score.0))
    }

    /// The member of this rank, with its score.
    pub fn nth(&self, rank: usize) -> Option<(&Text, f64)> {
        self.order.get_index(rank).map(|(score, member)| (member, score.0))
    }

    /// The members, in no order in particular.
    pub fn members(&self) -> impl Iterator<Item = &Text> {
        self.scores.keys()
    }

    /// Adds a member or moves it to another score, and gives the one that it had.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let score = OrderedFloat(score);
        let (member, score, old) = match self.scores.get_full_mut(member) {
            Some((_, member, own)) => {
                let score = self.encoding.score(score);
                let old = (std::mem::replace(own, score), member.clone());
                self.order.remove(&old);
                (old.1, score, Some(old.0.0))
            }
            None => {
                if self.scores.len() >= self.limits.len_max || !self.limits.takes(member) {
                    self.encoding = Encoding::SkipList;
                }
                let member = Text::from(member);
                let score = self.encoding.score(score);
                self.scores.insert(member.clone(), score);
                (member, score, None)
            }
        };
        self.order.insert((score, member));
        old
    }

    /// Removes a member, and says whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self.scores.swap_remove_entry(member) {
            Some((member, score)) => self.order.remove(&(score, member)),
            None => false,
        }
    }

    /// How many members stand before this place: a member's own, if it has this score.
    pub fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.order.rank(&(OrderedFloat(score), Text::from(member)))
    }

    /// How many members at the front satisfy `is_before`, which must hold for a prefix of the order and for nothing else.
    pub fn partition_point(&self, is_before: impl Fn(&[u8], f64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (score, member) = self.order.get_index(middle).expect("the middle is below the length");
            if is_before(member, score.0) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The members of these ranks, in order.
    pub fn range(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = (&Text, f64)> {
        // The tree's own `range_idx` takes no empty range.
        let members = (!ranks.is_empty()).then(|| self.order.range_idx(ranks));
        members.into_iter().flatten().map(|(score, member)| (member, score.0))
    }
}

impl Encoding {
    /// A score as it is kept: in a listpack an integer where it is one, and an integer has but one zero.
    fn score(self, score: Score) -> Score {
        if self == Encoding::ListPack { score + 0.0 } else { score }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The tree against a sorted vector, across many node splits.
        #[test]
        fn behaves_as_a_sorted_vector(ops in prop::collection::vec((0u16..1600, -3i8..4, 0..4u8), 1..4000)) {
            let (mut zset, mut model) = (ZSet::default(), std::collections::BTreeMap::new());
            for (member, score, what) in ops {
                let name = member.to_string();
                if what > 0 {
                    zset.insert(name.as_bytes(), f64::from(score));
                    model.insert(name, score);
                } else {
                    prop_assert_eq!(zset.remove(name.as_bytes()), model.remove(&name).is_some());
                }
            }
            let mut sorted: Vec<_> = model.iter().map(|(name, &score)| (score, name.clone())).collect();
            sorted.sort();
            let seen: Vec<_> = zset.range(0..zset.len()).map(|(m, s)| (s as i8, String::from_utf8_lossy(m).into_owned())).collect();
            prop_assert_eq!(&seen, &sorted);
            let mut reversed: Vec<_> = zset.range(0..zset.len()).rev().map(|(m, s)| (s as i8, String::from_utf8_lossy(m).into_owned())).collect();
            reversed.reverse();
            prop_assert_eq!(&reversed, &sorted);
            for (rank, (score, name)) in sorted.iter().enumerate() {
                prop_assert_eq!(zset.rank(f64::from(*score), name.as_bytes()), rank);
                prop_assert_eq!(zset.score(name.as_bytes()), Some(f64::from(*score)));
            }
            for bound in -4..5 {
                let below = sorted.iter().filter(|(score, _)| *score < bound).count();
                prop_assert_eq!(zset.partition_point(|_, score| score < f64::from(bound)), below);
                let seen: Vec<_> = zset.range(below..zset.len()).map(|(m, _)| m.clone()).collect();
                prop_assert_eq!(seen.len(), sorted.len() - below);
            }
        }
    }
}
