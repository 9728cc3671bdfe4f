//! Replays steps on the graph's raw lists: who lives when, and every rule that the steps break.

use super::Fault;
use crate::graph::Graph;
use crate::id::{OpId, StepIdx, StorageId, TensorId};
use crate::memory::Occupant;
use crate::schedule::{Action, Step};
use std::collections::{HashMap, HashSet};

/// What the raw lists say about tensors.
pub(super) struct Facts<'g> {
    pub(super) graph: &'g Graph,
    pub(super) root: Vec<TensorId>,
    pub(super) version: Vec<u32>,
    pub(super) output_roots: HashSet<TensorId>,
}

impl<'g> Facts<'g> {
    pub(super) fn new(graph: &'g Graph) -> Self {
        let n = graph.n_tensors();
        let mut source: Vec<Option<(TensorId, u32)>> = vec![None; n];
        for op in graph.ops() {
            graph.views(op).iter().for_each(|(out, of)| source[out.index()] = Some((*of, 0)));
            graph.updates(op).iter().for_each(|(out, old)| source[out.index()] = Some((*old, 1)));
        }
        let (mut root, mut version): (Vec<TensorId>, Vec<u32>) = (graph.tensors().collect(), vec![0; n]);
        let mut known = vec![false; n];
        for t in 0..n {
            let mut chain = vec![t];
            while let Some((of, _)) = source[chain[chain.len() - 1]].filter(|_| !known[chain[chain.len() - 1]]) {
                chain.push(of.index());
            }
            while let Some(t) = chain.pop() {
                if let Some((of, step)) = source[t].filter(|_| !known[t]) {
                    root[t] = root[of.index()];
                    version[t] = version[of.index()] + step;
                }
                known[t] = true;
            }
        }
        let output_roots = graph.outputs().iter().map(|t| root[t.index()]).collect();
        Self { graph, root, version, output_roots }
    }

    pub(super) fn is_persistent(&self, root: TensorId) -> bool {
        self.graph.producer(root).is_none() && self.graph.tensor_kind(root).is_persistent()
    }

    /// The root that a document means by a storage.
    fn root_of(&self, storage: StorageId) -> Option<TensorId> {
        (storage.index() < self.graph.n_storages()).then(|| self.graph.root(storage))
    }

    pub(super) fn occupant(&self, occupant: Occupant) -> String {
        match occupant {
            Occupant::Storage(storage) => self
                .root_of(storage)
                .map_or_else(|| format!("storage {storage}"), |root| self.graph.tensor_label(root).to_string()),
            Occupant::Workspace(op) if op.index() < self.graph.n_ops() => {
                format!("the workspace of {}", self.graph.op_label(op))
            }
            Occupant::Workspace(op) => format!("the workspace of op {op}"),
        }
    }

    pub(super) fn subject(&self, life: &Life) -> String {
        self.occupant(life.occupant)
    }
}

/// What a life is the life of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Root(TensorId),
    Workspace,
}

/// One stay of a storage on the device, or the workspace of one run.
pub(super) struct Life {
    pub(super) subject: Subject,
    pub(super) occupant: Occupant,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) need: u64,
    /// The steps that touch it, ascending.
    pub(super) uses: Vec<usize>,
    /// Its offset and the bytes allocated for it.
    pub(super) place: Option<(u128, u64)>,
}

impl Life {
    /// The bytes that it occupies, if any: `(start, end)`.
    pub(super) fn range(&self) -> Option<(u128, u128)> {
        self.place.filter(|(_, bytes)| *bytes > 0).map(|(offset, bytes)| (offset, offset + u128::from(bytes)))
    }

    fn touch(&mut self, step: usize) {
        self.last = step;
        if self.uses.last() != Some(&step) {
            self.uses.push(step);
        }
    }
}

/// The steps, ascending, that touch one copy of a root's bytes that lies outside the arena.
pub(super) struct Touches {
    pub(super) root: TensorId,
    pub(super) steps: Vec<usize>,
}

/// Every life, the pairs (to, from) of lives that may share bytes in place, and what is wrong with the steps.
pub(super) struct Lives {
    pub(super) lives: Vec<Life>,
    pub(super) pairs: Vec<(usize, usize)>,
    /// Persistent storages that some op overwrites; the others are only read.
    pub(super) overwritten: Vec<Touches>,
    /// Host copies, which offloads write and fetches read.
    pub(super) host_copies: Vec<Touches>,
    pub(super) faults: Vec<Fault>,
}

