//! What bare placement is asked for: intervals, relations between them, and pools.

/// A span of time during which some bytes are needed, for [`MemoryPlanner::place`](super::MemoryPlanner::place).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Where it must lie: it was placed before and cannot move.
    pub fixed: Option<u64>,
    /// Where it lay before: it is kept there where that costs no bytes.
    pub hint: Option<u64>,
    /// Whether no other interval of its pool may ever have any of its bytes.
    pub is_exclusive: bool,
    /// The pool that it asks for, by its position in the planner's list.
    pub pool: usize,
}

impl Interval {
    /// `bytes` bytes from moment `start` on, up to but without moment `end`.
    #[must_use]
    pub const fn new(start: u64, end: u64, bytes: u64) -> Self {
        Self { start, end, bytes, alignment: None, fixed: None, hint: None, is_exclusive: false, pool: 0 }
    }

    /// The same with an offset that is a multiple of `alignment` bytes.
    #[must_use]
    pub const fn with_alignment(mut self, alignment: u64) -> Self {
        self.alignment = Some(alignment);
        self
    }

    /// The same, at `offset` and nowhere else: what a device or a caller holds there cannot be moved.
    #[must_use]
    pub const fn fixed_at(mut self, offset: u64) -> Self {
        self.fixed = Some(offset);
        self
    }

    /// The same, kept at `offset` where that costs no bytes.
    #[must_use]
    pub const fn with_hint(mut self, offset: u64) -> Self {
        self.hint = Some(offset);
        self
    }

    /// The same, sharing its bytes with no other interval at any time.
    #[must_use]
    pub const fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    /// The same in another pool of the planner.
    #[must_use]
    pub const fn in_pool(mut self, pool: usize) -> Self {
        self.pool = pool;
        self
    }
}

/// One memory of several, with a size of its own.
///
/// ```
/// use memsched::plan::{Interval, MemoryPlanner, Pool};
///
/// // What does not fit in the fast memory may lie in the slow one, never the other way round.
/// let planner = MemoryPlanner::new().alignment(1).pools([Pool::new().with_capacity(100).falling_back_to([1]), Pool::new()]);
/// let layout = planner.place(&[Interval::new(0, 2, 80), Interval::new(1, 3, 60), Interval::new(0, 3, 30).in_pool(1)])?;
/// assert_eq!(layout.pools()[2], 1);
/// assert_eq!(layout.pool_heights(), [80, 90]); // 60 lies in the slow memory: the least that can
/// # Ok::<(), memsched::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Pool {
    /// Its bytes; `None` for as many as are needed.
    pub capacity: Option<u64>,
    /// The pools that may take what asks for this one and does not fit, the first choice first. What asks for those
    /// does not come here, unless they say so too.
    pub falls_back_to: Vec<usize>,
}

impl Pool {
    /// A pool without limit that falls back to no other.
    #[must_use]
    pub const fn new() -> Self {
        Self { capacity: None, falls_back_to: Vec::new() }
    }

    /// The same with a size in bytes.
    #[must_use]
    pub const fn with_capacity(mut self, bytes: u64) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// The same with other pools for what does not fit.
    #[must_use]
    pub fn falling_back_to(mut self, pools: impl Into<Vec<usize>>) -> Self {
        self.falls_back_to = pools.into();
        self
    }
}

/// What holds between pairs of intervals beyond their times; intervals are named by their position in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Relations {
    /// Pairs that may have the same bytes although their times overlap: all of them, or none.
    pub identical_or_disjoint: Vec<(usize, usize)>,
    /// Pairs that must not share bytes although their times do not overlap, as where queues run side by side. A
    /// conflict overrides an identical-or-disjoint pair.
    pub conflicts: Vec<(usize, usize)>,
}

impl Relations {
    /// No relation.
    #[must_use]
    pub const fn new() -> Self {
        Self { identical_or_disjoint: Vec::new(), conflicts: Vec::new() }
    }

    /// Two intervals of one size that may lie at the same offset, or disjoint, and never overlap in part: an output
    /// that may be written in place of an operand.
    #[must_use]
    pub fn identical_or_disjoint(mut self, a: usize, b: usize) -> Self {
        self.identical_or_disjoint.push((a, b));
        self
    }

    /// Two intervals that must not share bytes.
    #[must_use]
    pub fn conflict(mut self, a: usize, b: usize) -> Self {
        self.conflicts.push((a, b));
        self
    }
}
