//! The compute graph: ops, tensors and bytes, immutable and valid by construction.
//!
//! A [`Graph`] is made by a [`GraphBuilder`] (dense ids), a [`KeyedBuilder`] (the caller's own keys), from petgraph,
//! or from a file, and never changes. Whoever holds one may rely on these invariants:
//!
//! 1. Ops, tensors and storages are numbered densely from 0; ops in the order in which they were added.
//! 2. Every tensor has at most one producer; all ids in all lists are ids of this graph.
//! 3. The dependencies ([`Graph::predecessors`]) have no cycle. They are: the producer of each tensor that an op
//!    reads; the ops it was told to run after; and, for an op that overwrites a storage, every other op that reads
//!    the version it overwrites. An order runs every op after its predecessors, and any such order is valid.
//! 4. Every tensor lives in exactly one storage, whose root is the one member that is neither view nor update.
//!    Each version of a storage is overwritten at most once, and a graph output is the last version of its storage.
//! 5. The source of a view or update is an input of the op (it is added to the inputs when the caller left it out),
//!    unless the op itself writes it.
//! 6. The bytes of all storages and the workspace of all ops together fit in a `u64`, so no sum over parts of a
//!    graph overflows.
//!
//! Adjacency is flat: every list is a slice of one vector. All accessors take constant time; those that take an id
//! panic, as indexing does, when the id is not one of this graph.

mod build;
pub(crate) mod builder;
#[cfg(any(feature = "json", feature = "serde"))]
pub(crate) mod document;
mod keyed;
#[cfg(feature = "petgraph")]
#[cfg_attr(docsrs, doc(cfg(feature = "petgraph")))]
pub mod petgraph;
mod topology;

pub use builder::{GraphBuilder, OpBuilder, TensorKind};
pub use keyed::{KeyedBuilder, KeyedOpBuilder, Keys};

use crate::error::{OpLabel, TensorLabel};
use crate::id::{Adjacency, OpId, StorageId, TensorId};
use indexmap::IndexSet;

/// A compute graph under the memory model of `docs/memory-model.md`.
///
/// ```text
///   x ──▶ conv ──▶ y ──▶ relu ──▶ z      w is a weight: persistent, never placed in the arena
///   w ──▶                                z may take over the bytes of y (in place)
/// ```
///
/// ```
/// use memsched::Graph;
///
/// let mut b = Graph::builder();
/// let x = b.input("x", 4096);
/// let w = b.weight("w", 1024);
/// let (y, z) = (b.tensor("y", 4096), b.tensor("z", 4096));
/// b.op("conv").reads([x, w]).writes([y]).workspace(512);
/// b.op("relu").reads([y]).writes([z]).in_place(z, y);
/// b.output(z);
/// let graph = b.build()?;
///
/// assert_eq!(graph.n_ops(), 2);
/// assert_eq!(graph.persistent_bytes(), 1024);
/// # Ok::<(), memsched::GraphError>(())
/// ```
///
/// With the feature `serde` it is serialised in the shape of a graph file, for formats that describe themselves (JSON
/// and the like); what is deserialised is checked as a builder checks it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "document::GraphDocument", into = "document::GraphDocument"))]
pub struct Graph {
    name: String,
    ops: Vec<Op>,
    tensors: Vec<Tensor>,
    storages: Vec<Storage>,
    outputs: Vec<TensorId>,
    /// Distinct dtypes of tensors, then kinds of ops, in the order of the tensors and ops that have them.
    labels: IndexSet<String>,
    inputs_of: Adjacency<TensorId>,
    outputs_of: Adjacency<TensorId>,
    after_of: Adjacency<OpId>,
    views_of: Adjacency<(TensorId, TensorId)>,
    updates_of: Adjacency<(TensorId, TensorId)>,
    in_place_of: Adjacency<(TensorId, TensorId)>,
    takeovers_of: Adjacency<Takeover>,
    shape_of: Adjacency<u64>,
    consumers_of: Adjacency<OpId>,
    predecessors_of: Adjacency<OpId>,
    successors_of: Adjacency<OpId>,
    creates_of: Adjacency<StorageId>,
    touches_of: Adjacency<StorageId>,
    touchers_of: Adjacency<OpId>,
    /// A topological order; the order of the ids where that is one.
    given_order: Vec<OpId>,
    persistent_bytes: u64,
    transient_bytes: u64,
}

/// What a graph keeps of one op besides its lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op {
    pub(crate) name: Box<str>,
    /// Position in `labels`.
    pub(crate) kind: Option<u32>,
    pub(crate) workspace_bytes: u64,
    pub(crate) flops: Option<u64>,
    pub(crate) seconds: Option<f64>,
}

/// What a graph keeps of one tensor besides its lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) name: Box<str>,
    pub(crate) bytes: u64,
    pub(crate) kind: TensorKind,
    /// Position in `labels`.
    pub(crate) dtype: Option<u32>,
    pub(crate) has_shape: bool,
    pub(crate) producer: Option<OpId>,
    pub(crate) storage: StorageId,
    pub(crate) version: u32,
}

