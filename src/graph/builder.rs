//! The builder that hands out dense ids; it only records, and [`GraphBuilder::build`] judges.

use super::{Graph, Op};
use crate::error::{GraphError, OpLabel};
use crate::id::{Adjacency, OpId, TensorId};
use indexmap::IndexSet;

/// What a tensor is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(any(feature = "json", feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(any(feature = "json", feature = "serde"), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TensorKind {
    /// An intermediate result.
    #[default]
    Activation,
    /// Data given to the graph for one run.
    Input,
    /// A trained parameter; persistent when given to the graph.
    Weight,
    /// A gradient.
    Gradient,
    /// What an optimiser keeps between steps; persistent when given to the graph.
    OptimizerState,
    /// A constant; persistent when given to the graph.
    Constant,
}

impl TensorKind {
    /// Whether a tensor of this kind that the graph is given stays outside the arena, live always.
    #[must_use]
    pub const fn is_persistent(self) -> bool {
        matches!(self, Self::Weight | Self::OptimizerState | Self::Constant)
    }
}

/// A tensor as it was added.
#[derive(Clone, Debug)]
pub(crate) struct TensorSpec {
    pub(crate) name: Box<str>,
    pub(crate) bytes: u64,
    pub(crate) kind: TensorKind,
    pub(crate) dtype: Option<u32>,
    pub(crate) shape: Option<Box<[u64]>>,
}

/// The lists that every op has, each in the order of the ops.
#[derive(Debug, Default)]
pub(crate) struct OpLists {
    pub(crate) inputs: Adjacency<TensorId>,
    pub(crate) outputs: Adjacency<TensorId>,
    pub(crate) after: Adjacency<OpId>,
    pub(crate) views: Adjacency<(TensorId, TensorId)>,
    pub(crate) updates: Adjacency<(TensorId, TensorId)>,
    pub(crate) in_place: Adjacency<(TensorId, TensorId)>,
}

impl OpLists {
    /// Ends the lists of one op.
    fn close(&mut self) {
        self.inputs.close();
        self.outputs.close();
        self.after.close();
        self.views.close();
        self.updates.close();
        self.in_place.close();
    }
}

/// Builds a [`Graph`] from ops and tensors that are named by the dense ids this builder hands out.
///
/// Tensors may be added before or after the ops that use them, and ops in any order; nothing is checked before
/// [`build`](Self::build). See [`Graph`] for an example, and [`KeyedBuilder`](super::KeyedBuilder) for a builder
/// that takes the caller's own keys.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    pub(crate) name: String,
    pub(crate) tensors: Vec<TensorSpec>,
    pub(crate) ops: Vec<Op>,
    pub(crate) lists: OpLists,
    pub(crate) outputs: Vec<TensorId>,
    pub(crate) labels: IndexSet<String>,
}

