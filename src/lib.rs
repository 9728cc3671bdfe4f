//! Makes deep-learning programs fit in memory.
//!
//! Given a compute graph (ops, tensors, bytes), memsched finds an **order** of the ops that keeps few bytes alive at
//! once, says how far from the optimum it can be at most, and gives every tensor a **place** in one arena, or a block
//! of a pool. It runs before the program does, and needs no device.
//!
//! ```text
//!     Graph ── schedule ──▶ Schedule ── plan ──▶ MemoryPlan
//! ```
//!
//! ```
//! use memsched::report::Report;
//! use memsched::{Graph, Strategy, plan, schedule};
//!
//! let mut b = Graph::builder();
//! let x = b.input("x", 1 << 20);
//! let (left, right) = (b.tensor("left", 8 << 20), b.tensor("right", 8 << 20));
//! let (a, c, sum) = (b.tensor("a", 1 << 20), b.tensor("c", 1 << 20), b.tensor("sum", 1 << 20));
//! b.op("expand_left").reads([x]).writes([left]);
//! b.op("expand_right").reads([x]).writes([right]);
//! b.op("reduce_left").reads([left]).writes([a]);
//! b.op("reduce_right").reads([right]).writes([c]);
//! b.op("add").reads([a, c]).writes([sum]).in_place(sum, a);
//! b.output(sum);
//! let graph = b.build()?;
//!
//! let schedule = schedule(&graph, Strategy::Hybrid)?;
//! assert!(schedule.is_optimal()); // 10 MiB, where the order above needs 17
//! let plan = plan(&graph, &schedule)?;
//! assert_eq!(plan.arena_bytes(), 10 << 20);
//! println!("{}", Report::new(&graph, &schedule, &plan)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The modules, in reading order
//!
//! | module | what it holds |
//! |---|---|
//! | [`graph`] | [`Graph`] and how to build one: by dense ids, by keys of your own, from petgraph |
//! | [`memory`] | the memory model: which bytes are live when, the peak, lower bounds |
//! | [`search`] | what a search may spend, how it tells, how it is stopped |
//! | [`schedule`](mod@schedule) | [`Schedule`], the strategies, and the trait for schedulers of your own |
//! | [`plan`](mod@plan) | [`MemoryPlan`] and [`MemoryPlanner`]: offsets in one arena, or blocks of a pool |
//! | [`check`] | independent validators of orders and plans |
//! | [`report`] | the figures on one screen |
//! | [`import`] | graph and plan files |
//! | [`testing`] | random graphs, brute force, and property-test strategies, for your tests too |
//! | [`error`], [`id`] | what can go wrong, one error type a stage; the dense ids |
//!
//! # Features
//!
//! `json` (default) reads and writes files; `petgraph` (default) converts to and from petgraph; `proptest` offers
//! property-test strategies; `serde` derives serialisation of the data types.
//!
//! # What may be relied on
//!
//! Sizes are `u64` bytes. The same graph, strategy, seed and work budget give the same answer on every machine; a time
//! budget gives that up. Running out of budget is no error: the best answer so far comes back, with the reason why the
//! search stopped. No input makes the crate panic, but for ids of another graph, which index out of bounds as with
//! slices.
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

/// The code in the README is tested as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So is the code on the page about integration.
#[cfg(all(doctest, feature = "proptest"))]
#[doc = include_str!("../docs/integration.md")]
struct Integration;
