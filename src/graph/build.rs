//! From a builder's records to a valid graph: every rule is checked here, each by one function, in reading order.

use super::builder::{GraphBuilder, OpLists, TensorSpec};
use super::topology::{self, Order};
use super::{Graph, Op, Storage, Takeover, Tensor};
use crate::error::{GraphError, OpLabel, TensorLabel};
use crate::id::{Adjacency, OpId, StorageId, TensorId};
use hashbrown::HashSet;
use indexmap::IndexSet;

pub(super) fn build(mut builder: GraphBuilder) -> Result<Graph, GraphError> {
    builder.close_op();
    let GraphBuilder { name, tensors: mut specs, mut ops, lists, outputs, labels } = builder;
    let labels = in_order_of_use(&labels, &mut specs, &mut ops);
    let mut draft = Draft { specs, ops, lists, producer: Vec::new() };

    draft.check_ids(&outputs)?;
    draft.producer = draft.producers()?;
    draft.check_self_loops()?;
    draft.check_pairs()?;
    let (root, version) = draft.roots(&draft.sources()?)?;
    draft.add_sources_to_inputs();

    let (mut storages, storage_of) = draft.storages(&root);
    let (persistent_bytes, transient_bytes) = draft.total_bytes(&storages)?;
    let updates = draft.updates_by_storage(&storages, &storage_of, &version)?;
    let outputs = draft.outputs(outputs, &mut storages, &storage_of, &version, &updates)?;

    let members = Members { storage_of: &storage_of, version: &version, updates: &updates };
    let (predecessors_of, given_order) = draft.dependencies(&members)?;
    let n_ops = draft.ops.len();
    let successors_of = Adjacency::group(n_ops, || {
        predecessors_of
            .lists()
            .enumerate()
            .flat_map(|(op, list)| list.iter().map(move |pred| (pred.index(), OpId::new(op))))
    });

    let takeovers_of = draft.takeovers(&storages, &storage_of);
    let consumers_of = consumers(draft.specs.len(), &draft.lists.inputs);
    let (creates_of, touches_of) = draft.uses(&storages, &storage_of);
    let touchers_of = Adjacency::group(storages.len(), || {
        touches_of.lists().enumerate().flat_map(|(op, list)| list.iter().map(move |s| (s.index(), OpId::new(op))))
    });

    let Draft { specs, ops, lists, producer } = draft;
    let mut shape_of = Adjacency::default();
    let mut tensors = Vec::with_capacity(specs.len());
    for (t, spec) in specs.into_iter().enumerate() {
        let TensorSpec { name, bytes, kind, dtype, shape } = spec;
        let has_shape = shape.is_some();
        shape_of.push_list(shape.into_iter().flatten());
        let (producer, storage, version) = (producer[t], storage_of[t], version[t]);
        tensors.push(Tensor { name, bytes, kind, dtype, has_shape, producer, storage, version });
    }
    Ok(Graph {
        name,
        ops,
        tensors,
        storages,
        outputs,
        labels,
        inputs_of: lists.inputs,
        outputs_of: lists.outputs,
        after_of: lists.after,
        views_of: lists.views,
        updates_of: lists.updates,
        in_place_of: lists.in_place,
        takeovers_of,
        shape_of,
        consumers_of,
        predecessors_of,
        successors_of,
        creates_of,
        touches_of,
        touchers_of,
        given_order,
        persistent_bytes,
        transient_bytes,
    })
}

/// Numbers the labels anew, so that equal graphs have equal tables in whatever order they were told: dtypes in the order
/// of the tensors, then kinds in the order of the ops.
fn in_order_of_use(labels: &IndexSet<String>, specs: &mut [TensorSpec], ops: &mut [Op]) -> IndexSet<String> {
    let mut renumbered: Vec<Option<u32>> = vec![None; labels.len()];
    let mut used: Vec<usize> = Vec::with_capacity(labels.len());
    let in_use = specs.iter_mut().map(|spec| &mut spec.dtype).chain(ops.iter_mut().map(|op| &mut op.kind));
    for label in in_use.flatten() {
        let old = *label as usize;
        *label = *renumbered[old].get_or_insert_with(|| {
            used.push(old);
            u32::try_from(used.len() - 1).expect("no more labels than before")
        });
    }
    used.into_iter().map(|old| labels[old].clone()).collect()
}

