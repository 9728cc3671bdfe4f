//! Arena and blocks against overlap checks of their own, brute force, and the faults that other planners had.

mod brute;
mod conditions;

use super::*;
use crate::error::PlanError;
use crate::id::QueueId;
use crate::schedule::{Schedule, Step};
use crate::{Graph, MemoryPlanner, check};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn rounded(interval: &Interval, alignment: u64) -> u64 {
    interval.bytes.next_multiple_of(alignment)
}

/// Fails unless offsets are aligned, intervals that meet are disjoint, and height and load are what they should be.
fn assert_layout(intervals: &[Interval], alignment: u64, layout: &Layout) {
    let offsets = layout.offsets();
    assert_eq!(offsets.len(), intervals.len());
    let end = |k: usize| offsets[k] + rounded(&intervals[k], alignment);
    for (k, a) in intervals.iter().enumerate().filter(|(_, a)| a.bytes > 0) {
        assert_eq!(offsets[k] % alignment.max(a.alignment.unwrap_or(1)), 0, "{intervals:?} {offsets:?}");
        for (j, b) in intervals.iter().enumerate().take(k).filter(|(_, b)| b.bytes > 0) {
            let meet = a.start < b.end && b.start < a.end;
            assert!(!meet || end(k) <= offsets[j] || end(j) <= offsets[k], "{j} and {k}: {intervals:?} {offsets:?}");
        }
    }
    let sized = || (0..intervals.len()).filter(|k| intervals[*k].bytes > 0);
    assert_eq!(layout.height_bytes(), sized().map(end).max().unwrap_or(0));
    let load_at = |moment: u64| -> u64 {
        intervals.iter().filter(|i| i.start <= moment && moment < i.end).map(|i| rounded(i, alignment)).sum()
    };
    assert_eq!(layout.load_bytes(), intervals.iter().map(|i| load_at(i.start)).max().unwrap_or(0));
    assert!(layout.is_optimal() || layout.height_bytes() > layout.load_bytes());
    assert!(layout.load_bytes() <= layout.lower_bound_bytes() && layout.lower_bound_bytes() <= layout.height_bytes());
}

/// The least height of any layout without alignments: some order of placing each interval as low as it goes gives it,
/// since an optimal layout pushed down and taken by offset is such an order.
fn least_height(intervals: &[Interval]) -> u64 {
    fn place(intervals: &[Interval], offsets: &mut Vec<Option<u64>>, height: u64, least: &mut u64) {
        if height >= *least {
            return;
        }
        let mut is_last = true;
        for k in 0..intervals.len() {
            if offsets[k].is_some() {
                continue;
            }
            is_last = false;
            let mut met: Vec<(u64, u64)> = (0..intervals.len())
                .filter(|j| intervals[*j].start < intervals[k].end && intervals[k].start < intervals[*j].end)
                .filter_map(|j| offsets[j].map(|offset| (offset, offset + intervals[j].bytes)))
                .collect();
            met.sort_unstable();
            let mut low = 0;
            for (start, end) in met {
                if start >= low + intervals[k].bytes {
                    break;
                }
                low = low.max(end);
            }
            offsets[k] = Some(low);
            place(intervals, offsets, height.max(low + intervals[k].bytes), least);
            offsets[k] = None;
        }
        if is_last {
            *least = height;
        }
    }
    let mut least = u64::MAX;
    place(intervals, &mut vec![None; intervals.len()], 0, &mut least);
    least
}

fn random_intervals(rng: &mut Xoshiro256PlusPlus, n: usize) -> Vec<Interval> {
    (0..n)
        .map(|_| {
            let start = rng.random_range(0..8);
            Interval::new(start, start + rng.random_range(1..5), rng.random_range(0..12))
        })
        .collect()
}

#[test]
fn layouts_of_few_intervals_are_the_least() {
    for seed in 0..600 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let n = rng.random_range(0..7);
        let intervals = random_intervals(&mut rng, n);
        let layout = MemoryPlanner::new().alignment(1).place(&intervals).unwrap();
        assert_layout(&intervals, 1, &layout);
        assert_eq!(layout.height_bytes(), least_height(&intervals), "{intervals:?}");
        assert!(layout.is_optimal(), "{intervals:?}");
    }
}

#[test]
fn layouts_of_many_intervals_with_alignments_hold() {
    for seed in 0..60 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut intervals: Vec<Interval> = (0..150)
            .map(|_| {
                let start = rng.random_range(0..200);
                let steps = if rng.random_range(0..8) == 0 { 150 } else { 12 };
                Interval::new(start, start + rng.random_range(1..=steps), rng.random_range(0..5000))
            })
            .collect();
        for interval in &mut intervals {
            if rng.random::<bool>() {
                *interval = interval.with_alignment(1 << rng.random_range(0..10));
            }
        }
        let layout = MemoryPlanner::new().place(&intervals).unwrap();
        assert_layout(&intervals, 64, &layout);
    }
}

