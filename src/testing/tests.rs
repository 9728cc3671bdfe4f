#![expect(clippy::cast_possible_truncation, reason = "seeds below a thousand or so")]

use super::*;
use crate::memory::{Occupant, Profile};
use crate::schedule::Step;
use proptest::prelude::*;
use std::collections::HashSet;

#[test]
fn every_shape_gives_graphs_of_the_size_asked_for() {
    for family in Family::ALL {
        for n_ops in [0, 1, 2, 3, 7, 30, 300] {
            for seed in 0..40 {
                let plain = GraphShape::new(family, n_ops);
                assert_eq!(random_graph(seed, &plain).n_ops(), n_ops);
                let graph = random_graph(seed, &plain.with_everything());
                assert_eq!(graph.n_ops(), n_ops);
                assert!(graph.given_order().is_sorted(), "ops are numbered in a valid order");
            }
        }
    }
}

/// Each feature occurs when asked for and only then.
#[test]
fn features_occur_when_asked_for() {
    let shape = GraphShape::new(Family::Arbitrary, 40);
    type Occurs = fn(&Graph) -> bool;
    let features: [(&str, GraphShape, Occurs); 11] = [
        ("views", shape.clone().with_views(true), |g| g.ops().any(|op| !g.views(op).is_empty())),
        ("updates", shape.clone().with_updates(true), |g| g.ops().any(|op| !g.updates(op).is_empty())),
        ("in place", shape.clone().with_in_place(true), |g| g.ops().any(|op| !g.takeovers(op).is_empty())),
        ("workspace", shape.clone().with_workspace(true), |g| g.ops().any(|op| g.workspace_bytes(op) > 0)),
        ("control", shape.clone().with_control(true), |g| g.ops().any(|op| !g.after(op).is_empty())),
        ("zero bytes", shape.clone().with_zero_bytes(true), |g| g.tensors().any(|t| g.tensor_bytes(t) == 0)),
        ("adversarial sizes", shape.clone().with_adversarial_sizes(true), |g| {
            g.storages().any(|s| g.storage_bytes(s) >= 1 << 40) && g.storages().any(|s| g.storage_bytes(s) == 1)
        }),
        ("several outputs", shape.clone().with_several_outputs(true), |g| {
            g.ops().any(|op| g.op_outputs(op).len() > 1) && g.ops().any(|op| g.op_outputs(op).is_empty())
        }),
        ("outputs that are inputs", shape.clone().with_outputs_that_are_inputs(true), |g| {
            g.outputs().iter().any(|t| g.producer(*t).is_none())
        }),
        ("unused inputs", shape.clone().with_unused_inputs(true), |g| {
            g.tensors().any(|t| g.producer(t).is_none() && g.consumers(t).is_empty())
        }),
        ("weights", shape.clone().with_weights(true), |g| g.persistent_bytes() > 0),
    ];
    for (name, with, occurs) in features {
        assert!((0..20).any(|seed| occurs(&random_graph(seed, &with))), "{name} never occurs");
        assert!((0..20).all(|seed| !occurs(&random_graph(seed, &shape))), "{name} occurs unasked");
    }
}

#[test]
fn series_parallel_graphs_have_one_source_and_one_sink() {
    for seed in 0..200 {
        let graph = random_graph(seed, &GraphShape::new(Family::SeriesParallel, 1 + seed as usize % 40));
        let sinks = graph.ops().filter(|op| graph.successors(*op).is_empty()).count();
        let sources = graph.ops().filter(|op| graph.predecessors(*op).is_empty()).count();
        assert!(sinks == 1 && sources == 1, "seed {seed}: {sinks} sinks, {sources} sources");
    }
}

#[test]
fn a_seed_always_gives_the_same_graph() {
    let shape = GraphShape::new(Family::Arbitrary, 30).with_everything();
    assert_eq!(random_graph(5, &shape), random_graph(5, &shape));
    assert_ne!(random_graph(5, &shape), random_graph(6, &shape));
}

#[test]
fn all_orders_of_independent_ops_are_all_permutations() {
    let mut b = Graph::builder();
    for name in ["a", "b", "c", "d"] {
        b.op(name);
    }
    let graph = b.build().unwrap();
    let mut seen = HashSet::new();
    all_orders(&graph, |order| assert!(seen.insert(order.to_vec())));
    assert_eq!(seen.len(), 24);
    let mut empty = 0;
    all_orders(&Graph::builder().build().unwrap(), |_| empty += 1);
    assert_eq!(empty, 1);
}

#[test]
fn all_orders_of_a_diamond_are_two() {
    let mut b = Graph::builder();
    let a = b.op("a").id();
    let (l, r) = (b.op("l").after([a]).id(), b.op("r").after([a]).id());
    let d = b.op("d").after([l, r]).id();
    let graph = b.build().unwrap();
    let mut seen = Vec::new();
    all_orders(&graph, |order| seen.push(order.to_vec()));
    assert_eq!(seen, [[a, l, r, d], [a, r, l, d]]);
}

#[test]
fn every_random_order_is_among_all_orders() {
    for seed in 0..50 {
        let graph = random_graph(seed, &GraphShape::new(Family::Arbitrary, 6).with_everything());
        let mut all = HashSet::new();
        all_orders(&graph, |order| assert!(all.insert(order.to_vec())));
        let drawn: HashSet<_> = (0..200).map(|seed| random_order(&graph, seed)).collect();
        assert!(drawn.is_subset(&all));
        assert!(all.len() > 6 || drawn == all, "with few orders each is drawn: {} of {}", drawn.len(), all.len());
    }
}

#[test]
fn renumbering_changes_no_figure() {
    for seed in 0..200 {
        let family = Family::ALL[seed as usize % 4];
        let graph = random_graph(seed, &GraphShape::new(family, 12).with_everything());
        let (other, new_op) = permuted(&graph, seed);
        let order = random_order(&graph, seed);
        let renumbered: Vec<OpId> = order.iter().map(|op| new_op[op.index()]).collect();
        let before = Profile::of(&graph, &Step::plain(&order)).unwrap();
        let after = Profile::of(&other, &Step::plain(&renumbered)).unwrap();
        assert_eq!(before.live_bytes(), after.live_bytes());
        assert_eq!(before.peak_bytes(), after.peak_bytes());
        assert_eq!(graph.persistent_bytes(), other.persistent_bytes());
        assert_eq!(graph.transient_bytes(), other.transient_bytes());
    }
}

proptest! {
    #[test]
    fn strategies_give_valid_graphs_and_orders(
        (graph, order) in graph_and_order(GraphShape::new(Family::Arbitrary, 20).with_everything())
    ) {
        let profile = Profile::of(&graph, &Step::plain(&order));
        prop_assert!(profile.is_ok(), "{:?}", profile.err());
        let stays = profile.unwrap().stays().iter().filter(|s| matches!(s.occupant, Occupant::Storage(_))).count();
        let transient = graph.storages().filter(|s| !graph.is_persistent(*s)).count();
        prop_assert_eq!(stays, transient);
    }
}

/// A failure shrinks to something small: here, to the single op that the property objects to.
#[test]
fn graphs_shrink() {
    let strategy = graphs(GraphShape::new(Family::Arbitrary, 30).with_everything());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let result = runner.run(&strategy, |graph| {
        prop_assert!(graph.ops().all(|op| graph.updates(op).is_empty()));
        Ok(())
    });
    let Err(proptest::test_runner::TestError::Fail(_, graph)) = result else { panic!("{result:?}") };
    assert_eq!(graph.n_ops(), 1, "{graph:?}");
}
