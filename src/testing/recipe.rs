//! From choices to a valid graph: every list of records gives one, so records can be removed and shrunk at will.
//!
//! Ops are made in the order of their records, and read only what stands when they are made. Invariant: all
//! dependencies lead from an op to a later one. Operands are made before; control dependencies name earlier ops; and
//! after an update nobody reads the version it overwrites, nor views of it, so all of that version's readers come
//! earlier. Outputs are chosen at the end, among the versions that stand then.
//!
//! A choice of 0 is always the plainest: read the latest tensor, write a fresh one of the least size.

use super::{Family, GraphShape};
use crate::graph::{Graph, GraphBuilder};
use crate::id::{OpId, TensorId};
use rand::{Rng, RngExt};

/// The choices for one op. Any numbers will do.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// What it reads, besides what its family makes it read.
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<Write>,
    /// What its place in the family is.
    pub(super) place: u32,
    pub(super) workspace: u32,
    pub(super) control: u32,
    /// Which of its tensors are graph outputs.
    pub(super) keep: u32,
}

/// The choices for one tensor that an op writes.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Fresh, a view or an update.
    pub(super) form: u32,
    pub(super) size: u32,
    /// Which operand it views, updates or takes over.
    pub(super) operand: u32,
}

/// The most operands and the most outputs of a record.
pub(super) const MOST: usize = 3;

impl Record {
    pub(super) fn random(rng: &mut impl Rng) -> Self {
        let n_reads = rng.random_range(0..=MOST);
        let n_writes = rng.random_range(0..=MOST);
        Self {
            reads: (0..n_reads).map(|_| rng.next_u32()).collect(),
            writes: (0..n_writes).map(|_| Write::random(rng)).collect(),
            place: rng.next_u32(),
            workspace: rng.next_u32(),
            control: rng.next_u32(),
            keep: rng.next_u32(),
        }
    }
}

impl Write {
    /// A fresh tensor of the least size.
    const PLAIN: Self = Self { form: 0, size: 0, operand: 0 };

    fn random(rng: &mut impl Rng) -> Self {
        Self { form: rng.next_u32(), size: rng.next_u32(), operand: rng.next_u32() }
    }
}

/// The graph with these choices; one op a record, in the order of the records.
pub(super) fn grow(shape: &GraphShape, records: &[Record]) -> Graph {
    let mut growing = Growing::new(shape);
    let mut family = Place::new(shape.family, records.len());
    for record in records {
        growing.add(record, &mut family);
    }
    growing.finish(records)
}

/// A tensor that was made: `versions[storage]` tells whether its bytes still stand.
#[derive(Clone, Copy)]
struct Made {
    tensor: TensorId,
    bytes: u64,
    storage: usize,
    version: usize,
    /// The record of its op; `None` for what the graph is given.
    by: Option<usize>,
    is_read: bool,
}

struct Growing<'s> {
    shape: &'s GraphShape,
    builder: GraphBuilder,
    made: Vec<Made>,
    /// For each storage its version that stands now, and one tensor of it, as a position in `made`.
    standing: Vec<(usize, usize)>,
    /// Positions in `made` of what the graph is given: inputs, and weights.
    inputs: Vec<usize>,
    weights: Vec<usize>,
    total_bytes: u64,
}

impl<'s> Growing<'s> {
    fn new(shape: &'s GraphShape) -> Self {
        let (builder, total_bytes) = (Graph::builder(), 0);
        let (made, standing, inputs, weights) = Default::default();
        Self { shape, builder, made, standing, inputs, weights, total_bytes }
    }

    /// A size from a choice, in bytes. All sizes of a graph together stay below 2⁶³.
    fn size(&mut self, choice: u32) -> u64 {
        const ADVERSARIAL: [u64; 6] = [1, 1, (1 << 33) - 1, 1 << 33, 1 << 40, (1 << 40) + 7];
        let (low, high) = (choice % 8, choice / 8);
        let bytes = match low {
            7 if self.shape.zero_bytes => 0,
            // Few distinct sizes, so that some storages have the same.
            1..=6 if self.shape.adversarial_sizes => ADVERSARIAL[low as usize - 1],
            _ => 8 * u64::from(1 + high % 12),
        };
        if self.total_bytes + bytes >= 1 << 63 {
            return 0;
        }
        self.total_bytes += bytes;
        bytes
    }

