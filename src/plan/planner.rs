//! From a schedule's stays to places: which stays share bytes, the arena, the events.
//!
//! 1. **Stays** come from the one evaluator, with the in-place takeovers that give the schedule its peak.
//! 2. **Merging.** A stay that takes over another lies at the same offset, so a chain of takeovers is one item, live
//!    from the first stay's start to the last one's end. A long chain is a rigid item; so two layouts are tried, one
//!    with every takeover, one with those only that the peak needs (at steps that would exceed it otherwise), and the
//!    smaller arena is kept. Either way no step exceeds the schedule's peak.
//! 3. **Offsets** for the items: see `solve`.
//! 4. **Events.** Items whose intervals of steps do not meet may share bytes, which is right only if their steps run
//!    in the order of the schedule. On one queue they do. With several queues an event orders every pair of
//!    neighbouring steps on different queues: safe, and as serial as the schedule is written.

use super::blocks::{self, BlockOptions, BlockPlan};
use super::interval::{Interval, Pool, Relations};
use super::layout::Layout;
use super::problem::{Problem, Request, checked_alignment};
use super::{Event, MemoryPlan, Placement, conflict};
use crate::error::PlanError;
use crate::graph::Graph;
use crate::id::{StepIdx, TensorId};
use crate::memory::{Occupant, Profile, Stay};
use crate::schedule::{Schedule, Step};
use crate::search::Search;

