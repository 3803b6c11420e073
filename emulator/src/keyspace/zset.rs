//! A sorted set: members ordered by score, then by bytes, with ranks in logarithmic time.

use std::ops::Range;

use indexmap::IndexMap;
use ordered_float::OrderedFloat;

use super::encoding::{Encoding, Limits, ListPack};
use super::order::{Order, Score};
use super::table::{Hasher, ITEM_BYTES, shrunk};
use super::text::Text;

/// From this number on, many members are removed in one walk over all.
const SWEEP_LEN_MIN: usize = 4096;

/// Members with scores. Scores are never NaN: code that computes a score refuses NaN.
#[derive(Clone, Debug)]
pub struct ZSet {
    scores: IndexMap<Text, Score, Hasher>,
    order: Order,
    encoding: Encoding,
    limits: ListPack,
    /// The bytes of all members.
    content_bytes: usize,
}

impl Default for ZSet {
    fn default() -> ZSet {
        ZSet {
            scores: IndexMap::default(),
            order: Order::default(),
            encoding: Encoding::ListPack,
            limits: Limits::default().zset,
            content_bytes: 0,
        }
    }
}

/// The order follows from the scores. Sorted sets are equal for this if they have also been filled
/// in the same order.
impl std::hash::Hash for ZSet {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.scores.iter().for_each(|member| member.hash(state));
        (self.len(), self.encoding, self.limits).hash(state);
    }
}

impl ZSet {
    /// A sorted set of these members, which must be distinct. It is a listpack if they are few and
    /// short.
    pub fn of(members: impl IntoIterator<Item = (Text, f64)>, limits: &Limits) -> ZSet {
        let scores: IndexMap<_, _, _> =
            members.into_iter().map(|(member, score)| (member, OrderedFloat(score))).collect();
        let limits = limits.zset;
        let mut zset = ZSet { scores, encoding: Encoding::SkipList, limits, ..ZSet::default() };
        if zset.len() <= limits.len_max && zset.scores.keys().all(|member| limits.takes(member)) {
            zset.encoding = Encoding::ListPack;
            zset.scores.values_mut().for_each(|score| *score = Encoding::ListPack.score(*score));
        }
        zset.content_bytes = zset.scores.keys().map(|member| member.len()).sum();
        let mut items: Vec<_> = zset.scores.iter().map(|(member, &score)| (score, member.clone())).collect();
        items.sort_unstable();
        zset.order = Order::of_sorted(items);
        zset
    }

    /// An empty sorted set for this many members. If they are too many for a listpack, it never is
    /// one.
    pub fn for_len(len: usize, limits: &Limits) -> ZSet {
        let limits = limits.zset;
        let encoding = if len > limits.len_max { Encoding::SkipList } else { Encoding::ListPack };
        ZSet { encoding, limits, ..ZSet::default() }
    }

    /// About how many bytes the members and scores take.
    pub(super) fn memory(&self) -> usize {
        self.len() * (ITEM_BYTES + size_of::<f64>()) + self.content_bytes
    }

    /// Sets the limits that apply from now on.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.limits = limits.zset;
    }

    /// Ends the listpack encoding, whatever the members are.
    pub fn outgrow(&mut self) {
        self.encoding = Encoding::SkipList;
    }

    /// The encoding that Redis would use.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|score| score.0)
    }

    /// The member at an index, in no particular order.
    ///
    /// New members come last, and a removal moves the last member into the gap.
    pub fn at(&self, place: usize) -> Option<(&Text, f64)> {
        self.scores.get_index(place).map(|(member, score)| (member, score.0))
    }

    /// The member of this rank, with its score.
    pub fn nth(&self, rank: usize) -> Option<(&Text, f64)> {
        self.order.get(rank).map(|(score, member)| (member, score.0))
    }

    /// Adds a member or moves it to another score, and returns its old score.
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
                self.content_bytes += member.len();
                let member = Text::from(member);
                let score = self.encoding.score(score);
                self.scores.insert(member.clone(), score);
                (member, score, None)
            }
        };
        self.order.insert((score, member));
        old
    }

    /// Removes a member, and returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.swap_remove_entry(member) else { return false };
        self.content_bytes -= member.len();
        self.order.remove(&(score, member));
        self.shrink();
        true
    }

    /// Removes the members of these ranks.
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        if ranks.len() < SWEEP_LEN_MIN.max(self.len() / 4) {
            for (_, member) in self.order.range(ranks.clone()) {
                self.content_bytes -= member.len();
                self.scores.swap_remove(member);
            }
        } else if let (Some(first), Some(last)) = (self.order.get(ranks.start), self.order.get(ranks.end - 1))
        {
            // Faster than as many lookups.
            self.scores.retain(|member, score| {
                let place = (&*score, member);
                let stays = place < (&first.0, &first.1) || place > (&last.0, &last.1);
                self.content_bytes -= if stays { 0 } else { member.len() };
                stays
            });
        }
        self.order.remove_range(ranks);
        self.shrink();
    }

    fn shrink(&mut self) {
        if let Some(capacity) = shrunk(self.scores.len(), self.scores.capacity()) {
            self.scores.shrink_to(capacity);
        }
    }

    /// How many members come before this score and member. If the member has this score, the result
    /// is its rank.
    pub fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.order.rank(OrderedFloat(score), member)
    }

    /// How many members satisfy `is_before`. It must hold for a prefix of the order and for no
    /// other members.
    pub fn partition_point(&self, is_before: impl Fn(&[u8], f64) -> bool) -> usize {
        self.order.partition_point(|(score, member)| is_before(member, score.0))
    }

    /// The members of these ranks, in order.
    pub fn range(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = (&Text, f64)> {
        self.order.range(ranks).map(|(score, member)| (member, score.0))
    }
}

impl Encoding {
    /// The score as the encoding stores it. A listpack stores a whole score as an integer, which
    /// has no negative zero.
    fn score(self, score: Score) -> Score {
        if self == Encoding::ListPack { score + 0.0 } else { score }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_range_is_removed_as_a_short_one() {
        let members = (0..10_000).map(|n| (Text::from(n.to_string().as_bytes()), f64::from(n % 7)));
        let mut zset = ZSet::of(members, &Limits::default());
        let all: Vec<Text> = zset.range(0..10_000).map(|(member, _)| member.clone()).collect();
        zset.remove_range(10..9000);
        let left: Vec<&Text> = all[..10].iter().chain(&all[9000..]).collect();
        assert_eq!(zset.range(0..zset.len()).map(|(member, _)| member).collect::<Vec<_>>(), left);
        assert_eq!(left.iter().filter(|member| zset.score(member).is_some()).count(), zset.len());
        assert_eq!(zset.content_bytes, left.iter().map(|member| member.len()).sum::<usize>());
    }

    proptest! {
        /// Compares the tree with a sorted vector, across many node splits.
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
