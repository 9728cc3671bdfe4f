//! Where every stay of every storage lies, and which events order the queues.

pub mod blocks;
mod conditions;
mod conflict;
mod decode;
mod dive;
pub mod document;
mod exact;
mod interval;
mod layout;
mod niche;
mod pairs;
mod part;
mod planner;
mod problem;
pub mod puzzle;
mod rule;
mod solve;

pub use blocks::{BlockOptions, BlockPlan, BlockUse};
pub use document::{Allocation, PlanDocument};
pub use interval::{Interval, Pool, Relations};
pub use layout::Layout;
pub use planner::MemoryPlanner;

use crate::graph::Graph;
use crate::id::{StepIdx, StorageId};
use crate::memory::Occupant;

/// An order between steps of different queues: recorded after step `record`, waited for before step `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Event {
    /// The step after which the event is recorded.
    pub record: StepIdx,
    /// The step before which it is waited for.
    pub wait: StepIdx,
}

/// The place of one stay in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Placement {
    /// What lies there.
    pub occupant: Occupant,
    /// Its first byte, from the arena's start; a multiple of the alignment.
    pub offset: u64,
    /// The bytes reserved for it: its size, rounded up to the alignment.
    pub bytes: u64,
    /// The first step at which it lies there.
    pub first: StepIdx,
    /// The last step at which it lies there.
    pub last: StepIdx,
    /// The placement, by its position in [`MemoryPlan::placements`], whose bytes it takes over in place at `first`.
    pub takes_over: Option<usize>,
}

/// A place in one arena for every stay of a schedule.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryPlan {
    alignment: u64,
    placements: Vec<Placement>,
    events: Vec<Event>,
    arena_bytes: u64,
    live_peak_bytes: u64,
    persistent_bytes: u64,
}

impl MemoryPlan {
    /// All placements, in the order in which the stays begin; stays of 0 bytes have none.
    #[must_use]
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// The bytes of the arena: the largest offset + bytes of any placement.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }

    /// The most bytes live at any step, workspace included, each rounded up to the alignment: no arena is smaller.
    #[must_use]
    pub fn live_peak_bytes(&self) -> u64 {
        self.live_peak_bytes
    }

    /// How much larger the arena is than the most bytes live at once: their ratio, less 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn fragmentation(&self) -> f64 {
        match self.arena_bytes - self.live_peak_bytes {
            0 => 0.0,
            lost => lost as f64 / self.live_peak_bytes as f64,
        }
    }

    /// What every offset is a multiple of, in bytes.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The events that order the queues.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The bytes of persistent storages, which lie outside the arena.
    #[must_use]
    pub fn persistent_bytes(&self) -> u64 {
        self.persistent_bytes
    }

    /// The placements of a storage, in the order in which its stays happen: one, unless it is recomputed or fetched.
    pub fn of_storage(&self, storage: StorageId) -> impl Iterator<Item = &Placement> {
        self.placements.iter().filter(move |p| p.occupant == Occupant::Storage(storage))
    }

    /// The plan's first placement for the storage that a tensor lives in; `None` when it is persistent or has no bytes.
    #[must_use]
    pub fn placement(&self, graph: &Graph, tensor: crate::id::TensorId) -> Option<&Placement> {
        self.of_storage(graph.storage(tensor)).next()
    }
}

#[cfg(test)]
mod tests;
