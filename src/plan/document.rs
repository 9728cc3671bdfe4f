//! A schedule and its plan as plain data: what a plan file holds, and what the checkers judge.

use super::{Event, MemoryPlan};
use crate::graph::Graph;
use crate::id::StepIdx;
use crate::memory::Occupant;
use crate::schedule::{Schedule, Step};

/// One allocation that a plan claims to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Allocation {
    /// What it is for.
    pub occupant: Occupant,
    /// Its first byte in the arena.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The first step at which it is held.
    pub first: StepIdx,
    /// The last step at which it is held.
    pub last: StepIdx,
}

/// A schedule and its plan as plain data, which may be edited, stored, or be wrong.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlanDocument {
    /// The graph's name.
    pub graph: String,
    /// The scheduler's name.
    pub strategy: String,
    /// The seed of the search.
    pub seed: u64,
    /// The steps.
    pub steps: Vec<Step>,
    /// The events that order the queues.
    pub events: Vec<Event>,
    /// The peak that is claimed, in bytes.
    pub peak_bytes: u64,
    /// The lower bound that is claimed, in bytes.
    pub lower_bound_bytes: u64,
    /// Whether the peak is claimed to be optimal.
    pub optimal: bool,
    /// Bytes of persistent storages.
    pub persistent_bytes: u64,
    /// The peak of the given order, in bytes.
    pub baseline_peak_bytes: u64,
    /// What every offset is a multiple of, in bytes.
    pub alignment: u64,
    /// The arena that is claimed, in bytes.
    pub arena_bytes: u64,
    /// The allocations: one a stay, in the order of the stays.
    pub allocations: Vec<Allocation>,
    /// How long scheduling took, where that was measured.
    pub schedule_seconds: Option<f64>,
    /// How long placement took, where that was measured.
    pub placement_seconds: Option<f64>,
}

impl PlanDocument {
    /// The document of a schedule and its plan, without times. `baseline_peak_bytes` is the peak of the given order.
    #[must_use]
    pub fn new(graph: &Graph, schedule: &Schedule, plan: &MemoryPlan, baseline_peak_bytes: u64) -> Self {
        Self {
            graph: graph.name().to_owned(),
            strategy: schedule.strategy().to_owned(),
            seed: schedule.seed(),
            steps: schedule.steps().to_vec(),
            events: plan.events().to_vec(),
            peak_bytes: schedule.peak_bytes(),
            lower_bound_bytes: schedule.lower_bound_bytes(),
            optimal: schedule.is_optimal(),
            persistent_bytes: schedule.persistent_bytes(),
            baseline_peak_bytes,
            alignment: plan.alignment(),
            arena_bytes: plan.arena_bytes(),
            allocations: plan
                .placements()
                .iter()
                .map(|p| Allocation {
                    occupant: p.occupant,
                    offset: p.offset,
                    bytes: p.bytes,
                    first: p.first,
                    last: p.last,
                })
                .collect(),
            schedule_seconds: None,
            placement_seconds: None,
        }
    }
}
