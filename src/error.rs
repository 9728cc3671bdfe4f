//! What can go wrong, one error type a stage. Each variant says what the caller did wrong, and names the op or tensor.

use crate::id::{OpId, StepIdx, TensorId};
use std::fmt;

/// An op with its name, as errors show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpLabel {
    /// The op.
    pub id: OpId,
    /// Its name; empty where it has none.
    pub name: String,
}

/// A tensor with its name, as errors show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLabel {
    /// The tensor.
    pub id: TensorId,
    /// Its name; empty where it has none.
    pub name: String,
}

impl fmt::Display for OpLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        label(f, "op", self.id.index(), &self.name)
    }
}

impl fmt::Display for TensorLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        label(f, "tensor", self.id.index(), &self.name)
    }
}

fn label(f: &mut fmt::Formatter<'_>, word: &str, index: usize, name: &str) -> fmt::Result {
    if name.is_empty() { write!(f, "{word} {index}") } else { write!(f, "{word} {index} ({name})") }
}

/// How a list of ops reads in an error: the first few, joined by arrows.
struct Path<'a>(&'a [OpLabel]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (k, op) in self.0.iter().take(SHOWN).enumerate() {
            if k > 0 {
                f.write_str(" -> ")?;
            }
            op.fmt(f)?;
        }
        if self.0.len() > SHOWN {
            write!(f, " -> … ({} ops in all)", self.0.len())?;
        }
        Ok(())
    }
}

/// Why a graph could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The ops wait for one another: each op of `path` must run before the next, and the last before the first.
    #[error("the ops wait for one another in a cycle: {}", Path(.path))]
    Cycle {
        /// The ops of one cycle, in the order in which each waits for the one before it.
        path: Vec<OpLabel>,
    },
    /// An op was told to run after itself, or reads a tensor that it writes.
    #[error("{op} depends on itself{}", through.as_ref().map_or(String::new(), |t| format!(", through {t}")))]
    SelfLoop {
        /// The op.
        op: OpLabel,
        /// The tensor it both reads and writes; `None` for a control dependency on itself.
        through: Option<TensorLabel>,
    },
    /// Two ops write the same tensor, or one op writes it twice; a tensor has one producer.
    #[error("{tensor} has two producers, {first} and {second}")]
    TwoProducers {
        /// The tensor.
        tensor: TensorLabel,
        /// The op that wrote it first.
        first: OpLabel,
        /// The op that wrote it again.
        second: OpLabel,
    },
    /// An op names a tensor that was never added to the graph.
    #[error("{op} {role} {tensor}, which is not a tensor of the graph")]
    UnknownTensor {
        /// The op.
        op: OpLabel,
        /// What the op does with it.
        role: &'static str,
        /// The unknown tensor; its name is the caller's key where there is one.
        tensor: TensorLabel,
    },
    /// An op was told to run after an op that was never added to the graph.
    #[error("{op} must run after {after}, which is not an op of the graph")]
    UnknownOp {
        /// The op.
        op: OpLabel,
        /// The unknown op; its name is the caller's key where there is one.
        after: OpLabel,
    },
    /// A graph output was named that nobody makes and that was never added as a tensor.
    #[error("the graph output {tensor} is made by nobody: it is not a tensor of the graph")]
    UnknownOutput {
        /// The unknown output; its name is the caller's key where there is one.
        tensor: TensorLabel,
    },
    /// A tensor was described (its kind, dtype or shape), but never added.
    #[error("{tensor} was described but never added")]
    NeverAdded {
        /// The unknown tensor; its name is the caller's key.
        tensor: TensorLabel,
    },
    /// Two tensors, or two ops, were added under one key.
    #[error("the key {key} was given to two {what}")]
    DuplicateKey {
        /// `"tensors"` or `"ops"`.
        what: &'static str,
        /// The caller's key.
        key: String,
    },
    /// A view, update or in-place pair starts with a tensor that the op does not write.
    #[error("{op} cannot make {tensor} {relation}: it does not write that tensor")]
    PairNotWritten {
        /// The op.
        op: OpLabel,
        /// The first tensor of the pair.
        tensor: TensorLabel,
        /// `"a view"`, `"an update"` or `"in place"`.
        relation: &'static str,
    },
    /// An in-place pair ends with a tensor that the op does not read, so there are no bytes to take over.
    #[error("{op} cannot write {out} in place of {operand}: it does not read that tensor")]
    InPlaceNotRead {
        /// The op.
        op: OpLabel,
        /// The output.
        out: TensorLabel,
        /// The tensor whose bytes it was to take over.
        operand: TensorLabel,
    },
    /// One tensor was declared a view or an update of two tensors; it lives in one storage.
    #[error("{op} makes {tensor} a view or an update of both {first} and {second}")]
    TwoSources {
        /// The op that writes the tensor.
        op: OpLabel,
        /// The tensor.
        tensor: TensorLabel,
        /// The source that was declared first.
        first: TensorLabel,
        /// The source that was declared second.
        second: TensorLabel,
    },
    /// A tensor is a view of a view … of itself.
    #[error("{tensor} is a view of itself")]
    ViewCycle {
        /// A tensor of the cycle.
        tensor: TensorLabel,
    },
    /// A view is made by an op that runs before the tensor it views exists.
    #[error("{op} makes {view} a view of {source_tensor}, which is only made later: {}", Path(.path))]
    ViewBeforeSource {
        /// The op that makes the view.
        op: OpLabel,
        /// The view.
        view: TensorLabel,
        /// The tensor that it views.
        source_tensor: TensorLabel,
        /// The ops that lead from the view to the tensor it views, and back.
        path: Vec<OpLabel>,
    },
    /// Two ops overwrite the same version of a storage; each version is overwritten at most once.
    #[error("{first} and {second} both overwrite the same version of the storage of {tensor}")]
    TwoUpdates {
        /// The tensor that was overwritten.
        tensor: TensorLabel,
        /// The op that overwrites it first in the order of the graph.
        first: OpLabel,
        /// The other op.
        second: OpLabel,
    },
    /// An op overwrites a storage that another op still reads afterwards.
    #[error("{op} overwrites the storage of {tensor}, which {reader} reads, but {reader} can only run after it: {}", Path(.path))]
    UpdateBeforeReader {
        /// The op that overwrites.
        op: OpLabel,
        /// The tensor whose bytes are lost.
        tensor: TensorLabel,
        /// The op that reads them too late.
        reader: OpLabel,
        /// The ops that lead from the one to the other.
        path: Vec<OpLabel>,
    },
    /// A graph output is overwritten before the end.
    #[error("{op} overwrites the graph output {tensor}; an output must be the last version of its storage")]
    OutputOverwritten {
        /// The graph output.
        tensor: TensorLabel,
        /// An op that overwrites its storage.
        op: OpLabel,
    },
    /// An op's `seconds` is negative, infinite or not a number.
    #[error("{op} takes {seconds} seconds, which is no time that an op can take")]
    BadSeconds {
        /// The op.
        op: OpLabel,
        /// The time, as text.
        seconds: String,
    },
    /// All bytes of the graph together do not fit in 64 bits.
    #[error("the total of all bytes overflows 64 bits at {at}")]
    BytesOverflow {
        /// The tensor or op at which the sum no longer fits.
        at: String,
    },
    /// There are more ops or tensors than 32-bit ids can name.
    #[error("more than {} {what}", u32::MAX - 1)]
    TooMany {
        /// `"ops"` or `"tensors"`.
        what: &'static str,
    },
}

