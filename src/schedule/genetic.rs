//! A genetic algorithm on orders; every child is topological by construction.
//!
//! **Genome.** An order. **Fitness.** 1 / peak of the order after a replay through the run-now rule (see `walk`),
//! which can only help.
//!
//! **Crossover.** The first k ops of one parent, then the other ops in the order of the other parent. The first k ops
//! of an order hold all their predecessors, and the rest keep a topological order among themselves, so the child is
//! topological. **Mutation.** One op goes to another place between its last predecessor and its first successor.
//! **Selection.** Tournaments of three; the best two go on unchanged.
//!
//! The first population: the best order so far, the list orders in both directions, and random orders.
//!
//! Complexity: O(g p (n + m) log n) for g generations of p orders. Deterministic: one generator (Xoshiro256++), seeded
//! by the search; ties go to the older order. Limits: it proves nothing, and a generation costs p evaluations.
//!
//! Source: Holland, "Adaptation in Natural and Artificial Systems", 1975; the crossover is the one-point order
//! crossover for precedence-constrained sequences.

use super::Best;
use super::greedy::{Built, Rule, list_order, ranks};
use super::walk::{Direction, Walk};
use crate::id::OpId;
use crate::memory::instance::Instance;
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const POPULATION: usize = 24;

/// Generations without a better order after which it ends.
const PATIENCE: u32 = 40;

/// One member of the population.
#[derive(Clone)]
struct Member {
    peak_bytes: u64,
    order: Vec<OpId>,
}

/// Evolves until the best order is proven optimal, nothing better came for a while, or the budget is spent.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    let graph = best.instance();
    best.bound.raise(graph, search);
    if best.is_optimal() || graph.n_ops() < 2 {
        return;
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(search.seed() ^ 0x67_656e_6574_6963);
    let mut walks = Direction::BOTH.map(|direction| Walk::new(graph, direction));
    let Some(mut population) = first_population(best, &mut walks, &mut rng, search) else { return };
    let mut stale = 0;
    while stale < PATIENCE && !best.is_optimal() {
        population.sort_by_key(|member| member.peak_bytes);
        let mut next: Vec<Member> = population[..2].to_vec();
        let before = best.peak_bytes();
        while next.len() < POPULATION {
            let (a, b) = (tournament(&population, &mut rng), tournament(&population, &mut rng));
            let mut child = crossover(&a.order, &b.order, rng.random_range(0..=graph.n_ops()));
            mutate(graph, &mut child, &mut rng);
            let walk = &mut walks[usize::from(rng.random::<bool>())];
            match decode(best, walk, &child, search) {
                Some(member) => next.push(member),
                None => return,
            }
        }
        population = next;
        stale = if best.peak_bytes() < before { 0 } else { stale + 1 };
        search.tell("genetic", best.peak_bytes(), best.bound.bytes());
    }
}

fn first_population(
    best: &mut Best<'_>,
    walks: &mut [Walk<'_>; 2],
    rng: &mut Xoshiro256PlusPlus,
    search: &mut Search<'_>,
) -> Option<Vec<Member>> {
    let graph = best.instance();
    let mut population = vec![Member { peak_bytes: best.peak_bytes(), order: best.order().to_vec() }];
    let given: Vec<u32> = (0..).take(graph.n_ops()).collect();
    for rule in [Rule::LeastGrowth, Rule::LeastNeed, Rule::Ranked] {
        for walk in &mut *walks {
            let built = list_order(walk, rule, &given, &mut best.bound, search)?;
            population.push(keep(best, built));
        }
    }
    while population.len() < POPULATION {
        let built = list_order(&mut walks[0], Rule::Ranked, &random_ranks(graph, rng), &mut best.bound, search)?;
        population.push(keep(best, built));
    }
    Some(population)
}

fn random_ranks(graph: &Instance, rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
    graph.ops().map(|_| rng.random_range(0..u32::MAX)).collect()
}

/// The member that an order makes; the best order learns of it.
fn keep(best: &mut Best<'_>, built: Built) -> Member {
    let member = Member { peak_bytes: built.peak_bytes, order: built.order.clone() };
    best.offer_if_better(built);
    member
}

/// The child's order as the run-now rule replays it.
fn decode(best: &mut Best<'_>, walk: &mut Walk<'_>, child: &[OpId], search: &mut Search<'_>) -> Option<Member> {
    let built = list_order(walk, Rule::Ranked, &ranks(child), &mut best.bound, search)?;
    Some(keep(best, built))
}

fn tournament<'p>(population: &'p [Member], rng: &mut Xoshiro256PlusPlus) -> &'p Member {
    let mut best = &population[rng.random_range(0..population.len())];
    for _ in 0..2 {
        let other = &population[rng.random_range(0..population.len())];
        if other.peak_bytes < best.peak_bytes {
            best = other;
        }
    }
    best
}

/// The first `cut` ops of `a`, then the others in the order of `b`.
fn crossover(a: &[OpId], b: &[OpId], cut: usize) -> Vec<OpId> {
    let rank = ranks(a);
    let rest = b.iter().filter(|op| rank[op.index()] as usize >= cut);
    a[..cut].iter().chain(rest).copied().collect()
}

/// Moves a few ops to other places that they may take.
fn mutate(graph: &Instance, order: &mut [OpId], rng: &mut Xoshiro256PlusPlus) {
    let n = order.len();
    for _ in 0..rng.random_range(0..4) {
        let place = ranks(order);
        let from = rng.random_range(0..n);
        let at = |op: &OpId| place[op.index()] as usize;
        let low = graph.predecessors(order[from]).iter().map(at).max().map_or(0, |p| p + 1);
        let high = graph.successors(order[from]).iter().map(at).min().map_or(n - 1, |p| p - 1);
        let to = rng.random_range(low..=high);
        if from < to {
            order[from..=to].rotate_left(1);
        } else {
            order[to..=from].rotate_right(1);
        }
    }
}
