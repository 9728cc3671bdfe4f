//! Every reduction and rule, alone and together, against brute force on small instances.

use super::dp::Exact;
use super::expand::Rules;
use super::greedy::ranks;
use super::walk::{Direction, Walk};
use super::{Best, reduce};
use crate::graph::Graph;
use crate::id::{OpId, StorageId};
use crate::memory::bound::{Bound, Cones, forced_live_bytes};
use crate::memory::cut::{Network, Side};
use crate::memory::instance::Instance;
use crate::search::Search;
use crate::testing::{Family, GraphShape, brute_force_peak, random_graph};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The seeds of the graphs of a test: some hundreds, or as many as the variable `MEMSCHED_CASES` says.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("MEMSCHED_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// Every set of ops of a small instance, from the definition of the memory model.
struct Sets<'i> {
    instance: &'i Instance,
    n: usize,
}

impl<'i> Sets<'i> {
    fn new(instance: &'i Instance) -> Self {
        assert!(instance.n_ops() <= 12);
        Self { instance, n: instance.n_ops() }
    }

    fn all(&self) -> usize {
        (1 << self.n) - 1
    }

    fn is_closed(&self, set: usize) -> bool {
        let has = |op: &OpId| set >> op.index() & 1 == 1;
        self.instance.ops().filter(has).all(|op| self.instance.predecessors(op).iter().all(has))
    }

    /// Whether a storage is live after the set.
    fn is_live(&self, storage: StorageId, set: usize) -> bool {
        let has = |op: OpId| set >> op.index() & 1 == 1;
        self.instance.creator(storage).is_none_or(has) && !self.instance.touchers(storage).iter().all(|t| has(*t))
    }

    fn live(&self, set: usize) -> u64 {
        let live = self.instance.storages().filter(|s| self.is_live(*s, set));
        let kept = self.instance.ops().filter(|op| set >> op.index() & 1 == 1);
        self.instance.base_bytes()
            + live.map(|s| self.instance.bytes(s)).sum::<u64>()
            + kept.map(|op| self.instance.sums(op).kept).sum::<u64>()
    }

    /// What the step of an op costs after the set.
    fn cost(&self, set: usize, op: OpId) -> u64 {
        let sums = self.instance.sums(op);
        let after = set | 1 << op.index();
        let pairs: Vec<_> = self.instance.pairs(op).iter().filter(|p| !self.is_live(p.from, after)).collect();
        // The dearest choice of pairs that share no storage.
        let mut saved = 0;
        for choice in 0..1usize << pairs.len() {
            let chosen: Vec<_> = (0..pairs.len()).filter(|p| choice >> p & 1 == 1).map(|p| pairs[p]).collect();
            let clash = |a: usize, b: usize| chosen[a].to == chosen[b].to || chosen[a].from == chosen[b].from;
            if (0..chosen.len()).all(|a| (0..a).all(|b| !clash(a, b))) {
                saved = saved.max(chosen.iter().map(|p| p.bytes).sum());
            }
        }
        let unused = if set == 0 { self.instance.unused_bytes() } else { 0 };
        self.live(set) + sums.created + sums.workspace + unused - saved
    }

    fn may_run(&self, set: usize, op: OpId) -> bool {
        set >> op.index() & 1 == 0 && self.instance.predecessors(op).iter().all(|p| set >> p.index() & 1 == 1)
    }

    /// For each closed set the least peak of what comes after it.
    fn completions(&self) -> Vec<u64> {
        let mut best = vec![u64::MAX; self.all() + 1];
        best[self.all()] = 0;
        for set in (0..self.all()).rev().filter(|set| self.is_closed(*set)) {
            let ops = self.instance.ops().filter(|op| self.may_run(set, *op));
            let through = ops.map(|op| self.cost(set, op).max(best[set | 1 << op.index()]));
            best[set] = through.min().expect("some op may run");
        }
        best
    }

    fn ends(&self) -> u64 {
        (self.live(0) + self.instance.unused_bytes()).max(self.live(self.all()))
    }

    fn optimum(&self) -> u64 {
        self.completions()[0].max(self.ends())
    }

