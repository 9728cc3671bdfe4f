//! What a search may spend, and how it tells: budgets, cancel, progress and seed in one context.
//!
//! Every scheduler and planner that searches takes a [`Search`]. It calls [`Search::spend`] as it works, and stops
//! with its best answer so far when that says so; running out of budget is never an error.
//!
//! **Work** is counted in units of about one visit of one op or operand. It depends on the input only, never on the
//! machine, so the same input, seed and work budget give the same answer everywhere. A time budget or a cancel token
//! gives that up, knowingly; the clock is not read unless a time budget is set.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The work budget of a [`Search`] for which nothing else was said.
pub const DEFAULT_WORK: u64 = 120_000_000;

/// How much work may pass between two looks at the clock or the cancel token.
const LOOK_EVERY: u64 = 20_000;

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum StopReason {
    /// The answer is as good as the proven bound: nothing better exists.
    Optimal,
    /// The algorithm came to its own end without a proof that nothing better exists.
    Finished,
    /// The work budget was spent.
    WorkBudget,
    /// The time budget was spent.
    TimeBudget,
    /// The algorithm reached the most memory it may hold.
    MemoryLimit,
    /// The caller cancelled.
    Cancelled,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Optimal => "proven optimal",
            Self::Finished => "came to its end",
            Self::WorkBudget => "work budget spent",
            Self::TimeBudget => "time budget spent",
            Self::MemoryLimit => "memory limit reached",
            Self::Cancelled => "cancelled",
        })
    }
}

/// A switch that stops a running search from another thread. Clones share the switch.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every search that holds this token to stop with its best answer so far.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a progress callback is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The part of the search that is running.
    pub phase: &'static str,
    /// Work spent so far, in work units.
    pub spent_work: u64,
    /// The work budget, in work units.
    pub work_budget: u64,
    /// The least peak found so far, in bytes.
    pub peak_bytes: u64,
    /// The best proven lower bound so far, in bytes.
    pub lower_bound_bytes: u64,
}

/// Who is told about progress.
type Callback<'p> = Box<dyn FnMut(&Progress) + Send + 'p>;

/// The context of one search: budgets, cancel token, progress callback, seed.
///
/// ```
/// use memsched::{Graph, Strategy, schedule_with};
/// use memsched::search::{Search, StopReason};
///
/// let mut b = Graph::builder();
/// let (x, y) = (b.input("x", 4), b.tensor("y", 4));
/// b.op("relu").reads([x]).writes([y]);
/// b.output(y);
/// let graph = b.build()?;
///
/// let mut search = Search::new().with_seed(7).with_work_budget(1_000_000);
/// let schedule = schedule_with(&graph, &Strategy::Hybrid, &mut search)?;
/// assert_eq!(schedule.stop_reason(), StopReason::Optimal);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Search<'p> {
    seed: u64,
    work_budget: u64,
    time_budget: Option<Duration>,
    cancel: CancelToken,
    progress: Option<Callback<'p>>,
    spent_work: u64,
    /// The work at which the present part of the search must end; never above `work_budget`.
    limit: u64,
    /// The work at which to look at the clock and the cancel token next.
    look_at: u64,
    deadline: Option<Instant>,
    stopped: Option<StopReason>,
}

