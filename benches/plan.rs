//! How long placement takes: `cargo bench --bench plan`.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
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

criterion_group!(benches, placement);
criterion_main!(benches);
