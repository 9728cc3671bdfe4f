//! Offsets for intervals: several orders and fits are decoded, the best is kept, and the load proves the optimum.
//!
//! **Problem** (dynamic storage allocation). Given items with a size, an alignment and an interval of steps, choose
//! offsets so that items whose intervals meet are disjoint in space, and the highest end is least. The **load**, the
//! largest sum of sizes at any step, is a lower bound; on real graphs it is nearly always reached.
//!
//! **Decode.** Items are placed one by one. An item goes into a gap between the items already placed whose intervals
//! meet its own: the lowest gap that holds it (first fit), or the tightest (best fit); above all of them if none does.
//! The placed items that meet an interval come from a segment tree over time, in which an item stands at the nodes
//! that make up its interval, so the conflict graph is never built.
//!
//! **Orders.** By size, by area (size × steps), by steps, by start, and by the load at the item's most loaded step
//! (then steps, then area); larger first. Ties go to the earlier start, then to the larger item, then by interval, so
//! the answer does not depend on the order of the caller's rows, but for equal items, which are interchangeable.
//!
//! Complexity: a decode takes O(n log n + k log k) time for n items and k pairs of items that meet, O(n log n) space.
//! Decodes stop at the load, or when [`MAX_PAIRS`] pairs were looked at (the first decode always ends).
//!
//! Source: greedy by size and by breadth are surveyed in Pisarchyk, Lee, "Efficient memory management for deep neural
//! net inference", 2020; the order by load is after Moffitt, "MiniMalloc", ASPLOS 2023. Limits: it proves nothing
//! when the load is not reached.

use crate::error::PlanError;

/// Pairs of meeting items after which no further decode is begun.
const MAX_PAIRS: u64 = 12_000_000;

/// An item to place: live at every step from `first` to `last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) first: u32,
    pub(super) last: u32,
    /// Rounded up to the item's alignment.
    pub(super) bytes: u64,
    /// What the item's offset is a multiple of.
    pub(super) alignment: u64,
}

/// Offsets of items, and what is known about them.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    pub(super) offsets: Vec<u64>,
    pub(super) height: u64,
    pub(super) load: u64,
}

/// Places items; `what` names an item in an error.
pub(super) fn pack(items: &[Item], what: impl Fn(usize) -> String) -> Result<Packing, PlanError> {
    // An offset never exceeds the sum of all sizes, each with the padding before it.
    let mut total = 0u64;
    for (k, item) in items.iter().enumerate() {
        let padded = item.bytes.checked_add(item.alignment - 1);
        total = padded
            .and_then(|padded| total.checked_add(padded))
            .ok_or_else(|| PlanError::BytesOverflow { what: what(k) })?;
    }
    let load_at = loads(items);
    let steps = load_at.len();
    let load = load_at.iter().copied().max().unwrap_or(0);
    let most_loaded = RangeMax::new(&load_at);
    let mut best: Option<Packing> = None;
    let mut pairs = 0;
    for order in Order::ALL {
        let sequence = order.sequence(items, &most_loaded);
        for fit in [Fit::First, Fit::Best] {
            let mut decode = Decode::new(steps, fit);
            let offsets = decode.place_all(items, &sequence);
            let end = |(offset, item): (&u64, &Item)| if item.bytes == 0 { 0 } else { offset + item.bytes };
            let height = offsets.iter().zip(items).map(end).max().unwrap_or(0);
            if best.as_ref().is_none_or(|best| height < best.height) {
                best = Some(Packing { offsets, height, load });
            }
            pairs += decode.pairs;
            if height == load || pairs > MAX_PAIRS {
                return Ok(best.unwrap_or(Packing { offsets: Vec::new(), height: 0, load }));
            }
        }
    }
    Ok(best.unwrap_or(Packing { offsets: Vec::new(), height: 0, load }))
}

/// The sum of sizes at every step.
fn loads(items: &[Item]) -> Vec<u64> {
    let steps = items.iter().map(|item| item.last as usize + 1).max().unwrap_or(0);
    let (mut begin, mut end) = (vec![0u64; steps], vec![0u64; steps + 1]);
    for item in items {
        begin[item.first as usize] += item.bytes;
        end[item.last as usize + 1] += item.bytes;
    }
    let mut live = 0;
    (0..steps)
        .map(|s| {
            live = live - end[s] + begin[s];
            live
        })
        .collect()
}

/// Maximum over ranges, by powers of two.
struct RangeMax(Vec<Vec<u64>>);

impl RangeMax {
    fn new(values: &[u64]) -> Self {
        let mut levels = vec![values.to_vec()];
        let mut width = 1;
        while 2 * width <= values.len() {
            let below = &levels[levels.len() - 1];
            levels.push((0..=values.len() - 2 * width).map(|k| below[k].max(below[k + width])).collect());
            width *= 2;
        }
        Self(levels)
    }

    fn max(&self, first: usize, last: usize) -> u64 {
        let level = (last - first + 1).ilog2() as usize;
        self.0[level][first].max(self.0[level][last + 1 - (1 << level)])
    }
}

/// In which order items are placed.
#[derive(Clone, Copy)]
enum Order {
    Size,
    Load,
    Area,
    Steps,
    Start,
}

impl Order {
    const ALL: [Self; 5] = [Self::Size, Self::Load, Self::Area, Self::Steps, Self::Start];

