//! From a schedule's stays to places: which stays share bytes, the arena, the events.
//!
//! 1. **Stays** come from the one evaluator, with the in-place takeovers that give the schedule its peak.
//! 2. **Merging.** A stay that takes over another lies at the same offset, so a chain of takeovers is one item, live
//!    from the first stay's start to the last one's end. A long chain is a rigid item; so two layouts are tried, one
//!    with every takeover, one with those only that the peak needs (at steps that would exceed it otherwise), and the
//!    smaller arena is kept. Either way no step exceeds the schedule's peak.
//! 3. **Offsets** for the items: see `arena`.
//! 4. **Events.** Items whose intervals of steps do not meet may share bytes, which is right only if their steps run
//!    in the order of the schedule. On one queue they do. With several queues an event orders every pair of
//!    neighbouring steps on different queues: safe, and as serial as the schedule is written.

use super::arena::{self, Item};
use super::blocks::{self, BlockOptions, BlockPlan};
use super::{Event, MemoryPlan, Placement};
use crate::error::PlanError;
use crate::graph::Graph;
use crate::id::{StepIdx, TensorId};
use crate::memory::{Occupant, Profile, Stay};
use crate::schedule::{Schedule, Step};

/// The alignment for which nothing else was said, in bytes.
pub(super) const DEFAULT_ALIGNMENT: u64 = 64;

/// A span of time during which some bytes are needed, for [`MemoryPlanner::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Interval {
    /// The first moment, in any unit.
    pub start: u64,
    /// The first moment after it.
    pub end: u64,
    /// The bytes needed.
    pub bytes: u64,
    /// What the offset must be a multiple of, where more than the planner's alignment is needed; a power of two.
    pub alignment: Option<u64>,
}

impl Interval {
    /// `bytes` bytes from moment `start` on, up to but without moment `end`.
    #[must_use]
    pub const fn new(start: u64, end: u64, bytes: u64) -> Self {
        Self { start, end, bytes, alignment: None }
    }

    /// The same with an offset that is a multiple of `alignment` bytes.
    #[must_use]
    pub const fn with_alignment(mut self, alignment: u64) -> Self {
        self.alignment = Some(alignment);
        self
    }
}

/// Offsets for bare intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Layout {
    offsets: Vec<u64>,
    height_bytes: u64,
    load_bytes: u64,
}

impl Layout {
    /// The offset of each interval, in the caller's order; 0 for an interval of 0 bytes, which takes no room.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The largest offset + bytes, sizes rounded up to the alignment.
    #[must_use]
    pub fn height_bytes(&self) -> u64 {
        self.height_bytes
    }

    /// The most rounded bytes needed at any one moment: no layout is lower.
    #[must_use]
    pub fn load_bytes(&self) -> u64 {
        self.load_bytes
    }

    /// Whether the height equals the load, so that nothing better exists.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.height_bytes == self.load_bytes
    }
}

/// Gives every stay of a schedule its place.
///
/// ```
/// use memsched::{MemoryPlanner, plan::Interval};
///
/// let layout = MemoryPlanner::new().alignment(1).place(&[
///     Interval::new(0, 2, 30),
///     Interval::new(1, 3, 10),
///     Interval::new(2, 4, 30), // may lie where the first one lay
/// ])?;
/// assert_eq!(layout.height_bytes(), 40);
/// assert!(layout.is_optimal());
/// # Ok::<(), memsched::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryPlanner {
    alignment: u64,
    tensor_alignments: Vec<(TensorId, u64)>,
    block_options: BlockOptions,
}

impl Default for MemoryPlanner {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryPlanner {
    /// A planner with an alignment of 64 bytes.
    #[must_use]
    pub fn new() -> Self {
        Self { alignment: DEFAULT_ALIGNMENT, tensor_alignments: Vec::new(), block_options: BlockOptions::default() }
    }

    /// Sets what every offset and every size is rounded up to, in bytes; a power of two.
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = bytes;
        self
    }

    /// Asks for an offset of the tensor's storage that is a multiple of `bytes`, a power of two.
    #[must_use]
    pub fn tensor_alignment(mut self, tensor: TensorId, bytes: u64) -> Self {
        self.tensor_alignments.push((tensor, bytes));
        self
    }

    /// Sets how [`blocks`](Self::blocks) reuses buffers.
    #[must_use]
    pub fn block_options(mut self, options: BlockOptions) -> Self {
        self.block_options = options;
        self
    }

