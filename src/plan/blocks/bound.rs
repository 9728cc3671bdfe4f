//! A lower bound on the bytes of blocks.
//!
//! For every size t, items of at least t bytes that are live together have different blocks, each of at least t bytes.
//! So with m(t) the most such items live at once, at least m(t) blocks have t bytes or more, and the bytes of all blocks
//! are at least the integral of m over t. It is at least the load, since the load takes the maximum over time once, and
//! the integral takes it for every size.
//!
//! A chain of takeovers counts as one item; taken apart, its members would be live together where one takes over.
//!
//! Complexity: O(n (log n + log s)) for n items and s steps. Source: the bound is that of S. Pemmaraju, R. Raman,
//! K. Varadarajan, "Buffer minimization using max-coloring", SODA 2004.

use super::Item;

/// What the blocks of these items take at least, in bytes.
pub(super) fn lower_bound(items: &[Item]) -> u64 {
    let n_steps = items.iter().map(|item| item.last + 1).max().unwrap_or(0);
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_unstable_by_key(|k| std::cmp::Reverse(items[*k].bytes));
    let mut live = Counts::new(n_steps);
    let mut bound = 0;
    for (rank, &k) in order.iter().enumerate() {
        live.add(items[k].first, items[k].last);
        let below = order.get(rank + 1).map_or(0, |next| items[*next].bytes);
        bound += live.most() * (items[k].bytes - below);
    }
    bound
}

/// How many items are live at each step, as a tree: each node has the most below it, without what its ancestors add.
struct Counts {
    most: Vec<u64>,
    add: Vec<u64>,
    n_leaves: usize,
}

impl Counts {
    fn new(n_steps: usize) -> Self {
        let n_leaves = n_steps.next_power_of_two();
        Self { most: vec![0; 2 * n_leaves], add: vec![0; 2 * n_leaves], n_leaves }
    }

    fn most(&self) -> u64 {
        self.most[1]
    }

    fn add(&mut self, first: usize, last: usize) {
        let (mut low, mut high) = (first + self.n_leaves, last + self.n_leaves);
        let (mut a, mut b) = (low / 2, high / 2);
        while low <= high {
            if low % 2 == 1 {
                self.raise(low);
                low += 1;
            }
            if high.is_multiple_of(2) {
                self.raise(high);
                high -= 1;
            }
            (low, high) = (low / 2, high / 2);
        }
        while a > 0 {
            for node in [a, b] {
                self.most[node] = self.add[node] + self.most[2 * node].max(self.most[2 * node + 1]);
            }
            (a, b) = (a / 2, b / 2);
        }
    }

    fn raise(&mut self, node: usize) {
        self.most[node] += 1;
        self.add[node] += 1;
    }
}
