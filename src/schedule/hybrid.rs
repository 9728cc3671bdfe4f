//! All schedulers together: cheap answers first, certificates as soon as they come, search where a gap is left.
//!
//! 1. The given order and its forced-live bound. On most real graphs this is already a proven optimum.
//! 2. List orders by every rule in both directions ([`greedy`]), then replays of the best one through the run-now rule.
//! 3. Cut bounds (see `memory/bound`). The cut of an op is also an order to try: the ops of the cut, the op, the rest.
//! 4. The instance rounded to ever finer thresholds, reduced to its core, split, and the parts searched that are still
//!    above the bound, the dearest first: beams of growing width and exact search ([`dp`]), in turn, both ways.
//! 5. Windows of the best order around its dearest step, each solved for itself (`lns`).
//! 6. Evolution ([`genetic`]) and annealing ([`anneal`]), each with a share of what is left.
//! 7. Parts again, with most of what is left; windows again; exact search of the whole.
//!
//! Every stage starts from the best order so far, and the search stops as soon as its peak equals the bound. The given
//! order is the first candidate, so the answer is never worse.

use super::both::both;
use super::walk::Direction;
use super::{Best, anneal, beam, dp, genetic, greedy, lns, reduce};
use crate::id::OpId;
use crate::memory::instance::Instance;
use crate::search::Search;
use std::ops::Range;

/// The share of the remaining work, in percent, of each stage.
const BOUND_PERCENT: u64 = 10;
const FIRST_PARTS_PERCENT: u64 = 5;
const WINDOWS_PERCENT: u64 = 40;
const GENETIC_PERCENT: u64 = 8;
const ANNEAL_PERCENT: u64 = 8;
const PARTS_PERCENT: u64 = 95;

/// Of the work on parts, the share of each rounding that leaves something out.
const ROUNDING_PERCENT: u64 = 40;
const LAST_ROUNDING_PERCENT: u64 = 60;

/// Cuts one after the other that improve nothing, after which there are no more.
const MOST_CUTS_IN_VAIN: u32 = 32;

/// The most work of the first beam in each direction; it doubles as the slices of exact search do.
const BEAM_WORK: u64 = 400_000;

/// What is smaller than the bound divided by this is left out at first; 0 leaves nothing out.
const ROUNDINGS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 0];

/// The stages of the module doc, in turn.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    greedy::improve(best, search);
    greedy::polish(best, search);
    let stages: [(u64, Stage); 7] = [
        (BOUND_PERCENT, cuts),
        (FIRST_PARTS_PERCENT, |best, search| round(best, ROUNDING_PERCENT, search)),
        (WINDOWS_PERCENT, lns::improve),
        (GENETIC_PERCENT, genetic::improve),
        (ANNEAL_PERCENT, anneal::improve),
        (PARTS_PERCENT, |best, search| round(best, LAST_ROUNDING_PERCENT, search)),
        (100, lns::improve),
    ];
    for (percent, stage) in stages {
        if best.is_optimal() || search.stopped().is_some() {
            return;
        }
        let work = share(search, percent);
        search.within(work, |search| stage(best, search));
        greedy::polish(best, search);
    }
    dp::run(best, search);
}

fn share(search: &Search<'_>, percent: u64) -> u64 {
    search.remaining_work() / 100 * percent
}

/// Searches the parts at every rounding.
fn round(best: &mut Best<'_>, percent: u64, search: &mut Search<'_>) {
    for rounding in ROUNDINGS {
        let least = best.bound.bytes().checked_div(rounding).unwrap_or(0);
        // Else nothing would be left out.
        let leaves_out = best.instance().has_fewer_than(least);
        if !best.is_optimal() && search.stopped().is_none() && (rounding == 0 || leaves_out) {
            let work = if rounding == 0 { search.remaining_work() } else { share(search, percent) };
            search.within(work, |search| search_parts(best, least, search));
            greedy::polish(best, search);
        }
    }
}

type Stage = fn(&mut Best<'_>, &mut Search<'_>);

/// Raises the bound by cuts, and tries the order that each cut suggests.
fn cuts(best: &mut Best<'_>, search: &mut Search<'_>) {
    let instance = best.instance();
    best.bound.raise(instance, search);
    let mut in_vain = 0;
    while !best.is_optimal()
        && in_vain < MOST_CUTS_IN_VAIN
        && let before = (best.bound.bytes(), best.peak_bytes())
        && let Some(cut) = best.bound.cut(instance, search)
    {
        search.tell("cut", best.peak_bytes(), best.bound.bytes());
        let is_first = |op: &&OpId| cut.done[op.index()];
        let middle = |op: &&OpId| cut.op == Some(**op);
        let order = best.order();
        let first = order.iter().filter(is_first);
        let rest = order.iter().filter(|op| !is_first(op) && !middle(op));
        let projected = first.chain(order.iter().filter(middle)).chain(rest).copied().collect();
        if best.offer(projected) {
            greedy::polish(best, search);
            search.tell("cut", best.peak_bytes(), best.bound.bytes());
        }
        in_vain = if before == (best.bound.bytes(), best.peak_bytes()) { in_vain + 1 } else { 0 };
    }
}

