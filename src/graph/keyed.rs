//! The builder that takes the caller's own keys, and the table that maps them both ways.

use super::Graph;
use super::builder::{GraphBuilder, TensorKind};
use crate::error::{GraphError, OpLabel, TensorLabel};
use crate::id::{OpId, TensorId};
use indexmap::IndexSet;
use std::fmt::Debug;
use std::hash::Hash;

/// The caller's keys of a graph's ops and tensors, mapped both ways.
///
/// Ops and tensors have separate key spaces: op 5 and tensor 5 are different things.
#[derive(Clone, Debug)]
pub struct Keys<K> {
    ops: IndexSet<K>,
    tensors: IndexSet<K>,
}

impl<K: Hash + Eq> Keys<K> {
    pub(crate) fn new(ops: IndexSet<K>, tensors: IndexSet<K>) -> Self {
        Self { ops, tensors }
    }

    /// The op with this key.
    #[must_use]
    pub fn op(&self, key: &K) -> Option<OpId> {
        self.ops.get_index_of(key).map(OpId::new)
    }

    /// The tensor with this key.
    #[must_use]
    pub fn tensor(&self, key: &K) -> Option<TensorId> {
        self.tensors.get_index_of(key).map(TensorId::new)
    }

    /// The key of an op.
    #[must_use]
    pub fn op_key(&self, op: OpId) -> Option<&K> {
        self.ops.get_index(op.index())
    }

    /// The key of a tensor.
    #[must_use]
    pub fn tensor_key(&self, tensor: TensorId) -> Option<&K> {
        self.tensors.get_index(tensor.index())
    }
}

/// Builds a [`Graph`] from ops and tensors that are named by keys of the caller's: sparse numbers, strings, node ids.
///
/// Keys may be used before the op or tensor they name is added. [`build`](Self::build) returns the graph, in which
/// ids are dense, and the [`Keys`] that map both ways. A key's `Debug` text is the name in errors.
///
/// ```
/// use memsched::Graph;
///
/// let mut b = Graph::keyed_builder::<u64>();
/// b.op(7_000_001).reads([10]).writes([900]);
/// b.input(10, 64);
/// b.tensor(900, 64);
/// b.output(900);
/// let (graph, keys) = b.build()?;
///
/// let op = graph.given_order()[0];
/// assert_eq!(keys.op_key(op), Some(&7_000_001));
/// assert_eq!(graph.tensor_bytes(keys.tensor(&900).unwrap()), 64);
/// # Ok::<(), memsched::GraphError>(())
/// ```
#[derive(Debug)]
pub struct KeyedBuilder<K> {
    /// Its control dependencies name ops by the positions of their keys in `ops`; `build` puts the ids there.
    builder: GraphBuilder,
    ops: IndexSet<K>,
    /// The builder's op for each op key; `None` while the key was only mentioned.
    added_ops: Vec<Option<OpId>>,
    /// Tensor keys, in the order of the builder's tensors.
    tensors: IndexSet<K>,
    added_tensors: Vec<bool>,
    duplicate: Option<GraphError>,
}

impl<K: Hash + Eq + Debug> Default for KeyedBuilder<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq + Debug> KeyedBuilder<K> {
    /// A builder without ops and tensors.
    #[must_use]
    pub fn new() -> Self {
        Self {
            builder: GraphBuilder::new(),
            ops: IndexSet::new(),
            added_ops: Vec::new(),
            tensors: IndexSet::new(),
            added_tensors: Vec::new(),
            duplicate: None,
        }
    }

