//! Annealing: moves ops and blocks of ops within their legal windows, and measures only what a move changes.
//!
//! **Energy.** The peak alone is a plateau: most moves leave it where it is. So the energy is
//! peak + unit · log2(weight), where a step that lies d bytes below the peak weighs 2^(−d / unit): first the peak, then
//! how many steps are how near to it. The unit is a fraction of the distance between the best peak and the bound.
//!
//! **Move.** A block of one or a few ops that stand in a row goes to another place between the last of its predecessors
//! and the first of its successors. Most moves start near a dear step, drawn by weight, and carry a block over it.
//! Distances are drawn so that each magnitude is as likely as any other.
//!
//! **Measuring a move.** See `line` (which leaves change) and `tree` (what they add up to): O((k + d) log n) for a
//! block of k ops that have d operands and neighbours, however far it goes. Two things come on top, both rare: where no
//! slot is free, ops make room, never more than lie between the two places; and when the last toucher of a storage
//! moves down, all touchers of the storage are looked at.
//!
//! **Cooling.** A run begins at the best order and cools down to nothing over its share of work. Runs begin at
//! different heats in turn; it ends when none of the heats has brought anything that counts, when the best order is
//! proven optimal, or when the budget is spent. The best order on the way is kept, not only the last one.
//!
//! Deterministic: one generator (Xoshiro256++), seeded by the search; powers and logarithms are computed by the crate
//! itself, so that they are the same everywhere. Limits: it proves nothing; graphs of more than 2^60 bytes in all are
//! left alone.
//!
//! Source: Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing", Science 220, 1983; the powers are after
//! Schraudolph, "A fast, compact approximation of the exponential function", Neural Computation 11, 1999.

mod line;
mod tree;

use super::Best;
use crate::id::OpId;
use crate::memory::instance::Instance;
use crate::search::Search;
use line::{Block, Line};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tree::{exp2, log2};

/// The distance between bound and best peak, divided by the heats at which runs begin.
const HEATS: [f64; 4] = [256.0, 64.0, 16.0, 1024.0];

/// What is gained counts when it is at least the same distance, divided by this.
const LEAST_GAIN: u64 = 1_000;

/// The same distance, divided by the unit of the energy.
const UNITS: f64 = 64.0;

/// The most work units in one run, for each op.
const WORK_PER_OP: u64 = 8_000;

/// Runs of less work for each op are left alone: to set them up would be most of it.
const LEAST_WORK_PER_OP: u64 = 8;

/// The most slots between a dear step and the block that a move begins with, and the farthest that it goes.
const REACH: usize = 512;

/// The most ops of a block.
const MOST_OPS: usize = 12;

/// Graphs of more bytes are left alone.
const MOST_BYTES: u64 = 1 << 60;

/// Anneals the best order until it is proven optimal, no heat brings anything better, or the budget is spent.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    let instance = best.instance();
    let n = instance.n_ops();
    if n < 2 || total_bytes(instance) > MOST_BYTES {
        return;
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(search.seed() ^ 0x616e_6e65_616c);
    let mut stale = 0;
    for heat in HEATS.into_iter().cycle() {
        if best.is_optimal() || stale == HEATS.len() {
            return;
        }
        let before = best.peak_bytes();
        let gap = (before - best.bound.bytes()) as f64;
        let mut line = Line::new(instance, best.order(), (gap / UNITS).max(1.0));
        // What is left is enough for the heats that have not failed yet.
        let share = search.remaining_work() / (HEATS.len() - stale) as u64;
        let work = (WORK_PER_OP * n as u64).min(share);
        if work < LEAST_WORK_PER_OP * n as u64 {
            return;
        }
        let run = Run { heat: gap / heat, least_gain: gap / 64.0, floor: best.bound.bytes(), work };
        let order = run.cool(&mut line, &mut rng, search);
        best.offer(order);
        let gain = before - best.peak_bytes();
        stale = if gain > 0 && gain >= (before - best.bound.bytes()) / LEAST_GAIN { 0 } else { stale + 1 };
        search.tell("anneal", best.peak_bytes(), best.bound.bytes());
        if search.stopped().is_some() {
            return;
        }
    }
}

/// No sum of what is live or needed exceeds it.
fn total_bytes(instance: &Instance) -> u64 {
    let ops = instance.ops().map(|op| instance.sums(op).created.saturating_add(instance.sums(op).workspace));
    let given = instance.start_bytes().saturating_add(instance.unused_bytes());
    ops.fold(given, u64::saturating_add)
}

/// How one run goes.
struct Run {
    /// The temperature at which it begins, in bytes.
    heat: f64,
    /// By how much the peak must have fallen for the order to be written down before the end of the run.
    least_gain: f64,
    /// No peak is below.
    floor: u64,
    /// Work units.
    work: u64,
}

