//! Placement by dives: fill the lowest floor of a skyline, one item after the other.
//!
//! **Idea.** Every section has a floor: all items that are still to be placed there lie above it. Take a run of sections
//! with one floor whose neighbours are higher (the lowest one, or the one whose fullest section has the fewest bytes to
//! lose), and stand the most urgent item that fits within the run on it. If none fits, the bytes up to the lower
//! neighbour are lost: lift the run. A dive that loses nothing at the fullest section ends at the load.
//!
//! **Problem.** Items over ranges of sections get offsets; items that share a section share no byte; the greatest
//! offset + size is to be least.
//!
//! **Stages.** (1) Among the items inside the run, those that cover its *hot* section, the one with the most bytes
//! still to be placed; the first by rank among them. (2) If there are none, the first by rank inside the run. (3) If
//! there are none, lift. An item is passed over when it leaves a stretch of the run beside it whose hot section nothing
//! fits in and that has no bytes to lose. Ranks come from a rule ([`first`], [`others`]) or from a rule with noise and
//! with weights of items that were left where earlier dives failed ([`by_chance`]).
//!
//! **Structure.** Runs are stored by their first section, and in a heap; bytes still to be placed in a tree
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
//! of M. Moffitt, "MiniMalloc", ASPLOS 2023. Here time is the fixed axis, and one greedy descent replaces the search. The
//! weights follow D. Joslin, D. Clements, "Squeaky wheel optimization", JAIR 1999.
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
use skyline::{Run, Skyline};
use unplaced::Unplaced;

/// The dives that come first: those that reach the target most often. Large parts get one only.
pub(super) fn first(part: &Part, best: &mut Best, search: &mut Search<'_>) {
    let dives = [(Rule::Area, Aim::Tight), (Rule::Twa, Aim::Hot), (Rule::Size, Aim::Tight)];
    match part.items.len() {
        ..=SMALL => by_rules(part, &dives, best, search),
        _ => by_rules(part, &dives[..1], best, search),
    }
}

/// The most items for which a dive costs next to nothing.
const SMALL: usize = 3_000;

/// Dives with the ranks of all other rules, until one reaches the target.
pub(super) fn others(part: &Part, best: &mut Best, search: &mut Search<'_>) {
    let rules = [Rule::Area, Rule::Width, Rule::Twa, Rule::Size, Rule::Tz];
    let n_dives = MANY_ITEMS / part.items.len().max(1);
    let dives: Vec<_> =
        rules.iter().flat_map(|rule| [Aim::Rank, Aim::Hot, Aim::Tight].map(|aim| (*rule, aim))).take(n_dives).collect();
    by_rules(part, &dives, best, search);
}

fn by_rules(part: &Part, dives: &[(Rule, Aim)], best: &mut Best, search: &mut Search<'_>) {
    for (rule, aim) in dives {
        let limit = best.limit();
        let attempt = dive(part, &rule.order(part), *aim, limit, best, &mut Vec::new(), search);
        if best.offer(part, attempt) || search.stopped().is_some() {
            return;
        }
    }
}

/// How many items all dives of one kind place together, and the most random dives.
const MANY_ITEMS: usize = 900_000;
const RANDOM_DIVES: usize = 100;
/// How much more urgent an item becomes where a dive failed.
const BOOST: f64 = 2.0;
/// How far ranks are shaken.
const NOISE: [f64; 6] = [0.02, 0.05, 0.1, 0.3, 0.6, 1.0];

