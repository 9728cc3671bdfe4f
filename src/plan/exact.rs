//! The best placement of few items under any side conditions.
//!
//! **Idea.** Place items in the order of their offsets, each at the lowest offset where it meets neither a fixed item
//! nor one placed before it; try every item and every pool as the next.
//!
//! **Why that is complete.** Take a best layout, and again and again move any item to a lower offset in its pool where
//! it meets no other, until there is none. The heights do not rise, the sum of the offsets falls, so this ends. List
//! the items by offset. Item i then lies at the lowest offset where it meets neither fixed items nor items before it:
//! suppose that it fitted lower, at p, but for an item j after it. Then p < offset(i) ≤ offset(j) < p + size(i). But i
//! and j are disjoint where they are, so offset(j) ≥ offset(i) + size(i) > p + size(i): a contradiction. The search
//! tries this very list.
//!
//! **Pruning.** Offsets do not fall along the list; heights only rise, so what is not better than the best known
//! layout is left; of equal items the first is tried alone.
//!
//! **Complexity.** Exponential; a node takes O(n² log n) time for n items. Space O(n²).

use super::conditions::{Conditions, Cost, Placed};
use crate::search::Search;

/// The most items for which the search is tried.
pub(super) const EXACT_ITEMS: usize = 40;

#[derive(Clone, Copy)]
struct Option_ {
    item: usize,
    pool: usize,
    offset: u64,
}

/// Improves `best`; whether it is proven that nothing better exists.
pub(super) fn search_all(
    conditions: &Conditions,
    best: &mut Option<Placed>,
    enough: impl Fn(&Placed) -> bool,
    search: &mut Search<'_>,
) -> bool {
    let items = &conditions.part.items;
    let n = items.len();
    let n_pools = conditions.capacities.len();
    let is_conflict: Vec<bool> = (0..n * n).map(|k| conditions.conflict(k / n, k % n)).collect();
    let is_twin: Vec<bool> = (0..n * n)
        .map(|k| {
            let (i, j) = (k / n, k % n);
            let is_bare = |i: usize| conditions.apart[i].is_empty() && conditions.fixed[i].is_none();
            i < j && items[i] == items[j] && is_bare(i) && is_bare(j) && conditions.homes[i] == conditions.homes[j]
        })
        .collect();
    let mut place: Vec<Option<(usize, u64)>> =
        (0..n).map(|i| conditions.fixed[i].map(|offset| (conditions.homes[i][0], offset))).collect();
    let mut n_left = place.iter().filter(|place| place.is_none()).count();
    let mut heights = vec![0u64; n_pools];
    for i in 0..n {
        if let Some((pool, offset)) = place[i] {
            heights[pool] = heights[pool].max(offset + items[i].bytes);
        }
    }
    let is_better = |heights: &[u64], best: &Option<Placed>| {
        best.as_ref().is_none_or(|best| Cost::new(heights, &conditions.capacities) < best.cost)
    };
    // One level an item placed: its options, the next of them, and the heights before.
    let mut levels: Vec<(Vec<Option_>, usize, Vec<u64>)> = Vec::new();
    let mut near: Vec<(u64, u64)> = Vec::new();
    let mut lowest = 0;
    loop {
        if best.as_ref().is_some_and(&enough) || !search.spend(8 + (n * n) as u64) {
            return false;
        }
        let mut options = Vec::new();
        if n_left == 0 {
            if is_better(&heights, best) {
                let offsets = place.iter().map(|place| place.map_or(0, |(_, offset)| offset)).collect();
                let pools = place.iter().map(|place| place.map_or(0, |(pool, _)| pool)).collect();
                *best = Some(Placed { offsets, pools, cost: Cost::new(&heights, &conditions.capacities) });
            }
        } else {
            for i in (0..n).filter(|i| place[*i].is_none()) {
                if (0..i).any(|j| is_twin[j * n + i] && place[j].is_none()) {
                    continue;
                }
                for &pool in &conditions.homes[i] {
                    near.clear();
                    near.extend((0..n).filter(|j| is_conflict[i * n + *j]).filter_map(|j| match place[j] {
                        Some((of, offset)) if of == pool => Some((offset, offset.saturating_add(items[j].bytes))),
                        _ => None,
                    }));
                    near.sort_unstable();
                    let Some(offset) = lowest_gap(&near, items[i].bytes, items[i].alignment) else { continue };
                    if offset >= lowest {
                        options.push(Option_ { item: i, pool, offset });
                    }
                }
            }
            options.sort_by_key(|option| (option.offset, std::cmp::Reverse(items[option.item].bytes)));
        }
        levels.push((options, 0, heights.clone()));
        // The next option of the deepest level that has one.
        loop {
            let Some((options, next, before)) = levels.last_mut() else { return true };
            heights.clone_from(before);
            if *next > 0 {
                place[options[*next - 1].item] = None;
                n_left += 1;
            }
            let Some(&Option_ { item, pool, offset }) = options.get(*next) else {
                levels.pop();
                continue;
            };
            *next += 1;
            place[item] = Some((pool, offset));
            n_left -= 1;
            heights[pool] = heights[pool].max(offset + items[item].bytes);
            if is_better(&heights, best) {
                lowest = offset;
                break;
            }
        }
    }
}

/// The lowest multiple of `alignment` at which `bytes` bytes meet no range; ranges are sorted.
fn lowest_gap(ranges: &[(u64, u64)], bytes: u64, alignment: u64) -> Option<u64> {
    let mut at = 0u64;
    for &(start, end) in ranges {
        if at.checked_add(bytes)? <= start {
            break;
        }
        if end > at {
            at = end.checked_next_multiple_of(alignment)?;
        }
    }
    at.checked_add(bytes).map(|_| at)
}
