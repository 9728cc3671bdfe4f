//! Large-neighbourhood search: solves windows of the best order around its dearest step, each as an instance.
//!
//! **Move.** All ops before and after a window of the order stay; the window is an instance of its own (see
//! `memory/instance`), which list orders, cuts, beams and exact search solve within a small budget. If its peak falls,
//! its new order takes the place of the old one. The steps outside cost what they cost before.
//!
//! **Target.** A window need not be solved to its optimum. Half the way from its peak to the bound is enough: with a
//! lower target the safe rules could run less at once.
//!
//! **Windows** contain the dearest step of the order. They grow up to [`MOST`] ops from half the width that helped last,
//! and lie so that the step is in the middle, then early, then late. When all fail, they are tried with more work; then
//! it ends: no window of these improves the order.
//!
//! **Objective.** A window that is improved lowers one peak even if another step is as dear; then that one comes next.
//! So orders are compared by their peak, and among those of equal peak by the dear steps that are left.
//!
//! Complexity: the budget of a window for each one tried, O(n) for each that is improved. Deterministic. Limits: it
//! proves nothing about the whole.
//!
//! Source: Shaw, "Using constraint programming and local search methods to solve vehicle routing problems", CP 1998.

use super::hybrid::Solver;
use super::{Best, greedy};
use crate::search::Search;

/// The fewest and the most ops of a window.
const LEAST: usize = 32;
const MOST: usize = 512;

/// Work units for each op of a window, at first and after all windows have failed.
const WORK_PER_OP: [u64; 2] = [2_000, 8_000];

/// Improves the best order until no window does, the order is proven optimal, or the budget is spent.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    let instance = best.instance();
    let n = instance.n_ops();
    let mut order = best.order().to_vec();
    let mut costs = best.costs().to_vec();
    let mut last = LEAST;
    'orders: while !best.is_optimal() && n > 0 {
        let dearest = (0..n).rev().max_by_key(|step| costs[*step]).unwrap_or(0);
        let bound = best.bound.bytes();
        if costs[dearest] <= bound {
            return;
        }
        let place = greedy::ranks(&order);
        let live = instance.live_before(&order);
        let target = bound + (costs[dearest] - bound) / 2;
        for (work_per_op, least) in [(WORK_PER_OP[0], (last / 2).max(LEAST)), (WORK_PER_OP[1], LEAST)] {
            let widths = std::iter::successors(Some(least), |width| Some(width * 2));
            for width in widths.take_while(|width| *width <= MOST && width / 2 < n) {
                for (early, of) in [(1, 2), (1, 8), (7, 8)] {
                    let start = dearest.saturating_sub(width * early / of).min(n.saturating_sub(width));
                    let range = start..(start + width).min(n);
                    let part = instance.part(&order, &place, range.clone(), live[start]);
                    let mut solver = Solver::new(&part, target);
                    let before = solver.best.peak_bytes();
                    search.within(work_per_op * width as u64, |search| solver.run(search));
                    if solver.best.peak_bytes() < before {
                        order[range.clone()].copy_from_slice(&part.named(solver.best.order()));
                        costs[range].copy_from_slice(solver.best.costs());
                        if instance.peak_bytes(&costs) < best.peak_bytes() {
                            best.offer(order.clone());
                            search.tell("windows", best.peak_bytes(), best.bound.bytes());
                        }
                        last = width;
                        continue 'orders;
                    }
                    if search.stopped().is_some() {
                        return;
                    }
                }
            }
        }
        return;
    }
}