    /// Places every stay of a schedule in one arena; `docs/algorithms/placement.md` says how.
    ///
    /// O(d (n log n + k log k)) for n stays, k pairs of stays that are live together and d layouts tried (at most 20).
    ///
    /// # Errors
    /// [`PlanError`] when the schedule is not one of this graph, an alignment is no power of two, or sizes overflow.
    pub fn plan(&self, graph: &Graph, schedule: &Schedule) -> Result<MemoryPlan, PlanError> {
        let alignments = self.storage_alignments(graph)?;
        let profile = schedule.profile(graph)?;
        let all = self.plan_with(graph, schedule, &profile, &alignments, |_| true)?;
        if all.arena_bytes == all.live_peak_bytes {
            return Ok(all);
        }
        let needed = needed_takeovers(&profile);
        let few = self.plan_with(graph, schedule, &profile, &alignments, |stay| needed[stay])?;
        Ok(if few.arena_bytes < all.arena_bytes { few } else { all })
    }

    /// Gives every stay of a schedule a whole buffer from a pool. See [`blocks`].
    ///
    /// # Errors
    /// [`PlanError`] when the schedule is not one of this graph, an option is out of range, or sizes overflow.
    pub fn blocks(&self, graph: &Graph, schedule: &Schedule) -> Result<BlockPlan, PlanError> {
        check_alignment(self.alignment)?;
        blocks::assign(&schedule.profile(graph)?, schedule.steps(), self.alignment, &self.block_options)
    }

    /// Places bare intervals, which need no graph. O(d (n log n + k log k)) as [`plan`](Self::plan).
    ///
    /// # Errors
    /// [`PlanError`] when an interval is empty, an alignment is no power of two, or sizes overflow.
    pub fn place(&self, intervals: &[Interval]) -> Result<Layout, PlanError> {
        check_alignment(self.alignment)?;
        let mut moments: Vec<u64> = intervals.iter().flat_map(|i| [i.start, i.end]).collect();
        moments.sort_unstable();
        moments.dedup();
        let place_of = |moment: u64| u32::try_from(moments.partition_point(|m| *m < moment)).unwrap_or(u32::MAX);
        let name = |k: usize| format!("interval {k}");
        let mut items = Vec::with_capacity(intervals.len());
        for (k, interval) in intervals.iter().enumerate() {
            let &Interval { start, end, bytes, alignment } = interval;
            if start >= end {
                return Err(PlanError::EmptyInterval { interval: k, start, end });
            }
            let alignment = alignment.unwrap_or(1);
            check_alignment(alignment)?;
            let bytes = self.rounded(bytes, || name(k))?;
            let (first, last) = (place_of(start), place_of(end) - 1);
            items.push(Item { first, last, bytes, alignment: alignment.max(self.alignment) });
        }
        let packing = arena::pack(&items, name)?;
        Ok(Layout { offsets: packing.offsets, height_bytes: packing.height, load_bytes: packing.load })
    }

    /// The alignment of each storage.
    fn storage_alignments(&self, graph: &Graph) -> Result<Vec<u64>, PlanError> {
        check_alignment(self.alignment)?;
        let mut alignments = vec![self.alignment; graph.n_storages()];
        for &(tensor, bytes) in &self.tensor_alignments {
            check_alignment(bytes)?;
            if tensor.index() >= graph.n_tensors() {
                return Err(PlanError::UnknownTensor { tensor });
            }
            let alignment = &mut alignments[graph.storage(tensor).index()];
            *alignment = bytes.max(*alignment);
        }
        Ok(alignments)
    }

    fn rounded(&self, bytes: u64, what: impl Fn() -> String) -> Result<u64, PlanError> {
        bytes.checked_next_multiple_of(self.alignment).ok_or_else(|| PlanError::BytesOverflow { what: what() })
    }

    fn items(&self, stays: &[Stay], chains: &Chains, alignment: impl Fn(&Stay) -> u64) -> Result<Vec<Item>, PlanError> {
        let mut items: Vec<Option<Item>> = vec![None; stays.len()];
        for (k, stay) in stays.iter().enumerate() {
            let bytes = self.rounded(stay.bytes, || format!("{:?}", stay.occupant))?;
            let (first, last) = (step(stay.first), step(stay.last));
            let item = items[chains.head[k]].get_or_insert(Item { first, last, bytes, alignment: 1 });
            item.last = item.last.max(last);
            item.alignment = item.alignment.max(alignment(stay));
        }
        Ok(chains.heads.iter().filter_map(|head| items[*head]).collect())
    }