    /// Records a tensor of a storage: a new one, a view, or the next version.
    fn record(&mut self, tensor: TensorId, bytes: u64, storage: usize, by: Option<usize>) -> usize {
        let at = self.made.len();
        if storage == self.standing.len() {
            self.standing.push((0, at));
        }
        self.made.push(Made { tensor, bytes, storage, version: self.standing[storage].0, by, is_read: false });
        at
    }

    fn input(&mut self, choice: u32) -> usize {
        let bytes = self.size(choice);
        let tensor = self.builder.input("", bytes);
        let at = self.record(tensor, bytes, self.standing.len(), None);
        self.inputs.push(at);
        at
    }

    fn weight(&mut self, choice: u32) -> usize {
        let bytes = self.size(choice);
        let tensor = self.builder.weight("", bytes);
        let at = self.record(tensor, bytes, self.standing.len(), None);
        self.weights.push(at);
        at
    }

    fn stands(&self, at: usize) -> bool {
        self.made[at].version == self.standing[self.made[at].storage].0
    }

    /// The tensor itself, or one of its storage that stands in its stead.
    fn standing(&self, at: usize) -> usize {
        if self.stands(at) { at } else { self.standing[self.made[at].storage].1 }
    }

    fn add(&mut self, record: &Record, place: &mut Place) {
        let shape = self.shape;
        let by = place.primary.len();
        let mut operands = place.operands(record, self.made.len());
        if operands.is_empty() && (self.made.is_empty() || record.place % 8 != 5 || shape.family != Family::Arbitrary) {
            operands.push(self.input(record.place / 8));
        }
        if shape.weights && record.place % 4 == 3 {
            let choice = record.place / 4;
            let old = (choice % 2 == 1).then(|| self.weights.get(choice as usize / 2 % self.weights.len().max(1)));
            let weight = old.flatten().copied();
            operands.push(weight.unwrap_or_else(|| self.weight(choice / 2)));
        }
        let operands: Vec<usize> = operands.into_iter().map(|at| self.standing(at)).collect();
        operands.iter().for_each(|at| self.made[*at].is_read = true);

        let mut writes = &record.writes[..];
        if !shape.several_outputs {
            writes = &writes[..writes.len().min(1)];
        }
        if writes.is_empty() && (shape.family != Family::Arbitrary || !shape.several_outputs) {
            writes = &[Write::PLAIN];
        }
        let mut op = Outputs::default();
        for write in writes {
            self.write(write, &operands, by, &mut op);
        }
        place.primary.push(op.outs.first().or(operands.first()).copied());

        let workspace = if shape.workspace && record.workspace % 4 == 1 { self.size(record.workspace / 4) } else { 0 };
        let after = (shape.control && by > 0 && record.control % 4 == 1)
            .then(|| OpId::new(by - 1 - record.control as usize / 4 % by));
        let made = &self.made;
        let tensor = |at: &usize| made[*at].tensor;
        let mut builder = self.builder.op("").workspace(workspace).after(after);
        builder = builder.reads(operands.iter().map(tensor)).writes(op.outs.iter().map(tensor));
        builder = op.views.iter().fold(builder, |b, (out, of)| b.view(tensor(out), tensor(of)));
        builder = op.updates.iter().fold(builder, |b, (out, old)| b.update(tensor(out), tensor(old)));
        // An op that overwrites an operand must not hand the same bytes to another output.
        let overwritten = |of: &usize| op.updates.iter().any(|(_, old)| made[*old].storage == made[*of].storage);
        op.in_place.retain(|(_, of)| !overwritten(of));
        op.in_place.iter().fold(builder, |b, (out, of)| b.in_place(tensor(out), tensor(of))).id();
    }

