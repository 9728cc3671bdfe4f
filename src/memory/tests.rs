#![expect(clippy::cast_possible_truncation, reason = "seeds below a thousand or so")]

use super::*;
use crate::graph::GraphBuilder;
use crate::id::TensorId;
use crate::schedule::Step;
use crate::testing::{self, Family, GraphShape};

/// Measures the given order.
fn profile(b: GraphBuilder) -> Profile {
    let graph = b.build().unwrap();
    Profile::of(&graph, &Step::plain(graph.given_order())).unwrap()
}

/// Live bytes at each step of the given order.
fn live(b: GraphBuilder) -> Vec<u64> {
    profile(b).live_bytes().to_vec()
}

// Peaks by hand.

/// `x(10) -> a(20) -> b(5) -> c(1)`
#[test]
fn chain() {
    let mut g = Graph::builder();
    let (x, a, b, c) = (g.input("x", 10), g.tensor("a", 20), g.tensor("b", 5), g.tensor("c", 1));
    g.op("a").reads([x]).writes([a]);
    g.op("b").reads([a]).writes([b]);
    g.op("c").reads([b]).writes([c]);
    g.output(c);
    let profile = profile(g);
    assert_eq!(profile.live_bytes(), [30, 25, 6]);
    assert_eq!((profile.peak_bytes(), profile.peak_step()), (30, StepIdx::new(0)));
    let mean = 61.0 / 3.0;
    let variance = [30.0, 25.0, 6.0].map(|b: f64| (b - mean).powi(2)).iter().sum::<f64>() / 3.0;
    assert!((profile.fluctuation_bytes() - variance.sqrt()).abs() < 1e-9);
}

/// `x(1) -> l(10) -> s(1) -> y(1)`, `x -> r(4) -> y`: the left branch first is best.
#[test]
fn diamond_depends_on_the_order() {
    let mut g = Graph::builder();
    let (x, l, s, r, y) = (g.input("x", 1), g.tensor("l", 10), g.tensor("s", 1), g.tensor("r", 4), g.tensor("y", 1));
    let left = g.op("l").reads([x]).writes([l]).id();
    let small = g.op("s").reads([l]).writes([s]).id();
    let right = g.op("r").reads([x]).writes([r]).id();
    let join = g.op("y").reads([s, r]).writes([y]).id();
    g.output(y);
    let graph = g.build().unwrap();
    let live = |order: [OpId; 4]| Profile::of(&graph, &Step::plain(&order)).unwrap().live_bytes().to_vec();
    assert_eq!(live([left, small, right, join]), [11, 12, 6, 6]);
    assert_eq!(live([right, left, small, join]), [5, 15, 15, 6]);
    assert_eq!(live([left, right, small, join]), [11, 15, 15, 6]);
    assert_eq!(testing::brute_force_peak(&graph), 12);
}

#[test]
fn a_view_keeps_its_storage_alive() {
    let mut g = Graph::builder();
    let (x, v, vv, y, z) = (g.input("x", 8), g.tensor("v", 4), g.tensor("vv", 100), g.tensor("y", 2), g.tensor("z", 1));
    g.op("view").reads([x]).writes([v]).view(v, x);
    g.op("view of view").reads([v]).writes([vv]).view(vv, v);
    g.op("y").writes([y]);
    g.op("z").reads([vv]).writes([z]);
    g.op("end").reads([z]);
    assert_eq!(live(g), [8, 8, 10, 9, 1]);
}

#[test]
fn a_view_that_is_an_output_keeps_its_storage_to_the_end() {
    let mut g = Graph::builder();
    let (x, v) = (g.input("x", 8), g.tensor("v", 4));
    g.op("view").reads([x]).writes([v]).view(v, x);
    g.op("end");
    g.output(v);
    assert_eq!(live(g), [8, 8]);
}

#[test]
fn an_update_takes_no_bytes_and_keeps_its_storage() {
    let mut g = Graph::builder();
    let (x, y, x1, z) = (g.input("x", 8), g.tensor("y", 3), g.tensor("x1", 8), g.tensor("z", 1));
    g.op("y").reads([x]).writes([y]);
    g.op("update").reads([x, y]).writes([x1]).update(x1, x);
    g.op("z").reads([x1]).writes([z]);
    g.op("end").reads([z]);
    assert_eq!(live(g), [11, 11, 9, 1]);
}

