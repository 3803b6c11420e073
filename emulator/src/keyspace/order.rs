//! The order of a sorted set: sorted nodes, and the sums of their lengths, which give ranks in
//! logarithmic time. A range is removed node by node.

use std::ops::Range;

use ordered_float::OrderedFloat;

use super::text::Text;

pub(super) type Score = OrderedFloat<f64>;

/// The largest number of members in a node.
const NODE_LEN_MAX: usize = 128;
/// The length of a node when members that come in order begin the next one. The rest is for members
/// that come later, which need not split the node then.
const NODE_LEN_FILLED: usize = 96;
/// Neighbours that have no more members than this together become one node.
const MERGED_LEN_MAX: usize = NODE_LEN_MAX / 2;

type Item = (Score, Text);

/// Members in the order of their scores, and then of their bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// The members, in ascending order through all nodes. No node is empty.
    nodes: Vec<Vec<Item>>,
    /// A Fenwick tree of the lengths of the nodes.
    sums: Vec<usize>,
}

/// The place of a member: its node, and its index there.
type Spot = (usize, usize);

impl Order {
    /// Members that are already in order.
    pub(super) fn of_sorted(items: Vec<Item>) -> Order {
        let (mut order, mut items) = (Order::default(), items.into_iter());
        while items.len() > 0 {
            order.push_node(items.by_ref().take(NODE_LEN_FILLED).collect());
        }
        order
    }

    /// The member of a rank.
    pub(super) fn get(&self, rank: usize) -> Option<&Item> {
        let (node, idx) = self.spot_of(rank);
        self.nodes.get(node)?.get(idx)
    }

    /// How many members come before this one.
    pub(super) fn rank(&self, score: Score, member: &[u8]) -> usize {
        self.partition_point(|(own, text)| (*own, &**text) < (score, member))
    }

    /// How many members satisfy `is_before`. It must hold for a prefix of the order and for no
    /// other members.
    pub(super) fn partition_point(&self, is_before: impl Fn(&Item) -> bool) -> usize {
        let (node, idx) = self.search(is_before);
        self.n_before(node) + idx
    }

    /// The members of these ranks, in order.
    pub(super) fn range(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = &Item> {
        let ((first, start), (last, end)) = (self.spot_of(ranks.start), self.spot_of(ranks.end));
        let part = |node: usize, from: usize, to: Option<usize>| {
            self.nodes.get(node).map_or(&[][..], |node| &node[from..to.unwrap_or(node.len())])
        };
        let (head, middle, tail) = match () {
            () if ranks.is_empty() => (&[][..], &[][..], &[][..]),
            () if first == last => (part(first, start, Some(end)), &[][..], &[][..]),
            () => (part(first, start, None), &self.nodes[first + 1..last], part(last, 0, Some(end))),
        };
        head.iter().chain(middle.iter().flatten()).chain(tail)
    }

    /// Adds a member that is not there yet.
    pub(super) fn insert(&mut self, item: Item) {
        let (mut node, mut idx) = self.search(|own| *own < item);
        if node == self.nodes.len() {
            // The member becomes the last one.
            match self.nodes.last() {
                Some(last) if last.len() < NODE_LEN_FILLED => (node, idx) = (node - 1, last.len()),
                _ => return self.push_node(vec![item]),
            }
        }
        if self.nodes[node].len() < NODE_LEN_MAX {
            self.nodes[node].insert(idx, item);
            return self.add(node, 1);
        }
        let mut upper = self.nodes[node].split_off(NODE_LEN_MAX / 2);
        match idx.checked_sub(NODE_LEN_MAX / 2) {
            Some(idx) => upper.insert(idx, item),
            None => self.nodes[node].insert(idx, item),
        }
        self.nodes.insert(node + 1, upper);
        self.sum();
    }

    /// Removes a member, and returns whether it was there.
    pub(super) fn remove(&mut self, item: &Item) -> bool {
        let (node, idx) = self.search(|own| own < item);
        if self.nodes.get(node).and_then(|node| node.get(idx)) != Some(item) {
            return false;
        }
        self.nodes[node].remove(idx);
        let next_len = self.nodes.get(node + 1).map(Vec::len);
        if next_len.is_some_and(|next_len| self.nodes[node].len() + next_len <= MERGED_LEN_MAX) {
            let next = self.nodes.remove(node + 1);
            self.nodes[node].extend(next);
            self.sum();
        } else if self.nodes[node].is_empty() {
            self.remove_nodes(node..node + 1);
        } else {
            self.add(node, -1);
        }
        true
    }

    /// Removes the members of these ranks.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>) {
        let Some(last_rank) = ranks.clone().next_back() else { return };
        let ((first, start), (last, last_idx)) = (self.spot_of(ranks.start), self.spot_of(last_rank));
        if first == last {
            self.nodes[first].drain(start..=last_idx);
            self.add(first, -(ranks.len() as isize));
        } else {
            let n_first = self.nodes[first].drain(start..).len();
            let n_last = self.nodes[last].drain(..=last_idx).len();
            self.add(first, -(n_first as isize));
            self.add(last, -(n_last as isize));
        }
        let from = if self.nodes[first].is_empty() { first } else { first + 1 };
        let to = if self.nodes[last].is_empty() { last + 1 } else { last };
        self.remove_nodes(from.min(to)..to);
    }

    /// Adds a node after all others.
    fn push_node(&mut self, node: Vec<Item>) {
        let idx = self.nodes.len();
        let below = self.n_before(idx) - self.n_before(idx & (idx + 1));
        self.sums.push(below + node.len());
        self.nodes.push(node);
    }

    /// Removes these nodes. If they are the last ones, no other sum changes.
    fn remove_nodes(&mut self, nodes: Range<usize>) {
        let are_last = nodes.end == self.nodes.len();
        match nodes {
            Range { start, end } if start == end => {}
            Range { start, .. } if are_last => {
                self.nodes.truncate(start);
                self.sums.truncate(start);
            }
            nodes => {
                self.nodes.drain(nodes);
                self.sum();
            }
        }
    }

    /// The first place at which `is_before` does not hold.
    fn search(&self, is_before: impl Fn(&Item) -> bool) -> Spot {
        let node = self.nodes.partition_point(|node| node.last().is_some_and(&is_before));
        (node, self.nodes.get(node).map_or(0, |node| node.partition_point(is_before)))
    }

    /// The place of a rank. The place of the length is the start of the node after the last one.
    fn spot_of(&self, mut rank: usize) -> Spot {
        let (mut node, mut step) = (0, self.sums.len().next_power_of_two());
        while step > 0 {
            if let Some(&sum) = self.sums.get(node + step - 1)
                && sum <= rank
            {
                node += step;
                rank -= sum;
            }
            step /= 2;
        }
        (node, rank)
    }

    /// How many members the nodes before this one have.
    fn n_before(&self, node: usize) -> usize {
        let (mut sum, mut left) = (0, node);
        while left > 0 {
            sum += self.sums[left - 1];
            left &= left - 1;
        }
        sum
    }

    /// Records that a node has got longer or shorter.
    fn add(&mut self, mut node: usize, change: isize) {
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = sum.wrapping_add_signed(change);
            node |= node + 1;
        }
    }

    /// Computes all sums again, after nodes were added or removed.
    fn sum(&mut self) {
        self.sums.clear();
        self.sums.extend(self.nodes.iter().map(Vec::len));
        for node in 0..self.sums.len() {
            let parent = node | (node + 1);
            if parent < self.sums.len() {
                self.sums[parent] += self.sums[node];
            }
        }
    }
}
