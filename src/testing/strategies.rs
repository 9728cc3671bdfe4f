//! Strategies for proptest: the same graphs and orders, which shrink.

use super::GraphShape;
use super::orders::order_by;
use super::recipe::{self, MOST, Record, Write};
use crate::graph::Graph;
use crate::id::OpId;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};

/// Valid graphs of up to `shape.n_ops` ops. They shrink to fewer ops, fewer operands and smaller, plainer tensors.
///
/// ```
/// use memsched::testing::{self, Family, GraphShape};
/// use proptest::prelude::*;
///
/// proptest!(|(graph in testing::graphs(GraphShape::new(Family::Training, 8).with_updates(true)))| {
///     prop_assert!(memsched::memory::lower_bound_bytes(&graph) <= testing::brute_force_peak(&graph));
/// });
/// ```
pub fn graphs(shape: GraphShape) -> impl Strategy<Value = Graph> {
    vec(record(), 0..=shape.n_ops).prop_map(move |records| recipe::grow(&shape, &records))
}

/// Valid orders of a graph. They shrink towards the order that always runs the op that became ready last.
pub fn orders(graph: &Graph) -> impl Strategy<Value = Vec<OpId>> + use<> {
    let graph = graph.clone();
    vec(any::<u32>(), graph.n_ops()).prop_map(move |choices| order_of(&graph, &choices))
}

/// Valid graphs, each with a valid order of its ops; both shrink.
pub fn graph_and_order(shape: GraphShape) -> impl Strategy<Value = (Graph, Vec<OpId>)> {
    let most = shape.n_ops;
    (graphs(shape), vec(any::<u32>(), most)).prop_map(|(graph, choices)| {
        let order = order_of(&graph, &choices);
        (graph, order)
    })
}

fn order_of(graph: &Graph, choices: &[u32]) -> Vec<OpId> {
    let mut choices = choices.iter();
    order_by(graph, |n_ready| choices.next().map_or(0, |choice| *choice as usize % n_ready))
}

fn record() -> impl Strategy<Value = Record> {
    let write = (any::<u32>(), any::<u32>(), any::<u32>());
    let write = write.prop_map(|(form, size, operand)| Write { form, size, operand });
    let lists = (vec(any::<u32>(), 0..=MOST), vec(write, 0..=MOST));
    (lists, any::<[u32; 4]>()).prop_map(|((reads, writes), [place, workspace, control, keep])| Record {
        reads,
        writes,
        place,
        workspace,
        control,
        keep,
    })
}
