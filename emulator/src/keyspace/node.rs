//! A node of a list: elements side by side in one block of memory.

use std::ops::Range;
use std::sync::Arc;

use super::table::shrunk;

/// The largest size of a node with several elements, in bytes. It is that of Redis's nodes.
const NODE_BYTES_MAX: usize = 8 << 10;

/// At least one element. A copy is cheap until one of the two is changed.
#[derive(Clone, Debug)]
pub(super) struct Node {
    block: Arc<Block>,
    /// How many elements the block has. Here a search over many nodes need not read their blocks.
    len: usize,
}

#[derive(Clone, Debug)]
struct Block {
    /// The elements, without anything between them.
    bytes: Vec<u8>,
    /// The end of each element.
    ends: Vec<usize>,
}

impl Node {
    /// A node of one element, which may be of any length.
    pub(super) fn of(element: &[u8]) -> Node {
        Node::from(Block { bytes: element.to_vec(), ends: vec![element.len()] })
    }

    /// How many elements there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes of all elements.
    pub(super) fn content_bytes(&self) -> usize {
        self.block.bytes.len()
    }

    /// The element at an index below the length.
    pub(super) fn get(&self, idx: usize) -> &[u8] {
        self.block.get(idx)
    }

    /// All elements.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.range(0..self.len)
    }

    /// The elements at these indexes, which must exist.
    pub(super) fn range(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = &[u8]> {
        let block = &*self.block;
        places.map(|idx| block.get(idx))
    }

    /// Whether there is room for one more element.
    pub(super) fn takes(&self, element: &[u8]) -> bool {
        let Block { bytes, ends } = &*self.block;
        bytes.len() + element.len() + (ends.len() + 1) * size_of::<usize>() <= NODE_BYTES_MAX
    }

    /// Adds an element at an index, which must not exceed the length.
    pub(super) fn insert(&mut self, idx: usize, element: &[u8]) {
        self.change(|block| block.splice(idx..idx, Some(element)));
    }

    /// Replaces the element at an index, which must exist, and returns how many bytes it had.
    pub(super) fn replace(&mut self, idx: usize, element: &[u8]) -> usize {
        self.change(|block| block.splice(idx..idx + 1, Some(element)))
    }

    /// Removes the elements at these indexes, which must exist, and returns how many bytes they
    /// had.
    pub(super) fn remove(&mut self, places: Range<usize>) -> usize {
        self.change(|block| block.splice(places, None))
    }

    /// Moves the elements from an index on to another node.
    pub(super) fn split_off(&mut self, idx: usize) -> Node {
        self.change(|block| block.split_off(idx)).into()
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut Block) -> R) -> R {
        let block = Arc::make_mut(&mut self.block);
        let outcome = change(block);
        self.len = block.ends.len();
        outcome
    }
}

impl From<Block> for Node {
    fn from(block: Block) -> Node {
        Node { len: block.ends.len(), block: Arc::new(block) }
    }
}

impl Block {
    fn get(&self, idx: usize) -> &[u8] {
        &self.bytes[self.start(idx)..self.ends[idx]]
    }

    /// Replaces elements by one or by none, and returns how many bytes they had.
    fn splice(&mut self, places: Range<usize>, element: Option<&[u8]>) -> usize {
        let own = self.start(places.start)..self.start(places.end);
        let (removed, added) = (own.len(), element.map_or(0, <[u8]>::len));
        let end = own.start + added;
        if own.start == self.bytes.len() {
            self.bytes.extend_from_slice(element.unwrap_or_default());
        } else {
            self.bytes.splice(own, element.unwrap_or_default().iter().copied());
        }
        self.ends[places.end..].iter_mut().for_each(|end| *end = *end + added - removed);
        self.ends.splice(places, element.map(|_| end));
        if let Some(capacity) = shrunk(self.bytes.len(), self.bytes.capacity()) {
            self.bytes.shrink_to(capacity);
            self.ends.shrink_to(2 * self.ends.len());
        }
        removed
    }

    fn split_off(&mut self, idx: usize) -> Block {
        let start = self.start(idx);
        let mut ends = self.ends.split_off(idx);
        ends.iter_mut().for_each(|end| *end -= start);
        Block { bytes: self.bytes.split_off(start), ends }
    }

    /// The start of the element at an index, or the end of all elements.
    fn start(&self, idx: usize) -> usize {
        idx.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}