#[test]
fn the_order_of_the_rows_changes_no_height() {
    for seed in 0..40 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut rows = random_intervals(&mut rng, 40);
        let height = MemoryPlanner::new().alignment(1).place(&rows).unwrap().height_bytes();
        for _ in 0..5 {
            for k in (1..rows.len()).rev() {
                rows.swap(k, rng.random_range(0..=k));
            }
            assert_eq!(MemoryPlanner::new().alignment(1).place(&rows).unwrap().height_bytes(), height, "seed {seed}");
        }
    }
}

#[test]
fn unusable_arguments_are_named() {
    let place = |planner: MemoryPlanner, intervals: &[Interval]| planner.place(intervals).map(|_| ()).unwrap_err();
    let one = [Interval::new(0, 1, 8)];
    assert_eq!(place(MemoryPlanner::new().alignment(48), &one), PlanError::BadAlignment { alignment: 48 });
    assert_eq!(place(MemoryPlanner::new().alignment(0), &one), PlanError::BadAlignment { alignment: 0 });
    let odd = [one[0].with_alignment(3)];
    assert_eq!(place(MemoryPlanner::new(), &odd), PlanError::BadAlignment { alignment: 3 });
    let empty = [one[0], Interval::new(5, 5, 8)];
    assert_eq!(place(MemoryPlanner::new(), &empty), PlanError::EmptyInterval { interval: 1, start: 5, end: 5 });
    let huge = [Interval::new(0, 1, u64::MAX)];
    assert!(matches!(place(MemoryPlanner::new(), &huge), PlanError::BytesOverflow { what } if what == "interval 0"));
    assert_eq!(MemoryPlanner::new().alignment(1).place(&huge).unwrap().height_bytes(), u64::MAX);

    let (graph, schedule) = chain(&[8, 8]);
    let unknown = crate::id::TensorId::new(99);
    let planned = MemoryPlanner::new().tensor_alignment(unknown, 64).plan(&graph, &schedule);
    assert_eq!(planned, Err(PlanError::UnknownTensor { tensor: unknown }));
    for options in [BlockOptions::default().with_tolerance(0.5), BlockOptions::default().with_tolerance(f64::NAN)] {
        let planned = MemoryPlanner::new().block_options(options).blocks(&graph, &schedule);
        assert!(matches!(planned, Err(PlanError::BadOption { option: "tolerance", .. })), "{planned:?}");
    }
    let options = BlockOptions::default().with_cache_line_bytes(100);
    let planned = MemoryPlanner::new().block_options(options).blocks(&graph, &schedule);
    assert_eq!(planned, Err(PlanError::BadAlignment { alignment: 100 }));
    let (other, _) = chain(&[8, 8, 8]);
    assert!(matches!(MemoryPlanner::new().plan(&other, &schedule), Err(PlanError::Schedule(_))));
}

/// A chain of ops, each of which reads what the one before made; the last tensor is an output.
fn chain(bytes: &[u64]) -> (Graph, Schedule) {
    let mut b = Graph::builder();
    let mut last = None;
    for bytes in bytes {
        let tensor = b.tensor("", *bytes);
        b.op("").reads(last).writes([tensor]);
        last = Some(tensor);
    }
    if let Some(tensor) = last {
        b.output(tensor);
    }
    let graph = b.build().unwrap();
    let schedule = Schedule::from_order(&graph, graph.given_order()).unwrap();
    (graph, schedule)
}

#[test]
fn tensors_lie_at_multiples_of_their_own_alignment() {
    let (graph, schedule) = chain(&[100, 100, 100, 100]);
    let planner = graph.tensors().fold(MemoryPlanner::new(), |planner, t| planner.tensor_alignment(t, 1024));
    let plan = planner.plan(&graph, &schedule).unwrap();
    assert!(plan.placements().iter().all(|p| p.offset % 1024 == 0), "{plan:?}");
    assert_eq!((plan.arena_bytes(), plan.live_peak_bytes()), (1024 + 128, 256));
    assert!(check::memory_plan(&graph, &schedule, &plan).holds());
}

#[test]
fn sizes_beyond_32_bits_and_of_0_bytes_are_placed() {
    // 65,536 × 65,536 floats, and 463 GiB.
    let sizes = [1 << 34, 0, 463 << 30, 1 << 34];
    let (graph, schedule) = chain(&sizes);
    let plan = crate::plan(&graph, &schedule).unwrap();
    assert_eq!(plan.arena_bytes(), (463 << 30) + (1 << 34));
    assert_eq!(plan.placements().len(), 3, "nothing of 0 bytes has a place");
    assert!(check::memory_plan(&graph, &schedule, &plan).holds());
}