impl GraphBuilder {
    /// A builder without ops and tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the graph's name.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = name.into();
        self
    }

    /// Adds a tensor of `bytes` bytes: an activation, unless [`kind`](Self::kind) says otherwise.
    ///
    /// The name may be empty. A tensor that no op writes is a graph input.
    pub fn tensor(&mut self, name: impl Into<Box<str>>, bytes: u64) -> TensorId {
        let id = TensorId::new(self.tensors.len());
        self.tensors.push(TensorSpec {
            name: name.into(),
            bytes,
            kind: TensorKind::Activation,
            dtype: None,
            shape: None,
        });
        id
    }

    /// Adds a graph input: live in the arena from step 0 to its last use.
    pub fn input(&mut self, name: impl Into<Box<str>>, bytes: u64) -> TensorId {
        let id = self.tensor(name, bytes);
        self.kind(id, TensorKind::Input);
        id
    }

    /// Adds a weight: persistent, outside the arena.
    pub fn weight(&mut self, name: impl Into<Box<str>>, bytes: u64) -> TensorId {
        let id = self.tensor(name, bytes);
        self.kind(id, TensorKind::Weight);
        id
    }

    /// Says what a tensor is for.
    ///
    /// # Panics
    /// When this builder did not hand out `tensor`, as indexing does.
    pub fn kind(&mut self, tensor: TensorId, kind: TensorKind) -> &mut Self {
        self.tensors[tensor.index()].kind = kind;
        self
    }

    /// Says what a tensor's elements are; the label is free text (`"f32"`).
    ///
    /// # Panics
    /// When this builder did not hand out `tensor`, as indexing does.
    pub fn dtype(&mut self, tensor: TensorId, dtype: &str) -> &mut Self {
        let label = self.label(dtype);
        self.tensors[tensor.index()].dtype = Some(label);
        self
    }

    /// Says what a tensor's dimensions are. They are a label: the bytes are as given.
    ///
    /// # Panics
    /// When this builder did not hand out `tensor`, as indexing does.
    pub fn shape(&mut self, tensor: TensorId, shape: impl Into<Box<[u64]>>) -> &mut Self {
        self.tensors[tensor.index()].shape = Some(shape.into());
        self
    }

    /// Names a graph output: it is live to the last step. Naming it twice is the same as once.
    pub fn output(&mut self, tensor: TensorId) -> &mut Self {
        self.outputs.push(tensor);
        self
    }

    /// Adds an op. What it reads, writes and needs is said on the [`OpBuilder`]; an op may have none of it.
    pub fn op(&mut self, name: impl Into<Box<str>>) -> OpBuilder<'_> {
        self.close_op();
        let id = OpId::new(self.ops.len());
        self.ops.push(Op { name: name.into(), kind: None, workspace_bytes: 0, flops: None, seconds: None });
        OpBuilder { builder: self, id }
    }

    /// Checks everything and makes the graph. O(n + m) for n ops and tensors and m operands, n log n where the ops
    /// were not added in a valid order.
    ///
    /// # Errors
    /// [`GraphError`], naming the op or tensor and the rule that it breaks.
    pub fn build(self) -> Result<Graph, GraphError> {
        super::build::build(self)
    }

    /// Sets a tensor's size.
    pub(crate) fn set_bytes(&mut self, tensor: TensorId, bytes: u64) {
        self.tensors[tensor.index()].bytes = bytes;
    }

    /// The op with its name, for messages.
    pub(crate) fn op_label(&self, op: OpId) -> OpLabel {
        OpLabel { id: op, name: self.ops[op.index()].name.to_string() }
    }

    /// Ends the lists of the op that was added last, unless that is done.
    pub(crate) fn close_op(&mut self) {
        if self.lists.inputs.len() < self.ops.len() {
            self.lists.close();
        }
    }

    /// The position of a label in the table of labels.
    pub(crate) fn label(&mut self, label: &str) -> u32 {
        let index = match self.labels.get_index_of(label) {
            Some(index) => index,
            None => self.labels.insert_full(label.to_owned()).0,
        };
        u32::try_from(index).expect("fewer distinct labels than 32-bit ids")
    }
}

/// Says what one op of a [`GraphBuilder`] reads, writes and needs.
#[derive(Debug)]
pub struct OpBuilder<'b> {
    builder: &'b mut GraphBuilder,
    id: OpId,
}

impl OpBuilder<'_> {
    fn op(&mut self) -> &mut Op {
        &mut self.builder.ops[self.id.index()]
    }

    /// The op reads these tensors. One may be read twice.
    pub fn reads(self, tensors: impl IntoIterator<Item = TensorId>) -> Self {
        tensors.into_iter().for_each(|t| self.builder.lists.inputs.push(t));
        self
    }

    /// The op writes these tensors.
    pub fn writes(self, tensors: impl IntoIterator<Item = TensorId>) -> Self {
        tensors.into_iter().for_each(|t| self.builder.lists.outputs.push(t));
        self
    }

    /// The output `view` is a view of `of`: it has no bytes of its own.
    pub fn view(self, view: TensorId, of: TensorId) -> Self {
        self.builder.lists.views.push((view, of));
        self
    }

    /// The op overwrites the storage of `old`; its output `new` is the storage's next version.
    pub fn update(self, new: TensorId, old: TensorId) -> Self {
        self.builder.lists.updates.push((new, old));
        self
    }

    /// The output `out` may take over the bytes of the input `operand`, where that dies with this op.
    pub fn in_place(self, out: TensorId, operand: TensorId) -> Self {
        self.builder.lists.in_place.push((out, operand));
        self
    }

    /// The op runs after these ops, for reasons that no tensor shows.
    pub fn after(self, ops: impl IntoIterator<Item = OpId>) -> Self {
        ops.into_iter().for_each(|op| self.builder.lists.after.push(op));
        self
    }

    /// The op needs this many bytes while it runs, and only then.
    pub fn workspace(mut self, bytes: u64) -> Self {
        self.op().workspace_bytes = bytes;
        self
    }

    /// What the op computes; free text (`"aten.convolution"`).
    pub fn kind(mut self, kind: &str) -> Self {
        let label = self.builder.label(kind);
        self.op().kind = Some(label);
        self
    }

    /// Floating-point operations of the op.
    pub fn flops(mut self, flops: u64) -> Self {
        self.op().flops = Some(flops);
        self
    }

    /// Run time of the op, in a unit that the graph uses throughout.
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.op().seconds = Some(seconds);
        self
    }

    /// The op's id; ends the op.
    pub fn id(self) -> OpId {
        self.id
    }
}