/// What is known while the rules are checked.
struct Draft {
    specs: Vec<TensorSpec>,
    ops: Vec<Op>,
    lists: OpLists,
    producer: Vec<Option<OpId>>,
}

/// An update of a storage: the version it makes, the op, the tensor it writes, and the tensor whose version it
/// overwrites.
#[derive(Clone, Copy)]
struct Update {
    version: u32,
    op: OpId,
    new: TensorId,
    old: TensorId,
}

/// Where each tensor lives, and who overwrites what.
struct Members<'a> {
    storage_of: &'a [StorageId],
    version: &'a [u32],
    /// For each storage, update k makes version k + 1.
    updates: &'a Adjacency<Update>,
}

impl Members<'_> {
    /// The op that overwrites the version that `tensor` is.
    fn overwriter(&self, tensor: TensorId) -> Option<OpId> {
        let t = tensor.index();
        self.updates.list(self.storage_of[t].index()).get(self.version[t] as usize).map(|u| u.op)
    }
}

/// Which dependencies a check takes into account; each level adds to the one before.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    /// Operands that are not the source of a view, and control dependencies.
    Plain,
    /// Sources of views.
    Views,
    /// Readers before the op that overwrites what they read.
    Updates,
}

impl Draft {
    fn op_label(&self, op: OpId) -> OpLabel {
        OpLabel { id: op, name: self.ops.get(op.index()).map_or_else(String::new, |o| o.name.to_string()) }
    }

    fn tensor_label(&self, t: TensorId) -> TensorLabel {
        TensorLabel { id: t, name: self.specs.get(t.index()).map_or_else(String::new, |s| s.name.to_string()) }
    }

    fn op_ids(&self) -> impl Iterator<Item = OpId> + use<> {
        (0..self.ops.len()).map(OpId::new)
    }

    /// All ids that ops and outputs name exist, and there are not too many; times are times.
    fn check_ids(&self, outputs: &[TensorId]) -> Result<(), GraphError> {
        for (what, n) in [("ops", self.ops.len()), ("tensors", self.specs.len())] {
            if n >= u32::MAX as usize {
                return Err(GraphError::TooMany { what });
            }
        }
        let unknown = |t: &&TensorId| t.index() >= self.specs.len();
        for op in self.op_ids() {
            let o = op.index();
            let fail = |role, t: TensorId| {
                Err(GraphError::UnknownTensor { op: self.op_label(op), role, tensor: self.tensor_label(t) })
            };
            if let Some(t) = self.lists.inputs.list(o).iter().find(unknown) {
                return fail("reads", *t);
            }
            if let Some(t) = self.lists.outputs.list(o).iter().find(unknown) {
                return fail("writes", *t);
            }
            let pairs =
                [("views", &self.lists.views), ("updates", &self.lists.updates), ("writes over", &self.lists.in_place)];
            for (role, pairs) in pairs {
                if let Some(t) = pairs.list(o).iter().flat_map(|(out, of)| [out, of]).find(unknown) {
                    return fail(role, *t);
                }
            }
            if let Some(&after) = self.lists.after.list(o).iter().find(|a| a.index() >= self.ops.len()) {
                return Err(GraphError::UnknownOp { op: self.op_label(op), after: self.op_label(after) });
            }
            if let Some(seconds) = self.ops[o].seconds.filter(|s| !s.is_finite() || *s < 0.0) {
                return Err(GraphError::BadSeconds { op: self.op_label(op), seconds: seconds.to_string() });
            }
        }
        match outputs.iter().find(unknown) {
            Some(&t) => Err(GraphError::UnknownOutput { tensor: self.tensor_label(t) }),
            None => Ok(()),
        }
    }

    fn producers(&self) -> Result<Vec<Option<OpId>>, GraphError> {
        let mut producer = vec![None; self.specs.len()];
        for op in self.op_ids() {
            for &t in self.lists.outputs.list(op.index()) {
                if let Some(first) = producer[t.index()].replace(op) {
                    return Err(GraphError::TwoProducers {
                        tensor: self.tensor_label(t),
                        first: self.op_label(first),
                        second: self.op_label(op),
                    });
                }
            }
        }
        Ok(producer)
    }

