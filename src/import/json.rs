//! The formats `memsched-graph/1` and `memsched-plan/1`, described in `docs/memory-model.md`.
//!
//! Ops and tensors keep the numbers that they have in the file. Files that end in `.gz` are compressed with gzip.

use super::ImportError;
use crate::graph::Graph;
use crate::graph::document::{self, GraphDocument};
use crate::id::{OpId, QueueId, StepIdx, StorageId, TensorId};
use crate::memory::Occupant;
use crate::plan::{Allocation, Event, PlanDocument};
use crate::schedule::{Action, Step};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The format of graph files.
pub const GRAPH_FORMAT: &str = document::GRAPH_FORMAT;

/// The format of plan files.
pub const PLAN_FORMAT: &str = "memsched-plan/1";

fn zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Serialize, Deserialize)]
struct StepDoc {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offload: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fetch: Option<u64>,
    #[serde(default, skip_serializing_if = "zero")]
    queue: u64,
}

#[derive(Serialize, Deserialize)]
struct AllocationDoc {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tensor: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<u64>,
    offset: u64,
    bytes: u64,
    first: u64,
    last: u64,
}

#[derive(Serialize, Deserialize)]
struct PlanDoc {
    #[serde(default)]
    format: String,
    #[serde(default)]
    graph: String,
    #[serde(default)]
    strategy: String,
    #[serde(default)]
    seed: u64,
    steps: Vec<StepDoc>,
    #[serde(default)]
    events: Vec<(u64, u64)>,
    peak_bytes: u64,
    #[serde(default)]
    lower_bound_bytes: u64,
    #[serde(default)]
    optimal: bool,
    #[serde(default)]
    persistent_bytes: u64,
    #[serde(default)]
    baseline_peak_bytes: u64,
    #[serde(default = "one")]
    alignment: u64,
    #[serde(default)]
    arena_bytes: u64,
    #[serde(default)]
    allocations: Vec<AllocationDoc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    placement_seconds: Option<f64>,
}

fn one() -> u64 {
    1
}

/// Reads a graph file, `.json` or `.json.gz`.
///
/// # Errors
/// [`ImportError`]: the file cannot be read, is not of the format, has symbolic sizes, or breaks a rule of graphs.
pub fn read_graph(path: impl AsRef<Path>) -> Result<Graph, ImportError> {
    graph_from_slice(&read(path.as_ref())?)
}

/// Reads a graph from the text of a graph file.
///
/// # Errors
/// [`ImportError`], as [`read_graph`].
pub fn graph_from_str(text: &str) -> Result<Graph, ImportError> {
    graph_from_slice(text.as_bytes())
}

/// Reads a graph from the text of a graph file. O(bytes of text), besides what [`GraphBuilder::build`] takes.
///
/// [`GraphBuilder::build`]: crate::graph::GraphBuilder::build
///
/// # Errors
/// [`ImportError`], as [`read_graph`].
pub fn graph_from_slice(text: &[u8]) -> Result<Graph, ImportError> {
    let document: GraphDocument = parse(text, GRAPH_FORMAT, |document: &GraphDocument| &document.format)?;
    Ok(Graph::try_from(document)?)
}

/// Reads a graph from the text of a graph file, to the end of `reader`; not compressed.
///
/// # Errors
/// [`ImportError`], as [`read_graph`]; [`ImportError::Io`] with an empty path when `reader` fails.
pub fn graph_from_reader(mut reader: impl Read) -> Result<Graph, ImportError> {
    let mut text = Vec::new();
    reader.read_to_end(&mut text).map_err(|source| ImportError::Io { path: PathBuf::new(), source })?;
    graph_from_slice(&text)
}

/// The text of a graph file.
#[must_use]
pub fn graph_to_string(graph: &Graph) -> String {
    to_string(&GraphDocument::from(graph))
}

/// Writes a graph file; compressed when the path ends in `.gz`.
///
/// # Errors
/// [`ImportError::Io`] when the file cannot be written.
pub fn write_graph(path: impl AsRef<Path>, graph: &Graph) -> Result<(), ImportError> {
    write(path.as_ref(), &graph_to_string(graph))
}

/// The text of a plan file.
#[must_use]
pub fn plan_to_string(graph: &Graph, plan: &PlanDocument) -> String {
    let root = |storage: StorageId| {
        Some(if storage.index() < graph.n_storages() { graph.root(storage).index() as u64 } else { u64::MAX })
    };
    let steps = plan.steps.iter().map(|step| {
        let (run, offload, fetch) = match step.action {
            Action::Run(op) => (Some(op.index() as u64), None, None),
            Action::Offload(storage) => (None, root(storage), None),
            Action::Fetch(storage) => (None, None, root(storage)),
        };
        StepDoc { run, offload, fetch, queue: step.queue.index() as u64 }
    });
    let allocations = plan.allocations.iter().map(|allocation| {
        let &Allocation { occupant, offset, bytes, first, last } = allocation;
        let (tensor, op) = match occupant {
            Occupant::Storage(storage) => (root(storage), None),
            Occupant::Workspace(op) => (None, Some(op.index() as u64)),
        };
        AllocationDoc { tensor, op, offset, bytes, first: first.index() as u64, last: last.index() as u64 }
    });
    to_string(&PlanDoc {
        format: PLAN_FORMAT.to_owned(),
        graph: plan.graph.clone(),
        strategy: plan.strategy.clone(),
        seed: plan.seed,
        steps: steps.collect(),
        events: plan.events.iter().map(|e| (e.record.index() as u64, e.wait.index() as u64)).collect(),
        peak_bytes: plan.peak_bytes,
        lower_bound_bytes: plan.lower_bound_bytes,
        optimal: plan.optimal,
        persistent_bytes: plan.persistent_bytes,
        baseline_peak_bytes: plan.baseline_peak_bytes,
        alignment: plan.alignment,
        arena_bytes: plan.arena_bytes,
        allocations: allocations.collect(),
        schedule_seconds: plan.schedule_seconds,
        placement_seconds: plan.placement_seconds,
    })
}

