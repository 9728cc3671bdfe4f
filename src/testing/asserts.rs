//! Assertions: what the checker finds wrong, as the message of a failed test.

use crate::check;
use crate::graph::Graph;
use crate::plan::MemoryPlan;
use crate::schedule::Schedule;
use std::fmt::{Display, Write};

/// Panics unless the schedule is a right one of the graph, in the judgement of [`check::steps`].
///
/// # Panics
/// With every fault that the checker finds.
#[track_caller]
pub fn assert_valid_schedule(graph: &Graph, schedule: &Schedule) {
    let faults = check::steps(graph, schedule.steps());
    assert!(faults.is_empty(), "{}", listed(&format!("the schedule by {}", schedule.strategy()), graph, &faults));
}

/// Panics unless the plan is a right one of the schedule, in the judgement of [`check::memory_plan`].
///
/// # Panics
/// With every fault that the checker finds.
#[track_caller]
pub fn assert_valid_plan(graph: &Graph, schedule: &Schedule, plan: &MemoryPlan) {
    let report = check::memory_plan(graph, schedule, plan);
    let faults = &report.faults;
    assert!(faults.is_empty(), "{}", listed(&format!("the plan of {} bytes", plan.arena_bytes()), graph, faults));
}

/// The faults, one a line.
fn listed<F: Display>(what: &str, graph: &Graph, faults: &[F]) -> String {
    let mut text = format!("{what} has {} faults, on a graph of {} ops:", faults.len(), graph.n_ops());
    for fault in faults {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {fault}");
    }
    text
}