#[test]
fn an_updated_weight_stays_outside() {
    let mut g = Graph::builder();
    let (w, d, w1) = (g.weight("w", 1 << 40), g.input("d", 8), g.tensor("w1", 1 << 40));
    g.op("step").reads([w, d]).writes([w1]).update(w1, w);
    g.output(w1);
    let graph = g.build().unwrap();
    assert_eq!(graph.persistent_bytes(), 1 << 40);
    assert_eq!(Profile::of(&graph, &Step::plain(graph.given_order())).unwrap().live_bytes(), [8]);
}

/// Builds `x(8) -> y(8)`, `y -> z(8)` with z in place of y; `change` may spoil it. Live bytes at the second step.
fn in_place(change: impl FnOnce(&mut GraphBuilder, TensorId, TensorId)) -> u64 {
    let mut g = Graph::builder();
    let (x, y, z) = (g.input("x", 0), g.tensor("y", 8), g.tensor("z", 8));
    g.op("y").reads([x]).writes([y]);
    g.op("z").reads([y]).writes([z]).in_place(z, y);
    change(&mut g, y, z);
    live(g)[1]
}

#[test]
fn in_place_shares_the_bytes_where_the_operand_dies() {
    assert_eq!(in_place(|_, _, _| {}), 8);
    let read_later = in_place(|g, y, _| {
        g.op("later").reads([y]);
    });
    assert_eq!(read_later, 16, "the operand lives on");
    let kept = in_place(|g, y, _| {
        g.output(y);
    });
    assert_eq!(kept, 16, "the operand is an output");
    let out = in_place(|g, _, z| {
        g.output(z);
    });
    assert_eq!(out, 8, "the output itself may be one");
}

#[test]
fn in_place_is_forbidden_where_another_view_of_the_operand_is_read() {
    let mut g = Graph::builder();
    let (y, v, z) = (g.tensor("y", 8), g.tensor("v", 8), g.tensor("z", 8));
    g.op("y").writes([y]);
    g.op("v").reads([y]).writes([v]).view(v, y);
    g.op("z").reads([y, v]).writes([z]).in_place(z, y);
    assert_eq!(live(g), [8, 8, 16]);
}

#[test]
fn in_place_may_take_over_through_a_view_that_is_the_only_operand() {
    let mut g = Graph::builder();
    let (y, v, z) = (g.tensor("y", 8), g.tensor("v", 8), g.tensor("z", 8));
    g.op("y").writes([y]);
    g.op("v").reads([y]).writes([v]).view(v, y);
    g.op("z").reads([v]).writes([z]).in_place(z, v);
    assert_eq!(live(g), [8, 8, 8]);
}

#[test]
fn in_place_needs_equal_sizes_and_no_weight() {
    for (bytes, is_weight, expected) in [(8, false, 8), (7, false, 15), (9, false, 17), (8, true, 8)] {
        let mut g = Graph::builder();
        let x = if is_weight { g.weight("x", bytes) } else { g.input("x", bytes) };
        let y = g.tensor("y", 8);
        g.op("y").reads([x]).writes([y]).in_place(y, x);
        let graph = g.build().unwrap();
        let profile = Profile::of(&graph, &Step::plain(graph.given_order())).unwrap();
        assert_eq!(profile.live_bytes(), [expected]);
        let taken = profile.stays().iter().any(|stay| stay.takes_over.is_some());
        assert_eq!(taken, bytes == 8 && !is_weight);
    }
}

#[test]
fn an_operand_is_taken_over_once_and_by_as_many_as_can() {
    // y may take over a or b, z only a: both find a place.
    let mut g = Graph::builder();
    let (a, b, y, z) = (g.input("a", 8), g.input("b", 8), g.tensor("y", 8), g.tensor("z", 8));
    g.op("op").reads([a, b]).writes([y, z]).in_place(y, a).in_place(y, b).in_place(z, a);
    assert_eq!(live(g), [16]);

    // Two outputs, one operand.
    let mut g = Graph::builder();
    let (a, y, z) = (g.input("a", 8), g.tensor("y", 8), g.tensor("z", 8));
    g.op("op").reads([a]).writes([y, z]).in_place(y, a).in_place(z, a);
    assert_eq!(live(g), [16]);
}