    /// Sets the graph's name.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.builder.name(name);
        self
    }

    /// Adds a tensor of `bytes` bytes: an activation, unless [`kind`](Self::kind) says otherwise.
    pub fn tensor(&mut self, key: K, bytes: u64) -> &mut Self {
        self.add_tensor(key, bytes, TensorKind::Activation)
    }

    /// Adds a graph input.
    pub fn input(&mut self, key: K, bytes: u64) -> &mut Self {
        self.add_tensor(key, bytes, TensorKind::Input)
    }

    /// Adds a weight.
    pub fn weight(&mut self, key: K, bytes: u64) -> &mut Self {
        self.add_tensor(key, bytes, TensorKind::Weight)
    }

    /// Says what a tensor is for.
    pub fn kind(&mut self, key: K, kind: TensorKind) -> &mut Self {
        let id = self.mention(key);
        self.builder.kind(id, kind);
        self
    }

    /// Says what a tensor's elements are.
    pub fn dtype(&mut self, key: K, dtype: &str) -> &mut Self {
        let id = self.mention(key);
        self.builder.dtype(id, dtype);
        self
    }

    /// Says what a tensor's dimensions are.
    pub fn shape(&mut self, key: K, shape: impl Into<Box<[u64]>>) -> &mut Self {
        let id = self.mention(key);
        self.builder.shape(id, shape);
        self
    }

    /// Names a graph output.
    pub fn output(&mut self, key: K) -> &mut Self {
        let id = self.mention(key);
        self.builder.output(id);
        self
    }

    /// Adds an op. What it reads, writes and needs is said on the [`KeyedOpBuilder`].
    pub fn op(&mut self, key: K) -> KeyedOpBuilder<'_, K> {
        let name = format!("{key:?}");
        let id = self.builder.op(name.as_str()).id();
        let place = self.mention_op(key);
        if self.added_ops[place].replace(id).is_some() {
            self.duplicate.get_or_insert(GraphError::DuplicateKey { what: "ops", key: name });
        }
        KeyedOpBuilder { keyed: self, id }
    }

    /// Checks everything and makes the graph.
    ///
    /// # Errors
    /// [`GraphError`], naming the op or tensor by its key.
    pub fn build(mut self) -> Result<(Graph, Keys<K>), GraphError> {
        if let Some(error) = self.duplicate {
            return Err(error);
        }
        self.builder.close_op();
        self.check_all_added()?;
        // Ops are numbered by when they were added, keys by when they were mentioned.
        let added: Vec<OpId> = self.added_ops.iter().copied().flatten().collect();
        for op in self.builder.lists.after.items_mut() {
            *op = added[op.index()];
        }
        let mut by_id: Vec<(OpId, K)> = added.into_iter().zip(self.ops).collect();
        by_id.sort_unstable_by_key(|(id, _)| *id);
        let ops = by_id.into_iter().map(|(_, key)| key).collect();
        Ok((self.builder.build()?, Keys::new(ops, self.tensors)))
    }

    /// Every key that was used names something that was added.
    fn check_all_added(&self) -> Result<(), GraphError> {
        let lists = &self.builder.lists;
        let unknown = |t: &TensorId| !self.added_tensors[t.index()];
        let label = |t: TensorId| TensorLabel { id: t, name: format!("{:?}", self.tensors[t.index()]) };
        for o in 0..self.builder.ops.len() {
            let op = || self.builder.op_label(OpId::new(o));
            if let Some(after) = lists.after.list(o).iter().find(|key| self.added_ops[key.index()].is_none()) {
                let name = format!("{:?}", self.ops[after.index()]);
                return Err(GraphError::UnknownOp { op: op(), after: OpLabel { id: OpId::new(usize::MAX), name } });
            }
            let pairs = [("views", &lists.views), ("updates", &lists.updates), ("writes over", &lists.in_place)];
            let paired = pairs
                .iter()
                .flat_map(|(role, list)| list.list(o).iter().flat_map(move |(a, b)| [(*role, a), (*role, b)]));
            let read = lists.inputs.list(o).iter().map(|t| ("reads", t));
            let written = lists.outputs.list(o).iter().map(|t| ("writes", t));
            if let Some((role, &t)) = read.chain(written).chain(paired).find(|(_, t)| unknown(t)) {
                return Err(GraphError::UnknownTensor { op: op(), role, tensor: label(t) });
            }
        }
        if let Some(&output) = self.builder.outputs.iter().find(|t| unknown(t)) {
            return Err(GraphError::UnknownOutput { tensor: label(output) });
        }
        match (0..self.added_tensors.len()).map(TensorId::new).find(unknown) {
            Some(tensor) => Err(GraphError::NeverAdded { tensor: label(tensor) }),
            None => Ok(()),
        }
    }

    fn add_tensor(&mut self, key: K, bytes: u64, kind: TensorKind) -> &mut Self {
        let id = self.mention(key);
        if std::mem::replace(&mut self.added_tensors[id.index()], true) {
            let key = format!("{:?}", self.tensors[id.index()]);
            self.duplicate.get_or_insert(GraphError::DuplicateKey { what: "tensors", key });
        }
        self.builder.set_bytes(id, bytes);
        if kind != TensorKind::Activation {
            self.builder.kind(id, kind);
        }
        self
    }

    /// The tensor with this key, made when it is mentioned for the first time.
    fn mention(&mut self, key: K) -> TensorId {
        if let Some(index) = self.tensors.get_index_of(&key) {
            return TensorId::new(index);
        }
        let id = self.builder.tensor(format!("{key:?}"), 0);
        self.tensors.insert(key);
        self.added_tensors.push(false);
        id
    }

    fn mention_op(&mut self, key: K) -> usize {
        let (place, new) = self.ops.insert_full(key);
        if new {
            self.added_ops.push(None);
        }
        place
    }
}

