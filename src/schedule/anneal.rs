//! Annealing: moves single ops within their legal windows, and measures only what a move changes.
//!
//! **Energy.** The peak alone is a plateau: most moves leave it where it is. So the energy is the overflow above a
//! target, the sum over all steps of max(0, cost − target), with the target a little below the best peak known. Energy
//! 0 means a better peak; it is kept, and the target is lowered.
//!
//! **Move.** An op is taken from its place and put at another place between its last predecessor and its first
//! successor, at most `REACH` steps away. Half the moves start at a step above the target.
//!
//! **Measuring a move.** Only the steps between the two places change, and which op is the last to touch a storage
//! changes only for storages that the moved op touches. So the steps of the window are replayed from the live bytes
//! before it: O(w d) for a window of w steps of degree d, against O(n + m) for a whole evaluation.
//!
//! **Invariants.** The order is topological after every move. `live_before` and `cost` are those that the evaluator
//! finds for the order (a debug assertion, and every new best is measured by the evaluator).
//!
//! Deterministic: one generator (Xoshiro256++), seeded by the search. Limits: it proves nothing.
//!
//! Source: Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing", Science 220, 1983.

use super::Best;
use super::greedy::ranks;
use crate::id::{OpId, StorageId};
use crate::memory::instance::{Instance, Sums};
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The most steps that one move carries an op.
const REACH: usize = 256;

/// Targets stand this fraction of the distance between bound and best peak below the best peak.
const TARGET_FRACTION: u64 = 16;

/// Moves in one run at one target, for each op.
const MOVES_PER_OP: u64 = 400;

/// Anneals the best order until it is proven optimal, no target is reached any more, or the budget is spent.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    let graph = best.instance();
    let n = graph.n_ops();
    if n < 2 {
        return;
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(search.seed() ^ 0x616e_6e65_616c);
    while !best.is_optimal() {
        let gap = best.peak_bytes() - best.bound.bytes();
        let target = best.peak_bytes() - gap.div_ceil(TARGET_FRACTION);
        let mut state = State::new(graph, best.order(), target);
        let reached = state.run(MOVES_PER_OP * n as u64, &mut rng, search);
        let improved = reached && best.offer(state.order);
        if !improved {
            return;
        }
        search.tell("anneal", best.peak_bytes(), best.bound.bytes());
    }
}

/// An order with its profile.
struct State<'g> {
    graph: &'g Instance,
    order: Vec<OpId>,
    place: Vec<u32>,
    /// For each storage the op that touches it last (its creator where nobody touches it).
    last: Vec<Option<OpId>>,
    /// Live bytes before each step.
    live_before: Vec<u64>,
    cost: Vec<u64>,
    target: u64,
    energy: u128,
    /// Bytes of graph inputs that nobody reads: live at step 0 only.
    unused: u64,
}

impl<'g> State<'g> {
    fn new(graph: &'g Instance, order: &[OpId], target: u64) -> Self {
        let n = order.len();
        let mut state = Self {
            graph,
            order: order.to_vec(),
            place: ranks(order),
            last: vec![None; graph.n_storages()],
            live_before: vec![0; n],
            cost: vec![0; n],
            target,
            energy: 0,
            unused: graph.unused_bytes(),
        };
        for storage in graph.storages() {
            state.last[storage.index()] = state.find_last(storage);
        }
        state.live_before[0] = graph.start_bytes();
        state.energy = state.replay(0, n - 1);
        state
    }

    fn find_last(&self, storage: StorageId) -> Option<OpId> {
        let touchers = self.graph.touchers(storage).iter();
        touchers.max_by_key(|op| self.place[op.index()]).copied().or_else(|| self.graph.creator(storage))
    }

    fn overflow(&self, step: usize) -> u128 {
        u128::from(self.cost[step].saturating_sub(self.target))
    }