#[test]
fn a_view_keeps_the_bytes_of_its_root_and_weights_have_no_place() {
    let mut b = Graph::builder();
    let (w, t) = (b.weight("w", 640), b.tensor("t", 64));
    let (view, again) = (b.tensor("view", 64), b.tensor("again", 64));
    let (other, out) = (b.tensor("other", 64), b.tensor("out", 64));
    b.op("make").reads([w]).writes([t]);
    b.op("view").reads([t]).writes([view]).view(view, t);
    b.op("view again").reads([view]).writes([again]).view(again, view);
    b.op("other").writes([other]);
    b.op("last").reads([again, other]).writes([out]).workspace(32);
    b.output(out);
    let graph = b.build().unwrap();
    let schedule = Schedule::from_order(&graph, graph.given_order()).unwrap();
    let plan = crate::plan(&graph, &schedule).unwrap();
    assert_eq!(plan.placement(&graph, w), None);
    assert_eq!(plan.placement(&graph, again), plan.placement(&graph, t));
    assert_eq!(plan.placement(&graph, t).map(|p| (p.first.index(), p.last.index())), Some((0, 4)));
    // t, other, out, and the workspace, all at the last step.
    assert_eq!((plan.placements().len(), plan.arena_bytes(), plan.persistent_bytes()), (4, 256, 640));
    assert!(check::memory_plan(&graph, &schedule, &plan).holds());
}

#[test]
fn takeovers_share_their_bytes_whole() {
    let mut b = Graph::builder();
    let tensors: Vec<_> = (0..5).map(|_| b.tensor("", 100)).collect();
    b.op("").writes([tensors[0]]);
    for pair in tensors.windows(2) {
        b.op("").reads([pair[0]]).writes([pair[1]]).in_place(pair[1], pair[0]);
    }
    // Made when the chain has been taken over four times, and still holds its bytes.
    let side = b.tensor("", 100);
    b.op("").writes([side]);
    b.output(tensors[4]).output(side);
    let graph = b.build().unwrap();
    let schedule = Schedule::from_order(&graph, graph.given_order()).unwrap();
    let plan = crate::plan(&graph, &schedule).unwrap();
    assert_eq!((schedule.peak_bytes(), plan.arena_bytes()), (200, 256));
    let chain = &plan.placements()[..5];
    assert!(chain.iter().all(|p| p.offset == chain[0].offset), "{plan:?}");
    assert!(chain[1..].iter().all(|p| p.takes_over.is_some()), "{plan:?}");
    assert!(check::memory_plan(&graph, &schedule, &plan).holds());
    let blocks = MemoryPlanner::new().blocks(&graph, &schedule).unwrap();
    assert_eq!((blocks.block_bytes(), blocks.n_reused()), (&[128, 128][..], 4));
}

#[test]
fn steps_on_several_queues_are_ordered_by_events() {
    let (graph, schedule) = chain(&[64; 6]);
    let steps: Vec<Step> =
        schedule.steps().iter().enumerate().map(|(s, step)| step.on(QueueId::new(s / 2 % 2))).collect();
    let schedule = Schedule::from_steps(&graph, steps).unwrap();
    let plan = crate::plan(&graph, &schedule).unwrap();
    let pairs: Vec<_> = plan.events().iter().map(|e| (e.record.index(), e.wait.index())).collect();
    assert_eq!(pairs, [(1, 2), (3, 4)]);
    assert!(check::memory_plan(&graph, &schedule, &plan).holds());
    // Blocks that different queues touch are whole cache lines.
    let blocks = MemoryPlanner::new().blocks(&graph, &schedule).unwrap();
    assert_eq!(blocks.block_bytes(), [128, 128]);
    assert_eq!(blocks.waste_bytes(), 128);
}

#[test]
fn blocks_of_a_chain_are_two() {
    let (graph, schedule) = chain(&[64, 128, 64, 128, 64]);
    let blocks = MemoryPlanner::new().blocks(&graph, &schedule).unwrap();
    assert_eq!(check::blocks(&graph, schedule.steps(), &blocks), []);
    assert_eq!((blocks.total_bytes(), blocks.n_reused(), blocks.waste_bytes()), (192, 3, 0));
    let text = blocks.to_string();
    assert!(text.contains("blocks        2\nbytes         192\nbound         192\n"), "{text}");
}

#[test]
fn a_tolerance_and_size_classes_bound_reuse() {
    // The small tensors could have the large block, which is 16 times as large.
    let (graph, schedule) = chain(&[1024, 64, 64, 64]);
    let with = |options: BlockOptions| {
        let blocks = MemoryPlanner::new().block_options(options).blocks(&graph, &schedule).unwrap();
        assert_eq!(check::blocks(&graph, schedule.steps(), &blocks), []);
        let mut sizes = blocks.block_bytes().to_vec();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(with(BlockOptions::default()), [64, 1024]);
    assert_eq!(with(BlockOptions::default().with_tolerance(2.0)), [64, 64, 1024]);
    assert_eq!(with(BlockOptions::default().with_size_classes([4096, 256])), [256, 4096]);
    assert_eq!(with(BlockOptions::default().with_size_classes([512])), [512, 1024], "beyond the classes as it is");
}
