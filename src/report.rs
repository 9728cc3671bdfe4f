//! What a schedule and its plan come to: the figures, and their text of one screen.
//!
//! ```
//! use memsched::{Graph, Strategy, plan, report::Report, schedule};
//!
//! let mut b = Graph::builder();
//! let (x, y) = (b.input("x", 4096), b.tensor("y", 4096));
//! b.op("relu").reads([x]).writes([y]);
//! b.output(y);
//! let graph = b.build()?;
//!
//! let schedule = schedule(&graph, Strategy::Hybrid)?;
//! let plan = plan(&graph, &schedule)?;
//! let report = Report::new(&graph, &schedule, &plan)?;
//! assert_eq!(report.peak_bytes, 8192);
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::error::ScheduleError;
use crate::graph::{Graph, TensorKind};
use crate::id::{OpId, StepIdx, TensorId};
use crate::memory::{Occupant, Profile};
use crate::plan::MemoryPlan;
use crate::schedule::{Action, Schedule, Step};
use crate::search::StopReason;
use std::cmp::Reverse;
use std::fmt;

/// How many of the tensors that are live at the peak a report names.
const LARGEST: usize = 5;

/// A storage that is live at the peak, under the name of its root.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LiveTensor {
    /// The root of the storage.
    pub tensor: TensorId,
    /// Its name; empty where it has none.
    pub name: String,
    /// The storage's bytes.
    pub bytes: u64,
    /// What the tensor is for.
    pub kind: TensorKind,
    /// Its element type, in the framework's words.
    pub dtype: Option<String>,
    /// Its dimensions, where known.
    pub shape: Option<Vec<u64>>,
}

/// The figures of one schedule and its plan.
///
/// [`Display`](fmt::Display) shows them on one screen, without a line break at the end.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The graph's name; empty where it has none.
    pub graph: String,
    /// Ops of the graph.
    pub n_ops: usize,
    /// Tensors of the graph, views and updates included.
    pub n_tensors: usize,
    /// Bytes of all storages that are not persistent: what running without any reuse would take.
    pub transient_bytes: u64,
    /// Bytes of persistent storages, which no other figure counts.
    pub persistent_bytes: u64,
    /// The name of the scheduler.
    pub strategy: String,
    /// The seed of the search.
    pub seed: u64,
    /// The peak of the graph's given order, under the same in-place rule.
    pub given_peak_bytes: u64,
    /// The peak of the schedule.
    pub peak_bytes: u64,
    /// Bytes that no schedule of the kind can go below; see [`Schedule::lower_bound_bytes`].
    pub lower_bound_bytes: u64,
    /// Why the search stopped.
    pub stop_reason: StopReason,
    /// The bytes of the arena.
    pub arena_bytes: u64,
    /// The most bytes live at any step, each size rounded up to the alignment: no arena is smaller.
    pub live_peak_bytes: u64,
    /// What every offset is a multiple of, in bytes.
    pub alignment: u64,
    /// Standard deviation of the live bytes over the steps of the given order.
    pub given_fluctuation_bytes: f64,
    /// Standard deviation of the live bytes over the steps of the schedule.
    pub fluctuation_bytes: f64,
    /// How long scheduling took, in seconds, where that was measured.
    pub schedule_seconds: Option<f64>,
    /// How long placement took, in seconds, where that was measured.
    pub placement_seconds: Option<f64>,
    /// The first step of the schedule at which the peak is reached.
    pub peak_step: StepIdx,
    /// The op that runs there; `None` where the step runs none.
    pub peak_op: Option<OpId>,
    /// That op's name and kind.
    pub peak_op_name: String,
    /// That op's workspace, in bytes.
    pub peak_workspace_bytes: u64,
    /// The largest storages live at that step, largest first, at most five. One that is taken over in place there
    /// stands for both.
    pub largest_at_peak: Vec<LiveTensor>,
}

