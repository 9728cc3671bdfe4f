//! Builds a graph by hand, finds an order with the least peak, and gives every tensor its place.
//!
//! `cargo run --release --example quickstart`

use memsched::report::Report;
use memsched::{Graph, Strategy, plan, schedule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut b = Graph::builder();
    let x = b.input("x", 1 << 20);
    let w = b.weight("w", 4 << 20);
    let (left, right) = (b.tensor("left", 8 << 20), b.tensor("right", 8 << 20));
    let (a, c, sum) = (b.tensor("a", 1 << 20), b.tensor("c", 1 << 20), b.tensor("sum", 1 << 20));
    b.op("expand_left").reads([x, w]).writes([left]);
    b.op("expand_right").reads([x, w]).writes([right]);
    b.op("reduce_left").reads([left]).writes([a]);
    b.op("reduce_right").reads([right]).writes([c]);
    b.op("add").reads([a, c]).writes([sum]).in_place(sum, a);
    b.output(sum);
    let graph = b.build()?;

    let schedule = schedule(&graph, Strategy::Hybrid)?;
    let plan = plan(&graph, &schedule)?;
    for op in schedule.order() {
        println!("run {}", graph.op_name(op));
    }
    for tensor in graph.tensors() {
        if let Some(place) = plan.placement(&graph, tensor) {
            println!("{:>5} lies at byte {}", graph.tensor_name(tensor), place.offset);
        }
    }
    println!("{}", Report::new(&graph, &schedule, &plan)?);
    Ok(())
}
