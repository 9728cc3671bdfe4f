//! Identical-or-disjoint pairs: each is either one item, or two that conflict like any others.
//!
//! For k pairs that is 2ᵏ problems without pairs. All pairs merged and none merged are tried first, then others while
//! there is budget; with few pairs all of them, each exactly, so that the best over all is proven.
//!
//! Items become one when they are joined by merged pairs. That is possible when every two of them that overlap in
//! time are a pair, and when they agree on the fixed offset and on a pool. The item then lasts from the first start to
//! the last end: members that are joined overlap, so there is no hole.

use super::conditions::{Conditions, Placed};
use super::part::Item;
use super::problem::{Problem, finish};
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Up to this many pairs, every choice is tried.
const ALL_CHOICES: usize = 10;
/// Choices tried at random where there are more.
const RANDOM_CHOICES: usize = 24;

/// What was found.
pub(super) struct Found {
    /// By span.
    pub(super) placed: Option<Placed>,
    pub(super) bound: u64,
    pub(super) is_proven: bool,
}

/// Solves a problem with side conditions; `whole` is all of it with every pair as a conflict.
pub(super) fn solve(problem: &Problem, whole: &Conditions, decide: bool, search: &mut Search<'_>) -> Found {
    let n_pairs = problem.pairs.len();
    let several_pools = whole.capacities.len() != 1;
    let bound = if several_pools { 0 } else { load(problem) };
    let enough = |placed: &Placed| {
        let fits = placed.cost.fits();
        fits && !several_pools && (decide || placed.cost.heights()[0] <= bound)
    };
    let mut best: Option<Placed> = None;
    let offer = |found: Option<Placed>, group: &[usize], best: &mut Option<Placed>| {
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| found.cost < best.cost)
        {
            let mut placed = Placed { cost: found.cost, offsets: vec![0; group.len()], pools: vec![0; group.len()] };
            for (item, span) in whole.part.rows.iter().enumerate() {
                placed.offsets[*span] = found.offsets[group[item]];
                placed.pools[*span] = found.pools[group[item]];
            }
            *best = Some(placed);
        }
    };
    let mut choices: Vec<Vec<bool>> = vec![vec![true; n_pairs]];
    if n_pairs > 0 {
        choices.push(vec![false; n_pairs]);
    }
    let is_complete = n_pairs <= ALL_CHOICES;
    if is_complete {
        let inner = 1..(1usize << n_pairs).saturating_sub(1);
        choices.extend(inner.map(|mask| (0..n_pairs).map(|k| mask >> k & 1 == 1).collect()));
    } else {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(search.seed());
        choices.extend((0..RANDOM_CHOICES).map(|_| (0..n_pairs).map(|_| random.random_range(0..4) > 0).collect()));
    }
    let merged: Vec<(Conditions, Vec<usize>)> =
        choices.iter().filter_map(|choice| merge(problem, whole, choice)).collect();
    let is_done = |best: &Option<Placed>| best.as_ref().is_some_and(enough);
    for (k, (conditions, group)) in merged.iter().enumerate() {
        let mut found = None;
        conditions.decode_all(&mut found, if k < 2 { 24 } else { 2 }, enough, search);
        offer(found, group, &mut best);
        if is_done(&best) || search.stopped().is_some() {
            break;
        }
    }
    let mut is_proven = is_complete && !is_done(&best);
    for (conditions, group) in &merged {
        if is_done(&best) {
            break;
        }
        // The cost of the best so far prunes; its offsets are those of other items.
        let mut found =
            best.as_ref().map(|best| Placed { cost: best.cost.clone(), offsets: Vec::new(), pools: Vec::new() });
        is_proven &= finish(conditions, &mut found, enough, search);
        offer(found, group, &mut best);
    }
    let height = best.as_ref().filter(|_| !several_pools).map_or(u64::MAX, |best| best.cost.heights()[0]);
    let reached = height <= bound;
    let bound = if is_proven && !several_pools { bound.max(height) } else { bound };
    let over = decide && !several_pools && bound > whole.capacities[0];
    Found { is_proven: is_proven || reached || over, bound, placed: best }
}

