//! A value while it is changed in place.

use std::marker::PhantomData;

use super::{Class, Db, Encoding, Kind, Random};
use crate::footprint::Access;

/// A value that may be changed in place. Reading goes through [`Edit::get`]; [`Edit::write`] is what makes the execution
/// a writer, so it is called only when something will change. A value left empty goes away with its key, and those who listen
/// are told so (`del`).
pub struct Edit<'a, T: Kind> {
    db: Db<'a>,
    idx: usize,
    has_written: bool,
    kind: PhantomData<T>,
}

impl<'a, T: Kind> Edit<'a, T> {
    /// Of the value at this place, which is of this kind.
    pub(super) fn at(db: Db<'a>, idx: usize) -> Edit<'a, T> {
        Edit { db, idx, has_written: false, kind: PhantomData }
    }

    /// The value as it is.
    pub fn get(&self) -> &T {
        T::of(&self.db.dict[self.idx].value).expect("the kind was checked when the edit began")
    }

    /// The value, to be changed.
    pub fn write(&mut self) -> &mut T {
        self.has_written = true;
        let (key, entry) = self.db.dict.get_index_mut(self.idx).expect("an edit holds the key in place");
        self.db.footprint.key(Access::Write, self.db.index, key, entry.deadline());
        let value = T::of_mut(&mut entry.value).expect("the kind was checked when the edit began");
        value.limit(self.db.limits);
        value
    }

    /// Chance, as of [`Db::random`].
    pub fn random(&mut self) -> &mut Random {
        self.db.random()
    }

    /// Says that Redis has written its reply by now, as [`Db::answer`] does.
    pub fn answer(&mut self) {
        self.db.answer();
    }

    /// The same of a part of it, as [`Db::answer_in_part`] does.
    pub fn answer_in_part(&mut self, parts: usize) {
        self.db.answer_in_part(parts);
    }

    /// Tells those who listen what happened, in Redis's words: `list.notify(Class::List, "lpush")`.
    pub fn notify(&mut self, class: Class, event: &'static str) {
        let (key, _) = self.db.dict.get_index(self.idx).expect("an edit holds the key in place");
        self.db.events.record(class, event, self.db.index, key);
    }
}

impl<T: Kind> Drop for Edit<'_, T> {
    fn drop(&mut self) {
        if self.get().is_empty() {
            self.db.discard(self.idx);
        } else if self.has_written {
            let entry = &mut self.db.dict[self.idx];
            entry.encoding = Encoding::after_edit(&entry.value);
        }
    }
}
