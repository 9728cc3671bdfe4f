//! Which intervals alone do not fit: a minimal set, found by leaving out.
//!
//! 1. A section that is fuller than the capacity gives a set at once: its largest intervals, as many as it takes.
//! 2. Otherwise all intervals are the first set, if it is proven that they do not fit.
//! 3. **Leaving out.** Take away a stretch of the set; where the rest still does not fit, it stays away. Stretches
//!    begin with half of the set and shrink to single intervals. At the end no single interval can go, so the set is
//!    minimal: what does not fit without an interval would not fit with fewer.
//!
//! Every answer comes from the same search as a placement, so that "fits" has a layout and "does not fit" a proof.
//! Where the budget ends before a trial does, the interval stays in the set, which then is a conflict still, but
//! perhaps not minimal.
//!
//! Source: deletion filtering, J. Chinneck, E. Dravnieks, "Locating minimal infeasible constraint sets in linear
//! programs", ORSA Journal on Computing, 1991; in stretches as in delta debugging (A. Zeller, R. Hildebrandt, 2002).

use super::problem::{Problem, Request};
use crate::error::PlanError;
use crate::search::Search;

/// A minimal set of rows that do not fit; `None` when all fit, or nothing is proven.
pub(super) fn smallest(request: &Request<'_>, search: &mut Search<'_>) -> Result<Option<Vec<usize>>, PlanError> {
    let all: Vec<usize> = (0..request.intervals.len()).collect();
    let whole = Problem::new(request, Some(&all))?;
    let mut set = match whole.overfull() {
        Some(rows) => rows,
        None if is_impossible(request, &all, search)? => all,
        None => return Ok(None),
    };
    set.sort_unstable();
    let mut stretch = set.len().div_ceil(2);
    loop {
        let mut at = 0;
        let mut shrank = false;
        while at < set.len() && set.len() > 1 {
            let end = (at + stretch).min(set.len());
            let rest: Vec<usize> = set[..at].iter().chain(&set[end..]).copied().collect();
            if !rest.is_empty() && is_impossible(request, &rest, search)? {
                set = rest;
                shrank = true;
            } else {
                at = end;
            }
        }
        if stretch == 1 && !shrank {
            return Ok(Some(set));
        }
        stretch = if stretch == 1 { 1 } else { stretch.div_ceil(2).min(set.len()).max(1) };
    }
}

/// Whether it is proven that the rows do not fit.
fn is_impossible(request: &Request<'_>, rows: &[usize], search: &mut Search<'_>) -> Result<bool, PlanError> {
    let problem = Problem::new(request, Some(rows))?;
    match problem.solve(true, search) {
        Ok(answer) => Ok(answer.is_proven && !answer.cost.fits()),
        // Fixed rows in each other's way fit in no capacity.
        Err(PlanError::FixedClash { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
