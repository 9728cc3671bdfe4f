//! What bare placement answers.

use crate::search::StopReason;

/// Offsets for bare intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Layout {
    pub(super) offsets: Vec<u64>,
    pub(super) pools: Vec<usize>,
    pub(super) pool_heights: Vec<u64>,
    pub(super) height_bytes: u64,
    pub(super) load_bytes: u64,
    pub(super) lower_bound_bytes: u64,
    pub(super) is_optimal: bool,
    pub(super) stop_reason: StopReason,
}

impl Layout {
    /// The offset of each interval, in the caller's order; 0 for an interval of 0 bytes, which takes no room.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The pool of each interval, in the caller's order.
    #[must_use]
    pub fn pools(&self) -> &[usize] {
        &self.pools
    }

    /// The largest offset + bytes in each pool, sizes rounded up to the alignment.
    #[must_use]
    pub fn pool_heights(&self) -> &[u64] {
        &self.pool_heights
    }

    /// The sum of the heights of all pools; with one pool, the largest offset + bytes.
    #[must_use]
    pub fn height_bytes(&self) -> u64 {
        self.height_bytes
    }

    /// The most rounded bytes needed at any one moment: no layout is lower.
    ///
    /// An identical-or-disjoint pair counts once while both are live.
    #[must_use]
    pub fn load_bytes(&self) -> u64 {
        self.load_bytes
    }

    /// What no layout is lower than: the load, or more where the search has proven more.
    #[must_use]
    pub fn lower_bound_bytes(&self) -> u64 {
        self.lower_bound_bytes
    }

    /// How far the height is above the lower bound, as a share of it; 0 where both are 0.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn gap(&self) -> f64 {
        match self.height_bytes - self.lower_bound_bytes {
            0 => 0.0,
            above => above as f64 / self.lower_bound_bytes as f64,
        }
    }

    /// Whether it is proven that nothing better exists. With several pools, better is what uses less of the last
    /// pool, then of the one before it, and so on.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.is_optimal
    }

    /// Why the search ended.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.stop_reason
    }
}
