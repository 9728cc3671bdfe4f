//! One member of a population: an order, how fit it is, and where it may be cut.

use crate::id::OpId;
use crate::memory::instance::Instance;

/// The most valleys that are remembered of all, and of those near the dearest step.
const VALLEYS: usize = 8;

/// See the module doc.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) order: Vec<OpId>,
    pub(super) peak_bytes: u64,
    /// What its steps cost above the target, in all.
    pub(super) overflow: u128,
    /// A hash of what its steps cost. Orders of equal profile are taken for equal.
    pub(super) profile: u64,
    /// The op of its dearest step.
    pub(super) dearest: OpId,
    /// Numbers of first ops after which few bytes are live.
    pub(super) valleys: Vec<u32>,
}

impl Member {
    /// Measures a valid order of at least one op. O(n + m).
    pub(super) fn of(instance: &Instance, order: Vec<OpId>, target: u64) -> Self {
        let costs = instance.step_costs(&order);
        let dearest = (0..costs.len()).max_by_key(|step| costs[*step]).unwrap_or(0);
        Self {
            peak_bytes: instance.peak_bytes(&costs),
            overflow: overflow(&costs, target),
            profile: hash(&costs),
            dearest: order[dearest],
            valleys: valleys(&instance.live_before(&order), dearest),
            order,
        }
    }

    /// Takes another target. O(n + m).
    pub(super) fn aim(&mut self, instance: &Instance, target: u64) {
        self.overflow = overflow(&instance.step_costs(&self.order), target);
    }

    /// The less the fitter.
    pub(super) fn key(&self) -> (u64, u128) {
        (self.peak_bytes, self.overflow)
    }

    pub(super) fn is_fitter_than(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

fn overflow(costs: &[u64], target: u64) -> u128 {
    costs.iter().map(|cost| u128::from(cost.saturating_sub(target))).sum()
}

fn hash(costs: &[u64]) -> u64 {
    costs.iter().fold(0, |hash: u64, cost| {
        let mixed = (hash ^ cost).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    })
}

/// The lowest local minima of what is live, of all and of those near the dearest step.
fn valleys(live: &[u64], dearest: usize) -> Vec<u32> {
    let n = live.len();
    let is_low = |at: &usize| live[*at] < live[at - 1] && live.get(at + 1).is_none_or(|next| live[*at] <= *next);
    let lowest = |from: usize, to: usize| {
        let mut places: Vec<usize> = (from.max(1)..to.min(n)).filter(is_low).collect();
        if places.len() > VALLEYS {
            places.select_nth_unstable_by_key(VALLEYS, |at| (live[*at], *at));
            places.truncate(VALLEYS);
        }
        places.sort_unstable();
        places
    };
    let reach = (n / 16).max(32);
    let near = lowest(dearest.saturating_sub(reach), dearest + reach);
    lowest(1, n).into_iter().chain(near).map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect()
}
