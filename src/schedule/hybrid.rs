//! All schedulers together: cheap answers first, certificates as soon as they come, search where a gap is left.
//!
//! 1. The given order and its forced-live bound. On most real graphs this is already a proven optimum.
//! 2. List orders by every rule in both directions ([`greedy`]), then replays of the best one through
//!    the run-now rule.
//! 3. Exact search from both ends ([`dp`]) with a share of the budget.
//! 4. Evolution ([`genetic`]) and annealing ([`anneal`]), each with a share.
//! 5. Exact search with what is left: the best peak is lower now, so that more states are cut off.
//!
//! Every stage starts from the best order so far, and the search stops as soon as its peak equals the bound. The given
//! order is the first candidate, so the answer is never worse.

use super::{Best, anneal, dp, genetic, greedy};
use crate::graph::Graph;
use crate::search::Search;

/// The share of the remaining work, in percent, of each stage that may spend as much as it is given.
const BOUND_PERCENT: u64 = 10;
const EXACT_PERCENT: u64 = 30;
const GENETIC_PERCENT: u64 = 25;
const ANNEAL_PERCENT: u64 = 50;

/// The stages of the module doc, in turn.
pub(super) fn improve(graph: &Graph, best: &mut Best, search: &mut Search<'_>) {
    greedy::improve(graph, best, search);
    greedy::polish(graph, best, search);
    let share = |search: &Search<'_>, percent: u64| search.remaining_work() / 100 * percent;
    let work = share(search, BOUND_PERCENT);
    search.within(work, |search| best.bound.raise(graph, search));

    let stages: [(u64, Stage); 3] =
        [(EXACT_PERCENT, dp::run), (GENETIC_PERCENT, genetic::improve), (ANNEAL_PERCENT, anneal::improve)];
    for (percent, stage) in stages {
        if best.is_optimal() || search.stopped().is_some() {
            return;
        }
        let work = share(search, percent);
        search.within(work, |search| stage(graph, best, search));
        greedy::polish(graph, best, search);
    }
    dp::run(graph, best, search);
}

type Stage = fn(&Graph, &mut Best, &mut Search<'_>);
