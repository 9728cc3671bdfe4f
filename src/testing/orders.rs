//! Orders of a graph: one at random, all of them, and the best by trying all.

use crate::graph::Graph;
use crate::id::OpId;
use crate::memory::Profile;
use crate::schedule::Step;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random valid order: at each step one of the ready ops, each as likely as the others. O(n + m).
///
/// Every order can come out, though not all with the same probability.
#[must_use]
pub fn random_order(graph: &Graph, seed: u64) -> Vec<OpId> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    order_by(graph, |n_ready| rng.random_range(0..n_ready))
}

/// The order in which `choose`, told how many ops are ready, picks the next one: 0 is the op that became ready last.
pub(super) fn order_by(graph: &Graph, mut choose: impl FnMut(usize) -> usize) -> Vec<OpId> {
    let mut waits_for: Vec<usize> = graph.ops().map(|op| graph.predecessors(op).len()).collect();
    let mut ready: Vec<OpId> = graph.ops().rev().filter(|op| waits_for[op.index()] == 0).collect();
    let mut order = Vec::with_capacity(graph.n_ops());
    while !ready.is_empty() {
        let last = ready.len() - 1;
        let op = ready.swap_remove(last - choose(ready.len()));
        order.push(op);
        for &next in graph.successors(op).iter().rev() {
            waits_for[next.index()] -= 1;
            if waits_for[next.index()] == 0 {
                ready.push(next);
            }
        }
    }
    order
}

/// Calls `visit` with every valid order of the graph, each once, in lexicographic order of the ids.
///
/// A graph of n ops has up to n! orders: this is for graphs of up to ten ops or so. A graph without ops has one
/// order, the empty one.
pub fn all_orders(graph: &Graph, mut visit: impl FnMut(&[OpId])) {
    let n = graph.n_ops();
    let mut waits_for: Vec<usize> = graph.ops().map(|op| graph.predecessors(op).len()).collect();
    let mut has_run = vec![false; n];
    let mut order: Vec<OpId> = Vec::with_capacity(n);
    // For each place in the order, the least op that was not tried there yet.
    let mut untried = vec![0usize];
    while let Some(from) = untried.pop() {
        if let Some(next) = (from..n).find(|op| !has_run[*op] && waits_for[*op] == 0) {
            let op = OpId::new(next);
            graph.successors(op).iter().for_each(|s| waits_for[s.index()] -= 1);
            has_run[next] = true;
            order.push(op);
            untried.extend([next + 1, 0]);
            continue;
        }
        if order.len() == n {
            visit(&order);
        }
        if let Some(op) = order.pop() {
            graph.successors(op).iter().for_each(|s| waits_for[s.index()] += 1);
            has_run[op.index()] = false;
        }
    }
}

/// The least peak of any plain order, in bytes, by measuring them all: the oracle for schedulers and bounds.
///
/// O((n + m) n!) at worst: for graphs of up to nine ops or so.
#[must_use]
pub fn brute_force_peak(graph: &Graph) -> u64 {
    let mut least = u64::MAX;
    all_orders(graph, |order| {
        let profile = Profile::of(graph, &Step::plain(order)).expect("every topological order is a schedule");
        least = least.min(profile.peak_bytes());
    });
    least
}