    /// No op waits for itself, through a tensor or a control dependency.
    fn check_self_loops(&self) -> Result<(), GraphError> {
        for op in self.op_ids() {
            let o = op.index();
            let own = |t: &TensorId| self.producer[t.index()] == Some(op);
            let updated = self.lists.updates.list(o).iter().map(|(_, old)| old);
            let through = self.lists.inputs.list(o).iter().chain(updated).find(|t| own(t)).copied();
            if through.is_some() || self.lists.after.list(o).contains(&op) {
                let through = through.map(|t| self.tensor_label(t));
                return Err(GraphError::SelfLoop { op: self.op_label(op), through });
            }
        }
        Ok(())
    }

    /// Every pair starts with an output of its op, and an in-place pair ends with an input of it.
    fn check_pairs(&self) -> Result<(), GraphError> {
        for op in self.op_ids() {
            let o = op.index();
            let pairs =
                [("a view", &self.lists.views), ("an update", &self.lists.updates), ("in place", &self.lists.in_place)];
            for (relation, pairs) in pairs {
                if let Some(&(out, _)) = pairs.list(o).iter().find(|(out, _)| self.producer[out.index()] != Some(op)) {
                    let (op, tensor) = (self.op_label(op), self.tensor_label(out));
                    return Err(GraphError::PairNotWritten { op, tensor, relation });
                }
            }
            let in_place = self.lists.in_place.list(o);
            if in_place.is_empty() {
                continue;
            }
            let read: HashSet<TensorId> = self.lists.inputs.list(o).iter().copied().collect();
            if let Some(&(out, operand)) = in_place.iter().find(|(_, operand)| !read.contains(operand)) {
                let (out, operand) = (self.tensor_label(out), self.tensor_label(operand));
                return Err(GraphError::InPlaceNotRead { op: self.op_label(op), out, operand });
            }
        }
        Ok(())
    }

