//! Access to a sorted set member by member: commands on different members are independent.

use std::ops::Range;

use super::db::Db;
use super::encoding::Encoding;
use super::entry::Entry;
use super::event::Class;
use super::text::Text;
use super::value::ValueType;
use super::zset::ZSet;
use crate::error::{self, Error};
use crate::footprint::{Access, Part, Place};

/// A sorted set, or an empty one if the key is missing.
///
/// Each read and each change is recorded with the part that it concerns: a member, or places in the
/// order. If the set becomes empty, its key is removed, and subscribers get the event `del`.
///
/// Parts are recorded only if the set is small and its key has no deadline. Then the members are
/// all that the key holds.
pub struct Members<'a, 'k> {
    db: Db<'a>,
    key: &'k [u8],
    idx: Option<usize>,
    is_whole: bool,
}

impl<'a, 'k> Members<'a, 'k> {
    /// The live sorted set at this index. If `is_whole`, the read of the whole key is already
    /// recorded.
    pub(super) fn at(db: Db<'a>, key: &'k [u8], idx: Option<usize>, is_whole: bool) -> Members<'a, 'k> {
        Members { db, key, idx, is_whole }
    }

    /// Whether the parts of a key can be recorded: it is a small sorted set without a deadline.
    pub(super) fn are_apart(entry: &Entry) -> bool {
        let zset = <ZSet as ValueType>::of(&entry.value);
        entry.deadline().is_none() && zset.is_some_and(|zset| zset.encoding() == Encoding::ListPack)
    }

    /// The score of a member.
    pub fn score(&mut self, member: &[u8]) -> Option<f64> {
        self.touch(Access::Read, Part::Member(member));
        self.zset()?.score(member)
    }

    /// How many members come before this one in the order.
    pub fn rank(&mut self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        self.touch(Access::Read, Part::Places(Place::FIRST, Place::of(score, member)));
        Some(self.zset()?.rank(score, member))
    }

    /// How many members come after this one in the order.
    pub fn reverse_rank(&mut self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        self.touch(Access::Read, Part::Places(Place::of(score, member), Place::LAST));
        let zset = self.zset()?;
        Some(zset.len() - 1 - zset.rank(score, member))
    }

    /// The sorted set, for a caller that reads only the members between two places. `None` if there
    /// is no such key.
    pub fn between(&mut self, from: Place<'_>, to: Place<'_>) -> Option<&ZSet> {
        self.touch(Access::Read, Part::Places(from, to));
        self.zset()
    }

    /// Adds a member, or moves it to another score.
    pub fn insert(&mut self, member: &[u8], score: f64) {
        let idx = self.idx.unwrap_or_else(|| self.db.create(self.key, ZSet::default().into()));
        self.idx = Some(idx);
        let old = self.change(idx, |zset| zset.insert(member, score));
        self.touch(Access::Write, Part::Member(member));
        for score in old.into_iter().chain([score]) {
            self.touch(Access::Write, Part::Places(Place::of(score, member), Place::of(score, member)));
        }
    }

    /// Removes a member, and returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let (Some(idx), Some(score)) = (self.idx, self.score(member)) else { return false };
        self.change(idx, |zset| zset.remove(member));
        self.touch(Access::Write, Part::Member(member));
        self.touch(Access::Write, Part::Places(Place::of(score, member), Place::of(score, member)));
        true
    }

    /// Removes the members of these ranks, which the caller has just read.
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        let Some(idx) = self.idx.filter(|_| !ranks.is_empty()) else { return };
        if self.is_whole {
            self.change(idx, |zset| zset.remove_range(ranks));
            // Its reader is recorded already.
            return self.touch(Access::Write, Part::Whole);
        }
        let members: Vec<Text> = self
            .zset()
            .map_or_else(Vec::new, |zset| zset.range(ranks).map(|(member, _)| member.clone()).collect());
        for member in &members {
            self.remove(member);
        }
    }

    /// Records that Redis has written its reply by now, as [`Db::answer`] does.
    pub fn answer(&mut self) {
        self.db.answer();
    }

    /// Records an event under its Redis name.
    pub fn notify(&mut self, event: &'static str) {
        self.db.notify(Class::ZSet, event, self.key);
    }

    fn zset(&self) -> Option<&ZSet> {
        let value = &self.db.dict[self.idx?].value;
        Some(<ZSet as ValueType>::of(value).expect("the kind was checked in the beginning"))
    }

    fn change<R>(&mut self, idx: usize, change: impl FnOnce(&mut ZSet) -> R) -> R {
        let (outcome, is_whole) = self.db.dict.change(idx, |entry| {
            let zset =
                <ZSet as ValueType>::of_mut(&mut entry.value).expect("the kind was checked in the beginning");
            zset.limit(self.db.limits);
            let outcome = change(zset);
            (outcome, !Members::are_apart(entry))
        });
        self.is_whole |= is_whole;
        outcome
    }

    fn touch(&mut self, access: Access, part: Part<'_>) {
        if !self.is_whole {
            self.db.footprint.part(access, self.db.index, self.key, part);
        } else if access == Access::Write {
            let deadline = self.idx.and_then(|idx| self.db.dict[idx].deadline());
            self.db.footprint.key(access, self.db.index, self.key, deadline);
        }
    }
}

impl Drop for Members<'_, '_> {
    fn drop(&mut self) {
        if let Some(idx) = self.idx
            && self.zset().is_some_and(|zset| zset.len() == 0)
        {
            self.db.discard(idx);
        }
    }
}

impl<'a> Db<'a> {
    /// A sorted set, to be read and changed member by member. It is empty if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn members<'k>(mut self, key: &'k [u8]) -> Result<Members<'a, 'k>, Error> {
        let idx = self.dict.get_index_of(key);
        let is_whole = idx.is_some_and(|idx| !Members::are_apart(&self.dict[idx]));
        if is_whole {
            self.look_at(key, idx);
        }
        let idx = self.keep_alive(key, idx);
        self.count(key, idx);
        if let Some(idx) = idx {
            self.dict.touch(idx, self.now);
            <ZSet as ValueType>::of(&self.dict[idx].value).ok_or(error::WRONG_TYPE)?;
        }
        Ok(Members::at(self, key, idx, is_whole))
    }
}
