//! Makes deep-learning programs fit in memory.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod check;
pub mod error;
pub mod graph;
pub mod id;
pub mod import;
pub mod memory;
pub mod plan;
pub mod report;
pub mod schedule;
pub mod search;
pub mod testing;

pub use error::{GraphError, PlanError, ScheduleError};
pub use graph::Graph;
pub use plan::{MemoryPlan, MemoryPlanner};
pub use schedule::{Schedule, Scheduler, Strategy};

use search::Search;

/// Finds a schedule with the default search.
///
/// # Errors
/// Those of the scheduler.
pub fn schedule(graph: &Graph, strategy: Strategy) -> Result<Schedule, ScheduleError> {
    strategy.schedule(graph, &mut Search::new())
}

/// Finds a schedule with any scheduler, within what `search` allows.
///
/// # Errors
/// Those of the scheduler.
pub fn schedule_with(
    graph: &Graph,
    scheduler: &dyn Scheduler,
    search: &mut Search<'_>,
) -> Result<Schedule, ScheduleError> {
    scheduler.schedule(graph, search)
}

/// Gives every stay of a schedule its place, with the default planner (alignment 64 bytes).
///
/// # Errors
/// Those of [`MemoryPlanner::plan`].
pub fn plan(graph: &Graph, schedule: &Schedule) -> Result<MemoryPlan, PlanError> {
    MemoryPlanner::new().plan(graph, schedule)
}