#[test]
fn workspace_counts_while_its_op_runs() {
    let mut g = Graph::builder();
    let (x, y, z) = (g.input("x", 8), g.tensor("y", 4), g.tensor("z", 2));
    g.op("y").reads([x]).writes([y]);
    g.op("z").reads([y]).writes([z]).workspace(100);
    let profile = profile(g);
    assert_eq!(profile.live_bytes(), [12, 6]);
    assert_eq!(profile.used_bytes().collect::<Vec<_>>(), [12, 106]);
    assert_eq!((profile.peak_bytes(), profile.peak_step()), (106, StepIdx::new(1)));
}

#[test]
fn unread_outputs_and_unused_inputs_live_for_one_step() {
    let mut g = Graph::builder();
    let (_unused, x, y, z) = (g.input("unused", 64), g.input("x", 8), g.tensor("y", 4), g.tensor("z", 2));
    g.op("first");
    g.op("y, z").reads([x]).writes([y, z]);
    g.op("end").reads([y]);
    assert_eq!(live(g), [72, 14, 4]);
}

#[test]
fn a_graph_without_ops_holds_its_inputs() {
    let mut g = Graph::builder();
    g.input("x", 8);
    g.weight("w", 4);
    let y = g.input("y", 2);
    g.output(y);
    assert_eq!(live(g), [10]);
    assert_eq!(live(Graph::builder()), [0]);
}

// Steps that are no plain order.

#[test]
fn recomputing_makes_a_second_stay() {
    // y is big, read first and last; in between it can be dropped.
    let mut g = Graph::builder();
    let (x, y, z, e) = (g.input("x", 1), g.tensor("y", 100), g.tensor("z", 1), g.tensor("e", 50));
    let make = g.op("make").reads([x]).writes([y]).id();
    let first = g.op("first").reads([y]).writes([z]).id();
    let big = g.op("big").reads([z]).writes([e]).id();
    let last = g.op("last").reads([y, e]).id();
    let graph = g.build().unwrap();
    let plain = Profile::of(&graph, &Step::plain(&[make, first, big, last])).unwrap();
    assert_eq!(plain.live_bytes(), [101, 101, 151, 150]);
    let again = Profile::of(&graph, &Step::plain(&[make, first, big, make, last])).unwrap();
    assert_eq!(again.live_bytes(), [101, 102, 52, 151, 150]);
    let stays = again.stays().iter().filter(|stay| stay.bytes == 100);
    let spans: Vec<_> = stays.map(|stay| (stay.first.index(), stay.last.index())).collect();
    assert_eq!(spans, [(0, 1), (3, 4)]);
}

#[test]
fn offload_frees_and_fetch_brings_back() {
    let mut g = Graph::builder();
    let (x, y, z) = (g.input("x", 100), g.tensor("y", 1), g.tensor("z", 60));
    let first = g.op("first").reads([x]).writes([y]).id();
    let big = g.op("big").reads([y]).writes([z]).id();
    let small = g.op("small").reads([z]).id();
    let last = g.op("last").reads([x]).id();
    let graph = g.build().unwrap();
    let s = graph.storage(x);
    let steps = [Step::run(first), Step::offload(s), Step::run(big), Step::run(small), Step::fetch(s), Step::run(last)];
    let profile = Profile::of(&graph, &steps).unwrap();
    assert_eq!(profile.live_bytes(), [101, 101, 61, 60, 100, 100]);

    let gone = [&steps[..4], &steps[5..]].concat();
    assert!(matches!(Profile::of(&graph, &gone), Err(ScheduleError::NotResident { op, .. }) if op.id == last));
    let never = [Step::fetch(s), Step::run(first)];
    assert!(matches!(Profile::of(&graph, &never), Err(ScheduleError::FetchNotOffloaded { .. })));
    let twice = [Step::offload(s), Step::offload(s)];
    assert!(matches!(Profile::of(&graph, &twice), Err(ScheduleError::OffloadNotResident { .. })));
}

