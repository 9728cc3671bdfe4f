use super::*;
use crate::graph::Graph;
use crate::memory::bound::Bound;
use crate::schedule::Scheduler;
use crate::schedule::{Strategy, genetic};
use crate::testing::{Family, GraphShape, random_graph};

fn graphs(n_ops: usize) -> impl Iterator<Item = (u64, Graph)> {
    (0..40).map(move |seed| {
        let shape = GraphShape::new(Family::ALL[(seed % 4) as usize], n_ops).with_everything();
        (seed, random_graph(seed, &shape))
    })
}

fn assert_valid(instance: &Instance, order: &[OpId]) {
    assert_eq!(order.len(), instance.n_ops());
    let place = ranks(order);
    let mut seen = vec![false; order.len()];
    for op in order {
        assert!(!std::mem::replace(&mut seen[op.index()], true), "{op} runs twice");
        let mut before = instance.predecessors(*op).iter();
        assert!(before.all(|before| place[before.index()] < place[op.index()]), "{op} comes too early");
    }
}

#[test]
fn children_are_valid_orders() {
    for (seed, graph) in graphs(40) {
        let instance = Instance::of(&graph);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut walk = Walk::new(&instance, Direction::Forward);
        let mut bound = Bound::new(&instance);
        let mut search = Search::new();
        let mut drawn = || {
            let ranks = depth_first(&instance, &mut rng);
            let built = list_order(&mut walk, Rule::Ranked, &ranks, &mut bound, &mut search);
            Member::of(&instance, built.expect("work is left").order, 0)
        };
        let (a, b) = (drawn(), drawn());
        for _ in 0..50 {
            let mut child = crossover(&a, &b, &mut rng);
            assert_valid(&instance, &child);
            mutate(&instance, &mut child, a.dearest, &mut rng);
            assert_valid(&instance, &child);
        }
        if let Some(order) = window(&instance, &a, 0, 0, &mut rng, &mut search) {
            assert_valid(&instance, &order);
        }
    }
}

#[test]
fn an_island_holds_no_two_members_of_equal_profile() {
    for (_, graph) in graphs(12) {
        let instance = Instance::of(&graph);
        let given: Vec<OpId> = instance.ops().collect();
        let mut island = vec![Member::of(&instance, given.clone(), 0)];
        assert!(!settle(&mut island, Member::of(&instance, given, 0)));
    }
}

#[test]
fn a_larger_budget_is_no_worse_than_none_and_any_budget_will_do() {
    for (seed, graph) in graphs(30) {
        let given = Instance::of(&graph);
        let given = given.peak_bytes(&given.step_costs(&given.ops().collect::<Vec<_>>()));
        for work in [0, 10, 1_000, 30_000, 1_000_000] {
            let mut search = Search::new().with_seed(seed).with_work_budget(work);
            let schedule = Strategy::Genetic.schedule(&graph, &mut search).expect("strategies succeed");
            assert!(schedule.peak_bytes() <= given, "seed {seed}, work {work}");
        }
    }
}

#[test]
fn a_seed_gives_the_same_order_again() {
    for (seed, graph) in graphs(40).take(8) {
        let run = || {
            let instance = Instance::of(&graph);
            let mut best = Best::given(&instance);
            genetic::improve(&mut best, &mut Search::new().with_seed(seed).with_work_budget(300_000));
            best.order().to_vec()
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
