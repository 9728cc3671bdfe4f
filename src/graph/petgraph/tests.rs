#![expect(clippy::cast_possible_truncation, reason = "seeds below a thousand or so")]

use super::*;
use crate::testing::{self, Family, GraphShape};
use ::petgraph::algo;
use ::petgraph::algo::dominators;
use ::petgraph::graphmap::DiGraphMap;
use ::petgraph::stable_graph::StableDiGraph;
use ::petgraph::visit::{Dfs, Reversed, Topo, Walker};

fn random_graphs() -> impl Iterator<Item = Graph> {
    (0..80).map(|seed| {
        let shape = GraphShape::new(Family::ALL[seed as usize % 4], 1 + seed as usize % 30).with_everything();
        testing::permuted(&testing::random_graph(seed, &shape), seed).0
    })
}

/// Whether each op comes after its predecessors.
fn is_order(graph: &Graph, order: &[OpId]) -> bool {
    let mut place = vec![usize::MAX; graph.n_ops()];
    order.iter().enumerate().for_each(|(k, op)| place[op.index()] = k);
    let after = |op: OpId| graph.predecessors(op).iter().all(|pred| place[pred.index()] < place[op.index()]);
    order.len() == graph.n_ops() && graph.ops().all(after)
}

#[test]
fn petgraph_agrees_about_orders() {
    for graph in random_graphs() {
        let view = graph.as_petgraph();
        assert!(!algo::is_cyclic_directed(view));
        assert!(is_order(&graph, &algo::toposort(view, None).unwrap()));
        assert!(is_order(&graph, &Topo::new(view).iter(view).collect::<Vec<_>>()));
        assert!(is_order(&graph, graph.given_order()));
        let components = algo::kosaraju_scc(view);
        assert_eq!(components.len(), graph.n_ops(), "each op is strongly connected with itself only");
        assert_eq!(algo::tarjan_scc(view).len(), graph.n_ops());
    }
}

#[test]
fn petgraph_agrees_about_paths() {
    for graph in random_graphs().filter(|graph| graph.n_ops() <= 15) {
        let view = graph.as_petgraph();
        let mut reaches = vec![vec![false; graph.n_ops()]; graph.n_ops()];
        for &op in graph.given_order().iter().rev() {
            reaches[op.index()][op.index()] = true;
            for &next in graph.successors(op) {
                let from_next = reaches[next.index()].clone();
                reaches[op.index()].iter_mut().zip(from_next).for_each(|(reached, also)| *reached |= also);
            }
        }
        for from in graph.ops() {
            for to in graph.ops() {
                let expected = reaches[from.index()][to.index()];
                assert_eq!(algo::has_path_connecting(view, from, to, None), expected);
                assert_eq!(algo::has_path_connecting(Reversed(view), to, from, None), expected);
            }
            let visited = Dfs::new(view, from).iter(view).count();
            assert_eq!(visited, reaches[from.index()].iter().filter(|r| **r).count());
        }
    }
}

/// Ops that every way from the only source passes.
#[test]
fn petgraph_finds_dominators() {
    let mut b = Graph::builder();
    let source = b.op("source").id();
    let neck = b.op("neck").after([source]).id();
    let (l, r) = (b.op("l").after([neck]).id(), b.op("r").after([neck]).id());
    let join = b.op("join").after([l, r]).id();
    let graph = b.build().unwrap();
    let dominators = dominators::simple_fast(graph.as_petgraph(), source);
    assert_eq!(dominators.immediate_dominator(join), Some(neck));
    assert_eq!(dominators.strict_dominators(join).unwrap().collect::<Vec<_>>(), [neck, source]);
}

#[test]
fn the_view_and_the_copy_have_the_same_edges() {
    for graph in random_graphs() {
        let view = graph.as_petgraph();
        let copy = graph.to_petgraph();
        assert_eq!(copy.node_count(), view.node_count());
        let op = |node: NodeIndex| copy[node];
        let mut copied: Vec<_> = copy.edge_references().map(|edge| (op(edge.source()), op(edge.target()))).collect();
        copied.sort_unstable();
        copied.dedup();
        let all: Vec<_> = view.edge_references().map(|(from, to, ())| (from, to)).collect();
        assert_eq!(copied, all);
        for op in graph.ops() {
            let incoming: Vec<_> = view.edges_directed(op, Direction::Incoming).map(|(from, ..)| from).collect();
            assert_eq!(incoming, graph.predecessors(op));
            assert!(view.edges(op).all(|(from, to, ())| from == op && graph.successors(op).contains(&to)));
        }
        for edge in copy.edge_references() {
            let (from, to) = (op(edge.source()), op(edge.target()));
            match edge.weight() {
                Some(tensor) => {
                    assert!(graph.producer(*tensor) == Some(from) && graph.inputs(to).contains(tensor));
                }
                None => assert!(graph.predecessors(to).contains(&from)),
            }
        }
    }
}

/// There and back: a graph without the features that petgraph cannot show comes back with the same edges and bytes.
#[test]
fn there_and_back() {
    for seed in 0..60 {
        let shape = GraphShape::new(Family::ALL[seed as usize % 4], 20);
        let shape = shape.with_control(true).with_workspace(true).with_several_outputs(true);
        let graph = testing::random_graph(seed, &shape);
        let copy = graph.to_petgraph();
        let node_op = |node: NodeIndex| {
            let op = copy[node];
            let sizes: Vec<u64> = graph.op_outputs(op).iter().map(|t| graph.tensor_bytes(*t)).collect();
            NodeOp::new(graph.op_name(op), sizes).with_workspace(graph.workspace_bytes(op))
        };
        let slot = |edge: ::petgraph::graph::EdgeReference<'_, Option<TensorId>>| {
            let tensor = (*edge.weight())?;
            graph.op_outputs(copy[edge.source()]).iter().position(|t| *t == tensor)
        };
        let (back, map) = Graph::from_petgraph(&copy, node_op, slot).unwrap();
        for op in graph.ops() {
            assert_eq!(map.op(NodeIndex::new(op.index())), Some(op));
            assert_eq!(back.predecessors(op), graph.predecessors(op));
            assert_eq!(back.workspace_bytes(op), graph.workspace_bytes(op));
            for (slot, t) in graph.op_outputs(op).iter().enumerate() {
                let tensor = map.tensor(NodeIndex::new(op.index()), slot).unwrap();
                assert_eq!(back.tensor_bytes(tensor), graph.tensor_bytes(*t));
                assert_eq!(back.consumers(tensor), graph.consumers(*t));
            }
        }
    }
}

