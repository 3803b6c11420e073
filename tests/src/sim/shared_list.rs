//! A list whose copies share their elements.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// A list that is cheap to copy: an element is copied when it changes, and not with the list.
#[derive(Clone)]
pub(crate) struct SharedList<T>(Vec<Arc<T>>);

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList(Vec::new())
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> SharedList<T> {
        SharedList(elements.into_iter().map(Arc::new).collect())
    }
}

impl<T> SharedList<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, idx: usize) -> Option<&T> {
        self.0.get(idx).map(|element| &**element)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.0.iter().map(|element| &**element)
    }

    pub(crate) fn push(&mut self, value: T) {
        self.0.push(Arc::new(value));
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T: Clone> SharedList<T> {
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(Arc::make_mut)
    }
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, idx: usize) -> &T {
        &self.0[idx]
    }
}

impl<T: Clone> IndexMut<usize> for SharedList<T> {
    fn index_mut(&mut self, idx: usize) -> &mut T {
        Arc::make_mut(&mut self.0[idx])
    }
}
