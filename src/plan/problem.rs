//! The normal form of what a caller asks, and the answer in the caller's terms.
//!
//! 1. Every size is rounded up to the alignment; intervals of 0 bytes are left out.
//! 2. Rows are sorted, so that the answer does not depend on their order. Rows that are equal in everything that they
//!    say themselves keep the caller's order, which matters only where relations tell them apart.
//! 3. All bytes are divided by a unit: the greatest common divisor of sizes, given offsets and those alignments that
//!    do not divide it anyway. What an alignment still asks for is counted in units.
//! 4. A distance of reuse makes every interval longer at its end, and what is exclusive lasts from first to last: both
//!    are then conflicts in time like others.

use super::conditions::{Conditions, Cost, Placed};
use super::interval::{Interval, Pool, Relations};
use super::layout::Layout;
use super::part::{Part, Span};
use super::{exact, pairs, solve};
use crate::error::PlanError;
use crate::search::{Search, StopReason};
use std::collections::BTreeSet;

/// What a caller asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) intervals: &'a [Interval],
    pub(super) relations: &'a Relations,
    pub(super) alignment: u64,
    pub(super) reuse_distance: u64,
    pub(super) pools: &'a [Pool],
}

/// A request in normal form. Items are numbered in canonical order.
#[derive(Debug)]
pub(super) struct Problem {
    n_rows: usize,
    unit: u64,
    spans: Vec<Span>,
    /// The caller's row of each span.
    rows: Vec<usize>,
    fixed: Vec<Option<u64>>,
    hints: Vec<Option<u64>>,
    homes: Vec<Vec<usize>>,
    /// The pool that each row asks for, 0 bytes or not.
    asked: Vec<usize>,
    capacities: Vec<u64>,
    pub(super) pairs: Vec<(usize, usize)>,
    apart: Vec<Vec<usize>>,
}

/// What the search came to.
#[derive(Debug)]
pub(super) struct Answer {
    /// By span, in units.
    pub(super) offsets: Vec<u64>,
    pub(super) pools: Vec<usize>,
    pub(super) cost: Cost,
    /// In units.
    pub(super) bound: u64,
    /// Nothing better exists.
    pub(super) is_proven: bool,
}

impl Problem {
    /// Checks and normalises the rows of a request; all of them, or those in `only`.
    pub(super) fn new(request: &Request<'_>, only: Option<&[usize]>) -> Result<Self, PlanError> {
        let &Request { intervals, relations, alignment, reuse_distance, pools } = request;
        let homes_of = homes(pools)?;
        let mut rounded = Vec::with_capacity(intervals.len());
        for (row, interval) in intervals.iter().enumerate() {
            rounded.push(checked(row, interval, alignment, pools.len())?);
        }
        let (first, end) = intervals.iter().fold((u64::MAX, 0), |(a, b), i| (a.min(i.start), b.max(i.end)));
        let end = end.saturating_add(reuse_distance);
        let is_chosen: Option<BTreeSet<usize>> = only.map(|only| only.iter().copied().collect());
        let mut rows: Vec<usize> = (0..intervals.len())
            .filter(|row| rounded[*row].0 > 0 && is_chosen.as_ref().is_none_or(|chosen| chosen.contains(row)))
            .collect();
        let times = |row: usize| {
            let interval = &intervals[row];
            if interval.is_exclusive {
                (first, end)
            } else {
                (interval.start, interval.end.saturating_add(reuse_distance))
            }
        };
        rows.sort_by_key(|&row| {
            let (bytes, own) = rounded[row];
            let Interval { fixed, hint, pool, .. } = intervals[row];
            (times(row), bytes, own, pool, fixed, hint)
        });
        let mut unit = 0;
        for &row in &rows {
            unit = gcd(unit, rounded[row].0);
            for offset in [intervals[row].fixed, intervals[row].hint].into_iter().flatten() {
                unit = gcd(unit, offset);
            }
        }
        for &row in &rows {
            if !unit.is_multiple_of(rounded[row].1) {
                unit = gcd(unit, rounded[row].1);
            }
        }
        let unit = unit.max(1);
        // An offset never exceeds the greatest end of a fixed item and the sum of all sizes, each with the padding
        // before it.
        let mut total = rows.iter().filter_map(|row| intervals[*row].fixed).max().unwrap_or(0);
        for &row in &rows {
            let (bytes, own) = rounded[row];
            total = bytes
                .checked_add(if own > unit { own - 1 } else { 0 })
                .and_then(|padded| total.checked_add(padded))
                .ok_or_else(|| PlanError::BytesOverflow { what: format!("interval {row}") })?;
        }
        let spans = rows.iter().enumerate().map(|(at, &row)| {
            let ((start, end), (bytes, own)) = (times(row), rounded[row]);
            Span { start, end, bytes: bytes / unit, alignment: (own / unit).max(1), row: at }
        });
        let mut position = vec![None; intervals.len()];
        rows.iter().enumerate().for_each(|(at, row)| position[*row] = Some(at));
        let mut problem = Self {
            n_rows: intervals.len(),
            unit,
            spans: spans.collect(),
            fixed: rows.iter().map(|row| intervals[*row].fixed.map(|offset| offset / unit)).collect(),
            hints: rows.iter().map(|row| intervals[*row].hint.map(|offset| offset / unit)).collect(),
            homes: rows.iter().map(|row| homes_of[intervals[*row].pool].clone()).collect(),
            asked: intervals.iter().map(|interval| interval.pool).collect(),
            capacities: pools.iter().map(|pool| pool.capacity.map_or(u64::MAX, |bytes| bytes / unit)).collect(),
            pairs: Vec::new(),
            apart: vec![Vec::new(); rows.len()],
            rows,
        };
        problem.relate(relations, &position, &rounded)?;
        Ok(problem)
    }