#[test]
fn edges_of_one_slot_share_one_tensor() {
    let mut nodes = DiGraph::<&str, Option<usize>>::new();
    let [w, split, a, b, end] = ["w", "split", "a", "b", "end"].map(|name| nodes.add_node(name));
    nodes.add_edge(w, split, Some(0));
    nodes.add_edge(split, a, Some(1));
    nodes.add_edge(split, b, Some(1));
    nodes.add_edge(split, b, Some(0));
    nodes.add_edge(a, end, None);
    let node_op = |node| match nodes[node] {
        "w" => NodeOp::weight("w", 1 << 35),
        "split" => NodeOp::new("split", [10, 20]).with_kind("split").with_flops(5).with_seconds(0.5),
        "a" => NodeOp::new("a", [1]).with_output(true),
        name => NodeOp::new(name, [2]).with_workspace(7),
    };
    let (graph, map) = Graph::from_petgraph(&nodes, node_op, |edge| *edge.weight()).unwrap();
    let op = |node| map.op(node).unwrap();
    let tensor = |node, slot| map.tensor(node, slot).unwrap();
    assert_eq!((graph.n_ops(), graph.n_tensors()), (4, 6));
    assert_eq!(graph.persistent_bytes(), 1 << 35);
    assert_eq!(map.op(w), None);
    assert_eq!(map.tensor(split, 2), None);
    assert_eq!(graph.consumers(tensor(split, 1)), [op(a), op(b)]);
    assert_eq!(graph.inputs(op(b)), [tensor(split, 1), tensor(split, 0)]);
    assert_eq!(graph.predecessors(op(end)), [op(a)]);
    assert_eq!(graph.outputs(), [tensor(a, 0), tensor(b, 0), tensor(end, 0)]);
    let split = op(split);
    assert_eq!((graph.op_kind(split), graph.flops(split), graph.seconds(split)), (Some("split"), Some(5), Some(0.5)));
    assert_eq!(graph.workspace_bytes(op(end)), 7);
}

#[test]
fn stable_graphs_with_holes_and_graph_maps() {
    let mut nodes = StableDiGraph::<u64, ()>::new();
    let all: Vec<_> = (0..6).map(|bytes| nodes.add_node(bytes)).collect();
    for pair in all.windows(2) {
        nodes.add_edge(pair[0], pair[1], ());
    }
    nodes.add_edge(all[1], all[3], ());
    nodes.remove_node(all[2]);
    let (graph, map) = Graph::from_petgraph(&nodes, |node| NodeOp::new("", [nodes[node]]), |_| Some(0)).unwrap();
    assert_eq!(graph.n_ops(), 5);
    assert_eq!(map.op(all[2]), None);
    let back: Vec<_> = graph.ops().map(|op| map.node(op).unwrap()).collect();
    assert_eq!(back, [all[0], all[1], all[3], all[4], all[5]]);
    assert_eq!(graph.predecessors(map.op(all[3]).unwrap()), [map.op(all[1]).unwrap()]);
    assert_eq!(map.node(OpId::new(5)), None);

    let nodes = DiGraphMap::<u32, ()>::from_edges([(900, 7), (7, 12)]);
    let (graph, map) = Graph::from_petgraph(&nodes, |_| NodeOp::new("", [8]), |_| Some(0)).unwrap();
    let order: Vec<_> = graph.given_order().iter().map(|op| map.node(*op).unwrap()).collect();
    assert_eq!(order, [900, 7, 12]);
}

#[test]
fn what_is_wrong_with_the_nodes_is_told() {
    let mut nodes = DiGraph::<(), usize>::new();
    let (a, b) = (nodes.add_node(()), nodes.add_node(()));
    nodes.add_edge(a, b, 3);
    let name = |node: NodeIndex| NodeOp::new(format!("n{}", node.index()), [1]);
    let error = Graph::from_petgraph(&nodes, name, |edge| Some(*edge.weight())).unwrap_err();
    let GraphError::UnknownTensor { op, tensor, .. } = error else { panic!("{error}") };
    assert_eq!((&*op.name, &*tensor.name), ("n1", "slot 3 of n0"));

    nodes.add_edge(b, a, 0);
    let error = Graph::from_petgraph(&nodes, name, |_| Some(0)).unwrap_err();
    assert!(matches!(&error, GraphError::Cycle { path } if path.len() == 2), "{error}");

    // A node that reads something is an op, even if it says it is given.
    let mut nodes = DiGraph::<(), ()>::new();
    let (a, b) = (nodes.add_node(()), nodes.add_node(()));
    nodes.add_edge(a, b, ());
    let (graph, map) = Graph::from_petgraph(&nodes, |_| NodeOp::weight("w", 4), |_| Some(0)).unwrap();
    assert_eq!((map.op(a), map.op(b)), (None, Some(OpId::new(0))));
    assert_eq!(graph.outputs(), [map.tensor(b, 0).unwrap()]);
}