    /// Recomputes steps `from..=to` from the live bytes before `from`; the overflow of those steps.
    fn replay(&mut self, from: usize, to: usize) -> u128 {
        let graph = self.graph;
        let mut live = self.live_before[from];
        let mut overflow = 0;
        for step in from..=to {
            let op = self.order[step];
            let dies = |s: StorageId| self.last[s.index()] == Some(op);
            self.live_before[step] = live;
            let Sums { created, dead, kept: _, workspace } = graph.sums(op);
            let touched = graph.touches(op).iter();
            let dying = dead + touched.filter(|s| dies(**s)).map(|s| graph.bytes(*s)).sum::<u64>();
            let extra = if step == 0 { self.unused } else { 0 };
            self.cost[step] = live + created + workspace + extra - graph.savable_bytes(op, dies);
            live = live + created - dying;
            overflow += self.overflow(step);
        }
        overflow
    }

    /// Makes up to `moves` moves; whether an order without overflow was reached.
    fn run(&mut self, moves: u64, rng: &mut Xoshiro256PlusPlus, search: &mut Search<'_>) -> bool {
        let start = self.energy as f64 / 20.0;
        for done in 0..moves {
            if self.energy == 0 {
                return true;
            }
            let temperature = start * (1.0 - done as f64 / moves as f64).powi(3);
            let Some((from, to)) = self.pick(rng) else {
                if !search.spend(1) {
                    return false;
                }
                continue;
            };
            let (low, high) = (from.min(to), from.max(to));
            let before: u128 = (low..=high).map(|step| self.overflow(step)).sum();
            self.shift(from, to);
            let after = self.replay(low, high);
            let rise = after as f64 - before as f64;
            if rise <= 0.0 || rng.random::<f64>() < (-rise / temperature).exp() {
                self.energy = self.energy - before + after;
            } else {
                self.shift(to, from);
                self.replay(low, high);
            }
            if !search.spend(6 * (high - low + 1) as u64) {
                return false;
            }
        }
        self.energy == 0
    }

    /// A legal move: an op's place, and another place that it may take.
    fn pick(&self, rng: &mut Xoshiro256PlusPlus) -> Option<(usize, usize)> {
        let n = self.order.len();
        let mut from = rng.random_range(0..n);
        if rng.random::<bool>() {
            // A step above the target, and an op near it.
            let hot = (0..32).map(|_| rng.random_range(0..n)).find(|step| self.cost[*step] > self.target);
            from = hot.map_or(from, |hot| (hot + rng.random_range(0..9)).saturating_sub(4).min(n - 1));
        }
        let op = self.order[from];
        let places = |ops: &'g [OpId]| ops.iter().map(|op| self.place[op.index()] as usize);
        let low = places(self.graph.predecessors(op)).max().map_or(0, |p| p + 1).max(from.saturating_sub(REACH));
        let high = places(self.graph.successors(op)).min().map_or(n - 1, |p| p - 1).min(from + REACH);
        if low >= high {
            return None;
        }
        let to = rng.random_range(low..high);
        Some((from, if to >= from { to + 1 } else { to }))
    }

    /// Moves the op at place `from` to place `to`; the ops between move up or down by one.
    fn shift(&mut self, from: usize, to: usize) {
        let op = self.order[from];
        if from < to {
            self.order[from..=to].rotate_left(1);
        } else {
            self.order[to..=from].rotate_right(1);
        }
        for step in from.min(to)..=from.max(to) {
            self.place[self.order[step].index()] = u32::try_from(step).unwrap_or(u32::MAX);
        }
        // Only storages that the moved op touches can get another last toucher.
        for &storage in self.graph.touches(op) {
            self.last[storage.index()] = self.find_last(storage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Profile;
    use crate::schedule::Step;
    use crate::testing::{Family, GraphShape, random_graph};

    #[test]
    fn a_moved_profile_is_the_one_that_the_evaluator_finds() {
        let mut moves = 0;
        for seed in 0..40 {
            let shape = GraphShape::new(Family::ALL[(seed % 4) as usize], 30).with_everything();
            let graph = random_graph(seed, &shape);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut state = State::new(&graph, graph.given_order(), 0);
            for _ in 0..400 {
                let Some((from, to)) = state.pick(&mut rng) else { continue };
                moves += 1;
                state.shift(from, to);
                state.replay(from.min(to), from.max(to));
            }
            let profile = Profile::of(&graph, &Step::plain(&state.order)).expect("moves are legal");
            assert_eq!(state.cost, profile.used_bytes().collect::<Vec<_>>(), "seed {seed}");
        }
        assert!(moves > 2000, "{moves} moves");
    }
}