    fn relate(
        &mut self,
        relations: &Relations,
        position: &[Option<usize>],
        rounded: &[(u64, u64)],
    ) -> Result<(), PlanError> {
        let n_intervals = position.len();
        let check = |(a, b): (usize, usize)| match [a, b].into_iter().find(|row| *row >= n_intervals) {
            Some(interval) => Err(PlanError::UnknownInterval { interval, n_intervals }),
            None => Ok(()),
        };
        for &(a, b) in &relations.conflicts {
            check((a, b))?;
            if let (Some(a), Some(b)) = (position[a], position[b])
                && a != b
            {
                self.apart[a].push(b);
                self.apart[b].push(a);
            }
        }
        for apart in &mut self.apart {
            apart.sort_unstable();
            apart.dedup();
        }
        for &(a, b) in &relations.identical_or_disjoint {
            check((a, b))?;
            if rounded[a].0 != rounded[b].0 {
                return Err(PlanError::UnequalPair { first: a, second: b });
            }
            if let (Some(a), Some(b)) = (position[a], position[b])
                && a != b
                && self.meet(a, b)
                && self.apart[a].binary_search(&b).is_err()
            {
                self.pairs.push((a.min(b), a.max(b)));
            }
        }
        self.pairs.sort_unstable();
        self.pairs.dedup();
        Ok(())
    }