/// The bytes that a tensor and all views and updates of it share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Storage {
    pub(crate) root: TensorId,
    pub(crate) bytes: u64,
    pub(crate) creator: Option<OpId>,
    pub(crate) persistent: bool,
    pub(crate) output: bool,
}

/// A takeover that an op may make: at the step at which `from` dies, `to` may start in its bytes.
///
/// Only pairs that no order could forbid are listed: both storages have the same size, above 0; `from` is neither
/// persistent nor a graph output; the op reads no other tensor that lives in it; and it does not overwrite it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Takeover {
    /// The storage that the op creates.
    pub to: StorageId,
    /// The storage that the op reads, and whose bytes are taken over if it dies there.
    pub from: StorageId,
}

impl Graph {
    /// A builder that hands out dense ids.
    #[must_use]
    pub fn builder() -> GraphBuilder {
        GraphBuilder::new()
    }

    /// A builder that takes the caller's own keys for ops and tensors.
    #[must_use]
    pub fn keyed_builder<K: std::hash::Hash + Eq + std::fmt::Debug>() -> KeyedBuilder<K> {
        KeyedBuilder::new()
    }

    /// The graph's name; empty where it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of ops.
    #[must_use]
    pub fn n_ops(&self) -> usize {
        self.ops.len()
    }

    /// The number of tensors, views and updates included.
    #[must_use]
    pub fn n_tensors(&self) -> usize {
        self.tensors.len()
    }

    /// The number of storages, persistent ones included.
    #[must_use]
    pub fn n_storages(&self) -> usize {
        self.storages.len()
    }