impl Run {
    /// The best order on the way.
    fn cool(&self, line: &mut Line<'_>, rng: &mut Xoshiro256PlusPlus, search: &mut Search<'_>) -> Vec<OpId> {
        let mut least = line.peak();
        let mut order = line.order();
        let mut block = Block::default();
        let (mut peak, mut log_weight) = (line.peak(), log2(line.weight()));
        let unit = line.unit();
        let mut spent = 0;
        while spent < self.work && u64::try_from(peak).is_ok_and(|peak| peak > self.floor) {
            if let Some(to) = pick(line, &mut block, rng) {
                line.shift(&block, to);
                let (next_peak, next_log_weight) = (line.peak(), log2(line.weight()));
                let rise = (next_peak - peak) as f64 + unit * (next_log_weight - log_weight);
                let left = 1.0 - spent as f64 / self.work as f64;
                let heat = self.heat * left * left * left;
                if rise <= 0.0 || rng.random::<f64>() < exp2(-rise / heat.max(f64::MIN_POSITIVE)) {
                    line.commit();
                    (peak, log_weight) = (next_peak, next_log_weight);
                } else {
                    line.undo();
                }
                if ((least - peak) as f64) >= self.least_gain.max(1.0) {
                    least = peak;
                    order = line.order();
                    spent += order.len() as u64 / 8;
                    search.spend(order.len() as u64 / 8);
                }
            }
            let work = line.take_work() + 1;
            spent += work;
            if !search.spend(work) {
                break;
            }
        }
        if line.peak() < least { line.order() } else { order }
    }
}

/// Picks a block, and the slot that it is to go to.
fn pick(line: &mut Line<'_>, block: &mut Block, rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
    let n_slots = line.n_slots();
    let dear = (rng.random_range(0..8) != 0).then(|| line.draw_dear(rng));
    let at = match dear {
        None => rng.random_range(0..n_slots),
        Some(dear) => {
            let distance = magnitude(REACH, rng) - 1;
            if rng.random::<bool>() { dear.saturating_sub(distance) } else { (dear + distance).min(n_slots - 1) }
        }
    };
    let length = if rng.random::<bool>() { 1 } else { magnitude(MOST_OPS, rng) };
    line.block(at, length, block);
    let &mut Block { first, last, low, high, .. } = block;
    // Over the dear step, if the block may go there.
    match dear {
        Some(dear) if last < dear && dear <= high => Some((dear + magnitude(REACH, rng) - 1).min(high)),
        Some(dear) if dear < first && low <= dear => Some((dear + 1).saturating_sub(magnitude(REACH, rng)).max(low)),
        _ => {
            let (down, up) = (first - low, high - last);
            let goes_up = match (down, up) {
                (0, 0) => return None,
                (0, _) => true,
                (_, 0) => false,
                _ => rng.random::<bool>(),
            };
            let distance = magnitude(if goes_up { up } else { down }.min(REACH), rng);
            Some(if goes_up { last + distance } else { first - distance })
        }
    }
}

/// A number from 1 to `most`, small ones with more chance: every power of two is as likely as any other.
fn magnitude(most: usize, rng: &mut Xoshiro256PlusPlus) -> usize {
    let power = rng.random_range(0..=most.max(1).ilog2());
    rng.random_range(1usize << power..1usize << (power + 1)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Family, GraphShape, random_graph};

    #[test]
    fn a_moved_profile_is_the_one_that_the_evaluator_finds() {
        let mut moves = 0;
        for seed in 0..80 {
            let shape = GraphShape::new(Family::ALL[(seed % 4) as usize], 5 + (seed % 40) as usize).with_everything();
            let graph = random_graph(seed, &shape);
            let instance = Instance::of(&graph);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let given: Vec<OpId> = instance.ops().collect();
            let mut line = Line::new(&instance, &given, 3.0);
            let mut block = Block::default();
            let mut kept = line.clone();
            for _ in 0..100 {
                let Some(to) = pick(&mut line, &mut block, &mut rng) else { continue };
                moves += 1;
                line.shift(&block, to);
                line.assert_true();
                if rng.random::<bool>() {
                    line.commit();
                    kept = line.clone();
                } else {
                    line.undo();
                    line.assert_same(&kept);
                }
            }
        }
        assert!(moves > 5000, "{moves} moves");
    }

    #[test]
    fn it_repeats_itself_and_any_budget_will_do() {
        for seed in 0..12 {
            let shape = GraphShape::new(Family::ALL[(seed % 4) as usize], 30).with_everything();
            let graph = random_graph(seed, &shape);
            let instance = Instance::of(&graph);
            let given = Best::given(&instance).peak_bytes();
            for work in [0, 1, 100, 100_000] {
                let run = || {
                    let mut best = Best::given(&instance);
                    improve(&mut best, &mut Search::new().with_seed(seed).with_work_budget(work));
                    (best.peak_bytes(), best.order().to_vec())
                };
                let (peak, order) = run();
                assert!(peak <= given, "seed {seed}, work {work}");
                assert_eq!(run(), (peak, order), "seed {seed}, work {work}");
            }
        }
    }

    #[test]
    fn it_finds_the_least_peak_of_small_graphs() {
        let (mut found, mut all) = (0, 0);
        for seed in 0..40 {
            let graph = random_graph(seed, &GraphShape::new(Family::ALL[(seed % 4) as usize], 8).with_everything());
            let instance = Instance::of(&graph);
            let mut best = Best::given(&instance);
            improve(&mut best, &mut Search::new().with_work_budget(1_000_000));
            all += 1;
            found += u32::from(best.peak_bytes() == crate::testing::brute_force_peak(&graph));
        }
        assert!(found * 10 >= all * 9, "{found} of {all}");
    }

    #[test]
    fn powers_and_logarithms_are_inverse() {
        for x in [1.0, 1.5, 2.0, 3.0, 1000.0] {
            assert!((exp2(-log2(x)) * x - 1.0).abs() < 0.13, "{x}");
            assert!((log2(x) - f64::log2(x)).abs() < 0.09, "{x}");
        }
        assert_eq!(exp2(-3.0).to_bits(), 0.125f64.to_bits());
        assert_eq!(exp2(-1e300).to_bits(), 0.0f64.to_bits());
    }
}
