//! Placement under every condition against a search over all offsets, which shares nothing with the planner.
//!
//! `MEMSCHED_CASES=100000 cargo test --release plan::tests::brute` runs more and larger cases.

use super::super::{Interval, Layout, MemoryPlanner, Pool, Relations};
use crate::error::PlanError;
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[derive(Clone, Debug)]
struct Case {
    intervals: Vec<Interval>,
    relations: Relations,
    pools: Vec<Pool>,
    reuse_distance: u64,
}

fn random_case(rng: &mut Xoshiro256PlusPlus, most: usize) -> Case {
    let n = rng.random_range(1..=most);
    let one_in = |rng: &mut Xoshiro256PlusPlus, k: u32| rng.random_range(0..k) == 0;
    let (aligned, fixed, several) = (one_in(rng, 2), one_in(rng, 2), one_in(rng, 3));
    let mut intervals: Vec<Interval> = (0..n)
        .map(|_| {
            let start = rng.random_range(0..7);
            Interval::new(start, start + rng.random_range(1..5), rng.random_range(0..6))
        })
        .collect();
    for interval in &mut intervals {
        if aligned && one_in(rng, 3) {
            *interval = interval.with_alignment(1 << rng.random_range(0..3));
        }
        if fixed && one_in(rng, 5) {
            *interval = interval.fixed_at(rng.random_range(0..4) * interval.alignment.unwrap_or(1));
        }
        if one_in(rng, 20) {
            *interval = interval.exclusive();
        }
        if several && one_in(rng, 3) {
            *interval = interval.in_pool(1);
        }
    }
    let mut relations = Relations::new();
    if one_in(rng, 2) {
        for _ in 0..rng.random_range(0..4) {
            let (a, b) = (rng.random_range(0..n), rng.random_range(0..n));
            if a != b {
                intervals[b].bytes = intervals[a].bytes;
                relations = relations.identical_or_disjoint(a, b);
            }
        }
        // Later pairs may have changed the sizes of earlier ones.
        let sizes: Vec<u64> = intervals.iter().map(|interval| interval.bytes).collect();
        relations.identical_or_disjoint.retain(|(a, b)| sizes[*a] == sizes[*b]);
    }
    if one_in(rng, 2) {
        for _ in 0..rng.random_range(0..3) {
            relations = relations.conflict(rng.random_range(0..n), rng.random_range(0..n));
        }
    }
    let pools = if several {
        let fast = Pool::new().with_capacity(rng.random_range(3..9));
        vec![if one_in(rng, 4) { fast } else { fast.falling_back_to([1]) }, Pool::new()]
    } else {
        vec![Pool::new()]
    };
    let reuse_distance = if one_in(rng, 3) { rng.random_range(0..3) } else { 0 };
    Case { intervals, relations, pools, reuse_distance }
}

impl Case {
    fn planner(&self) -> MemoryPlanner {
        MemoryPlanner::new().alignment(1).pools(self.pools.clone()).reuse_distance(self.reuse_distance)
    }

    fn allowed(&self, k: usize) -> Vec<usize> {
        let pool = self.intervals[k].pool;
        let more = if self.intervals[k].fixed.is_some() { &[][..] } else { &self.pools[pool].falls_back_to };
        std::iter::once(pool).chain(more.iter().copied()).collect()
    }

    /// Whether two intervals hold together where they are, by the definition of every condition.
    fn agree(&self, a: usize, b: usize, at: &[(usize, u64)]) -> bool {
        let (x, y) = (&self.intervals[a], &self.intervals[b]);
        if x.bytes == 0 || y.bytes == 0 || at[a].0 != at[b].0 {
            return true;
        }
        let ((_, p), (_, q)) = (at[a], at[b]);
        if p + x.bytes <= q || q + y.bytes <= p {
            return true;
        }
        let is_in = |pairs: &[(usize, usize)]| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
        if is_in(&self.relations.conflicts) {
            return false;
        }
        if is_in(&self.relations.identical_or_disjoint) && p == q && x.bytes == y.bytes {
            return true;
        }
        let rest = self.reuse_distance;
        let meet = x.is_exclusive || y.is_exclusive || (x.start < y.end + rest && y.start < x.end + rest);
        !meet
    }

