//! What users of a planner need beyond times and sizes, one thing a test.

use super::super::{Interval, MemoryPlanner, Pool, Relations};
use crate::error::PlanError;
use crate::search::{CancelToken, Search, StopReason};

fn planner() -> MemoryPlanner {
    MemoryPlanner::new().alignment(1)
}

#[test]
fn pairs_are_identical_or_disjoint_and_never_overlap_in_part() {
    // An in-place pair (0, 1), whose joint bytes are wanted by nobody else; 2 leaves room for one of them only.
    let rows = [Interval::new(0, 2, 40), Interval::new(1, 3, 40), Interval::new(0, 3, 60)];
    let pair = Relations::new().identical_or_disjoint(0, 1);
    let layout = planner().place_with(&rows, &pair, &mut Search::new()).unwrap();
    assert_eq!((layout.height_bytes(), layout.offsets()[0]), (100, layout.offsets()[1]));
    // Fixed where they would overlap in part.
    let partly = [rows[0].fixed_at(0), rows[1].fixed_at(20), rows[2]];
    let clash = planner().place_with(&partly, &pair, &mut Search::new());
    assert_eq!(clash, Err(PlanError::FixedClash { first: 0, second: 1 }));
    // A third reader of the operand, through a view, forbids taking it over.
    let forbidden = pair.conflict(0, 1);
    let layout = planner().place_with(&rows, &forbidden, &mut Search::new()).unwrap();
    assert_eq!(layout.height_bytes(), 140);
    let unequal = Relations::new().identical_or_disjoint(0, 2);
    let refused = planner().place_with(&rows, &unequal, &mut Search::new());
    assert_eq!(refused, Err(PlanError::UnequalPair { first: 0, second: 2 }));
}

#[test]
fn fixed_intervals_stay_and_clash_by_name() {
    let rows = [Interval::new(0, 4, 10).fixed_at(30), Interval::new(1, 3, 25), Interval::new(2, 4, 10)];
    let layout = planner().place(&rows).unwrap();
    assert_eq!((layout.offsets()[0], layout.height_bytes()), (30, 50));
    let clash = [rows[0], rows[1].fixed_at(10)];
    assert_eq!(planner().place(&clash), Err(PlanError::FixedClash { first: 0, second: 1 }));
    let unaligned = [Interval::new(0, 1, 8).fixed_at(4)];
    let refused = MemoryPlanner::new().place(&unaligned);
    assert_eq!(refused, Err(PlanError::FixedUnaligned { interval: 0, offset: 4, alignment: 64 }));
}

#[test]
fn hints_are_kept_where_they_cost_nothing() {
    let rows = [Interval::new(0, 2, 10), Interval::new(1, 3, 20), Interval::new(2, 4, 10), Interval::new(0, 4, 5)];
    let plain = planner().place(&rows).unwrap();
    // The layout upside down is as good, and is kept when it is hinted at.
    let flipped: Vec<u64> =
        rows.iter().zip(plain.offsets()).map(|(row, at)| plain.height_bytes() - row.bytes - at).collect();
    let hinted: Vec<Interval> = rows.iter().zip(&flipped).map(|(row, at)| row.with_hint(*at)).collect();
    let layout = planner().place(&hinted).unwrap();
    assert_eq!(layout.offsets(), flipped);
    assert_eq!(layout.height_bytes(), plain.height_bytes());
    // One that would cost bytes is not.
    let far = [rows[0].with_hint(1_000), rows[1], rows[2], rows[3]];
    assert_eq!(planner().place(&far).unwrap().height_bytes(), plain.height_bytes());
}

#[test]
fn bytes_rest_before_they_are_used_again() {
    let rows = [Interval::new(0, 2, 10), Interval::new(3, 5, 10), Interval::new(5, 6, 10)];
    assert_eq!(planner().place(&rows).unwrap().height_bytes(), 10);
    assert_eq!(planner().reuse_distance(1).place(&rows).unwrap().height_bytes(), 20);
    assert_eq!(planner().reuse_distance(u64::MAX).place(&rows).unwrap().height_bytes(), 30);
}

#[test]
fn exclusive_intervals_share_with_nobody() {
    let rows = [Interval::new(0, 1, 10).exclusive(), Interval::new(1, 2, 10), Interval::new(2, 3, 10)];
    let layout = planner().place(&rows).unwrap();
    assert_eq!((layout.height_bytes(), layout.offsets()[1]), (20, layout.offsets()[2]));
}

#[test]
fn conflicts_beyond_time_are_kept() {
    let rows = [Interval::new(0, 1, 10), Interval::new(1, 2, 10), Interval::new(2, 3, 10)];
    let layout = planner().place_with(&rows, &Relations::new().conflict(0, 2), &mut Search::new()).unwrap();
    assert_eq!((layout.height_bytes(), layout.load_bytes()), (20, 10));
    assert!(layout.is_optimal(), "no layout of two that conflict is lower");
    let unknown = planner().place_with(&rows, &Relations::new().conflict(0, 7), &mut Search::new());
    assert_eq!(unknown, Err(PlanError::UnknownInterval { interval: 7, n_intervals: 3 }));
}

