//! Lists.

use std::collections::{VecDeque, vec_deque};
use std::ops::Range;

use bytes::Bytes;

use super::ITEM_BYTES;
use super::dict::shrunk;

/// A list. Its head is the front.
#[derive(Clone, Debug, Default)]
pub struct List {
    elements: VecDeque<Bytes>,
    /// The bytes of all elements.
    content_bytes: usize,
}

impl std::hash::Hash for List {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.elements.hash(state);
    }
}

impl List {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// About how many bytes the elements take.
    pub(super) fn memory(&self) -> usize {
        self.len() * ITEM_BYTES + self.content_bytes
    }

    /// The element at an index.
    pub fn get(&self, idx: usize) -> Option<&Bytes> {
        self.elements.get(idx)
    }

    /// The elements from head to tail.
    pub fn iter(&self) -> vec_deque::Iter<'_, Bytes> {
        self.elements.iter()
    }

    /// The elements at these indexes, which must exist.
    pub fn range(&self, places: Range<usize>) -> vec_deque::Iter<'_, Bytes> {
        self.elements.range(places)
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: Bytes) {
        self.content_bytes += element.len();
        self.elements.push_front(element);
    }

    /// Adds an element at the tail.
    pub fn push_back(&mut self, element: Bytes) {
        self.content_bytes += element.len();
        self.elements.push_back(element);
    }

    /// Adds an element at an index, which must not exceed the length.
    pub fn insert(&mut self, idx: usize, element: Bytes) {
        self.content_bytes += element.len();
        self.elements.insert(idx, element);
    }

    /// Replaces the element at an index, which must exist.
    pub fn replace(&mut self, idx: usize, element: Bytes) {
        self.content_bytes += element.len();
        self.content_bytes -= std::mem::replace(&mut self.elements[idx], element).len();
    }

    /// Removes and returns the elements at these indexes, which must exist.
    pub fn take(&mut self, places: Range<usize>) -> impl DoubleEndedIterator<Item = Bytes> {
        self.content_bytes -= self.range(places.clone()).map(Bytes::len).sum::<usize>();
        if let Some(capacity) = shrunk(self.len(), self.elements.capacity()) {
            self.elements.shrink_to(capacity);
        }
        self.elements.drain(places)
    }

    /// Removes the elements at these indexes, which must exist and be in ascending order.
    ///
    /// It moves the elements between the first and the last of them, and then those on the shorter
    /// side.
    pub fn remove_at(&mut self, places: &[usize]) {
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return };
        let (mut gap, mut places) = (first, places.iter().peekable());
        for idx in first..=last {
            if places.next_if(|place| **place == idx).is_none() {
                self.elements.swap(gap, idx);
                gap += 1;
            }
        }
        drop(self.take(gap..last + 1));
    }

    /// Removes all elements but those at these indexes.
    pub fn keep(&mut self, places: Range<usize>) {
        drop(self.take(places.end..self.len()));
        drop(self.take(0..places.start));
    }
}

impl FromIterator<Bytes> for List {
    fn from_iter<I: IntoIterator<Item = Bytes>>(elements: I) -> List {
        let elements: VecDeque<Bytes> = elements.into_iter().collect();
        List { content_bytes: elements.iter().map(Bytes::len).sum(), elements }
    }
}