    fn plan_with(
        &self,
        graph: &Graph,
        schedule: &Schedule,
        profile: &Profile,
        alignments: &[u64],
        takes_over: impl Fn(usize) -> bool,
    ) -> Result<MemoryPlan, PlanError> {
        let stays = profile.stays();
        let chains = Chains::new(stays, takes_over);
        let items = self.items(stays, &chains, |stay| match stay.occupant {
            Occupant::Storage(storage) => alignments[storage.index()],
            Occupant::Workspace(_) => self.alignment,
        })?;
        let name = |k: usize| match stays[chains.heads[k]].occupant {
            Occupant::Storage(storage) => graph.tensor_label(graph.root(storage)).to_string(),
            Occupant::Workspace(op) => format!("the workspace of {}", graph.op_label(op)),
        };
        let packing = arena::pack(&items, name)?;
        let mut item_of_head = vec![usize::MAX; stays.len()];
        chains.heads.iter().enumerate().for_each(|(item, head)| item_of_head[*head] = item);
        let mut placements = Vec::with_capacity(stays.len());
        let mut placement_of = vec![None; stays.len()];
        for (k, stay) in stays.iter().enumerate().filter(|(_, stay)| stay.bytes > 0) {
            let item = item_of_head[chains.head[k]];
            placement_of[k] = Some(placements.len());
            placements.push(Placement {
                occupant: stay.occupant,
                offset: packing.offsets[item],
                bytes: items[item].bytes,
                first: stay.first,
                last: stay.last,
                takes_over: chains.previous[k].and_then(|previous| placement_of[previous]),
            });
        }
        Ok(MemoryPlan {
            alignment: self.alignment,
            placements,
            events: serial_events(schedule.steps()),
            arena_bytes: packing.height,
            live_peak_bytes: packing.load,
            persistent_bytes: graph.persistent_bytes(),
        })
    }
}

fn step(at: StepIdx) -> u32 {
    u32::try_from(at.index()).unwrap_or(u32::MAX)
}

fn check_alignment(alignment: u64) -> Result<(), PlanError> {
    if alignment.is_power_of_two() { Ok(()) } else { Err(PlanError::BadAlignment { alignment }) }
}

/// Stays that lie at one offset, one taking over from the other.
struct Chains {
    /// The first stay of each stay's chain.
    head: Vec<usize>,
    /// The stay that each stay takes over, where it does.
    previous: Vec<Option<usize>>,
    /// All first stays, ascending.
    heads: Vec<usize>,
}

impl Chains {
    /// The chains made by those takeovers for which `takes_over` holds. A stay is taken over by a later one only.
    fn new(stays: &[Stay], takes_over: impl Fn(usize) -> bool) -> Self {
        let previous: Vec<Option<usize>> =
            stays.iter().enumerate().map(|(k, stay)| stay.takes_over.filter(|_| takes_over(k))).collect();
        let mut head: Vec<usize> = (0..stays.len()).collect();
        for k in 0..stays.len() {
            if let Some(previous) = previous[k] {
                head[k] = head[previous];
            }
        }
        let heads = (0..stays.len()).filter(|k| head[*k] == *k).collect();
        Self { head, previous, heads }
    }
}

/// Whether each stay's takeover is at a step that would exceed the peak without takeovers.
fn needed_takeovers(profile: &Profile) -> Vec<bool> {
    let stays = profile.stays();
    let mut used: Vec<u64> = profile.used_bytes().collect();
    for stay in stays.iter().filter(|stay| stay.takes_over.is_some()) {
        used[stay.first.index()] += stay.bytes;
    }
    let needed = |stay: &Stay| stay.takes_over.is_some() && used[stay.first.index()] > profile.peak_bytes();
    stays.iter().map(needed).collect()
}

/// An event between every two neighbouring steps on different queues.
fn serial_events(steps: &[Step]) -> Vec<Event> {
    let differs = |pair: &(usize, &[Step])| pair.1[0].queue != pair.1[1].queue;
    let event = |(s, _): (usize, &[Step])| Event { record: StepIdx::new(s), wait: StepIdx::new(s + 1) };
    steps.windows(2).enumerate().filter(differs).map(event).collect()
}