#[test]
fn pools_fill_in_one_direction() {
    let pools = [Pool::new().with_capacity(64).falling_back_to([1]), Pool::new().with_capacity(100)];
    let rows = [Interval::new(0, 2, 60), Interval::new(1, 3, 60), Interval::new(0, 3, 40).in_pool(1)];
    let layout = planner().pools(pools.clone()).place(&rows).unwrap();
    assert_eq!(layout.pool_heights(), [60, 100]);
    // What asks for the slow pool does not come into the fast one.
    let slow = [Interval::new(0, 1, 101).in_pool(1)];
    let refused = planner().pools(pools.clone()).place(&slow);
    assert!(matches!(refused, Err(PlanError::DoesNotFit { is_proven: true, .. })), "{refused:?}");
    let nowhere = planner().pools(pools).place(&[Interval::new(0, 1, 1).in_pool(2)]);
    assert_eq!(nowhere, Err(PlanError::UnknownPool { pool: 2, n_pools: 2 }));
}

#[test]
fn capacities_are_decided_with_a_proof() {
    let rows = [Interval::new(0, 2, 60), Interval::new(1, 3, 60)];
    let refused = planner().capacity(100).place(&rows);
    assert_eq!(refused, Err(PlanError::DoesNotFit { capacity: 100, height: 120, is_proven: true }));
    // A first layout that does not fit is no reason to give up: first fit by size takes 5 here.
    let rows = super::super::puzzle::guillotine(60, 1);
    let height = super::super::puzzle::HEIGHT_BYTES;
    assert!(planner().capacity(height).place(&rows).unwrap().is_optimal());
}

#[test]
fn zero_sizes_are_placed_and_in_nobodys_way() {
    let rows = [Interval::new(0, 3, 0), Interval::new(0, 3, 8), Interval::new(1, 2, 0).fixed_at(4)];
    let layout = planner().place(&rows).unwrap();
    assert_eq!((layout.offsets().len(), layout.height_bytes()), (3, 8));
    let none = planner().place(&[]).unwrap();
    assert!(none.is_optimal() && none.height_bytes() == 0);
    let empty = planner().place(&rows[..1]).unwrap();
    assert!(empty.is_optimal() && empty.height_bytes() == 0);
}

#[test]
fn equal_sizes_are_not_lost() {
    let rows: Vec<Interval> = (0..50).map(|k| Interval::new(k / 10, k / 10 + 2, 16)).collect();
    let layout = planner().place(&rows).unwrap();
    super::assert_layout(&rows, 1, &layout);
    assert_eq!(layout.height_bytes(), 20 * 16);
}

#[test]
fn budgets_and_cancel_give_the_best_so_far() {
    // Sizes without a common structure, so that the load is not reached at once.
    let rows: Vec<Interval> =
        (0..400u64).map(|k| Interval::new(k * 7 % 331, k * 7 % 331 + 1 + k * k % 57, 1 + k * 7919 % 1009)).collect();
    let mut spent = Search::new().with_work_budget(0);
    let quick = planner().place_with(&rows, &Relations::new(), &mut spent).unwrap();
    super::assert_layout(&rows, 1, &quick);
    let token = CancelToken::new();
    token.cancel();
    let mut cancelled = Search::new().with_cancel(token);
    let layout = planner().place_with(&rows, &Relations::new(), &mut cancelled).unwrap();
    assert!(layout.is_optimal() || layout.stop_reason() == StopReason::Cancelled, "{:?}", layout.stop_reason());
    let longer = planner().place(&rows).unwrap();
    assert!(longer.height_bytes() <= quick.height_bytes());
    let again = planner().place(&rows).unwrap();
    assert_eq!(longer, again);
}

#[test]
fn nothing_overflows_and_no_pool_is_an_error() {
    let far = [Interval::new(0, 1, 8).fixed_at(u64::MAX - 3)];
    assert!(matches!(planner().place(&far), Err(PlanError::BytesOverflow { .. })));
    let both = [Interval::new(0, 2, u64::MAX), Interval::new(1, 3, 1)];
    assert!(matches!(planner().place(&both), Err(PlanError::BytesOverflow { .. })));
    let full = [Interval::new(0, 2, u64::MAX - 8), Interval::new(1, 3, 8)];
    let layout = planner().place(&full).unwrap();
    super::assert_layout(&full, 1, &layout);
    let none = planner().pools([]).place(&[Interval::new(0, 1, 8)]);
    assert_eq!(none, Err(PlanError::UnknownPool { pool: 0, n_pools: 0 }));
    assert_eq!(planner().pools([]).place(&[]).unwrap().height_bytes(), 0);
    let high = [Interval::new(0, 1, 8).fixed_at(1 << 63), Interval::new(0, 1, 8).fixed_at(1 << 63).in_pool(1)];
    let layout = planner().pools([Pool::new(), Pool::new()]).place(&high).unwrap();
    assert_eq!(layout.pool_heights(), [(1 << 63) + 8; 2]);
}
