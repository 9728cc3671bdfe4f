//! The items that are still to be placed, searched by rank.

use super::super::part::Part;

/// The items that are still to be placed, in a tree in the order of their first section.
#[derive(Debug)]
pub(super) struct Unplaced {
    nodes: Vec<Node>,
    n_leaves: usize,
    /// The first item that starts at each section or later.
    first_at: Vec<usize>,
    /// The item of each rank.
    by_rank: Vec<usize>,
    stack: Vec<usize>,
    /// Nodes visited since the count was last taken.
    pub(super) visits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    rank: usize,
    least_end: usize,
    greatest_end: usize,
}

const NOTHING: Node = Node { rank: usize::MAX, least_end: usize::MAX, greatest_end: 0 };

impl Node {
    fn join(self, other: Self) -> Self {
        Self {
            rank: self.rank.min(other.rank),
            least_end: self.least_end.min(other.least_end),
            greatest_end: self.greatest_end.max(other.greatest_end),
        }
    }
}

impl Unplaced {
    pub(super) fn new(part: &Part, order: &[usize]) -> Self {
        let n_leaves = order.len().next_power_of_two();
        let mut nodes = vec![NOTHING; 2 * n_leaves];
        for (rank, &i) in order.iter().enumerate() {
            let end = part.items[i].right;
            nodes[n_leaves + i] = Node { rank, least_end: end, greatest_end: end };
        }
        for node in (1..n_leaves).rev() {
            nodes[node] = nodes[2 * node].join(nodes[2 * node + 1]);
        }
        // Canonical order is the order of starts, so of first sections.
        let first_at = (0..=part.n_sections()).map(|s| part.items.partition_point(|item| item.left < s)).collect();
        Self { nodes, n_leaves, first_at, by_rank: order.to_vec(), stack: Vec::new(), visits: 0 }
    }

    /// The items that are left in a section. O(n).
    pub(super) fn left_over(&self, section: usize) -> Vec<usize> {
        let covers = |i: &usize| {
            let node = self.nodes[self.n_leaves + i];
            node.rank < usize::MAX && node.greatest_end > section
        };
        (0..self.first_at[section + 1]).filter(covers).collect()
    }

    pub(super) fn remove(&mut self, item: usize) {
        let mut node = self.n_leaves + item;
        self.nodes[node] = NOTHING;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].join(self.nodes[2 * node + 1]);
        }
    }

    /// The first by rank, `from` or later, of the items that start in `left..=last_start` and end in
    /// `first_end..=right`, with its rank.
    pub(super) fn first_inside(
        &mut self,
        (left, right): (usize, usize),
        (last_start, first_end): (usize, usize),
        from: usize,
    ) -> Option<(usize, usize)> {
        let mut best = usize::MAX;
        let (mut l, mut r) = (self.first_at[left] + self.n_leaves, self.first_at[last_start + 1] + self.n_leaves);
        while l < r {
            if l % 2 == 1 {
                self.search(l, right, first_end, from, &mut best);
                l += 1;
            }
            if r % 2 == 1 {
                r -= 1;
                self.search(r, right, first_end, from, &mut best);
            }
            l /= 2;
            r /= 2;
        }
        self.by_rank.get(best).map(|item| (*item, best))
    }

    /// Lowers `best` to the best rank below `node`, `from` or later, of an item that ends in `first_end..=right`.
    fn search(&mut self, node: usize, right: usize, first_end: usize, from: usize, best: &mut usize) {
        self.stack.push(node);
        while let Some(node) = self.stack.pop() {
            self.visits += 1;
            let Node { rank, least_end, greatest_end } = self.nodes[node];
            if rank >= *best || least_end > right || greatest_end < first_end {
                continue;
            }
            if least_end >= first_end && greatest_end <= right && rank >= from {
                *best = rank;
                continue;
            }
            if node >= self.n_leaves {
                continue;
            }
            // The better child is searched first.
            let (a, b) = (2 * node, 2 * node + 1);
            if self.nodes[a].rank < self.nodes[b].rank {
                self.stack.extend([b, a]);
            } else {
                self.stack.extend([a, b]);
            }
        }
    }
}
