//! What makes new orders out of old ones: crossover, block moves, exact windows, and orders drawn at random.
//!
//! Each takes valid orders and gives a valid order, or ranks that may be any numbers.

use super::member::Member;
use crate::id::OpId;
use crate::memory::instance::Instance;
use crate::schedule::greedy::ranks;
use crate::schedule::hybrid::Solver;
use crate::search::Search;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The fewest ops of a window, and how often that may double.
const LEAST_WINDOW: usize = 16;
const DOUBLINGS: u32 = 5;

/// Work units for each op of a window.
const WINDOW_WORK_PER_OP: u64 = 1_000;

/// The most block moves of one mutation, the most ops of a block, and how far from the dearest step it may stand.
const MOVES: usize = 4;
const MOST_OPS: usize = 12;
const REACH: usize = 256;

/// One parent up to a cut and the other from there on, or the other way round.
///
/// The first k ops of an order hold all their predecessors, and in any order some ops alone keep an order that is
/// topological among themselves.
pub(super) fn crossover(a: &Member, b: &Member, rng: &mut Xoshiro256PlusPlus) -> Vec<OpId> {
    let n = a.order.len();
    let cut = if a.valleys.is_empty() || rng.random_range(0..4) == 0 {
        rng.random_range(0..=n)
    } else {
        a.valleys[rng.random_range(0..a.valleys.len())] as usize
    };
    let rank = ranks(&a.order);
    let is_first = |op: &&OpId| (rank[op.index()] as usize) < cut;
    let (first, rest) = a.order.split_at(cut);
    if rng.random::<bool>() {
        first.iter().chain(b.order.iter().filter(|op| !is_first(op))).copied().collect()
    } else {
        b.order.iter().filter(is_first).chain(rest).copied().collect()
    }
}

/// Moves some blocks of ops over the place of an op, or elsewhere where they may not go there.
pub(super) fn mutate(instance: &Instance, order: &mut [OpId], dearest: OpId, rng: &mut Xoshiro256PlusPlus) {
    let moves = rng.random_range(0..MOVES);
    if moves == 0 {
        return;
    }
    let n = order.len();
    let mut place = ranks(order);
    for _ in 0..moves {
        let dear = place[dearest.index()] as usize;
        let distance = magnitude(REACH, rng) - 1;
        let first = if rng.random::<bool>() { dear.saturating_sub(distance) } else { (dear + distance).min(n - 1) };
        let last = (first + magnitude(MOST_OPS, rng) - 1).min(n - 1);
        let (low, high) = legal(instance, order, &place, first, last);
        let goes_up = if last < dear {
            true
        } else if dear < first {
            false
        } else {
            rng.random::<bool>()
        };
        let (from, to) = if goes_up {
            let least = if last < dear { dear.min(high) } else { last };
            let end = (least + magnitude(REACH, rng) - 1).min(high);
            order[first..=end].rotate_left(last + 1 - first);
            (first, end)
        } else {
            let most = if dear < first { dear.max(low) } else { first };
            let start = (most + 1).saturating_sub(magnitude(REACH, rng)).max(low);
            order[start..=last].rotate_right(last + 1 - first);
            (start, last)
        };
        for (at, op) in (from..).zip(&order[from..=to]) {
            place[op.index()] = u32::try_from(at).unwrap_or(u32::MAX);
        }
    }
}

/// The first and the last place that the ops of places `first..=last` may go to together.
fn legal(instance: &Instance, order: &[OpId], place: &[u32], first: usize, last: usize) -> (usize, usize) {
    let at = |op: &OpId| place[op.index()] as usize;
    let (mut low, mut high) = (0, order.len() - 1);
    for op in &order[first..=last] {
        let before = instance.predecessors(*op).iter().map(at).filter(|at| *at < first);
        low = before.map(|at| at + 1).fold(low, usize::max);
        let behind = instance.successors(*op).iter().map(at).filter(|at| *at > last);
        high = behind.map(|at| at - 1).fold(high, usize::min);
    }
    (low, high)
}

/// A number from 1 to `most`, small ones with more chance: every power of two is as likely as any other.
fn magnitude(most: usize, rng: &mut Xoshiro256PlusPlus) -> usize {
    let power = rng.random_range(0..=most.max(1).ilog2());
    rng.random_range(1usize << power..1usize << (power + 1)).min(most)
}

/// Solves a window of the member around a dear step; the member's order with it, if it is better.
pub(super) fn window(
    instance: &Instance,
    member: &Member,
    target: u64,
    bound: u64,
    rng: &mut Xoshiro256PlusPlus,
    search: &mut Search<'_>,
) -> Option<Vec<OpId>> {
    let order = &member.order;
    let n = order.len();
    search.spend(n as u64 / 2);
    let place = ranks(order);
    let mut dear = place[member.dearest.index()] as usize;
    if rng.random_range(0..4) == 0 {
        // Another step that counts.
        let costs = instance.step_costs(order);
        let above: Vec<usize> = (0..n).filter(|step| costs[*step] > target).collect();
        if !above.is_empty() {
            dear = above[rng.random_range(0..above.len())];
        }
    }
    let width = (LEAST_WINDOW << rng.random_range(0..=DOUBLINGS)).min(n);
    let start = dear.saturating_sub(rng.random_range(0..width)).min(n - width);
    let range = start..start + width;
    let part = instance.part(order, &place, range.clone(), instance.live_before(order)[start]);
    let mut solver = Solver::new(&part, bound);
    let before = solver.best.peak_bytes();
    search.within(WINDOW_WORK_PER_OP * width as u64, |search| solver.run(search));
    (solver.best.peak_bytes() < before).then(|| {
        let mut order = order.clone();
        order[range].copy_from_slice(&part.named(solver.best.order()));
        order
    })
}

/// Ranks of a depth-first order: from the ops without successors back, operands in random order.
pub(super) fn depth_first(instance: &Instance, rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
    let n = instance.n_ops();
    let mut rank = vec![u32::MAX; n];
    let mut seen = vec![false; n];
    let mut next = 0;
    // Ops to be looked at, and, when they come up for the second time, to be ranked.
    let mut stack: Vec<(OpId, bool)> =
        instance.ops().filter(|op| instance.successors(*op).is_empty()).map(|op| (op, false)).collect();
    shuffle(&mut stack, rng);
    while let Some((op, is_open)) = stack.pop() {
        if is_open {
            rank[op.index()] = next;
            next += 1;
        } else if !std::mem::replace(&mut seen[op.index()], true) {
            stack.push((op, true));
            let from = stack.len();
            stack.extend(instance.predecessors(op).iter().filter(|op| !seen[op.index()]).map(|op| (*op, false)));
            shuffle(&mut stack[from..], rng);
        }
    }
    rank
}

fn shuffle<T>(list: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for i in (1..list.len()).rev() {
        list.swap(i, rng.random_range(0..=i));
    }
}
