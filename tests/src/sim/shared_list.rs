//! A list whose copies share their elements.

use std::hash::{BuildHasher as _, Hash};
use std::ops::{Index, IndexMut};
use std::sync::{Arc, OnceLock};

use foldhash::quality::FixedState;

/// A list that is cheap to copy: an element is copied when it changes, and not with the list. The
/// hash of an element is computed again when it has changed.
#[derive(Clone)]
pub(crate) struct SharedList<T>(Vec<Arc<Element<T>>>);

struct Element<T> {
    value: T,
    hash: OnceLock<u64>,
}

impl<T> Element<T> {
    fn new(value: T) -> Element<T> {
        Element { value, hash: OnceLock::new() }
    }
}

/// A copy is made to be changed.
impl<T: Clone> Clone for Element<T> {
    fn clone(&self) -> Element<T> {
        Element::new(self.value.clone())
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList(Vec::new())
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> SharedList<T> {
        SharedList(elements.into_iter().map(|value| Arc::new(Element::new(value))).collect())
    }
}

impl<T> SharedList<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, idx: usize) -> Option<&T> {
        self.0.get(idx).map(|element| &element.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.0.iter().map(|element| &element.value)
    }

    pub(crate) fn push(&mut self, value: T) {
        self.0.push(Arc::new(Element::new(value)));
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T: Hash> SharedList<T> {
    /// The hashes of all elements.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        let hash_of = |value: &T| FixedState::default().hash_one(value);
        self.0.iter().map(move |element| *element.hash.get_or_init(|| hash_of(&element.value)))
    }
}

impl<T: Clone> SharedList<T> {
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(changed)
    }
}

/// An element that changes.
fn changed<T: Clone>(element: &mut Arc<Element<T>>) -> &mut T {
    let Element { value, hash } = Arc::make_mut(element);
    hash.take();
    value
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, idx: usize) -> &T {
        &self.0[idx].value
    }
}

impl<T: Clone> IndexMut<usize> for SharedList<T> {
    fn index_mut(&mut self, idx: usize) -> &mut T {
        changed(&mut self.0[idx])
    }
}
