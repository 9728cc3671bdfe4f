//! A scheduler from outside the crate: random restarts, within the budget and with the seed of the search.
//!
//! Run it with `cargo run --example custom_scheduler`.

use memsched::id::OpId;
use memsched::memory::Profile;
use memsched::schedule::Step;
use memsched::search::Search;
use memsched::testing::{Family, GraphShape, random_graph, random_order};
use memsched::{Graph, Schedule, ScheduleError, Scheduler, Strategy, schedule_with};

/// Draws random orders and keeps the best.
#[derive(Debug)]
struct RandomRestarts {
    n_orders: u64,
}

impl Scheduler for RandomRestarts {
    fn name(&self) -> &str {
        "random-restarts"
    }

    fn schedule(&self, graph: &Graph, search: &mut Search<'_>) -> Result<Schedule, ScheduleError> {
        let peak = |order: &[OpId]| -> Result<u64, ScheduleError> {
            let steps = Step::plain(order);
            Ok(Profile::of(graph, &steps)?.peak_bytes())
        };
        let mut best = graph.given_order().to_vec();
        let mut least = peak(&best)?;
        for k in 0..self.n_orders {
            // One order costs about one visit of each op and tensor. No budget left is no error: the best stands.
            if !search.spend((graph.n_ops() + graph.n_tensors()) as u64) {
                break;
            }
            let order = random_order(graph, search.seed().wrapping_add(k));
            let bytes = peak(&order)?;
            if bytes < least {
                (best, least) = (order, bytes);
            }
        }
        Ok(Schedule::from_order(graph, &best)?.with_strategy(self.name()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = GraphShape::new(Family::Layered, 60).with_in_place(true).with_workspace(true);
    let graph = random_graph(3, &shape);
    let schedulers: [&dyn Scheduler; 3] = [&Strategy::Given, &RandomRestarts { n_orders: 2000 }, &Strategy::Hybrid];
    for scheduler in schedulers {
        let found = schedule_with(&graph, scheduler, &mut Search::new().with_seed(1))?;
        println!(
            "{:16} peak {:5} bytes, bound {:5} bytes, {}",
            found.strategy(),
            found.peak_bytes(),
            found.lower_bound_bytes(),
            found.stop_reason()
        );
    }
    Ok(())
}