/// Writes a plan file; compressed when the path ends in `.gz`.
///
/// # Errors
/// [`ImportError::Io`] when the file cannot be written.
pub fn write_plan(path: impl AsRef<Path>, graph: &Graph, plan: &PlanDocument) -> Result<(), ImportError> {
    write(path.as_ref(), &plan_to_string(graph, plan))
}

/// Reads a plan file. What it claims is not checked: see [`check`](crate::check).
///
/// # Errors
/// [`ImportError`]: the file cannot be read, is not of the format, or names what the graph does not have.
pub fn read_plan(path: impl AsRef<Path>, graph: &Graph) -> Result<PlanDocument, ImportError> {
    plan_from_slice(&read(path.as_ref())?, graph)
}

/// Reads a plan from the text of a plan file.
///
/// # Errors
/// [`ImportError`], as [`read_plan`].
pub fn plan_from_slice(text: &[u8], graph: &Graph) -> Result<PlanDocument, ImportError> {
    let doc: PlanDoc = parse(text, PLAN_FORMAT, |doc: &PlanDoc| &doc.format)?;
    let position = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let storage = |tensor: u64| match position(tensor) {
        t if t < graph.n_tensors() => Ok(graph.storage(TensorId::new(t))),
        _ => Err(ImportError::UnknownId { what: "tensor", index: tensor }),
    };
    let op = |op: u64| match position(op) {
        o if o < graph.n_ops() => Ok(OpId::new(o)),
        _ => Err(ImportError::UnknownId { what: "op", index: op }),
    };
    let mut steps = Vec::with_capacity(doc.steps.len());
    for (at, step) in doc.steps.iter().enumerate() {
        let action = match (step.run, step.offload, step.fetch) {
            (Some(run), None, None) => Action::Run(op(run)?),
            (None, Some(tensor), None) => Action::Offload(storage(tensor)?),
            (None, None, Some(tensor)) => Action::Fetch(storage(tensor)?),
            _ => return Err(ImportError::Syntax(format!("step {at} must be one of run, offload and fetch"))),
        };
        steps.push(Step { action, queue: QueueId::new(position(step.queue)) });
    }
    let step = |number: u64| StepIdx::new(position(number));
    let mut allocations = Vec::with_capacity(doc.allocations.len());
    for (at, a) in doc.allocations.iter().enumerate() {
        let occupant = match (a.tensor, a.op) {
            (Some(tensor), None) => Occupant::Storage(storage(tensor)?),
            (None, Some(run)) => Occupant::Workspace(op(run)?),
            _ => return Err(ImportError::Syntax(format!("allocation {at} must be of one tensor or one op"))),
        };
        let (first, last) = (step(a.first), step(a.last));
        allocations.push(Allocation { occupant, offset: a.offset, bytes: a.bytes, first, last });
    }
    Ok(PlanDocument {
        graph: doc.graph,
        strategy: doc.strategy,
        seed: doc.seed,
        steps,
        events: doc.events.iter().map(|&(record, wait)| Event { record: step(record), wait: step(wait) }).collect(),
        peak_bytes: doc.peak_bytes,
        lower_bound_bytes: doc.lower_bound_bytes,
        optimal: doc.optimal,
        persistent_bytes: doc.persistent_bytes,
        baseline_peak_bytes: doc.baseline_peak_bytes,
        alignment: doc.alignment,
        arena_bytes: doc.arena_bytes,
        allocations,
        schedule_seconds: doc.schedule_seconds,
        placement_seconds: doc.placement_seconds,
    })
}

/// The format that a file claims to be of.
#[derive(Deserialize)]
struct FormatDoc {
    #[serde(default)]
    format: Option<Value>,
}

fn parse<'t, T: Deserialize<'t>>(
    text: &'t [u8],
    expected: &'static str,
    format: impl Fn(&T) -> &str,
) -> Result<T, ImportError> {
    let wrong = |found: String| Err(ImportError::Format { expected, found });
    match serde_json::from_slice::<T>(text) {
        Ok(document) if format(&document) == expected => Ok(document),
        Ok(document) => wrong(format(&document).to_owned()),
        // A file of another format has other fields too; that it is another format says more.
        Err(error) => match serde_json::from_slice::<FormatDoc>(text) {
            Ok(FormatDoc { format: Some(Value::String(found)) }) if found != expected => wrong(found),
            _ => Err(ImportError::Syntax(error.to_string())),
        },
    }
}

fn to_string<T: Serialize>(doc: &T) -> String {
    serde_json::to_string(doc).expect("plain data with string keys always serialises")
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

fn read(path: &Path) -> Result<Vec<u8>, ImportError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut file = File::open(path)?;
        if is_gzip(path) {
            MultiGzDecoder::new(file).read_to_end(&mut text)?;
        } else {
            file.read_to_end(&mut text)?;
        }
        Ok(text)
    };
    read().map_err(|source| ImportError::Io { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), ImportError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        if is_gzip(path) {
            let mut encoder = GzEncoder::new(file, Compression::best());
            encoder.write_all(text.as_bytes())?;
            encoder.finish()?.flush()
        } else {
            file.write_all(text.as_bytes())
        }
    };
    write().map_err(|source| ImportError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
