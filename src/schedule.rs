//! Schedules, and how to find good ones.
//!
//! A [`Schedule`] is a sequence of [`Step`]s with what is known about it: its peak, a lower bound that no plain
//! schedule of the graph can go below, and why the search for it stopped. [`Strategy`] names the algorithms that come
//! with the crate; any [`Scheduler`] may be used in their place.

pub mod anneal;
mod beam;
mod both;
pub mod dp;
mod expand;
pub mod genetic;
pub mod greedy;
mod hot;
pub mod hybrid;
mod lns;
mod reduce;
mod walk;

use crate::error::ScheduleError;
use crate::graph::Graph;
use crate::id::{OpId, QueueId, StepIdx, StorageId};
use crate::memory::bound::{Bound, operand_bound_bytes};
use crate::memory::instance::Instance;
use crate::memory::{Profile, lower_bound_bytes};
use crate::search::{Search, StopReason};
use std::fmt;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// Runs an op. Running it again recomputes its outputs.
    Run(OpId),
    /// Copies a storage to the host and frees it on the device.
    Offload(StorageId),
    /// Brings an offloaded storage back.
    Fetch(StorageId),
}

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// What the step does.
    pub action: Action,
    /// The queue that it is issued to. Steps of one queue run one after the other; steps of different queues are
    /// ordered by the events of a plan only.
    pub queue: QueueId,
}

impl Step {
    /// A step that runs an op on queue 0.
    #[must_use]
    pub const fn run(op: OpId) -> Self {
        Self { action: Action::Run(op), queue: QueueId::new(0) }
    }

    /// The steps of a plain order: each op of it runs, all on queue 0.
    #[must_use]
    pub fn plain(order: &[OpId]) -> Vec<Self> {
        order.iter().map(|op| Self::run(*op)).collect()
    }

    /// A step that offloads a storage, on queue 0.
    #[must_use]
    pub const fn offload(storage: StorageId) -> Self {
        Self { action: Action::Offload(storage), queue: QueueId::new(0) }
    }

    /// A step that fetches a storage, on queue 0.
    #[must_use]
    pub const fn fetch(storage: StorageId) -> Self {
        Self { action: Action::Fetch(storage), queue: QueueId::new(0) }
    }

    /// The same step on another queue.
    #[must_use]
    pub const fn on(mut self, queue: QueueId) -> Self {
        self.queue = queue;
        self
    }
}

/// A valid sequence of steps for one graph, and what is known about it.
///
/// Made by a [`Scheduler`], or from the caller's own order or steps; it is valid by construction.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Schedule {
    strategy: String,
    seed: u64,
    steps: Vec<Step>,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    persistent_bytes: u64,
    stop_reason: StopReason,
}

impl Schedule {
    /// The caller's own order: each op once. O(n + m), but for the lower bound, which see.
    ///
    /// # Errors
    /// [`ScheduleError`] when it is no valid order of the graph's ops.
    pub fn from_order(graph: &Graph, order: &[OpId]) -> Result<Self, ScheduleError> {
        let mut runs = vec![false; graph.n_ops()];
        for (s, &op) in order.iter().enumerate() {
            if op.index() < graph.n_ops() && std::mem::replace(&mut runs[op.index()], true) {
                return Err(ScheduleError::RunsTwice { at: StepIdx::new(s), op: graph.op_label(op) });
            }
        }
        Self::from_steps(graph, Step::plain(order))
    }

    /// The caller's own steps, which may recompute, offload, fetch and name queues.
    ///
    /// # Errors
    /// [`ScheduleError`] when they are no valid schedule of the graph.
    pub fn from_steps(graph: &Graph, steps: Vec<Step>) -> Result<Self, ScheduleError> {
        let profile = Profile::of(graph, &steps)?;
        let plain = steps.len() == graph.n_ops() && steps.iter().all(|step| matches!(step.action, Action::Run(_)));
        // Recomputation and offload can go below what every plain order needs, but no op can do without its operands.
        let bound = if plain { lower_bound_bytes(graph) } else { operand_bound_bytes(graph) };
        Ok(Self::assemble(graph, CUSTOM, steps, profile.peak_bytes(), bound, StopReason::Finished, 0))
    }