/// The alignment for which nothing else was said, in bytes.
pub(super) const DEFAULT_ALIGNMENT: u64 = 64;

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
    reuse_distance: u64,
    pools: Vec<Pool>,
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
        Self {
            alignment: DEFAULT_ALIGNMENT,
            tensor_alignments: Vec::new(),
            block_options: BlockOptions::default(),
            reuse_distance: 0,
            pools: vec![Pool::new()],
        }
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

    /// Sets the bytes there are; without it the height is minimised. It is the capacity of the first pool.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        if let Some(pool) = self.pools.first_mut() {
            pool.capacity = Some(bytes);
        }
        self
    }

    /// Sets the pools of [`place`](Self::place), by position; one without limit if nothing is said.
    #[must_use]
    pub fn pools(mut self, pools: impl Into<Vec<Pool>>) -> Self {
        self.pools = pools.into();
        self
    }

    /// Sets how many moments bytes must rest before another interval of [`place`](Self::place) may have them.
    #[must_use]
    pub fn reuse_distance(mut self, moments: u64) -> Self {
        self.reuse_distance = moments;
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
    /// Complexity as for [`place`](Self::place).
    ///
    /// # Errors
    /// [`PlanError`] when the schedule is not one of this graph, an alignment is no power of two, sizes overflow, or
    /// the plan does not fit in the capacity.
    pub fn plan(&self, graph: &Graph, schedule: &Schedule) -> Result<MemoryPlan, PlanError> {
        self.plan_with(graph, schedule, &mut Search::new())
    }

    /// [`plan`](Self::plan) within what `search` allows.
    ///
    /// # Errors
    /// Those of [`plan`](Self::plan).
    pub fn plan_with(
        &self,
        graph: &Graph,
        schedule: &Schedule,
        search: &mut Search<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let alignments = self.storage_alignments(graph)?;
        let profile = schedule.profile(graph)?;
        let all = self.plan_where(graph, schedule, &profile, &alignments, |_| true, search)?;
        if all.arena_bytes == all.live_peak_bytes {
            return Ok(all);
        }
        let needed = needed_takeovers(&profile);
        let few = self.plan_where(graph, schedule, &profile, &alignments, |stay| needed[stay], search)?;
        Ok(if few.arena_bytes < all.arena_bytes { few } else { all })
    }

    /// Gives every stay of a schedule a whole buffer from a pool. See [`blocks`].
    ///
    /// # Errors
    /// [`PlanError`] when the schedule is not one of this graph, an option is out of range, or sizes overflow.
    pub fn blocks(&self, graph: &Graph, schedule: &Schedule) -> Result<BlockPlan, PlanError> {
        checked_alignment(self.alignment)?;
        blocks::assign(&schedule.profile(graph)?, schedule.steps(), self.alignment, &self.block_options)
    }

    /// Places bare intervals, which need no graph, with the default search; see [`place_with`](Self::place_with).
    ///
    /// # Errors
    /// Those of [`place_with`](Self::place_with).
    pub fn place(&self, intervals: &[Interval]) -> Result<Layout, PlanError> {
        self.place_with(intervals, &Relations::new(), &mut Search::new())
    }

    /// Places bare intervals under relations, within what `search` allows.
    ///
    /// Without a capacity the height is minimised; with one, the first layout within it is the answer. Several pools
    /// are used as little as possible, the last one least. The answer depends on the rows, not on their order, as far
    /// as rows differ in what they say themselves.
    ///
    /// O(n log n) for n intervals without relations that a first dive places at the load; after that as much as
    /// `search` allows.
    ///
    /// # Errors
    /// [`PlanError`] when an interval is empty, an alignment is no power of two, a relation or a pool names what is
    /// not there, fixed intervals are in each other's way, sizes overflow, or nothing fits in the capacity.
    pub fn place_with(
        &self,
        intervals: &[Interval],
        relations: &Relations,
        search: &mut Search<'_>,
    ) -> Result<Layout, PlanError> {
        let problem = Problem::new(&self.request(intervals, relations)?, None)?;
        let decide = self.pools.len() == 1 && self.pools[0].capacity.is_some();
        let answer = problem.solve(decide, search)?;
        if answer.cost.fits() {
            return Ok(problem.layout(&answer, search));
        }
        let capacity = self.pools.iter().filter_map(|pool| pool.capacity).fold(0, u64::saturating_add);
        let heights = answer.cost.heights().into_iter();
        let height = heights.map(|height| height.saturating_mul(problem.unit())).fold(0, u64::saturating_add);
        Err(PlanError::DoesNotFit { capacity, height, is_proven: answer.is_proven })
    }

    /// Which intervals alone already do not fit in the capacity: a set from which none can be left out. `None` when
    /// all fit, or when the budget is too small to prove that they do not.
    ///
    /// The set is as small as the method finds, and minimal where the budget lasts: what is left when any one of its
    /// intervals is taken away was placed. Each trial is a search of its own; about k log n of them for k intervals of
    /// n.
    ///
    /// ```
    /// use memsched::MemoryPlanner;
    /// use memsched::plan::{Interval, Relations};
    /// use memsched::search::Search;
    ///
    /// let rows = [Interval::new(0, 9, 10), Interval::new(0, 2, 50), Interval::new(1, 3, 60), Interval::new(2, 9, 40)];
    /// let planner = MemoryPlanner::new().alignment(1).capacity(100);
    /// let set = planner.smallest_conflict(&rows, &Relations::new(), &mut Search::new())?;
    /// assert_eq!(set, Some(vec![1, 2]));
    /// # Ok::<(), memsched::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`place_with`](Self::place_with), but for [`PlanError::DoesNotFit`].
    pub fn smallest_conflict(
        &self,
        intervals: &[Interval],
        relations: &Relations,
        search: &mut Search<'_>,
    ) -> Result<Option<Vec<usize>>, PlanError> {
        conflict::smallest(&self.request(intervals, relations)?, search)
    }

    fn request<'a>(&'a self, intervals: &'a [Interval], relations: &'a Relations) -> Result<Request<'a>, PlanError> {
        let alignment = checked_alignment(self.alignment)?;
        Ok(Request { intervals, relations, alignment, reuse_distance: self.reuse_distance, pools: &self.pools })
    }

    /// The alignment of each storage.
    fn storage_alignments(&self, graph: &Graph) -> Result<Vec<u64>, PlanError> {
        checked_alignment(self.alignment)?;
        let mut alignments = vec![self.alignment; graph.n_storages()];
        for &(tensor, bytes) in &self.tensor_alignments {
            checked_alignment(bytes)?;
            if tensor.index() >= graph.n_tensors() {
                return Err(PlanError::UnknownTensor { tensor });
            }
            let alignment = &mut alignments[graph.storage(tensor).index()];
            *alignment = bytes.max(*alignment);
        }
        Ok(alignments)
    }

    /// One interval for each chain of stays.
    fn intervals(&self, stays: &[Stay], chains: &Chains, alignment: impl Fn(&Stay) -> u64) -> Vec<Interval> {
        let mut intervals: Vec<Option<Interval>> = vec![None; stays.len()];
        for (k, stay) in stays.iter().enumerate() {
            let (first, end) = (stay.first.index() as u64, stay.last.index() as u64 + 1);
            let interval = intervals[chains.head[k]].get_or_insert(Interval::new(first, end, stay.bytes));
            interval.end = interval.end.max(end);
            interval.alignment = interval.alignment.max(Some(alignment(stay)));
        }
        chains.heads.iter().filter_map(|head| intervals[*head]).collect()
    }

    fn plan_where(
        &self,
        graph: &Graph,
        schedule: &Schedule,
        profile: &Profile,
        alignments: &[u64],
        takes_over: impl Fn(usize) -> bool,
        search: &mut Search<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let stays = profile.stays();
        let chains = Chains::new(stays, takes_over);
        let intervals = self.intervals(stays, &chains, |stay| match stay.occupant {
            Occupant::Storage(storage) => alignments[storage.index()],
            Occupant::Workspace(_) => self.alignment,
        });
        let name = |k: usize| match stays[chains.heads[k]].occupant {
            Occupant::Storage(storage) => graph.tensor_label(graph.root(storage)).to_string(),
            Occupant::Workspace(op) => format!("the workspace of {}", graph.op_label(op)),
        };
        let arena =
            Self { reuse_distance: 0, pools: vec![self.pools.first().cloned().unwrap_or_default()], ..self.clone() };
        let layout =
            arena.place_with(&intervals, &Relations::new(), search).map_err(|error| named(error, &intervals, name))?;
        let mut item_of_head = vec![usize::MAX; stays.len()];
        chains.heads.iter().enumerate().for_each(|(item, head)| item_of_head[*head] = item);
        let mut placements = Vec::with_capacity(stays.len());
        let mut placement_of = vec![None; stays.len()];
        for (k, stay) in stays.iter().enumerate().filter(|(_, stay)| stay.bytes > 0) {
            let item = item_of_head[chains.head[k]];
            placement_of[k] = Some(placements.len());
            placements.push(Placement {
                occupant: stay.occupant,
                offset: layout.offsets()[item],
                bytes: intervals[item].bytes.next_multiple_of(self.alignment),
                first: stay.first,
                last: stay.last,
                takes_over: chains.previous[k].and_then(|previous| placement_of[previous]),
            });
        }
        Ok(MemoryPlan {
            alignment: self.alignment,
            placements,
            events: serial_events(schedule.steps()),
            arena_bytes: layout.height_bytes(),
            live_peak_bytes: layout.load_bytes(),
            persistent_bytes: graph.persistent_bytes(),
        })
    }
}

/// The error with the name of what the interval stands for.
fn named(error: PlanError, intervals: &[Interval], name: impl Fn(usize) -> String) -> PlanError {
    match error {
        PlanError::BytesOverflow { what } => {
            let row = what.strip_prefix("interval ").and_then(|row| row.parse().ok());
            let what = row.filter(|row| *row < intervals.len()).map_or(what, name);
            PlanError::BytesOverflow { what }
        }
        other => other,
    }
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
