//! Whole-buffer reuse, for runtimes that can hand out buffers but not places inside them.
//!
//! **Problem.** Give every stay one block of at least its size, so that stays that are live together have different
//! blocks, in the fewest bytes of blocks.
//!
//! **Method.** Sizes are rounded up to their size class. The items (chains of in-place takeovers are one item) are
//! taken in three orders: largest first, short-lived first, and in time. Each item goes to a free block that holds it
//! and is at most [`BlockOptions::tolerance`] times as large: the smallest one (best fit), or the one that is free for
//! the shortest time around the item; then, taken in an order in which sizes may rise, to the largest free block, which
//! grows; else to a new block. Then orders by size are shaken at random, until the bytes equal the bound or
//! enough blocks were looked at. The fewest bytes win; at equal bytes what was tried first.
//!
//! **Bound.** See `bound`: for every size, the items of at least that size that are live at once.
//!
//! **Queues.** With several queues every block is a multiple of [`BlockOptions::cache_line_bytes`], so that blocks that
//! different queues touch never share a cache line, in whatever way a runtime lays them out at such multiples.
//!
//! Complexity: O(n b log n) an order for n items and b blocks. Deterministic: the noise has a fixed seed. Limits: finding
//! the fewest bytes is NP-hard, and this is a heuristic; the bound tells how far off it can be.
//!
//! Source: Pisarchyk, Lee, "Efficient memory management for deep neural net inference", 2020 (shared objects); the
//! problem is max-colouring of interval graphs, Pemmaraju, Raman, Varadarajan, "Buffer minimization using
//! max-coloring", SODA 2004.

mod bound;

use crate::error::PlanError;
use crate::id::StepIdx;
use crate::memory::{Occupant, Profile};
use crate::schedule::Step;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::fmt;

/// How blocks are reused.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BlockOptions {
    /// The size classes in bytes, ascending: a block has the least class that holds its stays. Larger sizes, and all
    /// sizes when there is no class, are rounded up to the alignment only.
    pub size_classes: Vec<u64>,
    /// How many times as large as a stay a block that it reuses may be; at least 1. Infinite for any block.
    pub tolerance: f64,
    /// What blocks are rounded up to when the schedule uses several queues, in bytes; a power of two.
    pub cache_line_bytes: u64,
}

impl Default for BlockOptions {
    /// No size classes, any block may be reused, cache lines of 128 bytes.
    fn default() -> Self {
        Self { size_classes: Vec::new(), tolerance: f64::INFINITY, cache_line_bytes: 128 }
    }
}

impl BlockOptions {
    /// Sets the size classes, in bytes, in any order.
    #[must_use]
    pub fn with_size_classes(mut self, bytes: impl Into<Vec<u64>>) -> Self {
        self.size_classes = bytes.into();
        self.size_classes.sort_unstable();
        self
    }

    /// Sets how many times as large as a stay a block that it reuses may be.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets what blocks are rounded up to when the schedule uses several queues.
    #[must_use]
    pub fn with_cache_line_bytes(mut self, bytes: u64) -> Self {
        self.cache_line_bytes = bytes;
        self
    }
}

/// Which block a stay has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockUse {
    /// What lies there.
    pub occupant: Occupant,
    /// The block, by its position in [`BlockPlan::block_bytes`].
    pub block: usize,
    /// The stay's own bytes.
    pub bytes: u64,
    /// The first step at which it lies there.
    pub first: StepIdx,
    /// The last step at which it lies there.
    pub last: StepIdx,
    /// The use, by its position in [`BlockPlan::uses`], that it takes over in place.
    pub takes_over: Option<usize>,
}

/// A block for every stay of a schedule.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BlockPlan {
    block_bytes: Vec<u64>,
    uses: Vec<BlockUse>,
    lower_bound_bytes: u64,
}

impl BlockPlan {
    /// A plan of these parts, right or wrong.
    #[cfg(test)]
    pub(crate) fn from_parts(block_bytes: Vec<u64>, uses: Vec<BlockUse>) -> Self {
        Self { block_bytes, uses, lower_bound_bytes: 0 }
    }

