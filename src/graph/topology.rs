//! Topological orders, by counting predecessors; no recursion.

use crate::id::{Adjacency, OpId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the dependencies allow.
pub(super) enum Order {
    /// The order of the ids where that is valid, else the order that always runs the least ready id.
    Valid(Vec<OpId>),
    /// Ops of one cycle: each runs before the next, and the last before the first.
    Cycle(Vec<OpId>),
}

/// A topological order of the ops with these predecessors. O(n + m); n log n more where the ids are not in order.
pub(super) fn order(predecessors: &Adjacency<OpId>) -> Order {
    let n = predecessors.lists().len();
    if predecessors.lists().enumerate().all(|(op, list)| list.iter().all(|pred| pred.index() < op)) {
        return Order::Valid((0..n).map(OpId::new).collect());
    }
    let successors = Adjacency::group(n, || {
        predecessors.lists().enumerate().flat_map(|(op, list)| list.iter().map(move |p| (p.index(), OpId::new(op))))
    });
    let mut waits_for: Vec<usize> = predecessors.lists().map(<[OpId]>::len).collect();
    let mut ready: BinaryHeap<Reverse<OpId>> =
        (0..n).filter(|op| waits_for[*op] == 0).map(|op| Reverse(OpId::new(op))).collect();
    let mut order = Vec::with_capacity(n);
    while let Some(Reverse(op)) = ready.pop() {
        order.push(op);
        for &next in successors.list(op.index()) {
            waits_for[next.index()] -= 1;
            if waits_for[next.index()] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    if order.len() == n { Order::Valid(order) } else { Order::Cycle(cycle(predecessors, &waits_for)) }
}

/// Walks backwards among the ops that still wait, each of which waits for another such op, until one comes again.
fn cycle(predecessors: &Adjacency<OpId>, waits_for: &[usize]) -> Vec<OpId> {
    let mut place: Vec<Option<usize>> = vec![None; waits_for.len()];
    let mut path: Vec<OpId> = Vec::new();
    let mut next = waits_for.iter().position(|w| *w > 0).map(OpId::new);
    while let Some(op) = next {
        if let Some(start) = place[op.index()] {
            path.drain(..start);
            path.reverse();
            return path;
        }
        place[op.index()] = Some(path.len());
        path.push(op);
        next = predecessors.list(op.index()).iter().copied().find(|pred| waits_for[pred.index()] > 0);
    }
    path
}