#[test]
fn an_output_is_on_the_device_at_the_end() {
    let mut g = Graph::builder();
    let y = g.tensor("y", 8);
    let make = g.op("make").writes([y]).id();
    g.output(y);
    let graph = g.build().unwrap();
    let s = graph.storage(y);
    let away = [Step::run(make), Step::offload(s)];
    assert!(matches!(Profile::of(&graph, &away), Err(ScheduleError::OutputNotResident { tensor }) if tensor.id == y));
    let back = [Step::run(make), Step::offload(s), Step::fetch(s)];
    assert_eq!(Profile::of(&graph, &back).unwrap().live_bytes(), [8, 8, 8]);
}

#[test]
fn what_is_no_schedule_says_why() {
    let mut g = Graph::builder();
    let (x, x1, y) = (g.input("x", 1), g.tensor("x1", 1), g.tensor("y", 1));
    let read = g.op("read").reads([x]).writes([y]).id();
    let update = g.op("update").reads([x]).writes([x1]).update(x1, x).id();
    g.output(x1);
    let graph = g.build().unwrap();
    let error = |steps: &[Step]| Profile::of(&graph, steps).unwrap_err();
    assert!(matches!(error(&[Step::run(update)]), ScheduleError::TooEarly { missing, .. } if missing.id == read));
    assert!(matches!(error(&[Step::run(read)]), ScheduleError::NeverRuns { op } if op.id == update));
    assert!(matches!(error(&[Step::run(OpId::new(9))]), ScheduleError::UnknownOp { .. }));
    assert!(matches!(error(&[Step::fetch(StorageId::new(9))]), ScheduleError::UnknownStorage { storage: 9, .. }));
    let again = [read, update, read].map(Step::run);
    assert!(
        matches!(error(&again), ScheduleError::WrongVersion { at, tensor, .. } if at.index() == 2 && tensor.id == x)
    );
    // The old version comes back from the host, and stands where the new one should.
    let s = graph.storage(x);
    let old = [Step::offload(s), Step::fetch(s), Step::run(read), Step::run(update), Step::fetch(s)];
    assert!(matches!(error(&old), ScheduleError::OutputWrongVersion { tensor } if tensor.id == x1));
}

// Random graphs.

fn shapes(n_ops: usize) -> impl Iterator<Item = GraphShape> {
    Family::ALL.into_iter().map(move |family| GraphShape::new(family, n_ops).with_everything())
}

#[test]
fn no_order_goes_below_the_bound() {
    for seed in 0..2000 {
        let n_ops = 1 + seed as usize % 7;
        for shape in shapes(n_ops).skip(seed as usize / 7 % 4).take(1) {
            for shape in [shape.clone(), shape.with_adversarial_sizes(false)] {
                let graph = testing::random_graph(seed, &shape);
                let (bound, least) = (lower_bound_bytes(&graph), testing::brute_force_peak(&graph));
                assert!(bound <= least, "seed {seed}: a bound of {bound} above {least}: {shape:?}");
            }
        }
    }
}

/// The matching of pairs with the most bytes, by trying every subset.
fn most_saved(pairs: &[(StorageId, StorageId)], graph: &Graph) -> u64 {
    let subsets = 0u32..1 << pairs.len();
    let saved = subsets.filter_map(|subset| {
        let chosen: Vec<_> = (0..pairs.len()).filter(|k| subset >> k & 1 == 1).map(|k| pairs[k]).collect();
        let clash = |k: usize| chosen[..k].iter().any(|p| p.0 == chosen[k].0 || p.1 == chosen[k].1);
        (!(0..chosen.len()).any(clash)).then(|| chosen.iter().map(|p| graph.storage_bytes(p.0)).sum())
    });
    saved.max().unwrap_or(0)
}