    fn best_order(&self) -> Vec<OpId> {
        let best = self.completions();
        let mut set = 0;
        let mut order = Vec::new();
        while set != self.all() {
            let ops = self.instance.ops().filter(|op| self.may_run(set, *op));
            let op = ops.min_by_key(|op| self.cost(set, *op).max(best[set | 1 << op.index()])).expect("some may run");
            order.push(op);
            set |= 1 << op.index();
        }
        order
    }
}

fn graph(seed: u64) -> Graph {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let family = Family::ALL[rng.random_range(0..4)];
    let mut shape = GraphShape::new(family, rng.random_range(2..=10));
    if rng.random() {
        shape = shape.with_everything();
    }
    random_graph(seed, &shape)
}

fn optimum(instance: &Instance) -> u64 {
    Sets::new(instance).optimum()
}

fn peak(instance: &Instance, order: &[OpId]) -> u64 {
    instance.peak_bytes(&instance.step_costs(order))
}

fn assert_is_order(instance: &Instance, order: &[OpId]) {
    let place = ranks(order);
    assert_eq!(order.len(), instance.n_ops());
    for op in instance.ops() {
        assert_eq!(order[place[op.index()] as usize], op);
        assert!(instance.predecessors(op).iter().all(|p| place[p.index()] < place[op.index()]));
    }
}