    /// All ops, in the order in which they were added.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpId> + DoubleEndedIterator + Clone + use<> {
        (0..self.n_ops()).map(OpId::new)
    }

    /// All tensors.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorId> + DoubleEndedIterator + Clone + use<> {
        (0..self.n_tensors()).map(TensorId::new)
    }

    /// All storages.
    pub fn storages(&self) -> impl ExactSizeIterator<Item = StorageId> + DoubleEndedIterator + Clone + use<> {
        (0..self.n_storages()).map(StorageId::new)
    }

    /// The graph's outputs, in the caller's order.
    #[must_use]
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }

    /// The bytes of all persistent storages, which no peak and no arena counts.
    #[must_use]
    pub fn persistent_bytes(&self) -> u64 {
        self.persistent_bytes
    }

    /// The bytes of all storages that are not persistent: what running without any reuse would take.
    #[must_use]
    pub fn transient_bytes(&self) -> u64 {
        self.transient_bytes
    }

    /// The order in which the ops were added, where that is a valid order; else the valid order that always runs
    /// the ready op that was added first.
    #[must_use]
    pub fn given_order(&self) -> &[OpId] {
        &self.given_order
    }

    /// This graph without its in-place pairs: nothing may take over the bytes of anything.
    #[must_use]
    pub fn without_in_place(mut self) -> Self {
        self.in_place_of = Adjacency::group(self.ops.len(), std::iter::empty);
        self.takeovers_of = Adjacency::group(self.ops.len(), std::iter::empty);
        self
    }

    // One op.

    /// The op's name; empty where it has none.
    #[must_use]
    pub fn op_name(&self, op: OpId) -> &str {
        &self.ops[op.index()].name
    }

    /// The op with its name, for messages.
    #[must_use]
    pub fn op_label(&self, op: OpId) -> OpLabel {
        OpLabel { id: op, name: self.op_name(op).to_owned() }
    }

    /// What the op computes, in the framework's words (`"aten.convolution"`).
    #[must_use]
    pub fn op_kind(&self, op: OpId) -> Option<&str> {
        self.ops[op.index()].kind.map(|k| self.labels[k as usize].as_str())
    }

    /// Bytes that the op needs while it runs, and only then.
    #[must_use]
    pub fn workspace_bytes(&self, op: OpId) -> u64 {
        self.ops[op.index()].workspace_bytes
    }

    /// Floating-point operations of the op, where known.
    #[must_use]
    pub fn flops(&self, op: OpId) -> Option<u64> {
        self.ops[op.index()].flops
    }

    /// Run time of the op, where known, in the unit that the graph uses throughout.
    #[must_use]
    pub fn seconds(&self, op: OpId) -> Option<f64> {
        self.ops[op.index()].seconds
    }

    /// The tensors that the op reads, in the caller's order; one may stand there twice.
    #[must_use]
    pub fn inputs(&self, op: OpId) -> &[TensorId] {
        self.inputs_of.list(op.index())
    }

    /// The tensors that the op writes, views and updates included.
    #[must_use]
    pub fn op_outputs(&self, op: OpId) -> &[TensorId] {
        self.outputs_of.list(op.index())
    }

    /// The ops that the op was told to run after (control dependencies), as given.
    #[must_use]
    pub fn after(&self, op: OpId) -> &[OpId] {
        self.after_of.list(op.index())
    }

    /// The op's views, as `(view, tensor it views)`.
    #[must_use]
    pub fn views(&self, op: OpId) -> &[(TensorId, TensorId)] {
        self.views_of.list(op.index())
    }

    /// The op's updates, as `(next version, version that is overwritten)`.
    #[must_use]
    pub fn updates(&self, op: OpId) -> &[(TensorId, TensorId)] {
        self.updates_of.list(op.index())
    }

    /// The op's in-place pairs, as `(output, operand)`, as given.
    #[must_use]
    pub fn in_place_pairs(&self, op: OpId) -> &[(TensorId, TensorId)] {
        self.in_place_of.list(op.index())
    }

    /// Those in-place pairs of the op that some order may use, as storages, without repetition.
    #[must_use]
    pub fn takeovers(&self, op: OpId) -> &[Takeover] {
        self.takeovers_of.list(op.index())
    }

    /// The ops that must run before this one, each once, ascending. See the module's invariants for what they are.
    #[must_use]
    pub fn predecessors(&self, op: OpId) -> &[OpId] {
        self.predecessors_of.list(op.index())
    }

    /// The ops that must run after this one, each once, ascending.
    #[must_use]
    pub fn successors(&self, op: OpId) -> &[OpId] {
        self.successors_of.list(op.index())
    }

    /// The storages that begin with this op: those whose root it writes.
    #[must_use]
    pub fn creates(&self, op: OpId) -> &[StorageId] {
        self.creates_of.list(op.index())
    }

    /// The storages, neither persistent nor created by this op, that it reads, views or updates; each once.
    #[must_use]
    pub fn touches(&self, op: OpId) -> &[StorageId] {
        self.touches_of.list(op.index())
    }

    // One tensor.

    /// The tensor's name; empty where it has none.
    #[must_use]
    pub fn tensor_name(&self, tensor: TensorId) -> &str {
        &self.tensors[tensor.index()].name
    }

    /// The tensor with its name, for messages.
    #[must_use]
    pub fn tensor_label(&self, tensor: TensorId) -> TensorLabel {
        TensorLabel { id: tensor, name: self.tensor_name(tensor).to_owned() }
    }

    /// The tensor's own size in bytes. A view's bytes lie in its storage; it may look larger than that.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> u64 {
        self.tensors[tensor.index()].bytes
    }

    /// What the tensor is for.
    #[must_use]
    pub fn tensor_kind(&self, tensor: TensorId) -> TensorKind {
        self.tensors[tensor.index()].kind
    }

    /// The tensor's element type, in the framework's words.
    #[must_use]
    pub fn dtype(&self, tensor: TensorId) -> Option<&str> {
        self.tensors[tensor.index()].dtype.map(|k| self.labels[k as usize].as_str())
    }

    /// The tensor's dimensions, where known.
    #[must_use]
    pub fn shape(&self, tensor: TensorId) -> Option<&[u64]> {
        self.tensors[tensor.index()].has_shape.then(|| self.shape_of.list(tensor.index()))
    }

    /// The op that writes the tensor; `None` for what the graph is given.
    #[must_use]
    pub fn producer(&self, tensor: TensorId) -> Option<OpId> {
        self.tensors[tensor.index()].producer
    }

    /// The ops that read the tensor, each once, ascending.
    #[must_use]
    pub fn consumers(&self, tensor: TensorId) -> &[OpId] {
        self.consumers_of.list(tensor.index())
    }

    /// The storage that the tensor lives in.
    #[must_use]
    pub fn storage(&self, tensor: TensorId) -> StorageId {
        self.tensors[tensor.index()].storage
    }

    /// How often the tensor's storage was overwritten by the time the tensor's bytes stand in it.
    #[must_use]
    pub fn version(&self, tensor: TensorId) -> u32 {
        self.tensors[tensor.index()].version
    }

    // One storage.

    /// The storage's root: the one tensor in it that is neither a view nor an update.
    #[must_use]
    pub fn root(&self, storage: StorageId) -> TensorId {
        self.storages[storage.index()].root
    }

    /// The storage's size in bytes: that of its root.
    #[must_use]
    pub fn storage_bytes(&self, storage: StorageId) -> u64 {
        self.storages[storage.index()].bytes
    }

    /// The op that creates the storage; `None` for what the graph is given.
    #[must_use]
    pub fn creator(&self, storage: StorageId) -> Option<OpId> {
        self.storages[storage.index()].creator
    }

    /// Whether the storage is live always and outside the arena: given to the graph, and of a persistent kind.
    #[must_use]
    pub fn is_persistent(&self, storage: StorageId) -> bool {
        self.storages[storage.index()].persistent
    }

    /// Whether a graph output lives in the storage, so that it stays to the last step.
    #[must_use]
    pub fn is_output(&self, storage: StorageId) -> bool {
        self.storages[storage.index()].output
    }

    /// Whether the storage is given to the graph and lies in the arena: live from step 0 on.
    #[must_use]
    pub fn is_input(&self, storage: StorageId) -> bool {
        let storage = &self.storages[storage.index()];
        storage.creator.is_none() && !storage.persistent
    }

    /// The ops that read, view or update the storage, its creator left out; each once, ascending.
    /// Empty for a persistent storage.
    #[must_use]
    pub fn touchers(&self, storage: StorageId) -> &[OpId] {
        self.touchers_of.list(storage.index())
    }
}

#[cfg(test)]
mod tests;