impl Lives {
    pub(super) fn of(facts: &Facts<'_>, steps: &[Step]) -> Self {
        let mut replay = Replay {
            facts,
            result: Self {
                lives: Vec::new(),
                pairs: Vec::new(),
                overwritten: Vec::new(),
                host_copies: Vec::new(),
                faults: Vec::new(),
            },
            current: HashMap::new(),
            version: vec![0; facts.graph.n_tensors()],
            on_host: HashMap::new(),
            overwritten: HashMap::new(),
            host_copies: HashMap::new(),
            runs: vec![0; facts.graph.n_ops()],
        };
        let graph = facts.graph;
        for (new, _) in graph.ops().flat_map(|op| graph.updates(op)) {
            let root = facts.root[new.index()];
            if facts.is_persistent(root) {
                let fresh = replay.result.overwritten.len();
                if *replay.overwritten.entry(root).or_insert(fresh) == fresh {
                    replay.result.overwritten.push(Touches { root, steps: Vec::new() });
                }
            }
        }
        for t in graph.tensors() {
            if graph.producer(t).is_none() && facts.root[t.index()] == t && !facts.is_persistent(t) {
                replay.begin(t, 0, false);
            }
        }
        for (s, step) in steps.iter().enumerate() {
            match step.action {
                Action::Run(op) if op.index() < graph.n_ops() => replay.run(s, op),
                Action::Run(op) => replay.result.faults.push(Fault::UnknownOp { at: StepIdx::new(s), op }),
                Action::Offload(storage) | Action::Fetch(storage) => match facts.root_of(storage) {
                    Some(root) if matches!(step.action, Action::Offload(_)) => replay.offload(s, root),
                    Some(root) => replay.fetch(s, root),
                    None => {
                        let (at, storage) = (StepIdx::new(s), storage.index());
                        replay.result.faults.push(Fault::UnknownStorage { at, storage });
                    }
                },
            }
        }
        replay.finish(steps.len())
    }
}

struct Replay<'f> {
    facts: &'f Facts<'f>,
    result: Lives,
    current: HashMap<TensorId, usize>,
    /// The version that stands in the storage of each root.
    version: Vec<u32>,
    on_host: HashMap<TensorId, u32>,
    /// Positions in the result's list of the same name.
    overwritten: HashMap<TensorId, usize>,
    host_copies: HashMap<TensorId, usize>,
    runs: Vec<usize>,
}

