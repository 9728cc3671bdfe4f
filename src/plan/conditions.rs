//! Placement with side conditions: fixed offsets, conflicts beyond time, several pools.
//!
//! **Problem.** As in `part`, and besides: some items have a given offset; some pairs that share no section must be
//! disjoint too; every item has a list of pools in which it may lie. Less is better in this order: bytes beyond the
//! capacities of the pools, then the height of the last pool, of the one before it, and so on.
//!
//! **Stages.** Items are decoded in many orders, the fixed ones first; an item goes to the first pool of its list in
//! which it fits under the capacity. Then `exact` searches, if there are few items.
//!
//! Identical-or-disjoint pairs are resolved before (see `pairs`): a pair is either one item or a conflict.

use super::decode::{Fit, Range, Taken};
use super::part::Part;
use super::rule::Rule;
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Items with side conditions.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    /// All items; they need not stand in canonical order.
    pub(super) part: Part,
    /// The offset of those that have one.
    pub(super) fixed: Vec<Option<u64>>,
    /// The items that each must be disjoint from although they share no section, ascending.
    pub(super) apart: Vec<Vec<usize>>,
    /// The pools in which each may lie, the first choice first; a fixed item lies in the first.
    pub(super) homes: Vec<Vec<usize>>,
    /// The bytes of each pool; `u64::MAX` where there is no limit.
    pub(super) capacities: Vec<u64>,
}

/// Where items lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) offsets: Vec<u64>,
    pub(super) pools: Vec<usize>,
    pub(super) cost: Cost,
}

/// Bytes beyond the capacities, then the heights of the pools, the last one first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost(Vec<u64>);

impl Cost {
    pub(super) fn new(heights: &[u64], capacities: &[u64]) -> Self {
        let over = heights.iter().zip(capacities).map(|(height, capacity)| height.saturating_sub(*capacity));
        let over = over.fold(0, u64::saturating_add);
        Self(std::iter::once(over).chain(heights.iter().rev().copied()).collect())
    }

    /// Whether every pool holds what lies in it.
    pub(super) fn fits(&self) -> bool {
        self.0[0] == 0
    }

    /// The height of each pool.
    pub(super) fn heights(&self) -> Vec<u64> {
        self.0[1..].iter().rev().copied().collect()
    }
}

impl Conditions {
    /// Whether two items may not share bytes.
    pub(super) fn conflict(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.part.items[a], &self.part.items[b]);
        (x.left < y.right && y.left < x.right) || self.apart[a].binary_search(&b).is_ok()
    }

    /// Two fixed items that lie in each other's way.
    pub(super) fn clash(&self) -> Option<(usize, usize)> {
        let mut fixed: Vec<(usize, u64, u64, usize)> = (0..self.fixed.len())
            .filter_map(|i| {
                self.fixed[i].map(|offset| (self.homes[i][0], offset, offset + self.part.items[i].bytes, i))
            })
            .collect();
        fixed.sort_unstable();
        for (k, &(pool, _, end, a)) in fixed.iter().enumerate() {
            let above = fixed[k + 1..].iter().take_while(|(of, start, ..)| *of == pool && *start < end);
            for &(.., b) in above {
                if self.conflict(a, b) {
                    return Some((a.min(b), a.max(b)));
                }
            }
        }
        None
    }

    /// Decodes in every order, and in `n_noisy` orders with noise, until the answer is `enough`.
    pub(super) fn decode_all(
        &self,
        best: &mut Option<Placed>,
        n_noisy: usize,
        enough: impl Fn(&Placed) -> bool,
        search: &mut Search<'_>,
    ) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(search.seed());
        let bases: Vec<Vec<usize>> = Rule::ALL.iter().map(|rule| rule.order(&self.part)).collect();
        for round in 0..bases.len() + n_noisy {
            let mut order = bases[round % bases.len()].clone();
            if round >= bases.len() {
                shake(&mut order, &mut random);
            }
            for fit in [Fit::First, Fit::Best] {
                if best.as_ref().is_some_and(&enough) || (search.stopped().is_some() && best.is_some()) {
                    return;
                }
                if let Some(placed) = self.decode(&order, fit, search)
                    && best.as_ref().is_none_or(|best| placed.cost < best.cost)
                {
                    *best = Some(placed);
                }
            }
        }
    }

    /// Places the fixed items, then the others in an order; `None` when an offset does not fit in 64 bits.
    pub(super) fn decode(&self, order: &[usize], fit: Fit, search: &mut Search<'_>) -> Option<Placed> {
        let n = self.part.items.len();
        let n_pools = self.capacities.len();
        let mut taken: Vec<Taken> = (0..n_pools).map(|_| Taken::new(self.part.n_sections())).collect();
        let mut heights = vec![0u64; n_pools];
        let (mut offsets, mut pools, mut is_placed) = (vec![0; n], vec![0; n], vec![false; n]);
        let fixed = (0..n).filter(|i| self.fixed[*i].is_some());
        let moving = order.iter().copied().filter(|i| self.fixed[*i].is_none());
        let mut near: Vec<Range> = Vec::new();
        for i in fixed.chain(moving) {
            let item = &self.part.items[i];
            let mut chosen = self.fixed[i].map(|offset| (self.homes[i][0], offset));
            let mut visits = 0;
            for (k, &pool) in self.homes[i].iter().enumerate() {
                if chosen.is_some() {
                    break;
                }
                near.clear();
                near.extend(
                    self.apart[i]
                        .iter()
                        .filter(|j| is_placed[**j] && pools[**j] == pool)
                        .map(|j| Range { start: offsets[*j], end: offsets[*j] + self.part.items[*j].bytes }),
                );
                near.sort_unstable_by_key(|range| range.start);
                let offset = taken[pool].find(item, fit, &near, &mut visits)?;
                let is_last = k + 1 == self.homes[i].len();
                if is_last || offset.checked_add(item.bytes)? <= self.capacities[pool] {
                    chosen = Some((pool, offset));
                }
            }
            search.spend(4 + visits + self.apart[i].len() as u64);
            let (pool, offset) = chosen?;
            let end = offset.checked_add(item.bytes)?;
            taken[pool].insert(item, Range { start: offset, end });
            heights[pool] = heights[pool].max(end);
            (offsets[i], pools[i], is_placed[i]) = (offset, pool, true);
        }
        let cost = Cost::new(&heights, &self.capacities);
        Some(Placed { offsets, pools, cost })
    }
}

/// Moves items of an order about, most of them a little.
fn shake(order: &mut [usize], random: &mut Xoshiro256PlusPlus) {
    #[expect(clippy::cast_precision_loss, reason = "a rank with noise")]
    let n = order.len() as f64;
    let noise = [0.05, 0.2, 0.5, 1.0][random.random_range(0..4)] * n;
    #[expect(clippy::cast_precision_loss, reason = "a rank with noise")]
    let mut keyed: Vec<(f64, usize)> =
        order.iter().enumerate().map(|(rank, i)| (rank as f64 + noise * random.random::<f64>(), *i)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (place, (_, i)) in order.iter_mut().zip(keyed) {
        *place = i;
    }
}
