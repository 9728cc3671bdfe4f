//! Every strategy against brute force, the checker, and itself.

use memsched::check;
use memsched::memory::{Profile, lower_bound_bytes};
use memsched::schedule::Step;
use memsched::search::{CancelToken, Search, StopReason};
use memsched::testing::{self, Family, GraphShape};
use memsched::{Graph, MemoryPlanner, Schedule, Scheduler, Strategy, schedule_with};

fn given_peak(graph: &Graph) -> u64 {
    let steps = Step::plain(graph.given_order());
    Profile::of(graph, &steps).unwrap().peak_bytes()
}

fn small_graphs(n: u64) -> impl Iterator<Item = Graph> {
    (0..n).map(|seed| {
        let family = Family::ALL[(seed % 4) as usize];
        let shape = GraphShape::new(family, 2 + (seed / 4 % 7) as usize).with_everything();
        let graph = testing::random_graph(seed, &shape);
        if seed % 5 == 0 { graph.without_in_place() } else { graph }
    })
}

/// Fails unless the schedule and both kinds of plan pass the checker.
fn assert_holds(graph: &Graph, schedule: &Schedule) {
    let order: Vec<_> = schedule.order().collect();
    assert_eq!(check::order(graph, &order), []);
    let planner = MemoryPlanner::new();
    let plan = planner.plan(graph, schedule).unwrap();
    let checked = check::memory_plan(graph, schedule, &plan);
    assert_eq!(checked.faults, []);
    assert_eq!(checked.peak_bytes, u128::from(schedule.peak_bytes()));
    assert!(plan.arena_bytes() >= plan.live_peak_bytes());
    let blocks = planner.blocks(graph, schedule).unwrap();
    assert_eq!(check::blocks(graph, schedule.steps(), &blocks), []);
}

#[test]
fn strategies_agree_with_brute_force() {
    for (k, graph) in small_graphs(600).enumerate() {
        let least = testing::brute_force_peak(&graph);
        assert!(lower_bound_bytes(&graph) <= least, "graph {k}");
        for strategy in Strategy::ALL {
            let schedule = memsched::schedule(&graph, strategy).unwrap();
            assert!(schedule.lower_bound_bytes() <= least, "graph {k}, {strategy}");
            assert!((least..=given_peak(&graph)).contains(&schedule.peak_bytes()), "graph {k}, {strategy}");
            if matches!(strategy, Strategy::Dp | Strategy::Hybrid) {
                assert_eq!((schedule.peak_bytes(), schedule.stop_reason()), (least, StopReason::Optimal), "graph {k}");
            }
            assert_holds(&graph, &schedule);
        }
    }
}

#[test]
fn larger_graphs_are_no_worse_than_given_and_hold() {
    for seed in 0..16 {
        let shape = GraphShape::new(Family::ALL[(seed % 4) as usize], 120).with_everything();
        let graph = testing::random_graph(seed, &shape);
        let bound = lower_bound_bytes(&graph);
        let mut exact = None;
        for strategy in Strategy::ALL {
            let mut search = Search::new().with_work_budget(3_000_000);
            let schedule = schedule_with(&graph, &strategy, &mut search).unwrap();
            assert!(schedule.peak_bytes() <= given_peak(&graph), "graph {seed}, {strategy}");
            assert!(schedule.lower_bound_bytes() >= bound.min(schedule.peak_bytes()) || strategy == Strategy::Given);
            assert_holds(&graph, &schedule);
            if schedule.is_optimal() {
                // Whatever is proven by one strategy is a bound for all.
                let optimum = *exact.get_or_insert(schedule.peak_bytes());
                assert_eq!(optimum, schedule.peak_bytes(), "graph {seed}, {strategy}");
            }
        }
    }
}

#[test]
fn same_seed_and_work_give_the_same_schedule() {
    for seed in 0..8 {
        let shape = GraphShape::new(Family::Arbitrary, 60).with_everything();
        let graph = testing::random_graph(seed, &shape);
        for strategy in Strategy::ALL {
            let run = || {
                let mut search = Search::new().with_seed(seed).with_work_budget(2_000_000);
                let schedule = schedule_with(&graph, &strategy, &mut search).unwrap();
                let plan = memsched::plan(&graph, &schedule).unwrap();
                (schedule, plan, search.spent_work())
            };
            assert_eq!(run(), run(), "graph {seed}, {strategy}");
        }
    }
}

