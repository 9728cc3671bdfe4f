//! How long placement takes: `cargo bench --bench plan`.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use memsched::plan::Interval;
use memsched::plan::puzzle::guillotine;
use memsched::{MemoryPlanner, Strategy};
use std::hint::black_box;

fn placement(c: &mut Criterion) {
    for n_ops in [1_000, 10_000] {
        let graph = common::training(n_ops);
        let schedule = memsched::schedule(&graph, Strategy::Given).unwrap();
        let mut group = c.benchmark_group(format!("training {n_ops}"));
        group.sample_size(10);
        group.bench_function("arena", |b| b.iter(|| memsched::plan(black_box(&graph), &schedule).unwrap()));
        group.bench_function("blocks", |b| {
            b.iter(|| MemoryPlanner::new().blocks(black_box(&graph), &schedule).unwrap());
        });
        group.finish();
    }
}

/// Rectangles cut up, which niche search puts together, and short intervals, which a dive places at the load.
fn intervals(c: &mut Criterion) {
    let mut group = c.benchmark_group("intervals");
    group.sample_size(10);
    let planner = MemoryPlanner::new().alignment(1);
    for n in [100, 400] {
        let pieces = guillotine(n, 0);
        group.bench_function(format!("puzzle {n}"), |b| b.iter(|| planner.place(black_box(&pieces)).unwrap()));
    }
    let short: Vec<Interval> =
        (0..20_000u64).map(|k| Interval::new(k, k + 1 + k * 7919 % 40, 1 + k * 104_729 % (1 << 24))).collect();
    group.bench_function("short 20000", |b| b.iter(|| planner.place(black_box(&short)).unwrap()));
    group.finish();
}

criterion_group!(benches, placement, intervals);
criterion_main!(benches);