    /// The size of each block, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> &[u64] {
        &self.block_bytes
    }

    /// The block of each stay, in the order in which the stays begin; stays of 0 bytes have none.
    #[must_use]
    pub fn uses(&self) -> &[BlockUse] {
        &self.uses
    }

    /// The bytes of all blocks.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.block_bytes.iter().sum()
    }

    /// What the blocks of no plan of this schedule and these size classes take less than, in bytes.
    #[must_use]
    pub fn lower_bound_bytes(&self) -> u64 {
        self.lower_bound_bytes
    }

    /// Whether the bytes of all blocks equal the lower bound, so that nothing better exists.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.total_bytes() == self.lower_bound_bytes
    }

    /// How many stays have a block that another stay had before.
    #[must_use]
    pub fn n_reused(&self) -> usize {
        self.uses.len() - self.block_bytes.len()
    }

    /// Bytes of blocks that their largest stay leaves unused, in all.
    #[must_use]
    pub fn waste_bytes(&self) -> u64 {
        let mut largest = vec![0u64; self.block_bytes.len()];
        for used in &self.uses {
            largest[used.block] = largest[used.block].max(used.bytes);
        }
        self.block_bytes.iter().zip(largest).map(|(block, used)| block - used).sum()
    }
}

impl fmt::Display for BlockPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own: u128 = self.uses.iter().map(|used| u128::from(used.bytes)).sum();
        writeln!(f, "blocks        {}", self.block_bytes.len())?;
        writeln!(f, "bytes         {}", self.total_bytes())?;
        writeln!(f, "bound         {}", self.lower_bound_bytes)?;
        writeln!(f, "stays         {} ({own} bytes without reuse)", self.uses.len())?;
        writeln!(f, "reused        {} times", self.n_reused())?;
        write!(f, "waste         {} bytes", self.waste_bytes())
    }
}

/// A chain of stays that lie in one block.
struct Item {
    first: usize,
    last: usize,
    bytes: u64,
}

/// The order in which items are given blocks.
#[derive(Clone, Copy)]
enum Order {
    Size,
    ShortLived,
    Time,
}

/// Which of several free blocks an item goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pick {
    /// The smallest.
    Small,
    /// The one that is free for the fewest steps around the item.
    Narrow,
}

/// Blocks looked at after which no further order is begun.
const MANY_LOOKS: usize = 3_000_000;

/// A block while items are assigned: when it is taken, as `first step → last step`.
struct Block {
    bytes: u64,
    taken: BTreeMap<usize, usize>,
}

impl Block {
    fn is_free(&self, item: &Item) -> bool {
        self.taken.range(..=item.last).next_back().is_none_or(|(_, last)| *last < item.first)
    }

    /// For how many steps the block is free around an item that it is free for.
    fn gap(&self, item: &Item) -> usize {
        let before = self.taken.range(..=item.last).next_back().map_or(0, |(_, last)| last + 1);
        let after = self.taken.range(item.last + 1..).next().map_or(usize::MAX, |(first, _)| *first);
        after - before
    }
}

/// Assigns a block to every stay of a profile.
pub(super) fn assign(
    profile: &Profile,
    steps: &[Step],
    alignment: u64,
    options: &BlockOptions,
) -> Result<BlockPlan, PlanError> {
    let several_queues = steps.windows(2).any(|pair| pair[0].queue != pair[1].queue);
    let granule = granule(alignment, options, several_queues)?;
    let stays: Vec<_> = profile.stays().iter().collect();
    let mut item_of: Vec<Option<usize>> = vec![None; stays.len()];
    let mut items: Vec<Item> = Vec::new();
    for (k, stay) in stays.iter().enumerate().filter(|(_, stay)| stay.bytes > 0) {
        let previous = stay.takes_over.and_then(|previous| item_of[previous]);
        if let Some(item) = previous {
            items[item].last = stay.last.index();
            item_of[k] = Some(item);
            continue;
        }
        let class = options.size_classes.iter().copied().find(|class| *class >= stay.bytes).unwrap_or(stay.bytes);
        let bytes = class
            .checked_next_multiple_of(granule)
            .ok_or_else(|| PlanError::BytesOverflow { what: format!("{:?}", stay.occupant) })?;
        item_of[k] = Some(items.len());
        items.push(Item { first: stay.first.index(), last: stay.last.index(), bytes });
    }
    items
        .iter()
        .try_fold(0u64, |sum, item| sum.checked_add(item.bytes))
        .ok_or_else(|| PlanError::BytesOverflow { what: "the sum of all blocks".to_owned() })?;

    let bound = bound::lower_bound(&items);
    let (block_bytes, block_of) = assign_best(&items, bound, options.tolerance);
    let mut uses: Vec<BlockUse> = Vec::new();
    let mut use_of = vec![None; stays.len()];
    for (k, stay) in stays.iter().enumerate() {
        let Some(item) = item_of[k] else { continue };
        use_of[k] = Some(uses.len());
        uses.push(BlockUse {
            occupant: stay.occupant,
            block: block_of[item],
            bytes: stay.bytes,
            first: stay.first,
            last: stay.last,
            takes_over: stay.takes_over.and_then(|previous| use_of[previous]),
        });
    }
    Ok(BlockPlan { block_bytes, uses, lower_bound_bytes: bound })
}

