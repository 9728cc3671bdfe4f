//! From an instance to the parts of it that need a search.
//!
//! 1. **Core.** From the first state on, the safe rules of [`expand`](super::expand) run what they can at the level of
//!    the proven bound; then the same from the last op back, on *what is left* (on the whole instance the two could
//!    overlap). What they ran stays where it is.
//! 2. **Split at comparable ops.** An op that is before or after every other op has the same place in every order. So
//!    the ops before it and the ops after it are parts of their own.
//! 3. **Split at a least state.** Where M takes its minimum over *all* states of a part, some optimal order of the part
//!    passes: any order, with the ops of that state moved to the front in the same order among themselves, has no
//!    dearer step. So the state splits the part. This is not true of a merely local minimum.
//!
//! An order of every part makes an order of the whole, and its peak is the largest of theirs; a lower bound of any part
//! is one of the whole. Only parts whose peak exceeds the bound need a search.
//!
//! `docs/algorithms/scheduling.md` has the proofs.

use super::expand::{Expander, Rules};
use super::greedy::ranks;
use super::walk::Direction;
use crate::id::OpId;
use crate::memory::cut::Network;
use crate::memory::instance::Instance;
use crate::search::Search;
use std::ops::Range;

/// An order of an instance, cut into stretches that can be solved each for itself.
pub(super) struct Parts {
    /// The order, in the ids of the instance.
    pub(super) order: Vec<OpId>,
    /// The stretches that may need a search, in time.
    pub(super) ranges: Vec<Range<usize>>,
}

/// Cuts an order of an instance; `bound` is proven. O(n + m) and one pass of the safe rules in each direction.
pub(super) fn parts(instance: &Instance, order: &[OpId], bound: u64) -> Parts {
    let mut order = order.to_vec();
    let (start, end) = core(instance, &mut order, bound);
    let ranges = split_at_comparable(instance, &order, start..end);
    Parts { order, ranges }
}

/// Moves what the safe rules run at once to the ends of the order; what is left between.
fn core(instance: &Instance, order: &mut Vec<OpId>, bound: u64) -> (usize, usize) {
    let n = order.len();
    let mut forward = Expander::new(instance, Direction::Forward, Vec::new(), Rules::ALL);
    let first = forward.start(bound).ops;
    to_front(order, &first);
    let start = first.len();
    let rest = instance.part(order, &ranks(order), start..n, forward.walk.live());
    let mut backward = Expander::new(&rest, Direction::Backward, Vec::new(), Rules::ALL);
    if !backward.walk.may_run_now() {
        return (start, n);
    }
    let mut last = backward.start(bound).ops;
    last.reverse();
    let last = rest.named(&last);
    let end = n - last.len();
    let is_last = {
        let mut is_last = vec![false; n];
        last.iter().for_each(|op| is_last[op.index()] = true);
        is_last
    };
    order.retain(|op| !is_last[op.index()]);
    order.extend(last);
    (start, end)
}

/// Puts some ops, in their order, before the others.
fn to_front(order: &mut Vec<OpId>, first: &[OpId]) {
    let mut is_first = vec![false; order.len()];
    first.iter().for_each(|op| is_first[op.index()] = true);
    let rest = order.iter().filter(|op| !is_first[op.index()]);
    *order = first.iter().chain(rest).copied().collect();
}

/// Cuts a stretch before and after every op that compares with all others of the stretch. O(n + m).
///
/// In an order of n ops let one op stand at place p, and let it be the only op that may run next there, forwards. Then
/// all later ops are below it. Let it also be the only one backwards, at the same place; then all earlier ops are above
/// it. The converse holds too.
fn split_at_comparable(instance: &Instance, order: &[OpId], range: Range<usize>) -> Vec<Range<usize>> {
    let place = ranks(order);
    let inside = |op: &OpId| range.contains(&(place[op.index()] as usize));
    // For each place the number of ops that may stand there, given the ops before it (forwards) or after it.
    let choices = |ops: &mut dyn Iterator<Item = usize>, forward: bool| {
        let lists = |op: OpId| match forward {
            true => (instance.predecessors(op), instance.successors(op)),
            false => (instance.successors(op), instance.predecessors(op)),
        };
        let mut waits: Vec<usize> = vec![0; instance.n_ops()];
        let mut ready = 0usize;
        for &op in &order[range.clone()] {
            waits[op.index()] = lists(op).0.iter().filter(|p| inside(p)).count();
            ready += usize::from(waits[op.index()] == 0);
        }
        let mut single = vec![false; range.len()];
        for p in ops {
            single[p - range.start] = ready == 1;
            ready -= 1;
            for next in lists(order[p]).1.iter().filter(|next| inside(next)) {
                waits[next.index()] -= 1;
                ready += usize::from(waits[next.index()] == 0);
            }
        }
        single
    };
    let forward = choices(&mut range.clone(), true);
    let backward = choices(&mut range.clone().rev(), false);
    let mut ranges = Vec::new();
    let mut start = range.start;
    for p in range.clone().filter(|p| forward[p - range.start] && backward[p - range.start]) {
        if start < p {
            ranges.push(start..p);
        }
        start = p + 1;
    }
    if start < range.end {
        ranges.push(start..range.end);
    }
    ranges
}

/// The state of a part in which the fewest bytes are live, if it is neither the first nor the last: its ops, in the
/// order of the ids. One maximum flow. `None` too where the first step bears bytes of its own, whichever op it runs:
/// then it matters which op that is.
pub(super) fn least_state(part: &Instance, search: &mut Search<'_>) -> Option<Vec<OpId>> {
    if part.unused_bytes() > 0 {
        return None;
    }
    let cut = Network::whole(part).solve(part, search)?;
    if cut.bytes >= part.start_bytes().min(part.end_bytes()) {
        return None;
    }
    Some(part.ops().filter(|op| cut.done[op.index()]).collect())
}