/// Rounds, reduces, splits, and searches the parts.
fn search_parts(best: &mut Best<'_>, least: u64, search: &mut Search<'_>) {
    let instance = best.instance();
    let instance = &instance.rounded(least).contracted(best.order());
    let proven = best.bound.bytes();
    let order: Vec<OpId> = instance.ops().collect();
    let cut = reduce::parts(instance, &order, proven);
    let mut order = cut.order;
    let mut bound = proven;
    // The cheapest parts first need no search; the whole is as dear as its dearest part.
    let ranges = split_hot(instance, &mut order, cut.ranges, proven, search);
    let parts = instances(instance, &order, &ranges);
    let mut solvers: Vec<Solver<'_>> = parts.iter().map(|part| Solver::new(part, proven)).collect();
    while search.stopped().is_none() {
        let dearest = solvers.iter_mut().max_by_key(|solver| solver.best.peak_bytes());
        let Some(solver) = dearest.filter(|solver| solver.best.peak_bytes() > bound && !solver.exhausted) else {
            break;
        };
        solver.best.bound.prove(bound);
        solver.advance(search);
        bound = bound.max(solver.best.bound.bytes().min(solver.best.peak_bytes()));
        best.bound.prove(bound.min(best.peak_bytes()));
        search.tell("parts", best.peak_bytes(), best.bound.bytes());
    }
    for (range, solver) in ranges.into_iter().zip(&solvers) {
        let named = solver.best.instance().named(solver.best.order());
        order[range].copy_from_slice(&named);
    }
    let order = instance.named(&order);
    greedy::replay(best, order, search);
}

/// What is live before each of the ranges' first steps, and the parts themselves.
fn instances(instance: &Instance, order: &[OpId], ranges: &[Range<usize>]) -> Vec<Instance> {
    let place = greedy::ranks(order);
    let live = instance.live_before(order);
    ranges.iter().map(|range| instance.part(order, &place, range.clone(), live[range.start])).collect()
}

/// Splits ranges whose peak exceeds the bound at their least state.
fn split_hot(
    instance: &Instance,
    order: &mut [OpId],
    ranges: Vec<Range<usize>>,
    bound: u64,
    search: &mut Search<'_>,
) -> Vec<Range<usize>> {
    let mut done = Vec::new();
    let parts = instances(instance, order, &ranges);
    for (range, part) in ranges.into_iter().zip(parts) {
        let ids: Vec<OpId> = part.ops().collect();
        if part.peak_bytes(&part.step_costs(&ids)) <= bound {
            continue;
        }
        match reduce::least_state(&part, search) {
            Some(first) => {
                let mut is_first = vec![false; part.n_ops()];
                first.iter().for_each(|op| is_first[op.index()] = true);
                let rest = part.ops().filter(|op| !is_first[op.index()]);
                let split: Vec<OpId> = first.iter().copied().chain(rest).collect();
                order[range.clone()].copy_from_slice(&part.named(&split));
                let middle = range.start + first.len();
                done.push(range.start..middle);
                done.push(middle..range.end);
            }
            None => done.push(range),
        }
    }
    done
}

/// The search of one part, slice by slice.
pub(super) struct Solver<'i> {
    pub(super) best: Best<'i>,
    exact: Option<dp::Exact<'i>>,
    slices: u32,
    width: usize,
    exhausted: bool,
}

impl<'i> Solver<'i> {
    pub(super) fn new(part: &'i Instance, bound: u64) -> Self {
        let mut best = Best::given(part);
        best.bound.prove(bound);
        Self { best, exact: None, slices: 0, width: 4, exhausted: false }
    }

    /// Goes on until the best order is proven optimal or the budget or memory is spent.
    pub(super) fn run(&mut self, search: &mut Search<'_>) {
        while !self.best.is_optimal() && !self.exhausted && search.stopped().is_none() {
            self.advance(search);
        }
    }

    fn advance(&mut self, search: &mut Search<'_>) {
        let best = &mut self.best;
        match self.slices {
            0 => {
                greedy::improve(best, search);
                greedy::polish(best, search);
                cuts(best, search);
            }
            slice if slice % 2 == 0 && self.width <= 64 => {
                let hot = dp::hottest(best);
                let work = BEAM_WORK << (self.slices / 2).min(32);
                both(
                    best,
                    search,
                    &mut Direction::BOTH.to_vec(),
                    |_| work,
                    |direction, best, search| {
                        beam::improve(best, *direction, self.width, hot.clone(), search);
                    },
                );
                greedy::polish(best, search);
                self.width *= 4;
            }
            _ => {
                let exact = self.exact.get_or_insert_with(|| dp::Exact::new(best));
                self.exhausted = !exact.advance(best, search);
            }
        }
        self.slices += 1;
    }
}
