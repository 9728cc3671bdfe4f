//! Placement by dives: fill the lowest floor of a skyline, one item after the other.
//!
//! **Idea.** Every section has a floor: all items that are still to be placed there lie above it. Take the lowest run
//! of sections with one floor, and stand the most urgent item that fits within the run on it. If none fits, the bytes
//! up to the lower neighbour are lost: lift the run. A dive that loses nothing at the fullest section ends at the load.
//!
//! **Problem.** Items over ranges of sections get offsets; items that share a section share no byte; the greatest
//! offset + size is to be least.
//!
//! **Stages.** (1) Among the items inside the run, those that cover its *hot* section, the one with the most bytes
//! still to be placed; the first by rank among them. (2) If there are none, the first by rank inside the run. (3) If
//! there are none, lift. Ranks come from a rule ([`by_rules`]) or from a rule with noise ([`by_chance`]).
//!
//! **Structure.** Runs are stored by their first section, and in a heap by floor; bytes still to be placed in a tree
//! over sections with subtraction on ranges and argmax; unplaced items in a tree in the order of their first section,
//! whose nodes know the best rank and the least and greatest end below them.
//!
//! **Invariants.** (1) Runs tile the sections; neighbours have different floors. (2) No placed item reaches above the
//! floor of a section that it covers. (3) While items are unplaced, some item fits within the run that covers all
//! sections; so a dive always ends.
//!
//! **Complexity.** For n items: at most 3n runs are made, so at most 3n lifts; each step takes O(log n) and one search
//! of the item tree, which is O(log n) where few items reach out of the run on the right, O(n) at worst. Space O(n).
//!
//! **Determinism.** Ranks are total, ties go to the canonical position, and noise comes from the seed of the search.
//!
//! **Source.** Skyline (best-fit) packing: E. Burke, G. Kendall, G. Whitwell, "A new placement heuristic for the
//! orthogonal stock-cutting problem", Operations Research 2004; the choice by the fullest section follows the search
//! of M. Moffitt, "MiniMalloc", ASPLOS 2023. Here time is the fixed axis, and one greedy descent replaces the search.
//!
//! **Limits.** A dive never goes back. Offsets that must be multiples of more than the planner's alignment lose the
//! bytes below them.

mod remaining;
mod skyline;
mod unplaced;

use super::part::Part;
use super::rule::Rule;
use super::solve::Best;
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use remaining::Remaining;
use skyline::Skyline;
use unplaced::Unplaced;

/// Dives with the rank of each rule, until one reaches the target.
pub(super) fn by_rules(part: &Part, best: &mut Best, search: &mut Search<'_>) {
    for rule in [Rule::Twa, Rule::Width, Rule::Area, Rule::Size, Rule::Tz] {
        for aim in [Aim::Hot, Aim::Rank] {
            let attempt = dive(part, &rule.order(part), aim, best, search);
            if best.offer(part, attempt) || search.stopped().is_some() {
                return;
            }
        }
    }
}

/// How many items all random dives of one part place together, and the most dives.
const RANDOM_ITEMS: usize = 640_000;
const RANDOM_DIVES: usize = 100;

/// Dives with noise on the rank, until one reaches the target.
pub(super) fn by_chance(part: &Part, best: &mut Best, search: &mut Search<'_>) {
    let n_dives = (RANDOM_ITEMS / part.items.len().max(1)).min(RANDOM_DIVES);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(search.seed());
    const NOISE: [f64; 6] = [0.02, 0.05, 0.1, 0.3, 0.6, 1.0];
    for round in 0..n_dives {
        let noise = NOISE[round / 3 % NOISE.len()];
        let urgency = |i: usize| -> f64 {
            let item = &part.items[i];
            #[expect(clippy::cast_precision_loss, reason = "a rank with noise")]
            let (width, bytes) = (item.width() as f64, item.bytes as f64);
            match round % 3 {
                0 => width,
                1 => width * bytes,
                _ => bytes,
            }
        };
        let mut noisy: Vec<(f64, usize)> =
            (0..part.items.len()).map(|i| (urgency(i) * (1.0 + noise * random.random::<f64>()), i)).collect();
        noisy.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let order: Vec<usize> = noisy.into_iter().map(|(_, i)| i).collect();
        let attempt = dive(part, &order, Aim::Hot, best, search);
        if best.offer(part, attempt) || search.stopped().is_some() {
            return;
        }
    }
}

/// Which items a dive prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// Those that cover the fullest section of the run.
    Hot,
    /// The first by rank, wherever in the run.
    Rank,
}

/// One dive; `order` lists the items, most urgent first. `None` when an offset does not fit in 64 bits, or when the
/// budget is spent and there is an answer already.
fn dive(part: &Part, order: &[usize], aim: Aim, best: &Best, search: &mut Search<'_>) -> Option<Vec<u64>> {
    let mut unplaced = Unplaced::new(part, order);
    let mut remaining = Remaining::new(&part.load);
    let mut skyline = Skyline::new(part.n_sections());
    let mut offsets = vec![0; part.items.len()];
    let mut n_left = part.items.len();
    search.spend(part.items.len() as u64);
    while n_left > 0 {
        if search.stopped().is_some() && best.height < u64::MAX {
            return None;
        }
        let run = skyline.lowest()?;
        let (bytes, hot) = remaining.most(run.left, run.right);
        if bytes == 0 {
            skyline.lift(run)?;
            continue;
        }
        let mut found = None;
        if aim == Aim::Hot {
            found = unplaced.first_inside(run.left, run.right, hot, hot + 1);
        }
        let found = found.or_else(|| unplaced.first_inside(run.left, run.right, run.right - 1, run.left));
        search.spend(4 + std::mem::take(&mut unplaced.visits) / 2);
        let Some(i) = found else {
            skyline.lift(run)?;
            continue;
        };
        let item = &part.items[i];
        offsets[i] = run.floor.checked_next_multiple_of(item.alignment)?;
        let top = offsets[i].checked_add(item.bytes)?;
        skyline.raise(run, item.left, item.right, top);
        remaining.subtract(item.left, item.right, item.bytes);
        unplaced.remove(i);
        n_left -= 1;
    }
    Some(offsets)
}
