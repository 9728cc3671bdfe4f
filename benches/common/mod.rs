//! Inputs of the benches.

#![allow(dead_code, unreachable_pub, reason = "each bench uses some of them")]

use memsched::Graph;
use memsched::testing::{Family, GraphShape, random_graph};

/// A layered graph with weights, views, in-place pairs and workspace.
pub fn layered(n_ops: usize) -> Graph {
    random_graph(1, &GraphShape::new(Family::Layered, n_ops).with_everything())
}

/// A training-like graph: a forward chain with skips, and the backward pass.
pub fn training(n_ops: usize) -> Graph {
    random_graph(2, &GraphShape::new(Family::Training, n_ops).with_everything())
}
