//! List scheduling: at each step the ready op that frees most and costs least, in both directions.
//!
//! **Idea.** Ready ops that free at least what they allocate run at once, the last one found first. The others wait in a
//! heap, where a `Rule` decides: the least growth, the least need, or the place in an order that is already known. An order is
//! built from its first op on, and once more from its last op back (see `walk`): neither direction wins everywhere.
//!
//! **Keys stay true** because an op's effect changes only when a storage that it touches gets its last toucher
//! (forwards) or its first (backwards). Each storage does so once, and then the ops concerned get a new entry in the
//! heap; entries that are no longer true are dropped when they come up.
//!
//! Complexity: O((n + m) log n) time, O(n + m) space, for n ops and m operands. Deterministic: ties are broken by the
//! ops' place in the given order.
//!
//! Limits: it looks one step ahead. Where every ready op is large it cannot see which one unlocks a large release.
//!
//! Source: least-peak-first list scheduling is common in compilers; the reversed pass is after the time symmetry of
//! the problem: Kayaaslan, Lambert, Marchal, Uçar, "Scheduling series-parallel task graphs to minimize peak memory",
//! Theoretical Computer Science 707, 2018.

use super::Best;
use super::walk::{Direction, Effect, Walk};
use crate::id::OpId;
use crate::memory::bound::Bound;
use crate::search::Search;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How ops are ranked that allocate more than they free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Least growth of the live bytes.
    LeastGrowth,
    /// Least need while it runs.
    LeastNeed,
    /// The place in a known order.
    Ranked,
}

impl Rule {
    /// What comes first, before the rank decides.
    fn key(self, effect: Effect) -> u64 {
        match self {
            Self::LeastGrowth => effect.allocated.saturating_sub(effect.freed),
            Self::LeastNeed => effect.need,
            Self::Ranked => 0,
        }
    }
}

/// An order that a walk built, and its peak as the walk counted it.
pub(super) struct Built {
    pub(super) order: Vec<OpId>,
    pub(super) peak_bytes: u64,
}

/// Builds one order from one end by one rule; `rank` ranks the ops in time. `None` when the budget runs out.
///
/// The bound learns what each step costs.
pub(super) fn list_order(
    walk: &mut Walk<'_>,
    rule: Rule,
    rank: &[u32],
    bound: &mut Bound,
    search: &mut Search<'_>,
) -> Option<Built> {
    walk.reset();
    let mut costs = Vec::with_capacity(rank.len());
    let order = complete(walk, rule, rank, |cost| costs.push(cost), search)?;
    order.iter().zip(&costs).for_each(|(op, cost)| bound.lower_ceiling(*op, *cost));
    // What the graph is given, and what it keeps, is live even where no op runs.
    let peak_bytes = costs.iter().copied().fold(walk.ends_bytes(), u64::max);
    Some(Built { order: walk.direction().in_time(order), peak_bytes })
}

/// Goes on by one rule from the state of the walk until all ops have run: the ops, in the order of the walk. `None`
/// when the budget runs out. `with` is told what each step costs.
pub(super) fn complete(
    walk: &mut Walk<'_>,
    rule: Rule,
    rank: &[u32],
    mut with: impl FnMut(u64),
    search: &mut Search<'_>,
) -> Option<Vec<OpId>> {
    let forward = walk.direction() == Direction::Forward;
    let rank = |op: OpId| if forward { rank[op.index()] } else { u32::MAX - rank[op.index()] };
    // Ops that free what they allocate do so whatever else runs; the others wait in the heap.
    let mut free: Vec<OpId> = Vec::new();
    let mut heap: BinaryHeap<Reverse<(u64, u32, OpId)>> = BinaryHeap::new();
    let mut changed = Vec::new();
    walk.ready_into(&mut changed);
    let mut order = Vec::with_capacity(walk.n_left());
    loop {
        for op in changed.drain(..).filter(|op| walk.is_ready(*op)) {
            let effect = walk.effect(op);
            if effect.freed >= effect.allocated {
                free.push(op);
            } else {
                heap.push(Reverse((rule.key(effect), rank(op), op)));
            }
        }
        let (op, effect) = if let Some(op) = free.pop() {
            if !walk.is_ready(op) {
                continue;
            }
            (op, walk.effect(op))
        } else if let Some(Reverse((key, _, op))) = heap.pop() {
            if !walk.is_ready(op) {
                continue;
            }
            let effect = walk.effect(op);
            if rule.key(effect) != key {
                continue;
            }
            (op, effect)
        } else {
            return Some(order);
        };
        walk.run(op, effect, &mut changed);
        order.push(op);
        with(effect.cost);
        if !search.spend(1 + changed.len() as u64) {
            return None;
        }
    }
}

/// The place of every op in an order.
pub(super) fn ranks(order: &[OpId]) -> Vec<u32> {
    let mut rank = vec![0; order.len()];
    for (place, op) in (0u32..).zip(order) {
        rank[op.index()] = place;
    }
    rank
}

/// The number of ops from which on only the first two rules are tried.
const MANY_OPS: usize = 50_000;

/// The most work on the bound after each better order. A bound is cheap on real graphs; where it is not, list orders
/// must not wait for it.
const BOUND_WORK: u64 = 1_000_000;

/// Tries every rule in both directions, the known order among them, until the best is proven optimal.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    let instance = best.instance();
    let given = ranks(best.order());
    let mut walks = Direction::BOTH.map(|direction| Walk::new(instance, direction));
    let raise = |best: &mut Best<'_>, search: &mut Search<'_>| {
        search.within(BOUND_WORK, |part| best.bound.raise(instance, part))
    };
    raise(best, search);
    let few = instance.n_ops() < MANY_OPS;
    let [forward, backward] = [0, 1];
    for (rule, direction) in [
        (Rule::Ranked, backward),
        (Rule::LeastGrowth, forward),
        (Rule::LeastGrowth, backward),
        (Rule::Ranked, forward),
        (Rule::LeastNeed, backward),
        (Rule::LeastNeed, forward),
    ]
    .into_iter()
    .take(if few { 6 } else { 2 })
    {
        let walk = &mut walks[direction];
        if best.is_optimal() {
            return;
        }
        let Some(built) = list_order(walk, rule, &given, &mut best.bound, search) else { return };
        if best.offer_if_better(built) {
            search.tell("greedy", best.peak_bytes(), best.bound.bytes());
            raise(best, search);
        }
    }
}

/// Replays the best order through the run-now rule, forwards and backwards in turn, while that improves it.
pub(super) fn polish(best: &mut Best<'_>, search: &mut Search<'_>) {
    replay(best, best.order().to_vec(), search);
}

/// Offers an order, and what becomes of it when it is replayed through the run-now rule, forwards and backwards in
/// turn, as long as its peak falls.
pub(super) fn replay(best: &mut Best<'_>, mut order: Vec<OpId>, search: &mut Search<'_>) {
    best.offer(order.clone());
    let mut walks = Direction::BOTH.map(|direction| Walk::new(best.instance(), direction));
    let mut peak_bytes = u64::MAX;
    loop {
        let before = peak_bytes;
        for walk in &mut walks {
            if best.is_optimal() {
                return;
            }
            let Some(built) = list_order(walk, Rule::Ranked, &ranks(&order), &mut best.bound, search) else { return };
            order.clone_from(&built.order);
            peak_bytes = peak_bytes.min(built.peak_bytes);
            best.offer_if_better(built);
        }
        if peak_bytes >= before {
            return;
        }
    }
}