    fn heights(&self, at: &[(usize, u64)]) -> Vec<u64> {
        let mut heights = vec![0; self.pools.len()];
        for (interval, (pool, offset)) in self.intervals.iter().zip(at).filter(|(i, _)| i.bytes > 0) {
            heights[*pool] = heights[*pool].max(offset + interval.bytes);
        }
        heights
    }

    fn fits(&self, heights: &[u64]) -> bool {
        heights.iter().zip(&self.pools).all(|(height, pool)| pool.capacity.is_none_or(|capacity| *height <= capacity))
    }

    /// The heights of the best layout: the last pool lowest, then the one before it; `None` when there is no layout.
    fn best(&self) -> Option<Vec<u64>> {
        let sized: Vec<usize> = (0..self.intervals.len()).filter(|k| self.intervals[*k].bytes > 0).collect();
        let mut at = vec![(0, 0); self.intervals.len()];
        let mut best = None;
        self.try_all(&sized, 0, &mut at, &mut best);
        best
    }

    fn try_all(&self, sized: &[usize], depth: usize, at: &mut Vec<(usize, u64)>, best: &mut Option<Vec<u64>>) {
        let mut heights = vec![0; self.pools.len()];
        for k in &sized[..depth] {
            heights[at[*k].0] = heights[at[*k].0].max(at[*k].1 + self.intervals[*k].bytes);
        }
        let is_better = |best: &Option<Vec<u64>>| {
            best.as_ref().is_none_or(|best: &Vec<u64>| heights.iter().rev().lt(best.iter().rev()))
        };
        if !is_better(best) || !self.fits(&heights) {
            return;
        }
        let Some(&k) = sized.get(depth) else {
            *best = Some(heights);
            return;
        };
        let interval = self.intervals[k];
        let last = self.pools.len() - 1;
        for pool in self.allowed(k) {
            // No offset needs to be above all sizes with their padding, nor a top above the capacity, or above the last
            // pool's height in the best layout.
            let padded = |i: &Interval| i.bytes + i.alignment.unwrap_or(1) - 1;
            let fixed = self.intervals.iter().filter_map(|i| i.fixed).max().unwrap_or(0);
            let mut most = fixed + self.intervals.iter().map(padded).sum::<u64>();
            most = most.min(self.pools[pool].capacity.unwrap_or(most));
            if let Some(best) = best.as_ref().filter(|_| pool == last) {
                most = most.min(best[last]);
            }
            let step = interval.alignment.unwrap_or(1);
            let offsets: Vec<u64> = match interval.fixed {
                Some(offset) => vec![offset],
                None if most < interval.bytes => Vec::new(),
                None => (0..=most - interval.bytes).step_by(usize::try_from(step).unwrap_or(1)).collect(),
            };
            for offset in offsets {
                at[k] = (pool, offset);
                if sized[..depth].iter().all(|j| self.agree(*j, k, at)) {
                    self.try_all(sized, depth + 1, at, best);
                }
            }
        }
    }

    fn assert_holds(&self, layout: &Layout) {
        let at: Vec<(usize, u64)> = layout.pools().iter().copied().zip(layout.offsets().iter().copied()).collect();
        for (k, interval) in self.intervals.iter().enumerate().filter(|(_, i)| i.bytes > 0) {
            assert!(self.allowed(k).contains(&at[k].0), "{k} in pool {}: {self:?}", at[k].0);
            assert_eq!(at[k].1 % interval.alignment.unwrap_or(1), 0, "{k}: {self:?} {layout:?}");
            assert!(interval.fixed.is_none_or(|offset| at[k].1 == offset), "{k} moved: {self:?} {layout:?}");
            for j in 0..k {
                assert!(self.agree(j, k, &at), "{j} and {k}: {self:?} {layout:?}");
            }
        }
        assert_eq!(layout.pool_heights(), self.heights(&at));
        assert!(layout.lower_bound_bytes() <= layout.height_bytes(), "{self:?} {layout:?}");
        assert!(layout.load_bytes() <= layout.lower_bound_bytes());
    }
}

