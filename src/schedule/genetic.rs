//! A genetic algorithm on orders; every child is topological by construction.
//!
//! **Genome.** An order of all ops.
//!
//! **Fitness.** 1 / peak; among orders of equal peak the one with the least overflow is fitter: the sum over all steps
//! of what they cost above a target a little below the best peak.
//!
//! **Crossover** (see `vary`). The first k ops of one parent, then the other ops in the order of the other parent; or
//! the other way round, the last ops of the one behind the other ops in the order of the other. The cut is a valley of
//! the parent, a place where few bytes are live, either one of the lowest or one near its dearest step. **Mutation.**
//! Blocks of ops move over the dearest step. **Decoding.** A child is replayed through the run-now rule (see `walk`),
//! in a random direction.
//!
//! **Windows.** The other half of the work goes into exact windows: a stretch of a member around a dear step is an
//! instance of its own (see `memory/instance`), solved by cuts, beams and exact search within a small budget; the
//! member with its new stretch is a child.
//!
//! **Islands.** The population lives on islands in a ring. A child takes the place of the least fit of its island, if
//! it is fitter and no other there has the same profile. From time to time the fittest of each island is copied to the
//! next. A population ends when nothing has improved for a while. If it has brought a lower peak, a new one is founded
//! around the best order; else the search ends.
//!
//! **The first population.** The best order so far, the list orders of every rule in both directions, random
//! depth-first orders, the best order with its ranks perturbed, and random ranks.
//!
//! **Budget.** The population is as large as the work allows for some generations; where there is not even work for
//! one, only windows of the best order are tried, after the list orders if these are affordable.
//!
//! Complexity: O(c (n + m) log n + w) for c children of n ops and m operands, and work w in windows; space O(p n) for p
//! members. Deterministic: one generator (Xoshiro256++), seeded by the search; all fitness is in whole numbers, and
//! ties go to the older member. Limits: it proves nothing about the peak beyond the forced-live bound.
//!
//! Source: Holland, "Adaptation in Natural and Artificial Systems", 1975; islands: Tanese, "Distributed genetic
//! algorithms", ICGA 1989; the crossover is the one-point order crossover for precedence-constrained sequences. The
//! cuts at valleys, the decoding and the windows are our own.

mod member;
mod vary;

use super::Best;
use super::greedy::{self, Rule, list_order, ranks};
use super::walk::{Direction, Walk};
use crate::id::OpId;
use crate::memory::instance::Instance;
use crate::search::Search;
use member::Member;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use vary::{crossover, depth_first, mutate, window};

/// The most members of an island, and the most islands.
const ISLAND: usize = 8;
const ISLANDS: usize = 4;

/// Generations that the budget should last for.
const GENERATIONS: u64 = 25;

/// Children without a better best member, for each member, after which a population is given up.
const PATIENCE: usize = 20;

/// Generations between two migrations.
const MIGRATION: usize = 6;

/// The fewest orders that the budget must be enough for, where there is no work for a population, to try list orders.
const FEW_DECODES: u64 = 24;

/// The most work on the bound, in percent of what is left.
const BOUND_PERCENT: u64 = 10;

/// Work units that decoding a child takes for each op, about.
const WORK_PER_OP: u64 = 4;

/// The target stands this fraction of the distance between bound and best peak below the best peak.
const TARGET_FRACTION: u64 = 16;

/// Evolves until the best order is proven optimal, nothing better came for a while, or the budget is spent.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    let instance = best.instance();
    let bound_work = search.remaining_work() / 100 * BOUND_PERCENT;
    search.within(bound_work, |search| best.bound.raise(instance, search));
    if instance.n_ops() < 2 {
        return;
    }
    let mut evolution = Evolution::new(best, search);
    let mut is_fruitless = false;
    while !is_fruitless && !best.is_optimal() && search.stopped().is_none() {
        let before = best.peak_bytes();
        // `None` means that the budget is spent.
        if evolution.epoch(best, search).is_none() {
            return;
        }
        is_fruitless = best.peak_bytes() == before;
    }
}