    fn sequence(self, items: &[Item], most_loaded: &RangeMax) -> Vec<usize> {
        use std::cmp::Reverse;
        let key = |k: &usize| {
            let item = &items[*k];
            let steps = u64::from(item.last - item.first) + 1;
            let area = u128::from(item.bytes) * u128::from(steps);
            let [a, b, c] = match self {
                Self::Size => [u128::from(item.bytes), 0, 0],
                Self::Load => {
                    let load = most_loaded.max(item.first as usize, item.last as usize);
                    [u128::from(load), u128::from(steps), area]
                }
                Self::Area => [area, 0, 0],
                Self::Steps => [u128::from(steps), u128::from(item.bytes), 0],
                Self::Start => [u128::from(u32::MAX - item.first), u128::from(steps), 0],
            };
            (Reverse((a, b, c)), item.first, Reverse(item.bytes), item.last, item.alignment)
        };
        let mut sequence: Vec<usize> = (0..items.len()).collect();
        sequence.sort_by_cached_key(key);
        sequence
    }
}

/// Which gap an item goes into.
#[derive(Clone, Copy)]
enum Fit {
    First,
    Best,
}

/// The items placed so far, at the nodes of a segment tree over time.
struct Decode {
    fit: Fit,
    /// The number of leaves: a power of two.
    leaves: usize,
    nodes: Vec<Vec<Placed>>,
    /// Whether the node or one below it holds items.
    occupied: Vec<bool>,
    /// The placed items that meet the present one.
    met: Vec<Placed>,
    pairs: u64,
}

/// The bytes of a placed item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    offset: u64,
    end: u64,
}

impl Decode {
    fn new(steps: usize, fit: Fit) -> Self {
        let leaves = steps.next_power_of_two().max(1);
        Self {
            fit,
            leaves,
            nodes: vec![Vec::new(); 2 * leaves],
            occupied: vec![false; 2 * leaves],
            met: Vec::new(),
            pairs: 0,
        }
    }

    fn place_all(&mut self, items: &[Item], sequence: &[usize]) -> Vec<u64> {
        let mut offsets = vec![0; items.len()];
        for &k in sequence.iter().filter(|k| items[**k].bytes > 0) {
            let item = &items[k];
            self.find_met(item.first as usize, item.last as usize);
            offsets[k] = self.find_gap(item);
            self.insert(item, Placed { offset: offsets[k], end: offsets[k] + item.bytes });
        }
        offsets
    }

    /// Collects the placed items that meet `first..=last`, by offset.
    fn find_met(&mut self, first: usize, last: usize) {
        self.met.clear();
        let (mut low, mut high) = (first + self.leaves, last + self.leaves);
        // What contains the range's ends or more stands at the ancestors of the two end leaves.
        let mut a = low / 2;
        let mut b = high / 2;
        while a > 0 {
            self.met.extend_from_slice(&self.nodes[a]);
            if a != b {
                self.met.extend_from_slice(&self.nodes[b]);
            }
            (a, b) = (a / 2, b / 2);
        }
        // What lies inside stands at or below the nodes that make up the range.
        let mut inside = Vec::new();
        while low <= high {
            if low % 2 == 1 {
                inside.push(low);
                low += 1;
            }
            if high.is_multiple_of(2) {
                inside.push(high);
                high -= 1;
            }
            (low, high) = (low / 2, high / 2);
        }
        while let Some(node) = inside.pop() {
            if !self.occupied[node] {
                continue;
            }
            // The ancestors of an end leaf that lie inside the range were collected above.
            if !is_ancestor(node, first + self.leaves) && !is_ancestor(node, last + self.leaves) {
                self.met.extend_from_slice(&self.nodes[node]);
            }
            if node < self.leaves {
                inside.extend([2 * node, 2 * node + 1]);
            }
        }
        self.pairs += 1 + self.met.len() as u64;
        self.met.sort_unstable();
    }

    fn find_gap(&self, item: &Item) -> u64 {
        let mut floor = 0u64;
        let mut best: Option<(u64, u64)> = None;
        for placed in &self.met {
            let start = floor.next_multiple_of(item.alignment);
            if start <= placed.offset && placed.offset - start >= item.bytes {
                let slack = placed.offset - floor - item.bytes;
                match self.fit {
                    Fit::First => return start,
                    Fit::Best if best.is_none_or(|(least, _)| slack < least) => best = Some((slack, start)),
                    Fit::Best => {}
                }
            }
            floor = floor.max(placed.end);
        }
        best.map_or_else(|| floor.next_multiple_of(item.alignment), |(_, start)| start)
    }

    fn insert(&mut self, item: &Item, placed: Placed) {
        let (mut low, mut high) = (item.first as usize + self.leaves, item.last as usize + self.leaves);
        while low <= high {
            if low % 2 == 1 {
                self.insert_at(low, placed);
                low += 1;
            }
            if high.is_multiple_of(2) {
                self.insert_at(high, placed);
                high -= 1;
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    fn insert_at(&mut self, node: usize, placed: Placed) {
        self.nodes[node].push(placed);
        let mut above = node;
        while above > 0 && !std::mem::replace(&mut self.occupied[above], true) {
            above /= 2;
        }
    }
}

/// Whether `node` is a proper ancestor of `leaf` in the implicit tree.
fn is_ancestor(node: usize, leaf: usize) -> bool {
    let depth = leaf.ilog2() - node.ilog2();
    depth > 0 && leaf >> depth == node
}