impl Replay<'_> {
    fn begin(&mut self, root: TensorId, step: usize, touched: bool) -> usize {
        let graph = self.facts.graph;
        self.result.lives.push(Life {
            subject: Subject::Root(root),
            occupant: Occupant::Storage(graph.storage(root)),
            first: step,
            last: step,
            need: graph.tensor_bytes(root),
            uses: if touched { vec![step] } else { Vec::new() },
            place: None,
        });
        self.current.insert(root, self.result.lives.len() - 1);
        self.result.lives.len() - 1
    }

    fn touch_persistent(&mut self, root: TensorId, step: usize) {
        if let Some(&k) = self.overwritten.get(&root) {
            let steps = &mut self.result.overwritten[k].steps;
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
    }

    fn touch_host_copy(&mut self, root: TensorId, step: usize) {
        let fresh = self.result.host_copies.len();
        let k = *self.host_copies.entry(root).or_insert(fresh);
        if k == fresh {
            self.result.host_copies.push(Touches { root, steps: Vec::new() });
        }
        self.result.host_copies[k].steps.push(step);
    }

    /// The pairs of an op that just made the lives of `made`: the operand's storage is neither read through another
    /// tensor nor overwritten by the op.
    fn pair(&mut self, op: OpId, made: &HashMap<TensorId, usize>, read: &HashMap<TensorId, usize>) {
        let (facts, graph) = (self.facts, self.facts.graph);
        let in_place = graph.in_place_pairs(op);
        if in_place.is_empty() {
            return;
        }
        let mut read_as: HashMap<TensorId, TensorId> = HashMap::new();
        let mut kept: HashSet<TensorId> = graph.updates(op).iter().map(|(new, _)| facts.root[new.index()]).collect();
        for &t in graph.inputs(op) {
            let root = facts.root[t.index()];
            if *read_as.entry(root).or_insert(t) != t {
                kept.insert(root);
            }
        }
        let first = self.result.pairs.len();
        for (out, operand) in in_place {
            if let (Some(&to), Some(&from)) = (made.get(out), read.get(operand))
                && !kept.contains(&facts.root[operand.index()])
            {
                self.result.pairs.push((to, from));
            }
        }
        self.result.pairs[first..].sort_by_key(|(to, _)| *to);
    }

    fn run(&mut self, s: usize, op: OpId) {
        let (facts, graph, at) = (self.facts, self.facts.graph, StepIdx::new(s));
        let label = || graph.op_label(op);
        for before in graph.after(op) {
            if self.runs[before.index()] == 0 {
                let missing = graph.op_label(*before);
                self.result.faults.push(Fault::RunsTooEarly { at, op: label(), missing });
            }
        }
        let mut read: HashMap<TensorId, usize> = HashMap::new();
        for &t in graph.inputs(op) {
            let root = facts.root[t.index()];
            let tensor = || graph.tensor_label(t);
            if graph.producer(t).is_some_and(|producer| self.runs[producer.index()] == 0) {
                self.result.faults.push(Fault::ReadBeforeWritten { at, op: label(), tensor: tensor() });
            } else if self.version[root.index()] != facts.version[t.index()] {
                self.result.faults.push(Fault::WrongVersion { at, op: label(), tensor: tensor() });
            } else if facts.is_persistent(root) {
                self.touch_persistent(root, s);
            } else {
                match self.current.get(&root) {
                    Some(&life) => {
                        read.insert(t, life);
                        self.result.lives[life].touch(s);
                    }
                    None => self.result.faults.push(Fault::NotResident { at, op: label(), tensor: tensor() }),
                }
            }
        }
        self.runs[op.index()] += 1;
        for &(new, old) in graph.updates(op) {
            let standing = &mut self.version[facts.root[new.index()].index()];
            if *standing + 1 != facts.version[new.index()] {
                self.result.faults.push(Fault::UpdateOutOfTurn { at, op: label(), tensor: graph.tensor_label(old) });
            }
            *standing = facts.version[new.index()];
        }
        // Roots before their sibling views, which an op may list in any order.
        let (roots, views): (Vec<TensorId>, Vec<TensorId>) =
            graph.op_outputs(op).iter().partition(|t| facts.root[t.index()] == **t);
        let mut made: HashMap<TensorId, usize> = HashMap::new();
        for t in roots {
            self.version[t.index()] = 0;
            made.insert(t, self.begin(t, s, true));
        }
        self.pair(op, &made, &read);
        for t in views {
            let root = facts.root[t.index()];
            match self.current.get(&root) {
                _ if facts.is_persistent(root) => self.touch_persistent(root, s),
                Some(&life) => self.result.lives[life].touch(s),
                None => {
                    let tensor = graph.tensor_label(t);
                    self.result.faults.push(Fault::NotResident { at, op: label(), tensor });
                }
            }
        }
        if graph.workspace_bytes(op) > 0 {
            self.result.lives.push(Life {
                subject: Subject::Workspace,
                occupant: Occupant::Workspace(op),
                first: s,
                last: s,
                need: graph.workspace_bytes(op),
                uses: vec![s],
                place: None,
            });
        }
    }

    fn offload(&mut self, s: usize, root: TensorId) {
        match self.current.remove(&root) {
            Some(life) => {
                self.result.lives[life].touch(s);
                self.on_host.insert(root, self.version[root.index()]);
                self.touch_host_copy(root, s);
            }
            None => {
                let (at, tensor) = (StepIdx::new(s), self.facts.graph.tensor_label(root));
                self.result.faults.push(Fault::OffloadNotResident { at, tensor });
            }
        }
    }

    fn fetch(&mut self, s: usize, root: TensorId) {
        match self.on_host.get(&root) {
            // The host holds the version that was offloaded.
            Some(&version) => {
                self.version[root.index()] = version;
                self.touch_host_copy(root, s);
            }
            None => {
                let (at, tensor) = (StepIdx::new(s), self.facts.graph.tensor_label(root));
                self.result.faults.push(Fault::FetchNotOffloaded { at, tensor });
            }
        }
        self.begin(root, s, true);
    }

    fn finish(mut self, n_steps: usize) -> Lives {
        let (facts, graph) = (self.facts, self.facts.graph);
        for op in graph.ops().filter(|op| self.runs[op.index()] == 0) {
            self.result.faults.push(Fault::NeverRuns { op: graph.op_label(op) });
        }
        for &t in graph.outputs() {
            let root = facts.root[t.index()];
            if self.version[root.index()] != facts.version[t.index()] {
                self.result.faults.push(Fault::OutputOverwritten { tensor: graph.tensor_label(t) });
            }
            match self.current.get(&root) {
                _ if facts.is_persistent(root) => {}
                Some(&life) => self.result.lives[life].last = n_steps.saturating_sub(1),
                None => self.result.faults.push(Fault::OutputNotResident { tensor: graph.tensor_label(t) }),
            }
        }
        self.result
    }
}