    fn write(&mut self, write: &Write, operands: &[usize], by: usize, op: &mut Outputs) {
        let shape = self.shape;
        let pick = |list: &[usize]| (!list.is_empty()).then(|| list[write.operand as usize % list.len()]);
        let operand = pick(operands);
        let storage_of = |at: usize| self.made[at].storage;
        let updates = |storage: usize| op.updates.iter().any(|(_, old)| storage_of(*old) == storage);
        let views = |storage: usize| op.views.iter().any(|(view, _)| storage_of(*view) == storage);
        match (write.form % 8, operand, pick(&op.outs)) {
            (5, Some(of), _) if shape.views && !updates(storage_of(of)) => self.view(write, of, by, op),
            (6, _, Some(sibling)) if shape.views => self.view(write, sibling, by, op),
            (7, Some(old), _) if shape.updates && !updates(storage_of(old)) && !views(storage_of(old)) => {
                let Made { bytes, storage, .. } = self.made[old];
                let tensor = self.builder.tensor("", bytes);
                self.standing[storage] = (self.standing[storage].0 + 1, self.made.len());
                let out = self.record(tensor, bytes, storage, Some(by));
                op.outs.push(out);
                op.updates.push((out, old));
            }
            (form, operand, _) => {
                let of = operand.filter(|_| shape.in_place && form % 2 == 1);
                // Where it is to take over bytes, it mostly has the right size.
                let same = of.map(|of| self.made[of].bytes).filter(|_| !(write.form / 8).is_multiple_of(4));
                let bytes = match same.filter(|bytes| self.total_bytes + bytes < 1 << 63) {
                    Some(bytes) => {
                        self.total_bytes += bytes;
                        bytes
                    }
                    None => self.size(write.size),
                };
                let tensor = self.builder.tensor("", bytes);
                let out = self.record(tensor, bytes, self.standing.len(), Some(by));
                op.outs.push(out);
                op.in_place.extend(of.map(|of| (out, of)));
                let second = operands.get(write.operand as usize / 8 % operands.len().max(1));
                op.in_place.extend(of.and(second).filter(|_| write.form / 32 % 4 == 1).map(|second| (out, *second)));
            }
        }
    }

    fn view(&mut self, write: &Write, of: usize, by: usize, op: &mut Outputs) {
        // A view may look smaller or larger than its storage; its size counts nowhere.
        let bytes = if write.size % 4 == 1 { u64::from(write.size) } else { self.made[of].bytes };
        let tensor = self.builder.tensor("", bytes);
        let out = self.record(tensor, bytes, self.made[of].storage, Some(by));
        op.outs.push(out);
        op.views.push((out, of));
    }

    fn finish(mut self, records: &[Record]) -> Graph {
        if self.shape.unused_inputs {
            let choice = records.first().map_or(0, |record| record.keep);
            let bytes = self.size(choice / 2);
            self.builder.input("", bytes);
            if choice % 2 == 1 {
                let bytes = self.size(choice / 2);
                self.builder.weight("", bytes);
            }
        }
        for at in 0..self.made.len() {
            let made = self.made[at];
            let Some(by) = made.by.filter(|_| self.stands(at)) else { continue };
            let keep = records[by].keep % 16;
            if (made.is_read && keep == 2) || (!made.is_read && keep % 4 != 1) {
                self.builder.output(made.tensor);
            }
        }
        if self.shape.outputs_that_are_inputs {
            let standing = self.inputs.iter().step_by(2).filter(|at| self.stands(**at));
            let kept: Vec<TensorId> = standing.take(2).map(|at| self.made[*at].tensor).collect();
            kept.into_iter().for_each(|tensor| {
                self.builder.output(tensor);
            });
        }
        self.builder.build().expect("every recipe gives a valid graph")
    }
}

/// What one op writes, as positions in `made`.
#[derive(Default)]
struct Outputs {
    outs: Vec<usize>,
    views: Vec<(usize, usize)>,
    updates: Vec<(usize, usize)>,
    in_place: Vec<(usize, usize)>,
}