impl fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("seed", &self.seed)
            .field("work_budget", &self.work_budget)
            .field("time_budget", &self.time_budget)
            .field("spent_work", &self.spent_work)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'p> Search<'p> {
    /// Seed 0, the default work budget ([`DEFAULT_WORK`]), no time budget, nobody to cancel or to tell.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seed: 0,
            work_budget: DEFAULT_WORK,
            time_budget: None,
            cancel: CancelToken::new(),
            progress: None,
            spent_work: 0,
            limit: DEFAULT_WORK,
            look_at: 0,
            deadline: None,
            stopped: None,
        }
    }

    /// Sets the seed of everything random.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how much work may be spent, in work units; 0 gives the answer that needs no search.
    #[must_use]
    pub fn with_work_budget(mut self, work: u64) -> Self {
        self.work_budget = work;
        self.limit = work;
        self
    }

    /// Sets how long the search may take, from the first [`spend`](Self::spend) on. The work budget still holds.
    #[must_use]
    pub fn with_time_budget(mut self, time: Duration) -> Self {
        self.time_budget = Some(time);
        self
    }

    /// Sets the token that stops the search.
    #[must_use]
    pub fn with_cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Sets who is told about progress: at every new phase and every better answer.
    #[must_use]
    pub fn with_progress(mut self, callback: impl FnMut(&Progress) + Send + 'p) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Work spent so far, in work units.
    #[must_use]
    pub fn spent_work(&self) -> u64 {
        self.spent_work
    }

    /// Work that may still be spent, in work units.
    #[must_use]
    pub fn remaining_work(&self) -> u64 {
        self.limit.saturating_sub(self.spent_work)
    }

    /// Counts `work` units as spent; `false` when the search must stop.
    ///
    /// Once it has said `false` it goes on saying so.
    pub fn spend(&mut self, work: u64) -> bool {
        self.spent_work = self.spent_work.saturating_add(work);
        if self.stopped.is_none() && self.spent_work > self.limit {
            self.stopped = Some(StopReason::WorkBudget);
        }
        if self.spent_work >= self.look_at {
            self.look_at = self.spent_work.saturating_add(LOOK_EVERY);
            self.look();
        }
        self.stopped.is_none()
    }

    /// Looks at the cancel token and, where a time budget is set, at the clock.
    fn look(&mut self) {
        if self.cancel.is_cancelled() {
            self.stopped = Some(StopReason::Cancelled);
        } else if let Some(budget) = self.time_budget {
            let now = Instant::now();
            let deadline = *self.deadline.get_or_insert_with(|| now.checked_add(budget).unwrap_or(now));
            if now >= deadline {
                self.stopped = Some(StopReason::TimeBudget);
            }
        }
    }

    /// Why the search had to stop; `None` while it may go on.
    #[must_use]
    pub fn stopped(&self) -> Option<StopReason> {
        self.stopped
    }

    /// Stops the search for a reason of the algorithm's own, unless it has stopped already.
    pub fn stop(&mut self, reason: StopReason) {
        self.stopped.get_or_insert(reason);
    }

    /// Runs `part` with at most `work` units, then goes on with what is left of the whole budget.
    ///
    /// A part that ends because its own share is spent, or at a memory limit of its own, does not stop the search as a
    /// whole.
    pub fn within<R>(&mut self, work: u64, part: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.limit;
        self.limit = self.spent_work.saturating_add(work).min(outer);
        let result = part(self);
        self.limit = outer;
        let own = matches!(self.stopped, Some(StopReason::WorkBudget | StopReason::MemoryLimit));
        if own && self.spent_work <= outer {
            self.stopped = None;
        }
        result
    }

    /// A search of its own, with at most `work` units of what is left, for a part that may run at the same time as
    /// others. It hears of cancellation and of the deadline; it tells nobody. Its work is to be spent here afterwards.
    pub(crate) fn fork(&mut self, work: u64) -> Search<'static> {
        self.look();
        let work = work.min(self.remaining_work());
        Search {
            seed: self.seed,
            work_budget: work,
            time_budget: self.time_budget,
            cancel: self.cancel.clone(),
            progress: None,
            spent_work: 0,
            limit: work,
            look_at: 0,
            deadline: self.deadline,
            stopped: self.stopped,
        }
    }

    /// Tells the progress callback, if there is one.
    pub fn tell(&mut self, phase: &'static str, peak_bytes: u64, lower_bound_bytes: u64) {
        let (spent_work, work_budget) = (self.spent_work, self.work_budget);
        if let Some(callback) = &mut self.progress {
            callback(&Progress { phase, spent_work, work_budget, peak_bytes, lower_bound_bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_out_and_stays_out() {
        let mut search = Search::new().with_work_budget(10);
        assert!(search.spend(10));
        assert!(!search.spend(1));
        assert!(!search.spend(0));
        assert_eq!(search.stopped(), Some(StopReason::WorkBudget));
        assert_eq!(search.remaining_work(), 0);
    }

    #[test]
    fn a_part_that_spends_its_share_does_not_stop_the_whole() {
        let mut search = Search::new().with_work_budget(100);
        let stopped = search.within(10, |part| {
            part.spend(20);
            part.stopped()
        });
        assert_eq!(stopped, Some(StopReason::WorkBudget));
        assert_eq!(search.stopped(), None);
        assert!(search.spend(80));
        assert!(!search.spend(1));
    }

    #[test]
    fn cancel_and_time_stop_at_the_next_look() {
        let token = CancelToken::new();
        let mut search = Search::new().with_cancel(token.clone());
        assert!(search.spend(1));
        token.cancel();
        assert!(!search.spend(LOOK_EVERY));
        assert_eq!(search.stopped(), Some(StopReason::Cancelled));

        let mut search = Search::new().with_time_budget(Duration::ZERO);
        assert!(!search.spend(1));
        assert_eq!(search.stopped(), Some(StopReason::TimeBudget));
    }

    #[test]
    fn progress_is_told_what_was_spent() {
        let mut seen = Vec::new();
        {
            let mut search = Search::new().with_work_budget(50).with_progress(|p| seen.push(*p));
            search.spend(3);
            search.tell("greedy", 20, 10);
        }
        assert_eq!(
            seen,
            [Progress { phase: "greedy", spent_work: 3, work_budget: 50, peak_bytes: 20, lower_bound_bytes: 10 }]
        );
    }
}