/// What all populations share.
struct Evolution<'i> {
    instance: &'i Instance,
    rng: Xoshiro256PlusPlus,
    walks: [Walk<'i>; 2],
    /// Steps above it count for the fitness of members of equal peak.
    target: u64,
    /// Work that went into windows, and in all.
    window_work: u64,
    start_work: u64,
}

impl<'i> Evolution<'i> {
    fn new(best: &Best<'i>, search: &Search<'_>) -> Self {
        let instance = best.instance();
        Self {
            instance,
            rng: Xoshiro256PlusPlus::seed_from_u64(search.seed() ^ 0x67_656e_6574_6963),
            walks: Direction::BOTH.map(|direction| Walk::new(instance, direction)),
            target: target(best),
            window_work: 0,
            start_work: search.spent_work(),
        }
    }

    /// One population, from its foundation to its end. `None` when the budget is spent.
    fn epoch(&mut self, best: &mut Best<'_>, search: &mut Search<'_>) -> Option<()> {
        let decodes = search.remaining_work() / (WORK_PER_OP * self.instance.n_ops() as u64).max(1);
        let members = usize::try_from(decodes / 2 / GENERATIONS).unwrap_or(usize::MAX).min(ISLAND * ISLANDS);
        if members < 2 {
            if decodes >= FEW_DECODES {
                greedy::improve(best, search);
            }
            return self.windows_only(best, search);
        }
        let mut islands = self.found(members, best, search)?;
        let mut stale = 0;
        let mut generation = 0;
        while stale < PATIENCE * members && !best.is_optimal() {
            for island in &mut islands {
                for _ in 0..island.len() {
                    let child = self.child(island, best, search)?;
                    let is_fittest = island.iter().all(|member| child.is_fitter_than(member));
                    let counts = is_fittest && child.peak_bytes <= best.peak_bytes();
                    stale = if settle(island, child) && counts { 0 } else { stale + 1 };
                }
            }
            generation += 1;
            if generation % MIGRATION == 0 {
                migrate(&mut islands);
            }
            self.move_target(&mut islands, best, search)?;
            search.tell("genetic", best.peak_bytes(), best.bound.bytes());
        }
        Some(())
    }

    /// For budgets that are too small for a population.
    fn windows_only(&mut self, best: &mut Best<'_>, search: &mut Search<'_>) -> Option<()> {
        let mut member = Member::of(self.instance, best.order().to_vec(), self.target);
        let mut stale = 0;
        while stale < PATIENCE && !best.is_optimal() {
            let order = window(self.instance, &member, self.target, best.bound.bytes(), &mut self.rng, search);
            stale += 1;
            if let Some(order) = order {
                let child = self.measure(order, best, search)?;
                if child.is_fitter_than(&member) {
                    (member, stale) = (child, 0);
                }
            }
            if !search.spend(self.instance.n_ops() as u64) {
                return None;
            }
        }
        Some(())
    }

    /// The first population.
    fn found(&mut self, members: usize, best: &mut Best<'_>, search: &mut Search<'_>) -> Option<Vec<Vec<Member>>> {
        let n = self.instance.n_ops();
        let known = ranks(best.order());
        let mut all = vec![self.measure(best.order().to_vec(), best, search)?];
        let rules = [Rule::Ranked, Rule::LeastGrowth, Rule::LeastNeed];
        let mut listed = rules.iter().flat_map(|rule| [(*rule, 0), (*rule, 1)]);
        let most_noise = u32::try_from(n / 4).unwrap_or(u32::MAX).max(2);
        while all.len() < members {
            let (rule, direction) = listed.next().unwrap_or((Rule::Ranked, self.rng.random_range(0..2)));
            // The list orders need no more than the known order; what follows is drawn.
            let ranks = match all.len() {
                0..=6 => known.clone(),
                i if i % 3 == 0 => depth_first(self.instance, &mut self.rng),
                i if i % 3 == 1 => {
                    let noise = self.rng.random_range(1..most_noise);
                    known.iter().map(|rank| rank + self.rng.random_range(0..=noise)).collect()
                }
                _ => (0..n).map(|_| self.rng.random_range(0..u32::MAX)).collect(),
            };
            let order = self.decode(&ranks, rule, direction, best, search)?;
            let member = self.measure(order, best, search)?;
            all.push(member);
        }
        let n_islands = members.div_ceil(ISLAND);
        let mut islands: Vec<Vec<Member>> = (0..n_islands).map(|_| Vec::new()).collect();
        all.into_iter().enumerate().for_each(|(i, member)| islands[i % n_islands].push(member));
        Some(islands)
    }