/// Live bytes of an order, from the rules alone: tensor by tensor, without storages' creators, touches or takeovers.
fn recount(graph: &Graph, order: &[OpId]) -> Vec<u64> {
    let mut step_of = vec![0; graph.n_ops()];
    order.iter().enumerate().for_each(|(s, op)| step_of[op.index()] = s);
    let last_step = order.len().saturating_sub(1);
    let given = |s: StorageId| graph.producer(graph.root(s)).is_none();
    let persistent = |s: StorageId| given(s) && graph.tensor_kind(graph.root(s)).is_persistent();
    let members = |s: StorageId| graph.tensors().filter(move |t| graph.storage(*t) == s);
    let span = |s: StorageId| {
        let first = graph.producer(graph.root(s)).map_or(0, |op| step_of[op.index()]);
        let used = |t: TensorId| graph.ops().filter(move |op| graph.inputs(*op).contains(&t)).chain(graph.producer(t));
        let last = members(s).flat_map(used).map(|op| step_of[op.index()]).max().unwrap_or(0);
        let output = members(s).any(|t| graph.outputs().contains(&t));
        (first, if output { last_step } else { last })
    };
    let bytes = |s: StorageId| graph.tensor_bytes(graph.root(s));
    (0..=last_step)
        .map(|step| {
            let live = graph.storages().filter(|s| !persistent(*s) && span(*s).0 <= step && step <= span(*s).1);
            let live: u64 = live.map(bytes).sum();
            let Some(&op) = order.get(step) else { return live };
            let dies_here = |from: StorageId, operand: TensorId| {
                let others = graph.inputs(op).iter().filter(|t| **t != operand && graph.storage(**t) == from).count();
                let is_output = members(from).any(|t| graph.outputs().contains(&t));
                !persistent(from) && !is_output && others == 0 && span(from).1 == step
            };
            let mut pairs = Vec::new();
            for &(out, operand) in graph.in_place_pairs(op) {
                let (to, from) = (graph.storage(out), graph.storage(operand));
                if graph.root(to) == out && bytes(to) == bytes(from) && dies_here(from, operand) {
                    pairs.push((to, from));
                }
            }
            live - most_saved(&pairs, graph)
        })
        .collect()
}

#[test]
fn every_order_is_measured_as_a_naive_recount_does() {
    let mut n_takeovers = 0;
    for seed in 0..400 {
        for shape in shapes(1 + seed as usize % 16) {
            let graph = testing::random_graph(seed, &shape);
            let order = testing::random_order(&graph, seed);
            let profile = Profile::of(&graph, &Step::plain(&order)).unwrap();
            assert_eq!(profile.live_bytes(), recount(&graph, &order), "seed {seed}, {shape:?}");
            let used = profile.live_bytes().iter().zip(&order).map(|(live, op)| live + graph.workspace_bytes(*op));
            assert_eq!(profile.peak_bytes(), used.max().unwrap_or(profile.live_bytes()[0]));
            n_takeovers += profile.stays().iter().filter(|stay| stay.takes_over.is_some()).count();
        }
    }
    assert!(n_takeovers > 100, "only {n_takeovers} takeovers");
}

#[test]
fn any_order_of_a_large_graph_is_accepted() {
    for shape in shapes(2000) {
        let graph = testing::random_graph(1, &shape);
        for seed in 0..5 {
            assert!(Profile::of(&graph, &Step::plain(&testing::random_order(&graph, seed))).is_ok());
        }
    }
}

#[test]
fn matching_finds_augmenting_paths() {
    // 1 could take 10 or 11; 2 only 10; 3 only 11 or 12.
    let pairs = [(1, 10), (1, 11), (2, 10), (3, 11), (3, 12)];
    let found = matching(&pairs);
    assert_eq!(found.len(), 3, "{found:?}");
    for (k, a) in found.iter().enumerate() {
        assert!(found[..k].iter().all(|b| a.0 != b.0 && a.1 != b.1), "{found:?}");
    }
}

#[test]
fn matching_prefers_earlier_pairs() {
    assert_eq!(matching(&[(1, 10), (1, 11)]), [(1, 10)]);
    assert_eq!(matching::<u8>(&[]), []);
    assert_eq!(matching(&[(1, 10), (2, 11)]), [(1, 10), (2, 11)]);
}