    /// Whether two spans overlap in time.
    pub(super) fn meet(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.spans[a], &self.spans[b]);
        a.start < b.end && b.start < a.end
    }

    /// Whether times, sizes and alignments are all there is.
    fn is_simple(&self) -> bool {
        let no_conflict = self.apart.iter().all(Vec::is_empty);
        self.capacities.len() == 1 && self.pairs.is_empty() && no_conflict && self.fixed.iter().all(Option::is_none)
    }

    /// The caller's rows of two spans, in the caller's order.
    fn rows_of(&self, (a, b): (usize, usize)) -> (usize, usize) {
        let (a, b) = (self.rows[a], self.rows[b]);
        (a.min(b), a.max(b))
    }

    /// All items as they stand, pairs as conflicts in time.
    pub(super) fn conditions(&self) -> Conditions {
        let part = Part::whole(self.spans.clone());
        let by_span = &part.rows;
        let mut item_of = vec![0; by_span.len()];
        by_span.iter().enumerate().for_each(|(item, span)| item_of[*span] = item);
        let apart = by_span
            .iter()
            .map(|span| {
                let mut apart: Vec<usize> = self.apart[*span].iter().map(|other| item_of[*other]).collect();
                apart.sort_unstable();
                apart
            })
            .collect();
        Conditions {
            fixed: by_span.iter().map(|span| self.fixed[*span]).collect(),
            apart,
            homes: by_span.iter().map(|span| self.homes[*span].clone()).collect(),
            capacities: self.capacities.clone(),
            part,
        }
    }

    /// Places everything. With `decide`, what reaches no capacity is not improved.
    pub(super) fn solve(&self, decide: bool, search: &mut Search<'_>) -> Result<Answer, PlanError> {
        let mut answer =
            if self.is_simple() { self.solve_simple(decide, search) } else { self.solve_all(decide, search)? };
        if self.hints.iter().any(Option::is_some) && answer.cost.fits() {
            self.keep_hints(&mut answer, search);
        }
        Ok(answer)
    }

    fn solve_simple(&self, decide: bool, search: &mut Search<'_>) -> Answer {
        let mut parts = Part::split(self.spans.clone());
        parts.sort_by_key(|part| std::cmp::Reverse(part.most()));
        let load = parts.first().map_or(0, Part::most);
        let capacity = self.capacities[0];
        let mut answer = Answer {
            offsets: vec![0; self.spans.len()],
            pools: vec![0; self.spans.len()],
            cost: Cost::new(&[0], &self.capacities),
            bound: load,
            is_proven: false,
        };
        let mut height = 0;
        for part in &parts {
            let target = if decide { capacity } else { load.max(height) };
            let best = solve::solve(part, target, decide, search);
            height = height.max(best.height);
            answer.bound = answer.bound.max(best.bound);
            for (row, offset) in part.rows.iter().zip(&best.offsets) {
                answer.offsets[*row] = *offset;
            }
        }
        answer.cost = Cost::new(&[height], &self.capacities);
        answer.is_proven = height <= answer.bound || (decide && answer.bound > capacity);
        answer
    }

    fn solve_all(&self, decide: bool, search: &mut Search<'_>) -> Result<Answer, PlanError> {
        let whole = self.conditions();
        let found = pairs::solve(self, &whole, decide, search);
        match found.placed {
            Some(Placed { offsets, pools, cost }) => {
                Ok(Answer { offsets, pools, cost, bound: found.bound, is_proven: found.is_proven })
            }
            // No order gave an answer: the fixed items clash however pairs are taken, or offsets overflowed.
            None => Err(whole.clash().map_or(
                PlanError::BytesOverflow { what: "the height of the layout".to_owned() },
                |(a, b)| {
                    let (first, second) = self.rows_of((whole.part.rows[a], whole.part.rows[b]));
                    PlanError::FixedClash { first, second }
                },
            )),
        }
    }

    /// Places everything again around as many hints as cost nothing.
    fn keep_hints(&self, answer: &mut Answer, search: &mut Search<'_>) {
        if !self.pairs.is_empty() {
            return;
        }
        let mut whole = self.conditions();
        let limits: Vec<u64> = answer.cost.heights();
        // The largest first; what lies in the way of those before, or above the limit, is not kept.
        let hint_of = |item: usize| self.hints[whole.part.rows[item]];
        let mut wanted: Vec<usize> = (0..whole.fixed.len()).filter(|i| hint_of(*i).is_some()).collect();
        wanted.sort_by_key(|i| (std::cmp::Reverse(whole.part.items[*i].bytes), *i));
        let fixed = whole.fixed.clone();
        let mut kept: Vec<(usize, u64)> = Vec::new();
        for i in wanted {
            let (Some(offset), item) = (hint_of(i), whole.part.items[i]) else { continue };
            let end = offset.saturating_add(item.bytes);
            let free = |j: usize, other: u64| {
                !whole.conflict(i, j)
                    || whole.homes[i][0] != whole.homes[j][0]
                    || end <= other
                    || other + whole.part.items[j].bytes <= offset
            };
            let is_free = kept.iter().all(|(j, other)| free(*j, *other))
                && fixed.iter().enumerate().all(|(j, other)| other.is_none_or(|other| free(j, other)));
            if whole.fixed[i].is_none() && offset % item.alignment == 0 && end <= limits[whole.homes[i][0]] && is_free {
                kept.push((i, offset));
            }
        }
        let mut n_kept = kept.len();
        while n_kept > 0 {
            whole.fixed.clone_from(&fixed);
            kept[..n_kept].iter().for_each(|(i, offset)| whole.fixed[*i] = Some(*offset));
            let mut best = None;
            whole.decode_all(&mut best, 8, |placed| placed.cost <= answer.cost, search);
            if let Some(placed) = best
                && placed.cost <= answer.cost
            {
                for (item, span) in whole.part.rows.iter().enumerate() {
                    (answer.offsets[*span], answer.pools[*span]) = (placed.offsets[item], placed.pools[item]);
                }
                answer.cost = placed.cost;
                return;
            }
            n_kept /= 2;
        }
    }

    /// The answer in the caller's terms.
    pub(super) fn layout(&self, answer: &Answer, search: &Search<'_>) -> Layout {
        let mut offsets = vec![0; self.n_rows];
        let mut pools = self.asked.clone();
        for (span, &row) in self.rows.iter().enumerate() {
            (offsets[row], pools[row]) = (answer.offsets[span] * self.unit, answer.pools[span]);
        }
        let pool_heights: Vec<u64> = answer.cost.heights().iter().map(|height| height * self.unit).collect();
        let height_bytes = pool_heights.iter().copied().fold(0, u64::saturating_add);
        let load = pairs::load(self);
        let finished = if answer.is_proven { StopReason::Optimal } else { StopReason::Finished };
        Layout {
            offsets,
            pools,
            pool_heights,
            height_bytes,
            load_bytes: load * self.unit,
            lower_bound_bytes: answer.bound.max(load) * self.unit,
            is_optimal: answer.is_proven && answer.cost.fits(),
            stop_reason: search.stopped().filter(|_| !answer.is_proven).unwrap_or(finished),
        }
    }

    /// The rows of a section that is fuller than the only pool, as few as it takes.
    pub(super) fn overfull(&self) -> Option<Vec<usize>> {
        if self.capacities.len() != 1 || !self.pairs.is_empty() {
            return None;
        }
        let capacity = self.capacities[0];
        let whole = Part::whole(self.spans.clone());
        let mut fewest: Option<Vec<usize>> = None;
        let full = whole.load.iter().enumerate().filter(|(_, load)| **load > capacity);
        // The fullest sections; all of them would take quadratic time.
        let mut full: Vec<(u64, usize)> = full.map(|(section, load)| (*load, section)).collect();
        full.sort_unstable_by_key(|(load, section)| (std::cmp::Reverse(*load), *section));
        for &(_, section) in full.iter().take(64) {
            let covers = |i: &usize| whole.items[*i].left <= section && section < whole.items[*i].right;
            let mut items: Vec<usize> = (0..whole.items.len()).filter(covers).collect();
            items.sort_by_key(|i| (std::cmp::Reverse(whole.items[*i].bytes), *i));
            let mut sum = 0;
            let n = items
                .iter()
                .take_while(|i| {
                    let goes_on = sum <= capacity;
                    sum += whole.items[**i].bytes;
                    goes_on
                })
                .count();
            if fewest.as_ref().is_none_or(|fewest| n < fewest.len()) {
                fewest = Some(items[..n].iter().map(|i| self.rows[whole.rows[*i]]).collect());
            }
        }
        fewest
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The bytes of a unit.
    pub(super) fn unit(&self) -> u64 {
        self.unit
    }
}

