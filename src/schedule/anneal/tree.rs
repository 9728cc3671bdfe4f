//! A segment tree over a row of steps that knows the dearest one, and how many are nearly as dear.
//!
//! **Nodes.** A leaf is what one step does: by how much it makes the live bytes grow, and what it needs above the live
//! bytes before it. A node sums up its steps: their growth in all, the most that one of them needs above the live bytes
//! before the first, and a weight. That a step grows is felt by all later ones without a visit to them, as a range add
//! would do it: the growth of a left half is added to the peak of the right half where the two are put together.
//!
//! **Weight.** A step that lies d bytes below the dearest one counts 2^(−d / unit). So the weight is between 1 and the
//! number of steps, and steps many units below the peak count nothing.
//!
//! **Invariant.** Every inner node is `join` of its two halves, in floating-point arithmetic too: the tree is a
//! function of its leaves.
//!
//! Complexity: O(log n) for a change or a draw; O(n) space.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a run of steps does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    /// Bytes by which the live bytes grow.
    pub(super) growth: i64,
    /// The dearest step, in bytes above those live before the first.
    pub(super) peak: i64,
    /// See the module doc; 0 without steps.
    pub(super) weight: f64,
}

/// Below every peak, with room for sums.
const NO_PEAK: i64 = i64::MIN / 2;

impl Span {
    /// No steps.
    pub(super) const EMPTY: Self = Self { growth: 0, peak: NO_PEAK, weight: 0.0 };

    /// One step.
    pub(super) const fn step(growth: i64, need: i64) -> Self {
        Self { growth, peak: need, weight: 1.0 }
    }
}

/// See the module doc.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Node 1 is the root, nodes 2i and 2i + 1 are the halves of node i; the leaves are the last half.
    nodes: Vec<Span>,
    /// In bytes.
    unit: f64,
    /// 1 / unit.
    per_unit: f64,
    /// Nodes that were written since the last `commit`, with what they were.
    log: Vec<(u32, Span)>,
}

impl Tree {
    /// A tree of empty leaves, at least `n`; `unit` is in bytes.
    pub(super) fn new(n: usize, unit: f64) -> Self {
        let nodes = vec![Span::EMPTY; 2 * n.max(1).next_power_of_two()];
        Self { nodes, unit, per_unit: 1.0 / unit, log: Vec::new() }
    }

    /// Sets all leaves from the first on.
    pub(super) fn fill(&mut self, leaves: impl Iterator<Item = Span>) {
        let n = self.nodes.len() / 2;
        self.nodes[n..].iter_mut().zip(leaves).for_each(|(node, leaf)| *node = leaf);
        for node in (1..n).rev() {
            self.nodes[node] = self.join(node);
        }
        self.log.clear();
    }

    fn join(&self, node: usize) -> Span {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        let behind = left.growth + right.peak;
        let peak = left.peak.max(behind);
        // One of the two factors is 1.
        let weight = left.weight * self.fading(left.peak - peak) + right.weight * self.fading(behind - peak);
        Span { growth: left.growth + right.growth, peak: peak.max(NO_PEAK), weight }
    }

    fn fading(&self, bytes: i64) -> f64 {
        if bytes == 0 { 1.0 } else { exp2(bytes as f64 * self.per_unit) }
    }

    /// In bytes.
    pub(super) fn unit(&self) -> f64 {
        self.unit
    }

    /// All steps together.
    pub(super) fn root(&self) -> Span {
        self.nodes[1]
    }

    #[cfg(test)]
    pub(super) fn leaf(&self, at: usize) -> Span {
        self.nodes[self.nodes.len() / 2 + at]
    }

    #[cfg(test)]
    pub(super) fn nodes(&self) -> &[Span] {
        &self.nodes
    }

    /// Sets some leaves; the list is used up. The number of nodes that were written.
    pub(super) fn set(&mut self, leaves: &mut Vec<(u32, Span)>) -> usize {
        leaves.sort_unstable_by_key(|(at, _)| *at);
        leaves.dedup_by_key(|(at, _)| *at);
        let before = self.log.len();
        let n = self.nodes.len() / 2;
        for (at, span) in leaves.iter_mut() {
            let node = n + *at as usize;
            self.write(node, *span);
            *at = raw(node);
        }
        while leaves.first().is_some_and(|(node, _)| *node > 1) {
            leaves.iter_mut().for_each(|(node, _)| *node /= 2);
            leaves.dedup_by_key(|(node, _)| *node);
            for (node, _) in &*leaves {
                self.write(*node as usize, self.join(*node as usize));
            }
        }
        leaves.clear();
        self.log.len() - before
    }

    fn write(&mut self, node: usize, span: Span) {
        self.log.push((raw(node), self.nodes[node]));
        self.nodes[node] = span;
    }

    /// Keeps what was set.
    pub(super) fn commit(&mut self) {
        self.log.clear();
    }

    /// Takes back what was set since the last `commit`.
    pub(super) fn undo(&mut self) {
        while let Some((node, span)) = self.log.pop() {
            self.nodes[node as usize] = span;
        }
    }

    /// Draws a step, dear ones with more chance: in proportion to what they add to the weight of all.
    pub(super) fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> usize {
        let n = self.nodes.len() / 2;
        let mut node = 1;
        while node < n {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let peak = self.nodes[node].peak;
            let before = left.weight * self.fading(left.peak - peak);
            let behind = right.weight * self.fading(left.growth + right.peak - peak);
            node = 2 * node + usize::from(rng.random::<f64>() * (before + behind) >= before);
        }
        node - n
    }
}

fn raw(node: usize) -> u32 {
    u32::try_from(node).unwrap_or(u32::MAX)
}

/// 2^52: the place of the exponent in the bits of a float.
const EXPONENT: f64 = 4_503_599_627_370_496.0;
const BIAS: f64 = 1023.0;

/// About 2^x, at most 6 % off, for x ≤ 0: right at whole numbers and straight between them. Unlike the one of the
/// standard library it is the same on every machine.
#[expect(clippy::cast_possible_truncation, reason = "the exponent is in range")]
pub(super) fn exp2(x: f64) -> f64 {
    if x < -1000.0 { 0.0 } else { f64::from_bits(((x + BIAS) * EXPONENT) as u64) }
}

/// The inverse of `exp2`, for x ≥ 1.
pub(super) fn log2(x: f64) -> f64 {
    x.to_bits() as f64 / EXPONENT - BIAS
}