    /// A child of an island.
    fn child(&mut self, island: &[Member], best: &mut Best<'_>, search: &mut Search<'_>) -> Option<Member> {
        let parent = tournament(island, &mut self.rng);
        let spent = search.spent_work();
        if self.window_work < (spent - self.start_work) / 2 {
            let order = window(self.instance, parent, self.target, best.bound.bytes(), &mut self.rng, search);
            self.window_work += search.spent_work() - spent;
            if let Some(order) = order {
                return self.measure(order, best, search);
            }
        }
        let other = tournament(island, &mut self.rng);
        let mut order = crossover(parent, other, &mut self.rng);
        mutate(self.instance, &mut order, parent.dearest, &mut self.rng);
        let direction = self.rng.random_range(0..2);
        let order = self.decode(&ranks(&order), Rule::Ranked, direction, best, search)?;
        self.measure(order, best, search)
    }

    /// The order that ranks become when they are replayed through the run-now rule.
    fn decode(
        &mut self,
        ranks: &[u32],
        rule: Rule,
        direction: usize,
        best: &mut Best<'_>,
        search: &mut Search<'_>,
    ) -> Option<Vec<OpId>> {
        let built = list_order(&mut self.walks[direction], rule, ranks, &mut best.bound, search)?;
        // The ranks, and the start of the walk.
        search.spend(ranks.len() as u64).then_some(built.order)
    }

    /// The member that an order makes; the best order learns of it.
    fn measure(&self, order: Vec<OpId>, best: &mut Best<'_>, search: &mut Search<'_>) -> Option<Member> {
        let member = Member::of(self.instance, order, self.target);
        if member.peak_bytes < best.peak_bytes() {
            best.offer(member.order.clone());
        }
        search.spend(member.order.len() as u64).then_some(member)
    }

    /// Sets a new target when the best peak has fallen.
    fn move_target(&mut self, islands: &mut [Vec<Member>], best: &Best<'_>, search: &mut Search<'_>) -> Option<()> {
        let target = target(best);
        if target < self.target {
            self.target = target;
            for member in islands.iter_mut().flatten() {
                member.aim(self.instance, target);
                if !search.spend(member.order.len() as u64 / 4) {
                    return None;
                }
            }
        }
        Some(())
    }
}

fn target(best: &Best<'_>) -> u64 {
    best.peak_bytes() - best.peak_bytes().saturating_sub(best.bound.bytes()).div_ceil(TARGET_FRACTION)
}

/// The fitter of two that are drawn.
fn tournament<'p>(island: &'p [Member], rng: &mut Xoshiro256PlusPlus) -> &'p Member {
    let (a, b) = (&island[rng.random_range(0..island.len())], &island[rng.random_range(0..island.len())]);
    if b.is_fitter_than(a) { b } else { a }
}

/// Puts a newcomer in the place of the least fit member, if it is fitter and there is none like it; whether it was.
fn settle(island: &mut [Member], newcomer: Member) -> bool {
    if island.iter().any(|member| member.profile == newcomer.profile) {
        return false;
    }
    let mut least = 0;
    for i in 1..island.len() {
        if island[least].is_fitter_than(&island[i]) {
            least = i;
        }
    }
    let is_fitter = newcomer.is_fitter_than(&island[least]);
    if is_fitter {
        island[least] = newcomer;
    }
    is_fitter
}

/// Copies the fittest of each island to the next one of the ring.
fn migrate(islands: &mut [Vec<Member>]) {
    if islands.len() < 2 {
        return;
    }
    let fittest = |island: &Vec<Member>| island.iter().min_by_key(|member| member.key()).cloned();
    let mut travellers: Vec<Option<Member>> = islands.iter().map(fittest).collect();
    travellers.rotate_right(1);
    for (island, traveller) in islands.iter_mut().zip(travellers) {
        if let Some(traveller) = traveller {
            settle(island, traveller);
        }
    }
}

#[cfg(test)]
mod tests;