/// Dives with noise on the rank, until one reaches the target. Where a dive fails, the items that were still to come
/// there are more urgent in the next.
///
/// All but one in eight are given up as soon as they must miss the target.
pub(super) fn by_chance(part: &Part, best: &mut Best, search: &mut Search<'_>) {
    let n_dives = (MANY_ITEMS / part.items.len().max(1)).min(RANDOM_DIVES);
    let mut weights = vec![1.0f64; part.items.len()];
    let mut failed: Vec<usize> = Vec::new();
    for round in 0..n_dives {
        for i in failed.drain(..) {
            weights[i] *= BOOST;
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(search.seed().wrapping_add(500 + round as u64));
        let noise = NOISE[round / 4 % NOISE.len()];
        let mut urgency = |i: usize| -> f64 {
            let item = &part.items[i];
            #[expect(clippy::cast_precision_loss, reason = "a rank with noise")]
            let (width, bytes) = (item.width() as f64, item.bytes as f64);
            let plain = match round % 7 {
                0 | 2 | 3 | 5 => width * bytes,
                1 | 4 => bytes,
                _ => width,
            };
            weights[i] * plain * (1.0 + noise * random.random::<f64>())
        };
        let mut noisy: Vec<(f64, usize)> = (0..part.items.len()).map(|i| (urgency(i), i)).collect();
        noisy.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let order: Vec<usize> = noisy.into_iter().map(|(_, i)| i).collect();
        let limit = if round % 8 < 7 { best.target.max(best.bound) } else { best.limit() };
        let aim = if round % 2 == 0 { Aim::Hot } else { Aim::Tight };
        let attempt = dive(part, &order, aim, limit, best, &mut failed, search);
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
    /// As `Hot`, and the run with the tightest section before the lowest run.
    Tight,
}

/// How many candidates a dive looks at before it takes the first after all.
const CANDIDATES: usize = 12;

/// One dive; where it fails, the items that are left there are added to `failed`. `order` lists the items, most urgent first. `None` when an offset does not fit in 64 bits, and when there
/// is an answer already and this one will not be better, or the budget is spent.
fn dive(
    part: &Part,
    order: &[usize],
    aim: Aim,
    limit: u64,
    best: &Best,
    failed: &mut Vec<usize>,
    search: &mut Search<'_>,
) -> Option<Vec<u64>> {
    let mut dive = Dive {
        part,
        unplaced: Unplaced::new(part, order),
        remaining: Remaining::new(&part.load),
        skyline: Skyline::new(part.n_sections()),
        target: best.target.max(best.bound),
    };
    let mut offsets = vec![0; part.items.len()];
    let mut n_left = part.items.len();
    search.spend(part.items.len() as u64);
    while n_left > 0 {
        if search.stopped().is_some() && best.has_answer() {
            return None;
        }
        let remaining = &dive.remaining;
        let target = dive.target;
        let key = |run: Run| match aim {
            Aim::Tight => {
                let (bytes, _) = remaining.most(run.left, run.right);
                if bytes == 0 { 0 } else { target.saturating_sub(run.floor.saturating_add(bytes)) }
            }
            _ => 0,
        };
        let run = dive.skyline.pick(key)?;
        let (bytes, hot) = dive.remaining.most(run.left, run.right);
        if bytes > 0 && run.floor.saturating_add(bytes) > limit {
            *failed = dive.unplaced.left_over(hot);
            return None;
        }
        let found = if bytes > 0 { dive.choose(run, hot, aim) } else { None };
        search.spend(4 + std::mem::take(&mut dive.unplaced.visits) / 2);
        let Some(i) = found else {
            dive.skyline.lift(run)?;
            continue;
        };
        let item = &part.items[i];
        offsets[i] = run.floor.checked_next_multiple_of(item.alignment)?;
        let top = offsets[i].checked_add(item.bytes)?;
        dive.skyline.raise(run, item.left, item.right, top);
        dive.remaining.subtract(item.left, item.right, item.bytes);
        dive.unplaced.remove(i);
        n_left -= 1;
    }
    Some(offsets)
}

/// A dive on its way.
struct Dive<'p> {
    part: &'p Part,
    unplaced: Unplaced,
    remaining: Remaining,
    skyline: Skyline,
    target: u64,
}

impl Dive<'_> {
    /// The item to stand on a run; `None` when none fits.
    fn choose(&mut self, run: Run, hot: usize, aim: Aim) -> Option<usize> {
        let inside = (run.left, run.right);
        let whole = (run.right - 1, run.left);
        let over_hot = (hot, hot + 1);
        let shapes = if aim != Aim::Rank { [over_hot, whole] } else { [whole, whole] };
        for shape in &shapes[usize::from(aim == Aim::Rank)..] {
            let first = self.unplaced.first_inside(inside, *shape, 0);
            let mut candidate = first;
            for _ in 0..CANDIDATES {
                let Some((item, rank)) = candidate else { break };
                if !self.strands(run, item) {
                    return Some(item);
                }
                candidate = self.unplaced.first_inside(inside, *shape, rank + 1);
            }
            if let Some((item, _)) = first {
                return Some(item);
            }
        }
        None
    }

    /// Whether an item on a run leaves a stretch beside it that no other fits in, and that has no bytes to lose.
    fn strands(&mut self, run: Run, item: usize) -> bool {
        let item = self.part.items[item];
        let top = run.floor.saturating_add(item.bytes);
        let (before, after) = self.skyline.walls(run);
        let sides = [(run.left, item.left, before.min(top)), (item.right, run.right, after.min(top))];
        sides.into_iter().any(|(left, right, wall)| {
            if left >= right {
                return false;
            }
            let (bytes, hot) = self.remaining.most(left, right);
            bytes > 0
                && wall.saturating_add(bytes) > self.target
                && self.unplaced.first_inside((left, right), (hot, hot + 1), 0).is_none()
        })
    }
}
