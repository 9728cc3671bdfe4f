//! The graphs of `tests/corpus`: every strategy, checked, with the figures that are known of them.

use memsched::import::json::read_graph;
use memsched::search::Search;
use memsched::{Graph, MemoryPlanner, Schedule, Strategy, check, schedule_with};
use std::path::Path;

const FILES: [&str; 4] = ["randwire.json.gz", "mlp-train-sgd.json", "resnet.json", "decoder-step.json"];

fn graph(file: &str) -> Graph {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(file);
    read_graph(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn with_work(graph: &Graph, strategy: Strategy, work: u64) -> Schedule {
    schedule_with(graph, &strategy, &mut Search::new().with_work_budget(work)).expect("every graph has a schedule")
}

#[test]
fn plans_of_every_strategy_hold_with_and_without_in_place() {
    for file in FILES {
        for graph in [graph(file), graph(file).without_in_place()] {
            let given = with_work(&graph, Strategy::Given, 2_000_000);
            for strategy in Strategy::ALL {
                let schedule = with_work(&graph, strategy, 2_000_000);
                assert!(schedule.peak_bytes() <= given.peak_bytes(), "{file} {strategy}");
                for alignment in [1, 64, 4096] {
                    let plan = MemoryPlanner::new().alignment(alignment).plan(&graph, &schedule).expect("a plan");
                    let checked = check::memory_plan(&graph, &schedule, &plan);
                    assert_eq!(checked.faults, [], "{file} {strategy} {alignment}");
                }
                let blocks = MemoryPlanner::new().blocks(&graph, &schedule).expect("blocks");
                assert_eq!(check::blocks(&graph, schedule.steps(), &blocks), [], "{file} {strategy}");
            }
        }
    }
}

#[test]
fn the_given_orders_that_can_be_improved_are() {
    // The level-by-level order keeps whole levels alive; updates at the end keep every gradient alive.
    for (file, at_most_percent) in [("randwire.json.gz", 80), ("mlp-train-sgd.json", 90)] {
        let graph = graph(file);
        let given = with_work(&graph, Strategy::Given, 0).peak_bytes();
        let found = with_work(&graph, Strategy::Hybrid, 20_000_000).peak_bytes();
        assert!(found * 100 <= given * at_most_percent, "{file}: {found} of {given}");
    }
}

#[test]
fn the_other_given_orders_are_proven_optimal() {
    for file in ["resnet.json", "decoder-step.json"] {
        let schedule = with_work(&graph(file), Strategy::Hybrid, 20_000_000);
        assert!(schedule.is_optimal(), "{file}: {} above {}", schedule.peak_bytes(), schedule.lower_bound_bytes());
    }
}
