//! Whole-buffer reuse: which pool block each tensor gets, for runtimes that cannot place tensors inside one arena.
//!
//! `cargo run --release --example blocks -- GRAPH.json [--classes]`; `--classes` rounds blocks up to powers of two.

use memsched::import::json;
use memsched::plan::BlockOptions;
use memsched::{MemoryPlanner, Strategy, schedule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut path, mut options) = (None, BlockOptions::default());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--classes" => options = options.with_size_classes((6..40).map(|k| 1 << k).collect::<Vec<u64>>()),
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or("usage: blocks GRAPH.json [--classes]")?;
    let graph = json::read_graph(&path).map_err(|error| format!("{path}: {error}"))?;

    let schedule = schedule(&graph, Strategy::Greedy)?;
    let planner = MemoryPlanner::new().block_options(options);
    let blocks = planner.blocks(&graph, &schedule)?;
    println!("{blocks}");

    let plan = planner.plan(&graph, &schedule)?;
    println!("one arena     {} bytes for the same schedule", plan.arena_bytes());
    Ok(())
}
