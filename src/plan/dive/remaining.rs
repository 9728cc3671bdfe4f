//! The bytes that are still to be placed.

/// The bytes still to be placed in each section: subtraction on ranges, and the fullest section of a range.
#[derive(Debug)]
pub(super) struct Remaining {
    nodes: Vec<Load>,
    n_leaves: usize,
}

/// `most` is the most bytes of a section below the node, `at` that section, both before the subtractions of the
/// node's ancestors; `less` is what was subtracted from the whole node.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    most: u64,
    at: usize,
    less: u64,
}

impl Remaining {
    pub(super) fn new(load: &[u64]) -> Self {
        let n_leaves = load.len().next_power_of_two();
        let mut nodes = vec![Load::default(); 2 * n_leaves];
        for (s, &most) in load.iter().enumerate() {
            nodes[n_leaves + s] = Load { most, at: s, less: 0 };
        }
        let mut remaining = Self { nodes, n_leaves };
        for node in (1..n_leaves).rev() {
            remaining.join(node);
        }
        remaining
    }

    /// Recomputes an inner node from its children; the earlier section wins ties.
    fn join(&mut self, node: usize) {
        let (a, b, less) = (self.nodes[2 * node], self.nodes[2 * node + 1], self.nodes[node].less);
        let child = if b.most > a.most { b } else { a };
        self.nodes[node] = Load { most: child.most - less, at: child.at, less };
    }

    pub(super) fn subtract(&mut self, left: usize, right: usize, bytes: u64) {
        let (first, last) = (left + self.n_leaves, right - 1 + self.n_leaves);
        let (mut l, mut r) = (first, last + 1);
        while l < r {
            if l % 2 == 1 {
                self.subtract_node(l, bytes);
                l += 1;
            }
            if r % 2 == 1 {
                r -= 1;
                self.subtract_node(r, bytes);
            }
            l /= 2;
            r /= 2;
        }
        // Joining a node whose children did not change, or that was subtracted from as a whole, changes nothing.
        let (mut a, mut b) = (first / 2, last / 2);
        while a > 0 {
            self.join(a);
            if a != b {
                self.join(b);
            }
            (a, b) = (a / 2, b / 2);
        }
    }

    fn subtract_node(&mut self, node: usize, bytes: u64) {
        self.nodes[node].most -= bytes;
        self.nodes[node].less += bytes;
    }

    /// The most bytes still to be placed in a section of `[left, right)`, and the first such section.
    pub(super) fn most(&self, left: usize, right: usize) -> (u64, usize) {
        // Walks up both edges; `subtracted` values of ancestors apply to all that was collected below them.
        let (mut l, mut r) = (left + self.n_leaves, right - 1 + self.n_leaves);
        let of = |node: usize| (self.nodes[node].most, self.nodes[node].at);
        let better = |a: (u64, usize), b: (u64, usize)| if b.0 > a.0 { b } else { a };
        if l == r {
            let mut found = of(l);
            while l > 1 {
                l /= 2;
                found.0 -= self.nodes[l].less;
            }
            return found;
        }
        let (mut from_left, mut from_right) = (of(l), of(r));
        while l / 2 != r / 2 {
            if l % 2 == 0 {
                from_left = better(from_left, of(l + 1));
            }
            if r % 2 == 1 {
                from_right = better(of(r - 1), from_right);
            }
            l /= 2;
            r /= 2;
            from_left.0 -= self.nodes[l].less;
            from_right.0 -= self.nodes[r].less;
        }
        let mut found = better(from_left, from_right);
        while l > 1 {
            l /= 2;
            found.0 -= self.nodes[l].less;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn remaining_agrees_with_a_plain_table() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for n in [1usize, 2, 3, 7, 16, 21] {
            let mut table: Vec<u64> = (0..n).map(|_| random.random_range(1_000..2_000)).collect();
            let mut remaining = Remaining::new(&table);
            for _ in 0..60 {
                let left = random.random_range(0..n);
                let right = random.random_range(left + 1..=n);
                let most = *table[left..right].iter().max().expect("not empty");
                let at = left + table[left..right].iter().position(|b| *b == most).expect("there");
                assert_eq!(remaining.most(left, right), (most, at));
                let bytes = random.random_range(0..10);
                table[left..right].iter_mut().for_each(|b| *b -= bytes);
                remaining.subtract(left, right, bytes);
            }
        }
    }
}
