//! How long the schedulers take: `cargo bench --bench schedule`.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use memsched::memory::{Profile, lower_bound_bytes};
use memsched::schedule::Step;
use memsched::testing::{GraphShape, random_graph};
use memsched::{Graph, Strategy};
use std::hint::black_box;

fn steps(graph: &Graph) -> Vec<Step> {
    Step::plain(graph.given_order())
}

fn foundation(c: &mut Criterion) {
    let graph = common::layered(100_000);
    let steps = steps(&graph);
    let mut group = c.benchmark_group("layered 100k");
    group.sample_size(10);
    group.bench_function("evaluate", |b| b.iter(|| Profile::of(black_box(&graph), &steps).unwrap().peak_bytes()));
    group.bench_function("lower bound", |b| b.iter(|| lower_bound_bytes(black_box(&graph))));
    group.bench_function("greedy", |b| b.iter(|| memsched::schedule(black_box(&graph), Strategy::Greedy).unwrap()));
    group.finish();
}

fn chain(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    group.sample_size(10);
    let build = |n: usize| {
        let mut b = Graph::builder();
        let mut last = b.input("", 64);
        for _ in 0..n {
            let next = b.tensor("", 64);
            b.op("").reads([last]).writes([next]);
            last = next;
        }
        b
    };
    group.bench_function("chain of 1M ops", |b| {
        b.iter_batched(|| build(1_000_000), |builder| builder.build().unwrap(), BatchSize::PerIteration);
    });
    group.finish();
}

fn strategies(c: &mut Criterion) {
    let graphs = [("layered 60", common::layered(60)), ("training 700", common::training(700))];
    for (name, graph) in graphs {
        let mut group = c.benchmark_group(name);
        group.sample_size(10);
        for strategy in Strategy::ALL {
            group.bench_function(strategy.to_string(), |b| {
                b.iter(|| memsched::schedule(black_box(&graph), strategy).unwrap());
            });
        }
        group.finish();
    }
}

fn hybrid_5000(c: &mut Criterion) {
    let graph = random_graph(5, &GraphShape::new(memsched::testing::Family::Layered, 5000).with_everything());
    let mut group = c.benchmark_group("layered 5000");
    group.sample_size(10);
    group.bench_function("hybrid and plan", |b| {
        b.iter(|| {
            let schedule = memsched::schedule(black_box(&graph), Strategy::Hybrid).unwrap();
            memsched::plan(&graph, &schedule).unwrap().arena_bytes()
        });
    });
    group.finish();
}

criterion_group!(benches, chain, foundation, strategies, hybrid_5000);
criterion_main!(benches);