/// How many cases to try, and the most intervals of each.
fn n_cases(default: u64) -> (u64, usize) {
    match std::env::var("MEMSCHED_CASES").ok().and_then(|cases| cases.parse().ok()) {
        Some(cases) => (cases, 8),
        None => (default, 6),
    }
}

#[test]
fn the_planner_is_exact_on_few_intervals() {
    let (n_cases, most) = n_cases(2_000);
    for seed in 0..n_cases {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let case = random_case(&mut rng, most);
        let layout = case.planner().place_with(&case.intervals, &case.relations, &mut Search::new());
        match (case.best(), layout) {
            (Some(best), Ok(layout)) => {
                case.assert_holds(&layout);
                assert_eq!(layout.pool_heights(), best, "seed {seed}: {case:?} {layout:?}");
                assert!(layout.is_optimal(), "seed {seed}: {case:?} {layout:?}");
            }
            (None, Err(PlanError::FixedClash { .. } | PlanError::DoesNotFit { is_proven: true, .. })) => {}
            (best, layout) => panic!("seed {seed}: {best:?} {layout:?} {case:?}"),
        }
    }
}

#[test]
fn conflicts_do_not_fit_and_are_minimal() {
    let (n_cases, most) = n_cases(400);
    let mut n_found = 0;
    for seed in 0..n_cases {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1_000_000 + seed);
        let mut case = random_case(&mut rng, most);
        case.pools.truncate(1);
        case.pools[0] = Pool::new();
        case.intervals.iter_mut().for_each(|interval| interval.pool = 0);
        let Some(best) = case.best() else { continue };
        if best[0] == 0 {
            continue;
        }
        let capacity = best[0] - 1;
        let planner = case.planner().capacity(capacity);
        let set = planner.smallest_conflict(&case.intervals, &case.relations, &mut Search::new()).unwrap();
        let set =
            set.unwrap_or_else(|| panic!("seed {seed}: nothing is found, but {capacity} is too little: {case:?}"));
        let fits = |left_out: Option<usize>| {
            let mut part = case.clone();
            let is_in = |k: usize| set.contains(&k) && Some(k) != left_out;
            (0..part.intervals.len()).filter(|k| !is_in(*k)).for_each(|k| part.intervals[k].bytes = 0);
            let bytes: Vec<u64> = part.intervals.iter().map(|i| i.bytes).collect();
            part.relations.identical_or_disjoint.retain(|(a, b)| bytes[*a] == bytes[*b]);
            part.best().is_some_and(|best| best[0] <= capacity)
        };
        assert!(!fits(None), "seed {seed}: {set:?} fits in {capacity}: {case:?}");
        for k in &set {
            assert!(fits(Some(*k)), "seed {seed}: {k} of {set:?} can be left out at {capacity}: {case:?}");
        }
        let whole = planner.place_with(&case.intervals, &case.relations, &mut Search::new());
        assert!(matches!(whole, Err(PlanError::DoesNotFit { is_proven: true, .. })), "seed {seed}: {whole:?}");
        let roomy = case.planner().capacity(capacity + 1);
        let layout = roomy.place_with(&case.intervals, &case.relations, &mut Search::new()).unwrap();
        case.assert_holds(&layout);
        assert_eq!(roomy.smallest_conflict(&case.intervals, &case.relations, &mut Search::new()), Ok(None));
        n_found += 1;
    }
    assert!(n_found * 3 > n_cases, "{n_found} of {n_cases} cases say something");
}
