//! Shapes that other schedulers stumble over, each with its least peak, which brute force or a count of bytes gives.

use memsched::graph::GraphBuilder;
use memsched::id::TensorId;
use memsched::testing::brute_force_peak;
use memsched::{Graph, Strategy, schedule};

/// An op that reads some tensors and makes one of `bytes` bytes.
fn op(b: &mut GraphBuilder, reads: &[TensorId], bytes: u64) -> TensorId {
    let made = b.tensor("", bytes);
    b.op("").reads(reads.iter().copied()).writes([made]);
    made
}

#[track_caller]
fn solved(b: GraphBuilder, least: u64) {
    let graph = b.build().expect("the graph is valid");
    if graph.n_ops() <= 9 {
        assert_eq!(brute_force_peak(&graph), least);
    }
    for strategy in [Strategy::Dp, Strategy::Hybrid] {
        let found = schedule(&graph, strategy).expect("every graph has a schedule");
        assert_eq!((found.peak_bytes(), found.lower_bound_bytes()), (least, least), "{strategy}");
    }
    let greedy = schedule(&graph, Strategy::Greedy).expect("every graph has a schedule");
    assert!(greedy.lower_bound_bytes() <= least && least <= greedy.peak_bytes());
}

/// Both ready ops are large; only one of them leads to an op that frees.
#[test]
fn all_ready_ops_are_large() {
    let mut b = Graph::builder();
    let x = b.input("x", 50);
    let dead_end = op(&mut b, &[x], 99);
    let large = op(&mut b, &[x], 100);
    let small = op(&mut b, &[large], 1);
    let end = op(&mut b, &[dead_end, small], 1);
    b.output(end);
    // 50 + 100 for the large one first; then 50 + 1 + 99.
    solved(b, 151);
}

/// Weight gradients can wait, but then every gradient stays alive.
#[test]
fn deferred_weight_gradients() {
    let mut b = Graph::builder();
    let mut gradient = b.input("loss", 100);
    let mut updates = Vec::new();
    for _ in 0..20 {
        let next = op(&mut b, &[gradient], 100);
        updates.push(gradient);
        gradient = next;
    }
    // The framework adds all the weight gradients at the end.
    for gradient in updates {
        let weight = op(&mut b, &[gradient], 1);
        b.output(weight);
    }
    let last = op(&mut b, &[gradient], 1);
    b.output(last);
    // The last two gradients, 19 weight gradients made before, and the one that is made while both gradients are alive.
    solved(b, 200 + 20);
}

/// Small statistics of every activation, written last in the file, keep all activations alive.
#[test]
fn statistics_sinks() {
    let mut b = Graph::builder();
    let mut x = b.input("x", 1000);
    let mut seen = Vec::new();
    for _ in 0..30 {
        seen.push(x);
        x = op(&mut b, &[x], 1000);
    }
    for activation in seen {
        op(&mut b, &[activation], 0);
    }
    b.output(x);
    solved(b, 2000);
}

/// Cheap to start, as nothing is read: but what they make is large and needed late.
#[test]
fn expanders_first() {
    let mut b = Graph::builder();
    let mut x = b.input("x", 10);
    let scalar = b.weight("one", 8);
    let masks: Vec<TensorId> = (0..12).map(|_| op(&mut b, &[scalar], 500)).collect();
    for mask in masks {
        x = op(&mut b, &[x, mask], 10);
    }
    b.output(x);
    solved(b, 520);
}

/// An op that feeds no output still runs, and its workspace counts.
#[test]
fn sinks_are_not_dropped() {
    let mut b = Graph::builder();
    let x = b.input("x", 8);
    let y = op(&mut b, &[x], 8);
    let log = b.tensor("log", 4);
    b.op("log").reads([x]).writes([log]).workspace(100);
    b.output(y);
    let graph = b.build().expect("the graph is valid");
    let found = schedule(&graph, Strategy::Hybrid).expect("every graph has a schedule");
    assert_eq!(found.order().count(), 2);
    assert_eq!(found.peak_bytes(), 112);
}

/// Attention in slices: a slice's scores are large, its result is small; one slice after the other.
#[test]
fn interleaved_slices() {
    let mut b = Graph::builder();
    let query = b.input("q", 64);
    let scores: Vec<TensorId> = (0..8).map(|_| op(&mut b, &[query], 1000)).collect();
    let soft: Vec<TensorId> = scores.iter().map(|s| op(&mut b, &[*s], 1000)).collect();
    let results: Vec<TensorId> = soft.iter().map(|s| op(&mut b, &[*s], 8)).collect();
    let end = op(&mut b, &results, 64);
    b.output(end);
    // The query may die with the last slice's scores; before, it lies beside two tensors and seven results.
    solved(b, 2000 + 64 + 6 * 8);
}

/// Twelve branches from one input, each of which expands and then reduces, joined at the end.
#[test]
fn twelve_wide_branches() {
    let mut b = Graph::builder();
    let x = b.input("x", 4096);
    let wide: Vec<TensorId> = (0..12).map(|_| op(&mut b, &[x], 65_536)).collect();
    let reduced: Vec<TensorId> = wide.iter().map(|w| op(&mut b, &[*w], 4)).collect();
    let end = op(&mut b, &reduced, 4);
    b.output(end);
    // The last branch: the input, eleven results, and what the branch expands.
    solved(b, 4096 + 65_536 + 11 * 4);
}

/// A hundred iterations of an unrolled loop, whose first ops are all ready at once.
#[test]
fn unrolled_iterations() {
    let mut b = Graph::builder();
    let x = b.input("x", 100);
    let started: Vec<TensorId> = (0..100).map(|_| op(&mut b, &[x], 700)).collect();
    let mut sum = None;
    for start in started {
        let body = op(&mut b, &[start], 300);
        let reads: Vec<TensorId> = sum.into_iter().chain([body]).collect();
        sum = Some(op(&mut b, &reads, 50));
    }
    b.output(sum.expect("there are iterations"));
    // One body beside the input and the sum so far.
    solved(b, 700 + 300 + 100 + 50);
}