impl Report {
    /// Measures a schedule and its plan. O(n + m) for n steps and m operands, and a sort of what is live at the peak.
    ///
    /// # Errors
    /// [`ScheduleError`] when the schedule was made for another graph.
    pub fn new(graph: &Graph, schedule: &Schedule, plan: &MemoryPlan) -> Result<Self, ScheduleError> {
        let given = Step::plain(graph.given_order());
        let given = Profile::of(graph, &given)?;
        let profile = schedule.profile(graph)?;
        let peak_step = profile.peak_step();
        let peak_op = schedule.steps().get(peak_step.index()).and_then(|step| match step.action {
            Action::Run(op) => Some(op),
            Action::Offload(_) | Action::Fetch(_) => None,
        });
        let peak_op_name = peak_op.map_or_else(String::new, |op| match graph.op_kind(op) {
            Some(kind) => format!("{} ({kind})", graph.op_name(op)),
            None => graph.op_name(op).to_owned(),
        });
        Ok(Self {
            graph: graph.name().to_owned(),
            n_ops: graph.n_ops(),
            n_tensors: graph.n_tensors(),
            transient_bytes: graph.transient_bytes(),
            persistent_bytes: graph.persistent_bytes(),
            strategy: schedule.strategy().to_owned(),
            seed: schedule.seed(),
            given_peak_bytes: given.peak_bytes(),
            peak_bytes: schedule.peak_bytes(),
            lower_bound_bytes: schedule.lower_bound_bytes(),
            stop_reason: schedule.stop_reason(),
            arena_bytes: plan.arena_bytes(),
            live_peak_bytes: plan.live_peak_bytes(),
            alignment: plan.alignment(),
            given_fluctuation_bytes: given.fluctuation_bytes(),
            fluctuation_bytes: profile.fluctuation_bytes(),
            schedule_seconds: None,
            placement_seconds: None,
            peak_step,
            peak_op,
            peak_op_name,
            peak_workspace_bytes: peak_op.map_or(0, |op| graph.workspace_bytes(op)),
            largest_at_peak: largest_at(graph, &profile, peak_step),
        })
    }

    /// Adds how long scheduling and placement took, in seconds.
    #[must_use]
    pub fn with_seconds(mut self, schedule: f64, placement: f64) -> Self {
        self.schedule_seconds = Some(schedule);
        self.placement_seconds = Some(placement);
        self
    }

    /// How much lower the peak is than that of the given order, in percent of that.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn reduction_percent(&self) -> f64 {
        if self.given_peak_bytes == self.peak_bytes {
            return 0.0;
        }
        100.0 * (1.0 - self.peak_bytes as f64 / self.given_peak_bytes as f64)
    }

    /// How far the peak is above the lower bound, in percent of the bound; 0 when proven optimal.
    #[must_use]
    pub fn gap_percent(&self) -> f64 {
        above_percent(self.peak_bytes, self.lower_bound_bytes)
    }

    /// Whether the peak equals the lower bound.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.peak_bytes == self.lower_bound_bytes
    }

    /// How much larger the arena is than the most bytes live at once, in percent of those.
    #[must_use]
    pub fn fragmentation_percent(&self) -> f64 {
        above_percent(self.arena_bytes, self.live_peak_bytes)
    }

    /// The figures as one JSON object, on one line. Bytes are whole numbers, ratios are in percent.
    #[cfg(feature = "json")]
    #[must_use]
    pub fn to_json(&self) -> String {
        let largest: Vec<_> = self
            .largest_at_peak
            .iter()
            .map(|t| {
                serde_json::json!({
                    "tensor": t.tensor.index(), "name": t.name, "bytes": t.bytes,
                    "kind": kind_name(t.kind), "dtype": t.dtype, "shape": t.shape,
                })
            })
            .collect();
        serde_json::json!({
            "graph": self.graph,
            "ops": self.n_ops,
            "tensors": self.n_tensors,
            "transient_bytes": self.transient_bytes,
            "persistent_bytes": self.persistent_bytes,
            "strategy": self.strategy,
            "seed": self.seed,
            "given_peak_bytes": self.given_peak_bytes,
            "peak_bytes": self.peak_bytes,
            "reduction_percent": self.reduction_percent(),
            "lower_bound_bytes": self.lower_bound_bytes,
            "gap_percent": self.gap_percent(),
            "optimal": self.is_optimal(),
            "stop_reason": self.stop_reason.to_string(),
            "alignment": self.alignment,
            "arena_bytes": self.arena_bytes,
            "live_peak_bytes": self.live_peak_bytes,
            "fragmentation_percent": self.fragmentation_percent(),
            "given_fluctuation_bytes": self.given_fluctuation_bytes,
            "fluctuation_bytes": self.fluctuation_bytes,
            "schedule_seconds": self.schedule_seconds,
            "placement_seconds": self.placement_seconds,
            "peak_step": self.peak_step.index(),
            "peak_op": self.peak_op.map(OpId::index),
            "peak_op_name": self.peak_op_name,
            "peak_workspace_bytes": self.peak_workspace_bytes,
            "largest_at_peak": largest,
        })
        .to_string()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn above_percent(bytes: u64, least: u64) -> f64 {
    match bytes.saturating_sub(least) {
        0 => 0.0,
        above => 100.0 * above as f64 / least as f64,
    }
}

fn largest_at(graph: &Graph, profile: &Profile, step: StepIdx) -> Vec<LiveTensor> {
    let stays = profile.stays();
    // What is taken over at this step lies in the bytes of the stay that takes it over, which stands for both.
    let taken: Vec<usize> = profile.live_at(step).filter(|s| s.first == step).filter_map(|s| s.takes_over).collect();
    let mut live: Vec<(u64, TensorId)> = stays
        .iter()
        .enumerate()
        .filter(|(k, stay)| stay.first <= step && step <= stay.last && !taken.contains(k))
        .filter_map(|(_, stay)| match stay.occupant {
            Occupant::Storage(storage) if stay.bytes > 0 => Some((stay.bytes, graph.root(storage))),
            Occupant::Storage(_) | Occupant::Workspace(_) => None,
        })
        .collect();
    live.sort_unstable_by_key(|&(bytes, tensor)| (Reverse(bytes), tensor));
    live.truncate(LARGEST);
    live.into_iter()
        .map(|(bytes, tensor)| LiveTensor {
            tensor,
            name: graph.tensor_name(tensor).to_owned(),
            bytes,
            kind: graph.tensor_kind(tensor),
            dtype: graph.dtype(tensor).map(str::to_owned),
            shape: graph.shape(tensor).map(<[u64]>::to_vec),
        })
        .collect()
}

fn kind_name(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::Activation => "activation",
        TensorKind::Input => "input",
        TensorKind::Weight => "weight",
        TensorKind::Gradient => "gradient",
        TensorKind::OptimizerState => "optimizer_state",
        TensorKind::Constant => "constant",
    }
}