/// The load, in units, where every group of pairs counts once.
pub(super) fn load(problem: &Problem) -> u64 {
    let spans = problem.spans();
    let mut root: Vec<usize> = (0..spans.len()).collect();
    for &(a, b) in &problem.pairs {
        let (a, b) = (find(&mut root, a), find(&mut root, b));
        root[a.max(b)] = a.min(b);
    }
    let mut hull: Vec<(u64, u64)> = spans.iter().map(|span| (span.start, span.end)).collect();
    for (i, span) in spans.iter().enumerate() {
        let r = find(&mut root, i);
        hull[r] = (hull[r].0.min(span.start), hull[r].1.max(span.end));
    }
    let mut changes: Vec<(u64, bool, u64)> = Vec::with_capacity(2 * spans.len());
    for (i, span) in spans.iter().enumerate().filter(|(i, _)| root[*i] == *i) {
        changes.extend([(hull[i].0, true, span.bytes), (hull[i].1, false, span.bytes)]);
    }
    changes.sort_unstable();
    let (mut held, mut most) = (0, 0);
    for (_, starts, bytes) in changes {
        held = if starts { held + bytes } else { held - bytes };
        most = most.max(held);
    }
    most
}

fn find(root: &mut [usize], mut i: usize) -> usize {
    while root[i] != i {
        root[i] = root[root[i]];
        i = root[i];
    }
    i
}

/// The items with the chosen pairs merged, and the merged item of each item; `None` when they cannot be.
fn merge(problem: &Problem, whole: &Conditions, choice: &[bool]) -> Option<(Conditions, Vec<usize>)> {
    let n = whole.part.items.len();
    let mut item_of = vec![0; n];
    whole.part.rows.iter().enumerate().for_each(|(item, span)| item_of[*span] = item);
    let mut root: Vec<usize> = (0..n).collect();
    for (&(a, b), chosen) in problem.pairs.iter().zip(choice) {
        if *chosen {
            let (a, b) = (find(&mut root, item_of[a]), find(&mut root, item_of[b]));
            root[a.max(b)] = a.min(b);
        }
    }
    let mut group = vec![usize::MAX; n];
    let mut members: Vec<Vec<usize>> = Vec::new();
    for i in 0..n {
        let r = find(&mut root, i);
        if r == i {
            group[i] = members.len();
            members.push(Vec::new());
        }
        group[i] = group[r];
        members[group[i]].push(i);
    }
    let mut merged = Conditions {
        part: whole.part.clone(),
        fixed: Vec::new(),
        apart: Vec::new(),
        homes: Vec::new(),
        capacities: whole.capacities.clone(),
    };
    merged.part.items.clear();
    for members in &members {
        let mut item = whole.part.items[members[0]];
        let mut fixed = whole.fixed[members[0]];
        let mut homes = whole.homes[members[0]].clone();
        let mut apart: Vec<usize> = Vec::new();
        for (k, &i) in members.iter().enumerate() {
            for &j in &members[k + 1..] {
                let spans = (whole.part.rows[i], whole.part.rows[j]);
                let is_pair = problem.pairs.binary_search(&(spans.0.min(spans.1), spans.0.max(spans.1))).is_ok();
                if whole.conflict(i, j) && !is_pair {
                    return None;
                }
            }
            let Item { left, right, bytes: _, alignment } = whole.part.items[i];
            (item.left, item.right) = (item.left.min(left), item.right.max(right));
            item.alignment = item.alignment.max(alignment);
            if let (Some(a), Some(b)) = (fixed, whole.fixed[i])
                && a != b
            {
                return None;
            }
            fixed = fixed.or(whole.fixed[i]);
            homes.retain(|pool| whole.homes[i].contains(pool));
            apart.extend(whole.apart[i].iter().map(|j| group[*j]));
        }
        // A fixed member lies in the pool that it asks for.
        if let Some(&holder) = members.iter().find(|i| whole.fixed[**i].is_some()) {
            let pool = whole.homes[holder][0];
            let disagrees = members.iter().any(|i| whole.fixed[*i].is_some() && whole.homes[*i][0] != pool);
            if disagrees || !homes.contains(&pool) {
                return None;
            }
            homes = vec![pool];
        }
        if homes.is_empty() || fixed.is_some_and(|offset| !offset.is_multiple_of(item.alignment)) {
            return None;
        }
        apart.sort_unstable();
        apart.dedup();
        merged.part.items.push(item);
        merged.fixed.push(fixed);
        merged.homes.push(homes);
        merged.apart.push(apart);
    }
    merged.part.find_load();
    if merged.clash().is_some() {
        return None;
    }
    Some((merged, group))
}
