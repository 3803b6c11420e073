//! Lists. As in Redis's quicklists, elements that are not long stand side by side in nodes. Copies
//! of a list share its nodes until one of them changes. So a list is copied and dropped by the
//! node, and not by the element.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::node::Node;
use super::table::{ITEM_BYTES, shrunk};

/// A list. Its head is the front.
#[derive(Clone, Debug, Default)]
pub struct List {
    nodes: VecDeque<Node>,
    /// How many elements all nodes have.
    len: usize,
    /// The bytes of all elements.
    content_bytes: usize,
}

/// The place of an element. The end of a list is the first place of the node that would come next.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: usize,
    /// The index of the element in its node.
    idx: usize,
}

/// Lists are equal for this if their elements are, in whatever nodes they stand.
impl Hash for List {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.iter().for_each(|element| element.hash(state));
    }
}

impl List {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how many bytes the elements take.
    pub(super) fn memory(&self) -> usize {
        self.len * ITEM_BYTES + self.content_bytes
    }

    /// The element at an index.
    pub fn get(&self, idx: usize) -> Option<&[u8]> {
        let Place { node, idx } = self.place(idx.min(self.len));
        self.nodes.get(node).map(|node| node.get(idx))
    }

    /// The elements from head to tail.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.nodes.iter().flat_map(Node::iter)
    }

    /// The elements at these indexes, which must exist.
    pub fn range(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = &[u8]> {
        let (first, end) = (self.place(places.start), self.place(places.end));
        let nodes = first.node..self.nodes.len().min(end.node + 1);
        nodes.flat_map(move |nth| {
            let node = &self.nodes[nth];
            let from = if nth == first.node { first.idx } else { 0 };
            let to = if nth == end.node { end.idx } else { node.len() };
            node.range(from..to)
        })
    }

    /// Adds an element at the head.
    pub fn push_front(&mut self, element: &[u8]) {
        self.insert(0, element);
    }

    /// Adds an element at the tail.
    pub fn push_back(&mut self, element: &[u8]) {
        self.insert(self.len, element);
    }

    /// Adds an element at an index, which must not exceed the length.
    pub fn insert(&mut self, idx: usize, element: &[u8]) {
        let Place { mut node, mut idx } = self.place(idx);
        let takes =
            |nodes: &VecDeque<Node>, node: usize| nodes.get(node).is_some_and(|node| node.takes(element));
        while idx > 0 && !takes(&self.nodes, node) {
            // Halves, so that no order of insertions leaves most nodes small.
            let half = self.nodes[node].len() / 2;
            let rest = self.nodes[node].split_off(half);
            self.nodes.insert(node + 1, rest);
            if idx >= half {
                (node, idx) = (node + 1, idx - half);
            }
        }
        match node.checked_sub(1) {
            Some(before) if idx == 0 && takes(&self.nodes, before) => {
                let before = &mut self.nodes[before];
                before.insert(before.len(), element);
            }
            _ if takes(&self.nodes, node) => self.nodes[node].insert(idx, element),
            _ => self.nodes.insert(node, Node::of(element)),
        }
        self.len += 1;
        self.content_bytes += element.len();
    }

    /// Replaces the element at an index, which must exist.
    pub fn replace(&mut self, idx: usize, element: &[u8]) {
        let place = self.place(idx);
        let node = &mut self.nodes[place.node];
        if node.get(place.idx).len() < element.len() && !node.takes(element) {
            self.remove(idx..idx + 1);
            return self.insert(idx, element);
        }
        self.content_bytes += element.len();
        self.content_bytes -= node.replace(place.idx, element);
    }

    /// Removes the elements at these indexes, which must exist.
    pub fn remove(&mut self, places: Range<usize>) {
        if places.is_empty() {
            return;
        }
        let (first, end) = (self.place(places.start), self.place(places.end));
        let mut n_bytes = 0;
        if first.node == end.node {
            n_bytes += self.nodes[first.node].remove(first.idx..end.idx);
        } else {
            let mut emptied = first.node..end.node;
            if first.idx > 0 {
                let node = &mut self.nodes[first.node];
                n_bytes += node.remove(first.idx..node.len());
                emptied.start += 1;
            }
            if end.idx > 0 {
                n_bytes += self.nodes[end.node].remove(0..end.idx);
            }
            n_bytes += self.nodes.drain(emptied).map(|node| node.content_bytes()).sum::<usize>();
            if let Some(capacity) = shrunk(self.nodes.len(), self.nodes.capacity()) {
                self.nodes.shrink_to(capacity);
            }
        }
        self.len -= places.len();
        self.content_bytes -= n_bytes;
    }

    /// Removes the elements at these indexes, which must exist and be in ascending order.
    pub fn remove_at(&mut self, places: &[usize]) {
        let Some(&first) = places.first() else { return };
        let Place { mut node, idx } = self.place(first);
        let mut start = first - idx;
        let (mut rest, mut is_one_empty) = (places, false);
        while !rest.is_empty() {
            let end = start + self.nodes[node].len();
            let (here, after) = rest.split_at(rest.partition_point(|&place| place < end));
            for run in here.chunk_by(|a, b| a + 1 == *b).rev() {
                let from = run[0] - start;
                self.content_bytes -= self.nodes[node].remove(from..from + run.len());
            }
            is_one_empty |= self.nodes[node].len() == 0;
            (node, start, rest) = (node + 1, end, after);
        }
        self.len -= places.len();
        if is_one_empty {
            self.nodes.retain(|node| node.len() > 0);
        }
    }

    /// Removes all elements but those at these indexes.
    pub fn keep(&mut self, places: Range<usize>) {
        self.remove(places.end..self.len);
        self.remove(0..places.start);
    }

    /// The place of an index, which must not exceed the length. The search begins at the nearer
    /// end.
    fn place(&self, idx: usize) -> Place {
        if idx <= self.len / 2 {
            let mut before = idx;
            for (nth, node) in self.nodes.iter().enumerate() {
                if before < node.len() {
                    return Place { node: nth, idx: before };
                }
                before -= node.len();
            }
        } else if idx < self.len {
            let mut after = self.len - idx;
            for (nth, node) in self.nodes.iter().enumerate().rev() {
                if after <= node.len() {
                    return Place { node: nth, idx: node.len() - after };
                }
                after -= node.len();
            }
        }
        Place { node: self.nodes.len(), idx: 0 }
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for List {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> List {
        let mut list = List::default();
        elements.into_iter().for_each(|element| list.push_back(element.as_ref()));
        list
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(usize, Vec<u8>),
        Replace(usize, Vec<u8>),
        Remove(usize, usize),
        RemoveEach(usize),
        Keep(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let element = || {
            let lengths = prop_oneof![0..20_usize, 3000..9000_usize];
            (lengths, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
        };
        let place = || prop_oneof![Just(0), Just(usize::MAX), any::<usize>()];
        let step = prop_oneof![
            20 => (place(), element()).prop_map(|(idx, element)| Step::Insert(idx, element)),
            4 => (place(), element()).prop_map(|(idx, element)| Step::Replace(idx, element)),
            2 => (place(), 0..5_usize).prop_map(|(idx, n)| Step::Remove(idx, n)),
            1 => (2..5_usize).prop_map(Step::RemoveEach),
            1 => (0..3_usize, 0..3_usize).prop_map(|(head, tail)| Step::Keep(head, tail)),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// Random changes of a list; after each, it must have the elements of a plain vector.
        #[test]
        fn a_list_is_a_sequence_in_nodes(steps in steps()) {
            let (mut list, mut model) = (List::default(), Vec::<Vec<u8>>::new());
            for step in steps {
                let (copy, copied) = (list.clone(), model.clone());
                let len = model.len();
                match step {
                    Step::Insert(idx, element) => {
                        // The largest number stands for the end.
                        let idx = if idx == usize::MAX { len } else { idx % (len + 1) };
                        list.insert(idx, &element);
                        model.insert(idx, element);
                    }
                    Step::Replace(idx, element) if len > 0 => {
                        list.replace(idx % len, &element);
                        model[idx % len] = element;
                    }
                    Step::Remove(idx, n) if len > 0 => {
                        let places = idx % len..len.min(idx % len + n);
                        list.remove(places.clone());
                        model.drain(places);
                    }
                    Step::RemoveEach(nth) => {
                        let places: Vec<usize> = (0..len).step_by(nth).collect();
                        list.remove_at(&places);
                        places.into_iter().rev().for_each(|idx| drop(model.remove(idx)));
                    }
                    Step::Keep(head, tail) => {
                        let places = head.min(len)..len.saturating_sub(tail).max(head.min(len));
                        list.keep(places.clone());
                        model = model[places].to_vec();
                    }
                    Step::Replace(..) | Step::Remove(..) => {}
                }
                prop_assert!(copy.iter().eq(copied.iter()));
                prop_assert!(list.iter().eq(model.iter()));
                prop_assert!(list.iter().rev().eq(model.iter().rev()));
                let (third, len) = (model.len() / 3, model.len());
                prop_assert!(list.range(third..len - third).eq(model[third..len - third].iter()));
                prop_assert!((0..=len).all(|idx| list.get(idx) == model.get(idx).map(|element| &element[..])));
                prop_assert_eq!((list.len, list.content_bytes), (len, model.concat().len()));
                prop_assert!(list.nodes.iter().all(|node| node.len() > 0));
            }
        }
    }

    #[test]
    fn insertions_at_one_place_leave_no_small_nodes() {
        let mut list: List = vec![b"element"; 10_000].into_iter().collect();
        let n_nodes = list.nodes.len();
        for idx in [0, 1, 5000, 9999, 10_000] {
            (0..2000).for_each(|_| list.insert(idx, b"element"));
        }
        assert!(list.nodes.len() <= 4 * n_nodes, "{n_nodes} nodes became {}", list.nodes.len());
    }
}