    /// For each tensor that is a view or an update: the tensor it is one of, and whether it is an update.
    fn sources(&self) -> Result<Vec<Option<(TensorId, bool)>>, GraphError> {
        let mut source: Vec<Option<(TensorId, bool)>> = vec![None; self.specs.len()];
        for op in self.op_ids() {
            let views = self.lists.views.list(op.index()).iter().map(|&(out, of)| (out, (of, false)));
            let updates = self.lists.updates.list(op.index()).iter().map(|&(out, old)| (out, (old, true)));
            for (out, from) in views.chain(updates) {
                match source[out.index()].replace(from) {
                    Some(first) if first != from => {
                        return Err(GraphError::TwoSources {
                            op: self.op_label(op),
                            tensor: self.tensor_label(out),
                            first: self.tensor_label(first.0),
                            second: self.tensor_label(from.0),
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(source)
    }

    /// The root and the version of every tensor, from the sources. Each tensor is visited once.
    fn roots(&self, source: &[Option<(TensorId, bool)>]) -> Result<(Vec<TensorId>, Vec<u32>), GraphError> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            OnPath,
            Done,
        }
        let n = source.len();
        let mut state = vec![State::New; n];
        let mut root: Vec<TensorId> = (0..n).map(TensorId::new).collect();
        let mut version = vec![0u32; n];
        let mut path = Vec::new();
        for start in 0..n {
            let mut t = start;
            while state[t] == State::New {
                state[t] = State::OnPath;
                path.push(t);
                match source[t] {
                    Some((of, _)) => t = of.index(),
                    None => break,
                }
            }
            // The walk ended on its own path only at a root, which has no source; elsewhere that is a cycle.
            if state[t] == State::OnPath && source[t].is_some() {
                return Err(GraphError::ViewCycle { tensor: self.tensor_label(TensorId::new(t)) });
            }
            while let Some(t) = path.pop() {
                if let Some((of, update)) = source[t] {
                    root[t] = root[of.index()];
                    version[t] = version[of.index()] + u32::from(update);
                }
                state[t] = State::Done;
            }
        }
        Ok((root, version))
    }

    /// Adds the sources of views and updates to the inputs of their ops, where they are missing.
    fn add_sources_to_inputs(&mut self) {
        let mut inputs = Adjacency::default();
        let mut any_missing = false;
        let mut read = Lookup::default();
        for op in self.op_ids() {
            let o = op.index();
            let given = self.lists.inputs.list(o);
            let mut list = given.to_vec();
            read.clear();
            read.extend(given);
            for &(_, source) in self.lists.views.list(o).iter().chain(self.lists.updates.list(o)) {
                if self.producer[source.index()] != Some(op) && read.insert(source) {
                    any_missing = true;
                    list.push(source);
                }
            }
            inputs.push_list(list);
        }
        if any_missing {
            self.lists.inputs = inputs;
        }
    }

    /// One storage a root, in the order of the roots; and the storage of every tensor.
    fn storages(&self, root: &[TensorId]) -> (Vec<Storage>, Vec<StorageId>) {
        let mut storages = Vec::new();
        let mut storage_of = vec![StorageId::new(usize::MAX); root.len()];
        for (t, spec) in self.specs.iter().enumerate().filter(|(t, _)| root[*t].index() == *t) {
            storage_of[t] = StorageId::new(storages.len());
            let creator = self.producer[t];
            let persistent = creator.is_none() && spec.kind.is_persistent();
            storages.push(Storage { root: root[t], bytes: spec.bytes, creator, persistent, output: false });
        }
        for t in 0..root.len() {
            storage_of[t] = storage_of[root[t].index()];
        }
        (storages, storage_of)
    }

    /// The bytes of the persistent and of the other storages; together with all workspace they fit in 64 bits.
    fn total_bytes(&self, storages: &[Storage]) -> Result<(u64, u64), GraphError> {
        let (mut persistent, mut transient, mut all) = (0u64, 0u64, 0u64);
        for storage in storages {
            all = all
                .checked_add(storage.bytes)
                .ok_or_else(|| GraphError::BytesOverflow { at: self.tensor_label(storage.root).to_string() })?;
            *(if storage.persistent { &mut persistent } else { &mut transient }) += storage.bytes;
        }
        for (o, op) in self.ops.iter().enumerate() {
            all = all
                .checked_add(op.workspace_bytes)
                .ok_or_else(|| GraphError::BytesOverflow { at: self.op_label(OpId::new(o)).to_string() })?;
        }
        Ok((persistent, transient))
    }

    /// The updates of every storage in the order of their versions; no version is overwritten twice.
    fn updates_by_storage(
        &self,
        storages: &[Storage],
        storage_of: &[StorageId],
        version: &[u32],
    ) -> Result<Adjacency<Update>, GraphError> {
        let mut updates: Vec<(usize, Update)> = Vec::new();
        for op in self.op_ids() {
            for &(new, old) in self.lists.updates.list(op.index()) {
                let update = Update { version: version[new.index()], op, new, old };
                updates.push((storage_of[new.index()].index(), update));
            }
        }
        updates.sort_by_key(|(storage, update)| (*storage, update.version));
        for pair in updates.windows(2) {
            let [(s, first), (t, second)] = pair else { continue };
            if s == t && first.version == second.version && first.new != second.new {
                return Err(GraphError::TwoUpdates {
                    tensor: self.tensor_label(first.old),
                    first: self.op_label(first.op),
                    second: self.op_label(second.op),
                });
            }
        }
        updates.dedup_by_key(|(storage, update)| (*storage, update.version));
        Ok(Adjacency::group(storages.len(), || updates.iter().copied()))
    }

    /// The distinct outputs, each the last version of its storage; marks their storages.
    fn outputs(
        &self,
        named: Vec<TensorId>,
        storages: &mut [Storage],
        storage_of: &[StorageId],
        version: &[u32],
        updates: &Adjacency<Update>,
    ) -> Result<Vec<TensorId>, GraphError> {
        let mut seen = HashSet::with_capacity(named.len());
        let mut outputs = named;
        outputs.retain(|t| seen.insert(*t));
        for &t in &outputs {
            let storage = storage_of[t.index()].index();
            if let Some(next) = updates.list(storage).get(version[t.index()] as usize) {
                return Err(GraphError::OutputOverwritten { tensor: self.tensor_label(t), op: self.op_label(next.op) });
            }
            storages[storage].output = true;
        }
        Ok(outputs)
    }

    /// The predecessors of every op, and a topological order; or the error that says why there is none.
    fn dependencies(&self, members: &Members<'_>) -> Result<(Adjacency<OpId>, Vec<OpId>), GraphError> {
        let predecessors = self.predecessors(members, Level::Updates);
        match topology::order(&predecessors) {
            Order::Valid(order) => Ok((predecessors, order)),
            Order::Cycle(_) => Err(self.diagnose(members)),
        }
    }

    /// Which rule a cyclic graph breaks: the first level of dependencies that closes a cycle tells.
    fn diagnose(&self, members: &Members<'_>) -> GraphError {
        let cycle_at = |level| match topology::order(&self.predecessors(members, level)) {
            Order::Valid(_) => None,
            Order::Cycle(path) => Some(path),
        };
        let labels = |path: &[OpId]| path.iter().map(|&op| self.op_label(op)).collect::<Vec<_>>();
        if let Some(path) = cycle_at(Level::Plain) {
            return GraphError::Cycle { path: labels(&path) };
        }
        // Each op of a path runs before the next, and the last before the first.
        let next = |path: &[OpId], k: usize| path[(k + 1) % path.len()];
        if let Some(path) = cycle_at(Level::Views) {
            for (k, &before) in path.iter().enumerate() {
                let op = next(&path, k);
                let late =
                    self.lists.views.list(op.index()).iter().find(|(_, of)| self.producer[of.index()] == Some(before));
                if let Some(&(view, source)) = late {
                    return GraphError::ViewBeforeSource {
                        op: self.op_label(op),
                        view: self.tensor_label(view),
                        source_tensor: self.tensor_label(source),
                        path: labels(&path),
                    };
                }
            }
        }
        let path = cycle_at(Level::Updates).unwrap_or_default();
        for (k, &reader) in path.iter().enumerate() {
            let op = next(&path, k);
            let lost = self.lists.inputs.list(reader.index()).iter().find(|t| members.overwriter(**t) == Some(op));
            if let Some(&tensor) = lost {
                let (op, reader) = (self.op_label(op), self.op_label(reader));
                return GraphError::UpdateBeforeReader {
                    op,
                    tensor: self.tensor_label(tensor),
                    reader,
                    path: labels(&path),
                };
            }
        }
        GraphError::Cycle { path: labels(&path) }
    }

    fn predecessors(&self, members: &Members<'_>, level: Level) -> Adjacency<OpId> {
        let readers_first = if level >= Level::Updates { self.readers_before_updates(members) } else { Vec::new() };
        let readers_first = Adjacency::group(self.ops.len(), || readers_first.iter().copied());
        let mut predecessors = Adjacency::default();
        let mut list = Vec::new();
        for o in 0..self.ops.len() {
            list.clear();
            let views = if level >= Level::Views { &[] } else { self.lists.views.list(o) };
            let mut viewed: Vec<TensorId> = views.iter().map(|&(_, source)| source).collect();
            viewed.sort_unstable();
            let counts = |t: &&TensorId| viewed.binary_search(t).is_err();
            list.extend(self.lists.inputs.list(o).iter().filter(counts).filter_map(|t| self.producer[t.index()]));
            list.extend_from_slice(self.lists.after.list(o));
            list.extend_from_slice(readers_first.list(o));
            list.sort_unstable();
            list.dedup();
            predecessors.push_list(list.iter().copied());
        }
        predecessors
    }

    /// Pairs (op that overwrites a version, op that reads that version).
    fn readers_before_updates(&self, members: &Members<'_>) -> Vec<(usize, OpId)> {
        let mut pairs = Vec::new();
        for reader in self.op_ids() {
            for &t in self.lists.inputs.list(reader.index()) {
                if let Some(op) = members.overwriter(t).filter(|op| *op != reader) {
                    pairs.push((op.index(), reader));
                }
            }
        }
        pairs
    }

    fn takeovers(&self, storages: &[Storage], storage_of: &[StorageId]) -> Adjacency<Takeover> {
        let mut takeovers = Adjacency::default();
        let mut list: Vec<Takeover> = Vec::new();
        // What one op reads, by storage.
        let mut read: Vec<(StorageId, TensorId)> = Vec::new();
        let mut seen = Lookup::default();
        for o in 0..self.ops.len() {
            list.clear();
            read.clear();
            seen.clear();
            let pairs = self.lists.in_place.list(o);
            if !pairs.is_empty() {
                read.extend(self.lists.inputs.list(o).iter().map(|&t| (storage_of[t.index()], t)));
                read.sort_unstable();
                read.dedup();
            }
            for &(out, operand) in pairs {
                let takeover = Takeover { to: storage_of[out.index()], from: storage_of[operand.index()] };
                let (to, from) = (&storages[takeover.to.index()], &storages[takeover.from.index()]);
                let first = read.partition_point(|(storage, _)| *storage < takeover.from);
                let alone = read.get(first + 1).is_none_or(|(storage, _)| *storage != takeover.from);
                let allowed =
                    to.root == out && to.bytes == from.bytes && to.bytes > 0 && !from.persistent && !from.output;
                // The bytes of an overwritten storage are the next version's, even if nobody reads that.
                let mut updated = self.lists.updates.list(o).iter().map(|(new, _)| storage_of[new.index()]);
                let kept = updated.all(|storage| storage != takeover.from);
                if allowed && alone && kept && seen.insert((takeover.to, takeover.from)) {
                    list.push(takeover);
                }
            }
            takeovers.push_list(list.iter().copied());
        }
        takeovers
    }

    /// The storages that every op creates, and the transient storages of others that it touches.
    fn uses(&self, storages: &[Storage], storage_of: &[StorageId]) -> (Adjacency<StorageId>, Adjacency<StorageId>) {
        let (mut creates, mut touches) = (Adjacency::default(), Adjacency::default());
        let mut list = Vec::new();
        for op in self.op_ids() {
            let o = op.index();
            creates.push_list(self.lists.outputs.list(o).iter().filter_map(|t| {
                let storage = storage_of[t.index()];
                (storages[storage.index()].root == *t).then_some(storage)
            }));
            list.clear();
            let used = self.lists.inputs.list(o).iter().chain(self.lists.outputs.list(o));
            list.extend(used.map(|t| storage_of[t.index()]).filter(|s| {
                let storage = &storages[s.index()];
                !storage.persistent && storage.creator != Some(op)
            }));
            list.sort_unstable();
            list.dedup();
            touches.push_list(list.iter().copied());
        }
        (creates, touches)
    }
}

/// The distinct readers of every tensor.
fn consumers(n_tensors: usize, inputs: &Adjacency<TensorId>) -> Adjacency<OpId> {
    let mut distinct = Adjacency::default();
    let mut list = Vec::new();
    for given in inputs.lists() {
        list.clear();
        list.extend_from_slice(given);
        list.sort_unstable();
        list.dedup();
        distinct.push_list(list.iter().copied());
    }
    Adjacency::group(n_tensors, || {
        distinct.lists().enumerate().flat_map(|(o, list)| list.iter().map(move |t| (t.index(), OpId::new(o))))
    })
}

/// A set that is refilled for every op: a list that is searched while it is short, hashed once it is long.
struct Lookup<T> {
    short: Vec<T>,
    long: Option<HashSet<T>>,
}

impl<T> Default for Lookup<T> {
    fn default() -> Self {
        Self { short: Vec::new(), long: None }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Lookup<T> {
    /// The most entries that are searched one by one.
    const SHORT: usize = 16;

    fn clear(&mut self) {
        self.short.clear();
        self.long = None;
    }

    fn extend(&mut self, items: &[T]) {
        items.iter().for_each(|item| {
            self.insert(*item);
        });
    }

    /// Adds an item; whether it is new.
    fn insert(&mut self, item: T) -> bool {
        if let Some(long) = &mut self.long {
            return long.insert(item);
        }
        if self.short.contains(&item) {
            return false;
        }
        self.short.push(item);
        if self.short.len() > Self::SHORT {
            self.long = Some(self.short.iter().copied().collect());
        }
        true
    }
}
