//! The stages of placement without side conditions: dives, decodes, niche search, noisy dives, and again niche search
//! under one capacity after the other.
//!
//! 1. **Parts** are solved one by one, the fullest first. A part need not be lower than the fullest one is high.
//! 2. **Target.** The capacity, or without one the load. A stage ends as soon as the target is reached.
//! 3. **Capacities.** Niche search answers for one capacity. Without a capacity it is asked for the target, for the
//!    middle between the bound and the best height, and for one less than that height, in rounds of doubling budgets:
//!    the time to find a layout does not fall steadily with the capacity. Each answer moves the height or the bound.

use super::conditions::{Conditions, Cost, Placed};
use super::exact::{self, EXACT_ITEMS};
use super::niche::{Niche, Outcome};
use super::part::Part;
use super::{decode, dive};
use crate::search::Search;

/// The most items of a part that niche search takes.
pub(super) const NICHE_ITEMS: usize = 3_000;
/// Nodes of niche search before dives get noise.
const FIRST_NODES: u64 = 20_000;

/// The best offsets found so far, one an item.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) offsets: Vec<u64>,
    pub(super) height: u64,
    /// No layout is lower.
    pub(super) bound: u64,
    /// The height that is good enough.
    pub(super) target: u64,
}

impl Best {
    pub(super) fn new(part: &Part, target: u64) -> Self {
        Self { offsets: Vec::new(), height: u64::MAX, bound: part.most(), target }
    }

    /// Takes an attempt over when it is better; an attempt that overflowed is none. Whether the target is reached.
    pub(super) fn offer(&mut self, part: &Part, attempt: Option<Vec<u64>>) -> bool {
        if let Some(offsets) = attempt {
            let height = part.height(&offsets);
            if self.offsets.is_empty() || height < self.height {
                (self.offsets, self.height) = (offsets, height);
            }
        }
        self.is_done()
    }

    /// Whether nothing better is needed, or nothing better exists.
    pub(super) fn is_done(&self) -> bool {
        self.has_answer() && self.height <= self.target.max(self.bound)
    }

    /// Whether any layout is known.
    pub(super) fn has_answer(&self) -> bool {
        !self.offsets.is_empty()
    }

    /// The greatest height that is still worth finding.
    pub(super) fn limit(&self) -> u64 {
        if self.has_answer() { self.height.saturating_sub(1) } else { u64::MAX }
    }

    /// Whether no layout reaches the target.
    pub(super) fn is_hopeless(&self) -> bool {
        self.bound > self.target
    }
}

/// Places the items of one part, within `target` if that can be.
///
/// With `decide` only the target counts: what does not reach it is not improved.
pub(super) fn solve(part: &Part, target: u64, decide: bool, search: &mut Search<'_>) -> Best {
    let mut best = Best::new(part, target);
    let small = part.items.len() <= NICHE_ITEMS && part.is_plain();
    let mut stage = 0;
    let mut rounds = Rounds::new(decide);
    while !best.is_done() && search.stopped().is_none() && !(decide && best.is_hopeless()) {
        search.tell(PHASES[stage.min(PHASES.len() - 1)], best.height, best.bound);
        match stage {
            0 => dive::first(part, &mut best, search),
            1 if small => rounds.go(part, &mut best, FIRST_NODES, search),
            2 => dive::by_chance(part, &mut best, search),
            3 => dive::others(part, &mut best, search),
            4 => decode::by_orders(part, &mut best, search),
            5 if small => rounds.go(part, &mut best, u64::MAX, search),
            5 => search_all(part, &mut best, decide, search),
            6.. => break,
            _ => {}
        }
        stage += 1;
    }
    if !best.has_answer() {
        decode::by_orders(part, &mut best, search);
    }
    best
}

/// Searches exactly, where items have alignments and are few.
fn search_all(part: &Part, best: &mut Best, decide: bool, search: &mut Search<'_>) {
    if part.items.len() > EXACT_ITEMS {
        return;
    }
    let n = part.items.len();
    let conditions = Conditions {
        part: part.clone(),
        fixed: vec![None; n],
        apart: vec![Vec::new(); n],
        homes: vec![vec![0]; n],
        capacities: vec![u64::MAX],
    };
    let height = |placed: &Placed| placed.cost.heights()[0];
    let enough = best.target.max(best.bound);
    // Only what is better than the best height, or not above the target where that alone counts, is looked for.
    let known = if decide { best.height.min(best.target.saturating_add(1)) } else { best.height };
    let mut found = Some(Placed { offsets: Vec::new(), pools: Vec::new(), cost: Cost::new(&[known], &[u64::MAX]) });
    let is_proven = exact::search_all(&conditions, &mut found, |placed| height(placed) <= enough, search);
    let Some(placed) = found else { return };
    if is_proven {
        best.bound = best.bound.max(height(&placed));
    }
    if !placed.offsets.is_empty() {
        best.offer(part, Some(placed.offsets));
    }
}

const PHASES: [&str; 6] = ["dives", "niche search", "noisy dives", "dives", "decodes", "niche search"];

/// Niche search under one capacity after the other.
struct Rounds {
    decide: bool,
    /// The search under the lowest capacity that may be possible, with its memo.
    lowest: Option<(u64, Niche)>,
    nodes: u64,
}

impl Rounds {
    fn new(decide: bool) -> Self {
        Self { decide, lowest: None, nodes: 1_000 }
    }

    /// Goes on until about `n_nodes` nodes were opened, or nothing is left to find.
    fn go(&mut self, part: &Part, best: &mut Best, n_nodes: u64, search: &mut Search<'_>) {
        let mut left = n_nodes;
        while left > 0 && !best.is_done() && search.stopped().is_none() {
            let capacity = best.bound.max(best.target);
            let nodes = if self.decide { left } else { self.nodes.min(left) };
            left -= nodes;
            let seed = search.seed();
            let niche = match &mut self.lowest {
                Some((of, niche)) if *of == capacity => niche,
                lowest => &mut lowest.insert((capacity, Niche::new(part, capacity, seed))).1,
            };
            settle(part, best, capacity, niche.run(nodes, search));
            if self.decide {
                if best.is_hopeless() {
                    return;
                }
                continue;
            }
            for k in 0..2 {
                let low = best.bound.max(best.target);
                if best.height <= low {
                    return;
                }
                let capacity = if k == 0 { low + (best.height - low) / 2 } else { best.height - 1 };
                if capacity > low {
                    let nodes = (self.nodes / 4).min(left);
                    left -= nodes;
                    settle(part, best, capacity, Niche::new(part, capacity, seed).run(nodes, search));
                }
            }
            self.nodes = self.nodes.saturating_mul(2);
        }
    }
}

fn settle(part: &Part, best: &mut Best, capacity: u64, outcome: Outcome) {
    match outcome {
        Outcome::Placed(offsets) => {
            best.offer(part, Some(offsets));
        }
        Outcome::Impossible => best.bound = best.bound.max(capacity.saturating_add(1)),
        Outcome::Unknown => {}
    }
}