#[test]
fn renumbering_changes_no_proven_peak() {
    for (seed, graph) in (0..).zip(small_graphs(120)) {
        let (renumbered, _) = testing::permuted(&graph, seed);
        for strategy in [Strategy::Dp, Strategy::Hybrid] {
            let (a, b) =
                (memsched::schedule(&graph, strategy).unwrap(), memsched::schedule(&renumbered, strategy).unwrap());
            assert_eq!(a.peak_bytes(), b.peak_bytes(), "graph {seed}, {strategy}");
        }
    }
}

#[test]
fn no_budget_is_worse_than_none_and_the_largest_not_than_the_least() {
    for seed in 0..6 {
        let graph = testing::random_graph(seed, &GraphShape::new(Family::Layered, 150).with_everything());
        for strategy in Strategy::ALL {
            let peaks: Vec<u64> = [0, 2_000, 50_000, 1_000_000, 4_000_000]
                .into_iter()
                .map(|work| {
                    let mut search = Search::new().with_work_budget(work);
                    schedule_with(&graph, &strategy, &mut search).unwrap().peak_bytes()
                })
                .collect();
            // The stages of a portfolio get shares of the budget, so only the ends are comparable in general.
            assert!(peaks.iter().all(|peak| *peak <= peaks[0]), "graph {seed}, {strategy}: {peaks:?}");
            assert!(peaks[4] <= peaks[1], "graph {seed}, {strategy}: {peaks:?}");
        }
    }
}

#[test]
fn exhausted_and_cancelled_searches_return_the_best_so_far() {
    let graph = testing::random_graph(3, &GraphShape::new(Family::Layered, 200).with_everything());
    let mut search = Search::new().with_work_budget(0);
    let schedule = schedule_with(&graph, &Strategy::Hybrid, &mut search).unwrap();
    assert_eq!(schedule.stop_reason(), StopReason::WorkBudget);
    assert_eq!(schedule.peak_bytes(), given_peak(&graph));

    let token = CancelToken::new();
    token.cancel();
    let mut search = Search::new().with_cancel(token);
    let schedule = schedule_with(&graph, &Strategy::Hybrid, &mut search).unwrap();
    assert_eq!(schedule.stop_reason(), StopReason::Cancelled);
    assert_holds(&graph, &schedule);
}

#[test]
fn all_bytes_of_64_bits_may_be_in_use() {
    let mut b = Graph::builder();
    let (x, y) = (b.input("x", u64::MAX - 8), b.tensor("y", 8));
    b.op("op").reads([x]).writes([y]);
    let graph = b.build().unwrap();
    for strategy in Strategy::ALL {
        let schedule = memsched::schedule(&graph, strategy).unwrap();
        assert_eq!((schedule.peak_bytes(), schedule.steps().len()), (u64::MAX, 1), "{strategy}");
        let plan = MemoryPlanner::new().alignment(1).plan(&graph, &schedule).unwrap();
        assert_eq!(plan.arena_bytes(), u64::MAX);
        assert!(check::memory_plan(&graph, &schedule, &plan).holds());
        let rounded = MemoryPlanner::new().plan(&graph, &schedule);
        assert!(matches!(rounded, Err(memsched::PlanError::BytesOverflow { .. })), "rounded up it exceeds 64 bits");
    }
}

#[test]
fn recomputation_of_huge_storages_overflows_nothing() {
    let mut b = Graph::builder();
    let (x, y) = (b.tensor("x", 1 << 63), b.tensor("y", 8));
    let make = b.op("make").writes([x]).id();
    let read = b.op("read").reads([x]).writes([y]).id();
    b.output(y);
    let graph = b.build().unwrap();
    let steps = [make, make, read, make].map(Step::run).to_vec();
    assert_eq!(Schedule::from_steps(&graph, steps).unwrap().peak_bytes(), (1 << 63) + 8);
}

#[test]
fn names_of_strategies_are_read_back() {
    for strategy in Strategy::ALL {
        assert_eq!(strategy.name().parse(), Ok(strategy));
    }
    assert!("best".parse::<Strategy>().is_err());
}
