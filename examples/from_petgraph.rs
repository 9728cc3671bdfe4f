//! Builds a small network as a petgraph graph, schedules it, and prints the order with the bytes in use.
//!
//! ```text
//!                  ┌─▶ wide ──▶ pool ─┐
//!   image ─▶ stem ─┤                  ├─▶ concat ─▶ head
//!                  └─▶ narrow ────────┘
//! ```
//!
//! Run it with `cargo run --example from_petgraph`.

use memsched::graph::petgraph::NodeOp;
use memsched::{Graph, Strategy, schedule};
use petgraph::graph::DiGraph;

/// A node of this program's own graph.
struct Layer {
    name: &'static str,
    output_bytes: u64,
    workspace_bytes: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const MIB: u64 = 1 << 20;
    let mut net = DiGraph::<Layer, ()>::new();
    let mut layer = |name, mib, workspace_mib| {
        net.add_node(Layer { name, output_bytes: mib * MIB, workspace_bytes: workspace_mib * MIB })
    };
    let image = layer("image", 4, 0);
    let stem = layer("stem", 16, 8);
    let narrow = layer("narrow", 12, 0);
    let wide = layer("wide", 64, 16);
    let pool = layer("pool", 4, 0);
    let concat = layer("concat", 16, 0);
    let head = layer("head", 1, 2);
    let edges =
        [(image, stem), (stem, narrow), (stem, wide), (wide, pool), (narrow, concat), (pool, concat), (concat, head)];
    for (from, to) in edges {
        net.add_edge(from, to, ());
    }

    let node_op = |node| {
        let Layer { name, output_bytes, workspace_bytes } = net[node];
        if node == image {
            NodeOp::input(name, output_bytes)
        } else {
            NodeOp::new(name, [output_bytes]).with_workspace(workspace_bytes)
        }
    };
    let (graph, map) = Graph::from_petgraph(&net, node_op, |_| Some(0))?;

    // petgraph's own algorithms run on the graph without a copy.
    if let (Some(stem), Some(head)) = (map.op(stem), map.op(head)) {
        let dominators = petgraph::algo::dominators::simple_fast(graph.as_petgraph(), stem);
        let on_all_ways: Vec<&str> =
            dominators.dominators(head).into_iter().flatten().map(|op| graph.op_name(op)).collect();
        println!("every way from stem to head passes {}", on_all_ways.join(", "));
    }

    let found = schedule(&graph, Strategy::Hybrid)?;
    let profile = found.profile(&graph)?;
    for (op, used) in found.order().zip(profile.used_bytes()) {
        let name = map.node(op).map_or("?", |node| net[node].name);
        println!("{name:8} {:4} MiB", used / MIB);
    }
    println!(
        "peak {} MiB, no order goes below {} MiB ({})",
        found.peak_bytes() / MIB,
        found.lower_bound_bytes() / MIB,
        found.stop_reason()
    );
    Ok(())
}