/// What sizes are rounded up to.
fn granule(alignment: u64, options: &BlockOptions, several_queues: bool) -> Result<u64, PlanError> {
    if options.tolerance.is_nan() || options.tolerance < 1.0 {
        let (option, value) = ("tolerance", options.tolerance.to_string());
        return Err(PlanError::BadOption { option, value, rule: "a block is at least as large as what it holds" });
    }
    if !options.cache_line_bytes.is_power_of_two() {
        return Err(PlanError::BadAlignment { alignment: options.cache_line_bytes });
    }
    Ok(if several_queues { alignment.max(options.cache_line_bytes) } else { alignment })
}

/// The sizes of the blocks, and the block of every item.
type Assignment = (Vec<u64>, Vec<usize>);

/// The best assignment of all orders.
fn assign_best(items: &[Item], bound: u64, tolerance: f64) -> Assignment {
    let total = |blocks: &[u64]| blocks.iter().sum::<u64>();
    let mut best: Option<(u64, Assignment)> = None;
    let mut n_looks = 0;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
    let plain = [Order::Size, Order::ShortLived, Order::Time].map(|order| (order, Pick::Small));
    let narrow = [(Order::Size, Pick::Narrow), (Order::ShortLived, Pick::Narrow)];
    for round in 0.. {
        let (order, pick) = *plain.iter().chain(&narrow).nth(round).unwrap_or(&(Order::Size, narrow[round % 2].1));
        let mut sequence = order.sequence(items);
        if round >= plain.len() + narrow.len() {
            shake(items, &mut sequence, &mut random);
        }
        let assignment = assign_in(items, &sequence, pick, tolerance, &mut n_looks);
        let bytes = total(&assignment.0);
        if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
            best = Some((bytes, assignment));
        }
        let is_done = best.as_ref().is_some_and(|(least, _)| *least <= bound);
        if is_done || n_looks > MANY_LOOKS || round > 200 {
            break;
        }
    }
    best.map(|(_, assignment)| assignment).unwrap_or_default()
}

/// Moves items up an order by size, as if they were up to a tenth larger.
fn shake(items: &[Item], sequence: &mut [usize], random: &mut Xoshiro256PlusPlus) {
    #[expect(clippy::cast_precision_loss, reason = "a rank with noise")]
    let mut keys: Vec<(f64, usize)> =
        sequence.iter().map(|k| (items[*k].bytes as f64 * (1.0 + 0.1 * random.random::<f64>()), *k)).collect();
    keys.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (place, (_, k)) in sequence.iter_mut().zip(keys) {
        *place = k;
    }
}

impl Order {
    fn sequence(self, items: &[Item]) -> Vec<usize> {
        use std::cmp::Reverse;
        let mut sequence: Vec<usize> = (0..items.len()).collect();
        sequence.sort_by_key(|k| {
            let item = &items[*k];
            let steps = item.last - item.first;
            match self {
                Self::Size => (0, Reverse(item.bytes), item.first),
                Self::ShortLived => (steps, Reverse(item.bytes), item.first),
                Self::Time => (item.first, Reverse(item.bytes), item.last),
            }
        });
        sequence
    }
}

/// Gives items their blocks one by one.
fn assign_in(items: &[Item], sequence: &[usize], pick: Pick, tolerance: f64, n_looks: &mut usize) -> Assignment {
    use std::cmp::Reverse;
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of = vec![0; items.len()];
    for &k in sequence {
        let item = &items[k];
        *n_looks += 1 + blocks.len();
        #[expect(clippy::cast_precision_loss, reason = "a tolerance is a rough measure")]
        let near = |block: &Block| block.bytes as f64 <= item.bytes as f64 * tolerance;
        let free = || blocks.iter().enumerate().filter(|(_, block)| block.is_free(item));
        let gap = |block: &Block| if pick == Pick::Narrow { block.gap(item) } else { 0 };
        let holding = free().filter(|(_, b)| b.bytes >= item.bytes && near(b));
        let fitting = holding.min_by_key(|(at, b)| (gap(b), b.bytes, *at));
        let growing = || free().filter(|(_, b)| b.bytes < item.bytes).max_by_key(|(at, b)| (b.bytes, Reverse(*at)));
        let at = fitting.or_else(growing).map_or(blocks.len(), |(at, _)| at);
        if at == blocks.len() {
            blocks.push(Block { bytes: item.bytes, taken: BTreeMap::new() });
        }
        let block = &mut blocks[at];
        block.bytes = block.bytes.max(item.bytes);
        block.taken.insert(item.first, item.last);
        block_of[k] = at;
    }
    (blocks.into_iter().map(|block| block.bytes).collect(), block_of)
}

#[cfg(test)]
mod tests;