/// Where the next op stands in its family.
struct Place {
    family: Family,
    n_ops: usize,
    /// For each op so far the tensor that its successors in the family read: its first output, as a position.
    primary: Vec<Option<usize>>,
    /// The open forks of a series-parallel graph, innermost last.
    forks: Vec<Fork>,
    /// The op whose output the innermost open branch ends with.
    tip: Option<usize>,
}

/// A fork whose branches are not joined yet. Branches start at op `from`, and end at ops.
struct Fork {
    from: Option<usize>,
    ends: Vec<usize>,
}

impl Place {
    fn new(family: Family, n_ops: usize) -> Self {
        Self { family, n_ops, primary: Vec::new(), forks: Vec::new(), tip: None }
    }

    /// What the next op reads, as positions of the tensors made so far.
    fn operands(&mut self, record: &Record, n_made: usize) -> Vec<usize> {
        let k = self.primary.len();
        match self.family {
            Family::Arbitrary => self.any(record, n_made),
            Family::Layered => self.outputs_of(self.layer(record, k)),
            Family::SeriesParallel => {
                let ops = self.branch(record, k);
                self.outputs_of(ops)
            }
            Family::Training => self.outputs_of(self.pass(record, k)),
        }
    }

    fn outputs_of(&self, ops: Vec<usize>) -> Vec<usize> {
        ops.into_iter().filter_map(|op| self.primary[op]).collect()
    }

    fn any(&self, record: &Record, n_made: usize) -> Vec<usize> {
        if n_made == 0 {
            return Vec::new();
        }
        let back = |choice: u32| {
            let reach = if choice.is_multiple_of(2) { n_made.min(4) } else { n_made };
            choice as usize / 2 % reach
        };
        record.reads.iter().map(|choice| n_made - 1 - back(*choice)).collect()
    }

    fn layer(&self, record: &Record, k: usize) -> Vec<usize> {
        let width = self.n_ops.isqrt().max(1);
        let layer = k / width;
        let from_layer = |choice: u32| {
            let back = if choice % 8 == 7 { 2 } else { 1 };
            layer.checked_sub(back).map(|layer| layer * width + choice as usize / 8 % width)
        };
        // Every op but those of the first layer reads something.
        let first = if record.reads.is_empty() { from_layer(record.place) } else { None };
        first.into_iter().chain(record.reads.iter().filter_map(|choice| from_layer(*choice))).collect()
    }

    /// Extends a branch, opens a fork, starts the next branch, or joins; as many ops are left as forks are open.
    fn branch(&mut self, record: &Record, k: usize) -> Vec<usize> {
        let (open, left) = (self.forks.len(), self.n_ops - k);
        let must_join = open >= left;
        let choice = if must_join { 3 } else { record.place % 4 };
        let from = self.tip.replace(k);
        match (choice, self.forks.last_mut()) {
            (3, Some(fork)) if must_join || !fork.ends.is_empty() => {
                let mut ends = std::mem::take(&mut fork.ends);
                self.forks.pop();
                ends.extend(from);
                ends.dedup();
                ends
            }
            (3, Some(fork)) => {
                fork.ends.extend(from);
                fork.from.into_iter().collect()
            }
            (2, _) if from.is_some() && open + 1 < left => {
                self.forks.push(Fork { from, ends: Vec::new() });
                from.into_iter().collect()
            }
            _ => from.into_iter().collect(),
        }
    }

    /// The forward pass reads the activation before, sometimes skipping; the backward pass reads the gradient before
    /// and the activation that its forward op read.
    fn pass(&self, record: &Record, k: usize) -> Vec<usize> {
        let forward = self.n_ops.div_ceil(2);
        let Some(before) = k.checked_sub(1) else { return Vec::new() };
        let mut ops = vec![before];
        if k >= forward {
            ops.push((2 * forward - 1).saturating_sub(k).min(forward - 1));
        } else if record.place % 4 == 2 {
            ops.push(before - record.place as usize / 4 % k);
        }
        ops
    }
}