/// The size of an interval, rounded up, and its alignment; fails when something about it cannot be.
fn checked(row: usize, interval: &Interval, alignment: u64, n_pools: usize) -> Result<(u64, u64), PlanError> {
    let &Interval { start, end, bytes, alignment: own, fixed, pool, .. } = interval;
    if start >= end {
        return Err(PlanError::EmptyInterval { interval: row, start, end });
    }
    let own = checked_alignment(own.unwrap_or(1))?.max(alignment);
    if pool >= n_pools {
        return Err(PlanError::UnknownPool { pool, n_pools });
    }
    let overflow = || PlanError::BytesOverflow { what: format!("interval {row}") };
    let bytes = bytes.checked_next_multiple_of(alignment).ok_or_else(overflow)?;
    if let Some(offset) = fixed.filter(|_| bytes > 0) {
        if !offset.is_multiple_of(own) {
            return Err(PlanError::FixedUnaligned { interval: row, offset, alignment: own });
        }
        offset.checked_add(bytes).ok_or_else(overflow)?;
    }
    Ok((bytes, own))
}

/// The alignment, where it is one.
pub(super) fn checked_alignment(alignment: u64) -> Result<u64, PlanError> {
    if alignment.is_power_of_two() { Ok(alignment) } else { Err(PlanError::BadAlignment { alignment }) }
}

/// For each pool, itself and the pools that may take what asks for it, the first choice first.
fn homes(pools: &[Pool]) -> Result<Vec<Vec<usize>>, PlanError> {
    let mut homes = Vec::with_capacity(pools.len());
    for pool in 0..pools.len() {
        let mut reached = vec![pool];
        let mut at = 0;
        while at < reached.len() {
            for &next in &pools[reached[at]].falls_back_to {
                if next >= pools.len() {
                    return Err(PlanError::UnknownPool { pool: next, n_pools: pools.len() });
                }
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
            at += 1;
        }
        homes.push(reached);
    }
    Ok(homes)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Searches exactly where there are few items.
pub(super) fn finish(
    conditions: &Conditions,
    best: &mut Option<Placed>,
    enough: impl Fn(&Placed) -> bool,
    search: &mut Search<'_>,
) -> bool {
    conditions.part.items.len() <= exact::EXACT_ITEMS && exact::search_all(conditions, best, enough, search)
}