    /// The answer of a scheduler of the crate.
    fn of_best(graph: &Graph, strategy: &str, best: &Best<'_>, search: &Search<'_>) -> Self {
        let steps = Step::plain(&best.instance().named(best.order()));
        debug_assert_eq!(
            Profile::of(graph, &steps).map(|profile| profile.peak_bytes()),
            Ok(best.peak_bytes()),
            "the instance and the evaluator disagree"
        );
        let stop_reason = search.stopped().unwrap_or(StopReason::Finished);
        Self::assemble(graph, strategy, steps, best.peak_bytes(), best.bound.bytes(), stop_reason, search.seed())
    }

    fn assemble(
        graph: &Graph,
        strategy: &str,
        steps: Vec<Step>,
        peak_bytes: u64,
        lower_bound_bytes: u64,
        stop_reason: StopReason,
        seed: u64,
    ) -> Self {
        debug_assert!(lower_bound_bytes <= peak_bytes, "a bound of {lower_bound_bytes} above a peak of {peak_bytes}");
        Self {
            strategy: strategy.to_owned(),
            seed,
            steps,
            peak_bytes,
            lower_bound_bytes,
            persistent_bytes: graph.persistent_bytes(),
            stop_reason: if lower_bound_bytes == peak_bytes { StopReason::Optimal } else { stop_reason },
        }
    }

    /// The same schedule under the name of the scheduler that made it.
    #[must_use]
    pub fn with_strategy(mut self, name: impl Into<String>) -> Self {
        self.strategy = name.into();
        self
    }

    /// The name of the scheduler that made it; `"custom"` for the caller's own steps.
    #[must_use]
    pub fn strategy(&self) -> &str {
        &self.strategy
    }

    /// The seed of the search that made it.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The ops in the order in which they run; an op that runs again stands there again.
    pub fn order(&self) -> impl DoubleEndedIterator<Item = OpId> + Clone + '_ {
        self.steps.iter().filter_map(|step| match step.action {
            Action::Run(op) => Some(op),
            Action::Offload(_) | Action::Fetch(_) => None,
        })
    }

    /// The most bytes in use at any step, persistent storages left out, in-place takeovers used.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Bytes that no schedule of the graph without recomputation and offload can go below; for a schedule with them,
    /// bytes that no schedule at all can go below.
    #[must_use]
    pub fn lower_bound_bytes(&self) -> u64 {
        self.lower_bound_bytes
    }

    /// How far the peak is above the lower bound, as a fraction of the bound; 0 when proven optimal.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn gap(&self) -> f64 {
        match self.peak_bytes - self.lower_bound_bytes {
            0 => 0.0,
            above => above as f64 / self.lower_bound_bytes as f64,
        }
    }

    /// Whether the peak equals the lower bound, so that nothing better exists.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.peak_bytes == self.lower_bound_bytes
    }

    /// The bytes of the graph's persistent storages, which the peak leaves out.
    #[must_use]
    pub fn persistent_bytes(&self) -> u64 {
        self.persistent_bytes
    }

    /// Why the search for it stopped.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.stop_reason
    }

    /// Which bytes are live at which step. O(n + m).
    ///
    /// # Errors
    /// [`ScheduleError`] when the schedule was made for another graph.
    pub fn profile(&self, graph: &Graph) -> Result<Profile, ScheduleError> {
        Profile::of(graph, &self.steps)
    }
}

/// The name of a schedule that no scheduler of the crate made.
const CUSTOM: &str = "custom";

/// An algorithm that finds a schedule. Object safe, so that a program can bring its own.
///
/// The example `custom_scheduler` shows one from outside the crate.
pub trait Scheduler: fmt::Debug + Send + Sync {
    /// The name that its schedules bear.
    fn name(&self) -> &str;

    /// Finds a schedule of `graph` within what `search` allows.
    ///
    /// # Errors
    /// [`ScheduleError`]. The crate's own schedulers succeed on every graph: running out of budget is no error.
    fn schedule(&self, graph: &Graph, search: &mut Search<'_>) -> Result<Schedule, ScheduleError>;
}

/// The schedulers that come with the crate. None answers with a higher peak than the given order has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Strategy {
    /// The order in which the ops were added.
    Given,
    /// At each step the op that frees most and costs least: near-linear, for any size. See [`greedy`].
    Greedy,
    /// Evolution of orders by crossover and mutation. See [`genetic`].
    Genetic,
    /// Exact search over the sets of ops that may have run: the optimum for graphs of fewer than 50 ops, often far
    /// beyond, and the best found with a bound where it must give up. See [`dp`].
    Dp,
    /// All of these, cheap ones first, refined by annealing; stops as soon as the peak is proven optimal.
    /// See [`hybrid`].
    #[default]
    Hybrid,
}