/// Says what one op of a [`KeyedBuilder`] reads, writes and needs.
#[derive(Debug)]
pub struct KeyedOpBuilder<'b, K> {
    keyed: &'b mut KeyedBuilder<K>,
    id: OpId,
}

impl<K: Hash + Eq + Debug> KeyedOpBuilder<'_, K> {
    /// The op reads these tensors. One may be read twice.
    pub fn reads(self, keys: impl IntoIterator<Item = K>) -> Self {
        for key in keys {
            let t = self.keyed.mention(key);
            self.keyed.builder.lists.inputs.push(t);
        }
        self
    }

    /// The op writes these tensors.
    pub fn writes(self, keys: impl IntoIterator<Item = K>) -> Self {
        for key in keys {
            let t = self.keyed.mention(key);
            self.keyed.builder.lists.outputs.push(t);
        }
        self
    }

    /// The output `view` is a view of `of`.
    pub fn view(self, view: K, of: K) -> Self {
        let pair = (self.keyed.mention(view), self.keyed.mention(of));
        self.keyed.builder.lists.views.push(pair);
        self
    }

    /// The op overwrites the storage of `old`; its output `new` is the storage's next version.
    pub fn update(self, new: K, old: K) -> Self {
        let pair = (self.keyed.mention(new), self.keyed.mention(old));
        self.keyed.builder.lists.updates.push(pair);
        self
    }

    /// The output `out` may take over the bytes of the input `operand`, where that dies with this op.
    pub fn in_place(self, out: K, operand: K) -> Self {
        let pair = (self.keyed.mention(out), self.keyed.mention(operand));
        self.keyed.builder.lists.in_place.push(pair);
        self
    }

    /// The op runs after these ops, for reasons that no tensor shows.
    pub fn after(self, keys: impl IntoIterator<Item = K>) -> Self {
        for key in keys {
            let place = self.keyed.mention_op(key);
            self.keyed.builder.lists.after.push(OpId::new(place));
        }
        self
    }

    /// The op needs this many bytes while it runs, and only then.
    pub fn workspace(self, bytes: u64) -> Self {
        self.keyed.builder.ops[self.id.index()].workspace_bytes = bytes;
        self
    }

    /// What the op computes; free text.
    pub fn kind(self, kind: &str) -> Self {
        let label = self.keyed.builder.label(kind);
        self.keyed.builder.ops[self.id.index()].kind = Some(label);
        self
    }

    /// Floating-point operations of the op.
    pub fn flops(self, flops: u64) -> Self {
        self.keyed.builder.ops[self.id.index()].flops = Some(flops);
        self
    }

    /// Run time of the op, in a unit that the graph uses throughout.
    pub fn seconds(self, seconds: f64) -> Self {
        self.keyed.builder.ops[self.id.index()].seconds = Some(seconds);
        self
    }

    /// The op's id in the graph that will be built; ends the op.
    pub fn id(self) -> OpId {
        self.id
    }
}