/// Why a sequence of steps is no schedule of a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A step names an op that the graph does not have.
    #[error("{at:?} runs op {op}, which the graph does not have")]
    UnknownOp {
        /// The step.
        at: StepIdx,
        /// The op's id.
        op: OpId,
    },
    /// A step names a storage that the graph does not have.
    #[error("{at:?} moves storage {storage}, which the graph does not have")]
    UnknownStorage {
        /// The step.
        at: StepIdx,
        /// The storage's position.
        storage: usize,
    },
    /// An op never runs.
    #[error("{op} never runs")]
    NeverRuns {
        /// The op.
        op: OpLabel,
    },
    /// An op runs twice in what was to be a plain order.
    #[error("{op} runs again at {at:?}, but a plain order runs each op once")]
    RunsTwice {
        /// The step of its second run.
        at: StepIdx,
        /// The op.
        op: OpLabel,
    },
    /// An op runs before an op that it must follow.
    #[error("{op} runs at {at:?}, before {missing}, which it must follow")]
    TooEarly {
        /// The step.
        at: StepIdx,
        /// The op that runs too early.
        op: OpLabel,
        /// The op that has not run by then.
        missing: OpLabel,
    },
    /// A tensor is read whose storage is not on the device at that step.
    #[error("{op} needs {tensor} at {at:?}, whose storage is not resident")]
    NotResident {
        /// The step.
        at: StepIdx,
        /// The op.
        op: OpLabel,
        /// The tensor.
        tensor: TensorLabel,
    },
    /// A tensor is read, or overwritten, when another version of it stands in its storage.
    #[error("{op} needs {tensor} at {at:?}, but another version of it stands in its storage there")]
    WrongVersion {
        /// The step.
        at: StepIdx,
        /// The op.
        op: OpLabel,
        /// The tensor.
        tensor: TensorLabel,
    },
    /// A storage is offloaded that is not on the device, or is persistent.
    #[error("{at:?} offloads {tensor}, which is not resident there")]
    OffloadNotResident {
        /// The step.
        at: StepIdx,
        /// The root of the storage.
        tensor: TensorLabel,
    },
    /// A storage is fetched that was never offloaded.
    #[error("{at:?} fetches {tensor}, which was not offloaded")]
    FetchNotOffloaded {
        /// The step.
        at: StepIdx,
        /// The root of the storage.
        tensor: TensorLabel,
    },
    /// A graph output is not on the device after the last step.
    #[error("the graph output {tensor} is not resident at the end")]
    OutputNotResident {
        /// The output.
        tensor: TensorLabel,
    },
    /// A graph output's storage holds another version of it after the last step.
    #[error("the graph output {tensor} is not the version that stands at the end")]
    OutputWrongVersion {
        /// The output.
        tensor: TensorLabel,
    },
    /// The schedule has more steps than 32-bit positions can name.
    #[error("more than {} steps", u32::MAX - 1)]
    TooManySteps,
    /// A scheduler supplied by the caller failed.
    #[error("{0}")]
    Custom(String),
}