/// The instance is the graph: same optimum, and the same peak of every order.
fn check_instance(seed: u64) {
    let graph = graph(seed);
    let instance = Instance::of(&graph);
    assert_eq!(optimum(&instance), brute_force_peak(&graph), "seed {seed}");
    let order = Sets::new(&instance).best_order();
    assert_eq!(peak(&instance, &order), optimum(&instance), "seed {seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let least = 1u64 << rng.random_range(0..42);
    assert!(optimum(&instance.rounded(least)) <= optimum(&instance), "seed {seed}");
}

fn check_contraction(seed: u64) {
    let instance = Instance::of(&graph(seed)).rounded(0);
    let ids: Vec<OpId> = instance.ops().collect();
    let contracted = instance.contracted(&ids);
    let least = optimum(&instance);
    assert_eq!(optimum(&contracted), least, "seed {seed}");
    let order = instance_order(&contracted);
    let named = contracted.named(&order);
    assert_is_order(&instance, &named);
    assert_eq!(peak(&instance, &named), peak(&contracted, &order), "seed {seed}");
}

fn instance_order(instance: &Instance) -> Vec<OpId> {
    Sets::new(instance).best_order()
}

/// Core and split at any proven bound: solving the parts solves the whole.
fn check_parts(seed: u64) {
    let instance = Instance::of(&graph(seed)).rounded(0);
    let least = optimum(&instance);
    let ids: Vec<OpId> = instance.ops().collect();
    for bound in [0, least / 2, least] {
        let parts = reduce::parts(&instance, &ids, bound);
        let mut order = parts.order;
        assert_is_order(&instance, &order);
        for range in parts.ranges {
            let place = ranks(&order);
            let live = instance.live_before(&order)[range.start];
            let part = instance.part(&order, &place, range.clone(), live);
            let best = part.named(&instance_order(&part));
            order[range].copy_from_slice(&best);
        }
        assert_is_order(&instance, &order);
        assert_eq!(peak(&instance, &order), least, "seed {seed}, bound {bound} of {least}");
    }
}

/// A least state splits the instance, and the least state is the least.
fn check_least_state(seed: u64) {
    let instance = Instance::of(&graph(seed)).rounded(0);
    let sets = Sets::new(&instance);
    let closed = || (0..=sets.all()).filter(|set| sets.is_closed(*set));
    let least = closed().map(|set| sets.live(set)).min().expect("there is the empty set");
    let as_set = |done: &[bool]| (0..done.len()).filter(|op| done[*op]).map(|op| 1usize << op).sum::<usize>();
    for side in [Side::Least, Side::Most] {
        let cut = Network::whole(&instance).flow(&instance, side, |_| true).expect("no budget");
        let set = as_set(&cut.done);
        assert_eq!((cut.bytes, sets.live(set)), (least, least), "seed {seed}");
        let mut minima = closed().filter(|set| sets.live(*set) == least);
        match side {
            Side::Least => assert!(minima.all(|other| other & set == set), "seed {seed}"),
            Side::Most => assert!(minima.all(|other| other | set == set), "seed {seed}"),
        }
    }
    if let Some(first) = reduce::least_state(&instance, &mut Search::new()) {
        let rest = instance.ops().filter(|op| !first.contains(op));
        let mut order: Vec<OpId> = first.iter().copied().chain(rest).collect();
        for range in [0..first.len(), first.len()..order.len()] {
            let live = instance.live_before(&order)[range.start];
            let part = instance.part(&order, &ranks(&order), range.clone(), live);
            order[range].copy_from_slice(&part.named(&instance_order(&part)));
        }
        assert_eq!(peak(&instance, &order), sets.optimum(), "seed {seed}");
    }
}

/// Without completions, which could hide an optimum that a rule has lost.
const NONE: Rules = Rules { run_now: false, chains: false, dives: false, late: false, completions: false };

/// Each rule alone and all together.
const RULES: [Rules; 7] = [
    NONE,
    Rules { run_now: true, ..NONE },
    Rules { run_now: true, chains: true, ..NONE },
    Rules { dives: true, ..NONE },
    Rules { late: true, ..NONE },
    Rules { completions: false, ..Rules::ALL },
    Rules::ALL,
];

fn check_rules(seed: u64) {
    check_rules_on(&Instance::of(&graph(seed)), &format!("seed {seed}"));
}

fn check_rules_on(instance: &Instance, name: &str) {
    let least = optimum(instance);
    for rules in RULES {
        for direction in Direction::BOTH {
            if !Walk::new(instance, direction).may_run_now() {
                continue;
            }
            for bound in [0, least] {
                let mut best = Best::given(instance);
                best.bound.prove(bound);
                let mut exact = Exact::with(&mut best, &[direction], rules);
                let mut search = Search::new();
                while !best.is_optimal() && search.stopped().is_none() {
                    assert!(exact.advance(&mut best, &mut search));
                }
                let found = (best.peak_bytes(), best.bound.bytes());
                assert_eq!(found, (least, least), "{name}, {rules:?}, {direction:?}, bound {bound}");
            }
        }
    }
}

/// The bounds of every op, and of every state on the way.
fn check_bounds(seed: u64) {
    let instance = Instance::of(&graph(seed));
    let sets = Sets::new(&instance);
    let ops: Vec<OpId> = instance.ops().collect();
    let cones = Cones::new(&instance, &ops);
    let forced = forced_live_bytes(&instance, &ops, &cones);
    for (op, forced) in ops.iter().zip(forced) {
        let states = (0..=sets.all()).filter(|set| sets.is_closed(*set) && sets.may_run(*set, *op));
        let least = states.map(|set| sets.cost(set, *op)).min().expect("every op may run once");
        let own = Cones::new(&instance, &[*op]);
        let cut = Network::around(&instance, *op, &own).flow(&instance, Side::Least, |_| true).expect("no budget");
        assert!(forced <= cut.bytes && cut.bytes <= least, "seed {seed}, {op}: {forced} {} {least}", cut.bytes);
        if instance.pairs(*op).len() < 2 && instance.unused_bytes() == 0 {
            assert_eq!(cut.bytes, least, "seed {seed}, {op}");
        }
        let set: usize = (0..sets.n).filter(|op| cut.done[*op]).map(|op| 1usize << op).sum();
        for (op, cost) in cut.step_costs(&instance) {
            assert_eq!(cost, sets.cost(set, op), "seed {seed}, {op}");
        }
    }
    let mut bound = Bound::new(&instance);
    bound.raise(&instance, &mut Search::new());
    while bound.cut(&instance, &mut Search::new()).is_some() {}
    assert!(bound.bytes() <= sets.optimum(), "seed {seed}");

    let after = sets.completions();
    for direction in Direction::BOTH {
        let mut walk = Walk::with_hot(&instance, direction, ops.clone());
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut run: Vec<(OpId, u64)> = Vec::new();
        while !walk.is_complete() {
            if direction == Direction::Forward {
                let set = run.iter().map(|(op, _)| 1usize << op.index()).sum::<usize>();
                assert!(walk.forced_bytes() <= after[set], "seed {seed}");
                assert_eq!(walk.live(), sets.live(set), "seed {seed}");
            }
            let mut ready = Vec::new();
            walk.ready_into(&mut ready);
            let op = ready[rng.random_range(0..ready.len())];
            let (live, forced) = (walk.live(), walk.forced_bytes());
            let effect = walk.effect(op);
            walk.run(op, effect, &mut Vec::new());
            walk.undo(op, live);
            assert_eq!((walk.live(), walk.forced_bytes()), (live, forced), "seed {seed}");
            walk.run(op, effect, &mut Vec::new());
            run.push((op, live));
        }
    }
}

/// Segment commit from the empty set, with its condition and without: whether the optimum was lost.
fn commits_lose(seed: u64, whole_condition: bool) -> bool {
    let instance = Instance::of(&graph(seed)).rounded(0);
    let sets = Sets::new(&instance);
    let after = sets.completions();
    let budget = sets.optimum();
    let mut reached = vec![false; sets.all() + 1];
    reached[0] = true;
    let mut lost = false;
    for set in 0..sets.all() {
        if !reached[set] {
            continue;
        }
        let ops = instance.ops().filter(|op| sets.may_run(set, *op) && sets.cost(set, *op) <= budget);
        ops.for_each(|op| reached[set | 1 << op.index()] = true);
        let between = (0..=set).filter(|x| x & set == *x && sets.is_closed(*x));
        let committed = if whole_condition {
            between.map(|x| sets.live(x)).min() == Some(sets.live(set))
        } else {
            sets.live(set) <= sets.live(0)
        };
        lost |= committed && after[set] > budget;
    }
    lost
}

#[test]
fn segment_commit_needs_its_whole_condition() {
    assert!(seeds(400).all(|seed| !commits_lose(seed, true)));
    let lost: Vec<u64> = seeds(400).filter(|seed| commits_lose(*seed, false)).collect();
    assert!(lost.len() > 3, "comparing the ends alone loses optima: {lost:?}");
    lost.into_iter().for_each(check_rules);
}

#[test]
fn instances_are_their_graphs() {
    seeds(400).for_each(check_instance);
}

#[test]
fn contraction_keeps_the_optimum() {
    seeds(400).for_each(check_contraction);
}

#[test]
fn parts_make_the_whole() {
    seeds(400).for_each(check_parts);
}

#[test]
fn a_least_state_splits() {
    seeds(400).for_each(check_least_state);
}

#[test]
fn every_rule_keeps_the_optimum_in_both_directions() {
    seeds(200).for_each(check_rules);
}

#[test]
fn no_bound_is_too_high() {
    seeds(200).for_each(check_bounds);
}

/// `drop` creates more than it touches, but for nobody, and x goes with it: it may not wait for `next`.
#[test]
fn what_an_op_creates_for_nobody_does_not_make_it_late() {
    let mut b = Graph::builder();
    let (x, trash) = (b.input("x", 40), b.tensor("trash", 48));
    let (large, small) = (b.tensor("large", 100), b.tensor("small", 10));
    let drop = b.op("drop").reads([x]).writes([trash]).id();
    b.op("next").writes([large]).after([drop]);
    b.op("wide").writes([small]).workspace(150);
    b.output(large).output(small);
    let graph = b.build().expect("the graph is valid");
    // `drop`, then `wide` without x, then `next`.
    assert_eq!(brute_force_peak(&graph), 160);
    check_rules_on(&Instance::of(&graph), "drop");

    // Here no rule runs `shrink_q` at once, and right before `join` it is too late beside what `shrink_p` leaves.
    let mut b = Graph::builder();
    let (p, q) = (b.input("p", 80), b.input("q", 64));
    let (u, v, w, seen) = (b.tensor("u", 56), b.tensor("v", 32), b.tensor("w", 104), b.tensor("seen", 32));
    let (trash, litter) = (b.tensor("trash", 120), b.tensor("litter", 32));
    let (i, k) = (b.tensor("i", 8), b.tensor("k", 8));
    b.op("shrink_p").reads([p]).writes([u, trash]);
    b.op("shrink_q").reads([q]).writes([v, litter]);
    b.op("join").reads([u, v]).writes([w, seen]).view(seen, v);
    b.op("read_seen").reads([seen]).writes([i]);
    b.op("read_u").reads([u]).writes([k]);
    b.output(w).output(i).output(k);
    let graph = b.build().expect("the graph is valid");
    assert_eq!(brute_force_peak(&graph), 288);
    check_rules_on(&Instance::of(&graph), "shrink");
}