impl fmt::Display for LiveTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10}  tensor {}", human_bytes(self.bytes), self.tensor)?;
        if !self.name.is_empty() {
            write!(f, " ({})", self.name)?;
        }
        write!(f, ", {}", kind_name(self.kind))?;
        if let Some(dtype) = &self.dtype {
            write!(f, ", {dtype}")?;
        }
        if let Some(shape) = &self.shape {
            write!(f, " {shape:?}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.graph.is_empty() { "(no name)" } else { &self.graph };
        writeln!(f, "graph        {name}: {} ops, {} tensors", self.n_ops, self.n_tensors)?;
        let (transient, persistent) = (human_bytes(self.transient_bytes), human_bytes(self.persistent_bytes));
        writeln!(f, "bytes        {transient} without reuse, {persistent} persistent and not counted below")?;
        writeln!(f, "given order  {} peak", exact(self.given_peak_bytes))?;
        let (reduction, strategy, seed) = (self.reduction_percent(), &self.strategy, self.seed);
        writeln!(f, "found        {} peak, {reduction:.2} % less ({strategy}, seed {seed})", exact(self.peak_bytes))?;
        writeln!(f, "bound        {}, gap {:.2} %", exact(self.lower_bound_bytes), self.gap_percent())?;
        let optimal = if self.is_optimal() { "yes" } else { "not proven" };
        writeln!(f, "optimal      {optimal}; the search stopped: {}", self.stop_reason)?;
        let (arena, fragmentation) = (exact(self.arena_bytes), self.fragmentation_percent());
        writeln!(f, "arena        {arena}, fragmentation {fragmentation:.2} %, alignment {} B", self.alignment)?;
        let (before, after) = (self.given_fluctuation_bytes, self.fluctuation_bytes);
        writeln!(f, "fluctuation  {} before, {} after", human(before), human(after))?;
        if let (Some(schedule), Some(placement)) = (self.schedule_seconds, self.placement_seconds) {
            writeln!(f, "time         {schedule:.3} s schedule, {placement:.3} s placement")?;
        }
        write!(f, "at the peak  step {}", self.peak_step)?;
        if let Some(op) = self.peak_op {
            write!(f, " runs op {op}")?;
            if !self.peak_op_name.is_empty() {
                write!(f, ", {}", self.peak_op_name)?;
            }
            if self.peak_workspace_bytes > 0 {
                write!(f, ", workspace {}", human_bytes(self.peak_workspace_bytes))?;
            }
        }
        for tensor in &self.largest_at_peak {
            write!(f, "\n  {tensor}")?;
        }
        Ok(())
    }
}

fn exact(bytes: u64) -> String {
    if bytes < 1024 { human_bytes(bytes) } else { format!("{} ({bytes} B)", human_bytes(bytes)) }
}

/// A size for people: whole bytes below 1 KiB, else two decimals of the largest binary unit that gives at least 1.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "two decimals for people")]
pub fn human_bytes(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { human(bytes as f64) }
}

fn human(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes, 0);
    // What would be shown as 1024.00 is 1.00 of the next unit.
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

#[cfg(test)]
mod tests;