/// Why no plan could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The schedule is not one of this graph.
    #[error("the schedule does not fit the graph: {0}")]
    Schedule(#[from] ScheduleError),
    /// An alignment was asked for that is 0 or no power of two.
    #[error("an alignment of {alignment} bytes: it must be a power of two")]
    BadAlignment {
        /// The alignment asked for.
        alignment: u64,
    },
    /// An alignment was asked for a tensor that the graph does not have.
    #[error("an alignment was asked for tensor {tensor}, which the graph does not have")]
    UnknownTensor {
        /// The tensor's id.
        tensor: TensorId,
    },
    /// An interval ends where it starts, or before.
    #[error("interval {interval} is empty: it starts at {start} and ends at {end}")]
    EmptyInterval {
        /// The position of the interval in the caller's list.
        interval: usize,
        /// Its first moment.
        start: u64,
        /// The first moment after it.
        end: u64,
    },
    /// A relation names an interval beyond the end of the list.
    #[error("a relation names interval {interval}, but there are {n_intervals}")]
    UnknownInterval {
        /// The position named.
        interval: usize,
        /// How many intervals there are.
        n_intervals: usize,
    },
    /// An interval asks for a pool, or a pool falls back to one, that the planner does not have.
    #[error("pool {pool} is named, but there are {n_pools}")]
    UnknownPool {
        /// The position named.
        pool: usize,
        /// How many pools there are.
        n_pools: usize,
    },
    /// Two intervals were to be identical or disjoint, but differ in size.
    #[error("intervals {first} and {second} cannot be identical: they differ in size")]
    UnequalPair {
        /// The first interval of the pair.
        first: usize,
        /// The second.
        second: usize,
    },
    /// An interval was fixed at an offset that is not a multiple of its alignment.
    #[error("interval {interval} is fixed at {offset}, which is no multiple of its alignment of {alignment} bytes")]
    FixedUnaligned {
        /// The interval.
        interval: usize,
        /// Where it was fixed.
        offset: u64,
        /// What the offset must be a multiple of.
        alignment: u64,
    },
    /// Two intervals that may not share bytes were fixed at offsets where they do.
    #[error("intervals {first} and {second} are fixed in each other's way")]
    FixedClash {
        /// One of them.
        first: usize,
        /// The other.
        second: usize,
    },
    /// No placement within the capacity is known; none exists, or the budget was too small to find one.
    #[error(
        "{} fits in {capacity} bytes; the best found takes {height}",
        if *.is_proven { "no placement" } else { "no placement that was found" }
    )]
    DoesNotFit {
        /// The capacity, of all pools that have one.
        capacity: u64,
        /// The height of the best placement that was found, of all pools.
        height: u64,
        /// Whether it is proven that none exists.
        is_proven: bool,
    },
    /// Offsets or sizes do not fit in 64 bits once they are rounded up to the alignment.
    #[error("{what} overflows 64 bits when rounded up to the alignment")]
    BytesOverflow {
        /// What overflows.
        what: String,
    },
    /// An option has a value that means nothing.
    #[error("{option} is {value}: {rule}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
}