impl Strategy {
    /// All strategies, from the cheapest on.
    pub const ALL: [Self; 5] = [Self::Given, Self::Greedy, Self::Genetic, Self::Dp, Self::Hybrid];
}

impl Scheduler for Strategy {
    fn name(&self) -> &str {
        match self {
            Self::Given => "given",
            Self::Greedy => "greedy",
            Self::Genetic => "genetic",
            Self::Dp => "dp",
            Self::Hybrid => "hybrid",
        }
    }

    fn schedule(&self, graph: &Graph, search: &mut Search<'_>) -> Result<Schedule, ScheduleError> {
        let instance = Instance::of(graph);
        let mut best = Best::given(&instance);
        search.tell("given", best.peak_bytes(), best.bound.bytes());
        if search.spend(0) {
            match self {
                Self::Given => best.bound.raise(&instance, search),
                Self::Greedy => greedy::improve(&mut best, search),
                Self::Genetic => genetic::improve(&mut best, search),
                Self::Dp => dp::improve(&mut best, search),
                Self::Hybrid => hybrid::improve(&mut best, search),
            }
        }
        Ok(Schedule::of_best(graph, self.name(), &best, search))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| UnknownStrategy(name.to_owned()))
    }
}

/// There is no strategy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {0:?}; there are given, greedy, genetic, dp and hybrid")]
pub struct UnknownStrategy(String);

/// The best order of an instance found so far and the best bound proven so far: what a search carries from stage to
/// stage.
#[derive(Clone, Debug)]
pub(crate) struct Best<'i> {
    instance: &'i Instance,
    order: Vec<OpId>,
    /// What each step of the order costs.
    costs: Vec<u64>,
    peak_bytes: u64,
    pub(crate) bound: Bound,
}

impl<'i> Best<'i> {
    /// The order of the ids, and the bound that costs nothing. O(n + m).
    fn given(instance: &'i Instance) -> Self {
        let mut best =
            Self { instance, order: Vec::new(), costs: Vec::new(), peak_bytes: u64::MAX, bound: Bound::new(instance) };
        best.offer(instance.ops().collect());
        best
    }

    /// The instance.
    pub(crate) fn instance(&self) -> &'i Instance {
        self.instance
    }

    /// The best order.
    pub(crate) fn order(&self) -> &[OpId] {
        &self.order
    }

    /// What each step of the best order costs, in bytes.
    pub(crate) fn costs(&self) -> &[u64] {
        &self.costs
    }

    /// The peak of the best order, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Whether the best order is proven optimal.
    pub(crate) fn is_optimal(&self) -> bool {
        self.bound.bytes() >= self.peak_bytes
    }

    /// Measures an order that is valid by construction and keeps it when it is better; whether it was. What it shows
    /// about the bound is kept too. O(n + m).
    pub(crate) fn offer(&mut self, order: Vec<OpId>) -> bool {
        debug_assert_eq!(order.len(), self.instance.n_ops());
        let costs = self.instance.step_costs(&order);
        order.iter().zip(&costs).for_each(|(op, cost)| self.bound.lower_ceiling(*op, *cost));
        let peak_bytes = self.instance.peak_bytes(&costs);
        let better = peak_bytes < self.peak_bytes || self.order.len() < order.len();
        if better {
            (self.order, self.costs, self.peak_bytes) = (order, costs, peak_bytes);
        }
        better
    }

    /// Takes over what another search that started from this one found.
    fn absorb(&mut self, other: Self) {
        self.bound.prove(other.bound.bytes());
        if other.peak_bytes < self.peak_bytes {
            (self.order, self.costs, self.peak_bytes) = (other.order, other.costs, other.peak_bytes);
        }
    }

    /// [`offer`](Self::offer), without measuring an order that its builder found to be no better.
    fn offer_if_better(&mut self, built: greedy::Built) -> bool {
        let better = built.peak_bytes < self.peak_bytes && self.offer(built.order);
        debug_assert!(!better || self.peak_bytes == built.peak_bytes, "the walk and the evaluator disagree");
        better
    }
}

#[cfg(test)]
mod tests;
