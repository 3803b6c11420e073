//! Changes a value in place.

use std::marker::PhantomData;

use super::db::Db;
use super::encoding::Encoding;
use super::event::Class;
use super::random::Random;
use super::value::{Value, ValueType};
use crate::error::{self, Error};
use crate::footprint::Access;

/// A value that may be changed in place.
///
/// [`Edit::get`] reads the value. [`Edit::write`] makes the execution a writer, so call it only if
/// something will change. If the value becomes empty, its key is removed, and subscribers get the
/// event `del`.
pub struct Edit<'a, T: ValueType> {
    db: Db<'a>,
    idx: usize,
    has_written: bool,
    kind: PhantomData<T>,
}

impl<'a, T: ValueType> Edit<'a, T> {
    /// The value at this index. It must be of the type `T`.
    pub(super) fn at(db: Db<'a>, idx: usize) -> Edit<'a, T> {
        Edit { db, idx, has_written: false, kind: PhantomData }
    }

    /// The value, for reading.
    pub fn get(&self) -> &T {
        T::of(&self.db.dict[self.idx].value).expect("the kind was checked when the edit began")
    }

    /// The value, for changing.
    pub fn write(&mut self) -> &mut T {
        let dict = &mut *self.db.dict;
        let (key, entry) = if self.has_written { dict.opened(self.idx) } else { dict.open(self.idx) };
        self.has_written = true;
        self.db.footprint.key(Access::Write, self.db.index, key, entry.deadline());
        let value = T::of_mut(&mut entry.value).expect("the kind was checked when the edit began");
        value.limit(self.db.limits);
        value
    }

    /// The random generator, as [`Db::random`] returns it.
    pub fn random(&mut self) -> &mut Random {
        self.db.random()
    }

    /// Records that Redis has written its reply by now, as [`Db::answer`] does.
    pub fn answer(&mut self) {
        self.db.answer();
    }

    /// Records that Redis has written a part of its reply by now, as [`Db::answer_in_part`] does.
    pub fn answer_in_part(&mut self, parts: usize) {
        self.db.answer_in_part(parts);
    }

    /// Records an event under its Redis name: `list.notify(Class::List, "lpush")`.
    pub fn notify(&mut self, class: Class, event: &'static str) {
        let (key, _) = self.db.dict.get_index(self.idx).expect("an edit holds the key in place");
        self.db.events.record(class, event, self.db.index, key);
    }
}

impl<T: ValueType> Drop for Edit<'_, T> {
    fn drop(&mut self) {
        if self.has_written {
            let (_, entry) = self.db.dict.opened(self.idx);
            entry.encoding = Encoding::after_edit(&entry.value);
            self.db.dict.close(self.idx);
        }
        if self.get().is_empty() {
            self.db.discard(self.idx);
        }
    }
}

impl<'a> Db<'a> {
    /// The value of a live key as one type, to be changed in place.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn edit<T: ValueType>(self, key: &[u8]) -> Result<Option<Edit<'a, T>>, Error> {
        self.edit_with(key, None)
    }

    /// The value of a live key as one type, to be changed in place. If there is no such key, it is
    /// created with an empty value.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn edit_or_create<T: ValueType>(self, key: &[u8]) -> Result<Edit<'a, T>, Error> {
        let edit = self.edit_with(key, Some(|| T::default().into()))?;
        Ok(edit.expect("what is missing was created"))
    }

    fn edit_with<T: ValueType>(
        mut self,
        key: &[u8],
        create: Option<fn() -> Value>,
    ) -> Result<Option<Edit<'a, T>>, Error> {
        let idx = match (self.access(key), create) {
            (Some(idx), _) => idx,
            (None, Some(empty)) => self.create(key, empty()),
            (None, None) => return Ok(None),
        };
        if T::of(&self.dict[idx].value).is_none() {
            return Err(error::WRONG_TYPE);
        }
        Ok(Some(Edit::at(self, idx)))
    }
}
