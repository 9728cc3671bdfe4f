//! What matters about a graph for the peak of its plain orders, or of a part of one order: the input of every bound
//! and of every scheduler.
//!
//! **Whole.** [`Instance::of`] keeps the ops, their dependencies, and of the storages those that can die: with bytes,
//! neither persistent nor graph outputs, touched by somebody. The rest is summed up: outputs of a graph stay once
//! they are there (`kept`), storages that nobody touches last one step (`dead`), outputs that the graph is given are
//! always live (`base`). Ops are numbered by their place in the given order.
//!
//! **Part.** [`Instance::part`] is what remains of an instance when all ops before and after a stretch of a valid
//! order stay where they are. A storage that is live all through the stretch counts as base, one that lives on after
//! it as kept. Every order of the part, put in place of the stretch, is an order of the whole, and its steps cost in
//! the whole what they cost in the part.
//!
//! **Rounded.** [`Instance::rounded`] leaves out what is smaller than a threshold, and what is live at the first step only. No step costs more than before: a
//! storage that is left out takes its bytes with it, and a takeover from it saved at most that much. So a lower bound
//! of the rounded instance is one of the instance.

mod contract;

use crate::graph::Graph;
use crate::id::{Adjacency, OpId, StorageId};

/// A takeover in place that an op may make when `from` dies at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// What takes over, in the ids of the graph: not all such storages have an id here.
    pub(crate) to: StorageId,
    pub(crate) from: StorageId,
    /// The size of both.
    pub(crate) bytes: u64,
}

/// The bytes of an op that stand for no storage of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sums {
    /// What the op creates in all.
    pub(crate) created: u64,
    /// Part of `created` that nobody touches and that ends with the step.
    pub(crate) dead: u64,
    /// Part of `created` that is live up to the last step.
    pub(crate) kept: u64,
    /// Needed while the op runs.
    pub(crate) workspace: u64,
}

#[derive(Clone, Copy, Debug)]
struct Storage {
    bytes: u64,
    creator: Option<OpId>,
}

/// See the module doc.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// What each op is called in what the instance was made from: one op, or several that run one after the other.
    names: Adjacency<OpId>,
    predecessors: Adjacency<OpId>,
    successors: Adjacency<OpId>,
    sums: Vec<Sums>,
    storages: Vec<Storage>,
    creates: Adjacency<StorageId>,
    touches: Adjacency<StorageId>,
    touchers: Adjacency<OpId>,
    pairs: Adjacency<Pair>,
    base: u64,
    unused: u64,
}

/// Stands for "none" in tables of positions.
const NONE: u32 = u32::MAX;

fn raw(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}

impl Instance {
    /// The whole graph; op i is the i-th op of the given order. O(n + m).
    pub(crate) fn of(graph: &Graph) -> Self {
        let names = graph.given_order();
        let mut place = vec![OpId::new(0); names.len()];
        for (i, op) in names.iter().enumerate() {
            place[op.index()] = OpId::new(i);
        }
        let mut local = vec![NONE; graph.n_storages()];
        let mut storages = Vec::with_capacity(graph.n_storages());
        let (mut base, mut unused) = (0, 0);
        for s in graph.storages() {
            let bytes = graph.storage_bytes(s);
            if graph.is_persistent(s) || bytes == 0 {
                continue;
            }
            match (graph.is_output(s), graph.touchers(s).is_empty(), graph.creator(s)) {
                (true, _, None) => base += bytes,
                (false, true, None) => unused += bytes,
                (false, false, creator) => {
                    local[s.index()] = raw(storages.len());
                    storages.push(Storage { bytes, creator: creator.map(|op| place[op.index()]) });
                }
                // Only sums of the op that creates it.
                (true, _, Some(_)) | (false, true, Some(_)) => {}
            }
        }
        let here = |s: StorageId| (local[s.index()] != NONE).then(|| StorageId::new(local[s.index()] as usize));
        let mut made = Self::empty(names.len(), storages, base, unused);
        for &op in names {
            let mut sums = Sums { workspace: graph.workspace_bytes(op), ..Sums::default() };
            for &s in graph.creates(op) {
                let bytes = graph.storage_bytes(s);
                sums.created += bytes;
                match here(s) {
                    Some(s) => made.creates.push(s),
                    None if graph.is_output(s) => sums.kept += bytes,
                    None => sums.dead += bytes,
                }
            }
            made.creates.close();
            made.sums.push(sums);
            made.touches.push_list(graph.touches(op).iter().filter_map(|s| here(*s)));
            made.pairs.push_list(graph.takeovers(op).iter().filter_map(|t| {
                let bytes = graph.storage_bytes(t.from);
                here(t.from).map(|from| Pair { to: t.to, from, bytes })
            }));
            made.predecessors.push_list(graph.predecessors(op).iter().map(|p| place[p.index()]));
        }
        names.iter().for_each(|op| made.names.push_list([*op]));
        made.link()
    }

    /// Nothing but the storages; the lists of the ops are to follow.
    fn empty(n_ops: usize, storages: Vec<Storage>, base: u64, unused: u64) -> Self {
        Self {
            names: Adjacency::default(),
            predecessors: Adjacency::default(),
            successors: Adjacency::default(),
            sums: Vec::with_capacity(n_ops),
            storages,
            creates: Adjacency::default(),
            touches: Adjacency::default(),
            touchers: Adjacency::default(),
            pairs: Adjacency::default(),
            base,
            unused,
        }
    }

    /// Makes the lists that are the others turned round.
    fn link(mut self) -> Self {
        let predecessors = &self.predecessors;
        self.successors = Adjacency::group(self.sums.len(), || {
            predecessors.lists().enumerate().flat_map(|(op, list)| list.iter().map(move |p| (p.index(), OpId::new(op))))
        });
        let touches = &self.touches;
        self.touchers = Adjacency::group(self.storages.len(), || {
            touches.lists().enumerate().flat_map(|(op, list)| list.iter().map(move |s| (s.index(), OpId::new(op))))
        });
        self
    }

    /// What remains when only the ops of `order[range]` may change places; op i of the part is `order[range][i]`.
    ///
    /// `order` is a valid order of the instance, `place` its inverse, `live` the bytes live before the range. Takes
    /// time proportional to the ops of the range, their operands, and the touchers of these.
    pub(crate) fn part(&self, order: &[OpId], place: &[u32], range: std::ops::Range<usize>, live: u64) -> Self {
        let (start, end) = (raw(range.start), raw(range.end));
        let here = |op: OpId| (start..end).contains(&place[op.index()]).then(|| place[op.index()] - start);
        let lives_on = |s: StorageId| self.touchers(s).iter().any(|t| place[t.index()] >= end);
        let unused = if range.start == 0 { self.unused } else { 0 };
        self.stretch(&order[range], here, lives_on, live, unused)
    }

    /// What remains when only the ops of a stretch may change places; op i of it is `ops[i]`.
    ///
    /// The stretch is given by the ops in a valid order, the place of an op in it (`None` outside), whether a storage
    /// that the stretch creates or touches has touchers after it, and what is live before its first step, at that step
    /// only the last of these. Time is proportional to the ops, their operands, and their dependencies.
    pub(crate) fn stretch(
        &self,
        ops: &[OpId],
        here: impl Fn(OpId) -> Option<u32>,
        lives_on: impl Fn(StorageId) -> bool,
        live: u64,
        unused: u64,
    ) -> Self {
        let here = |op: OpId| here(op).map(|place| OpId::new(place as usize));
        let mut local: hashbrown::HashMap<StorageId, StorageId> = hashbrown::HashMap::new();
        let mut storages = Vec::new();
        let mut base = live;
        for &op in ops {
            for &s in self.creates(op).iter().chain(self.touches(op)) {
                if local.contains_key(&s) || lives_on(s) {
                    continue;
                }
                local.insert(s, StorageId::new(storages.len()));
                let creator = self.creator(s).and_then(here);
                if creator.is_none() {
                    base -= self.bytes(s);
                }
                storages.push(Storage { bytes: self.bytes(s), creator });
            }
        }
        let mut part = Self::empty(ops.len(), storages, base, unused);
        ops.iter().for_each(|op| part.names.push_list([*op]));
        for &op in ops {
            let mut sums = self.sums(op);
            for s in self.creates(op) {
                match local.get(s) {
                    Some(s) => part.creates.push(*s),
                    None => sums.kept += self.bytes(*s),
                }
            }
            part.creates.close();
            part.sums.push(sums);
            part.touches.push_list(self.touches(op).iter().filter_map(|s| local.get(s).copied()));
            let pairs = self.pairs(op).iter();
            part.pairs.push_list(pairs.filter_map(|p| local.get(&p.from).map(|from| Pair { from: *from, ..*p })));
            part.predecessors.push_list(self.predecessors(op).iter().filter_map(|p| here(*p)));
        }
        part.link()
    }

    /// The instance without storages, sums and workspaces of fewer than `least` bytes, and without what is live at the
    /// first step only. O(n + m).
    pub(crate) fn rounded(&self, least: u64) -> Self {
        let keep = |bytes: u64| if bytes < least { 0 } else { bytes };
        let mut local = vec![NONE; self.storages.len()];
        let mut storages = Vec::new();
        for (s, storage) in self.storages.iter().enumerate().filter(|(_, storage)| storage.bytes >= least) {
            local[s] = raw(storages.len());
            storages.push(*storage);
        }
        let here = |s: &StorageId| match local[s.index()] {
            NONE => None,
            s => Some(StorageId::new(s as usize)),
        };
        let mut made = Self::empty(self.n_ops(), storages, keep(self.base), 0);
        made.names.clone_from(&self.names);
        made.predecessors.clone_from(&self.predecessors);
        for op in self.ops() {
            let Sums { dead, kept, workspace, .. } = self.sums(op);
            let [dead, kept, workspace] = [dead, kept, workspace].map(keep);
            let creates = || self.creates(op).iter().filter_map(here);
            let created = dead + kept + creates().map(|s| made.bytes(s)).sum::<u64>();
            made.sums.push(Sums { created, dead, kept, workspace });
            made.creates.push_list(creates());
            made.touches.push_list(self.touches(op).iter().filter_map(here));
            let pairs = self.pairs(op).iter();
            made.pairs.push_list(pairs.filter_map(|p| here(&p.from).map(|from| Pair { from, ..*p })));
        }
        made.link()
    }

    /// Whether anything would be left out by [`rounded`](Self::rounded).
    pub(crate) fn has_fewer_than(&self, least: u64) -> bool {
        let small = |bytes: u64| bytes > 0 && bytes < least;
        self.storages.iter().any(|s| small(s.bytes))
            || self.sums.iter().any(|s| small(s.dead) || small(s.kept) || small(s.workspace))
    }

    pub(crate) fn n_ops(&self) -> usize {
        self.sums.len()
    }

    pub(crate) fn n_storages(&self) -> usize {
        self.storages.len()
    }

    pub(crate) fn ops(&self) -> impl ExactSizeIterator<Item = OpId> + DoubleEndedIterator + Clone + use<> {
        (0..self.n_ops()).map(OpId::new)
    }

    pub(crate) fn storages(&self) -> impl ExactSizeIterator<Item = StorageId> + Clone + use<> {
        (0..self.n_storages()).map(StorageId::new)
    }

    /// An order of this instance in the names of what it was made from.
    pub(crate) fn named(&self, order: &[OpId]) -> Vec<OpId> {
        order.iter().flat_map(|op| self.names.list(op.index())).copied().collect()
    }

    pub(crate) fn predecessors(&self, op: OpId) -> &[OpId] {
        self.predecessors.list(op.index())
    }

    pub(crate) fn successors(&self, op: OpId) -> &[OpId] {
        self.successors.list(op.index())
    }

    pub(crate) fn sums(&self, op: OpId) -> Sums {
        self.sums[op.index()]
    }

    /// The storages that the op creates and that die after a later op.
    pub(crate) fn creates(&self, op: OpId) -> &[StorageId] {
        self.creates.list(op.index())
    }

    /// The storages that the op needs and that die in the end, other than those that it creates.
    pub(crate) fn touches(&self, op: OpId) -> &[StorageId] {
        self.touches.list(op.index())
    }

    /// The ops after the last of which the storage dies; at least one.
    pub(crate) fn touchers(&self, storage: StorageId) -> &[OpId] {
        self.touchers.list(storage.index())
    }

    pub(crate) fn bytes(&self, storage: StorageId) -> u64 {
        self.storages[storage.index()].bytes
    }

    /// The op that creates the storage; `None` when it is live from the start.
    pub(crate) fn creator(&self, storage: StorageId) -> Option<OpId> {
        self.storages[storage.index()].creator
    }

    /// The takeovers that the op may make.
    pub(crate) fn pairs(&self, op: OpId) -> &[Pair] {
        self.pairs.list(op.index())
    }

    /// Bytes that are live from the first step to the last.
    pub(crate) fn base_bytes(&self) -> u64 {
        self.base
    }

    /// Bytes that are live at the first step only, whichever op it runs.
    pub(crate) fn unused_bytes(&self) -> u64 {
        self.unused
    }

    /// Bytes live before the first step that may be live after it.
    pub(crate) fn start_bytes(&self) -> u64 {
        let given = self.storages.iter().filter(|s| s.creator.is_none());
        self.base + given.map(|s| s.bytes).sum::<u64>()
    }

    /// Bytes live after the last step.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.base + self.sums.iter().map(|s| s.kept).sum::<u64>()
    }

    /// The most bytes that `op` can save in place, when only storages for which `may_die` holds can die with it.
    pub(crate) fn savable_bytes(&self, op: OpId, mut may_die: impl FnMut(StorageId) -> bool) -> u64 {
        match self.pairs(op) {
            [] => 0,
            [only] => {
                if may_die(only.from) {
                    only.bytes
                } else {
                    0
                }
            }
            pairs => {
                let open: Vec<_> = pairs.iter().filter(|p| may_die(p.from)).map(|p| (p.to, p.from)).collect();
                super::matching(&open).iter().map(|(_, from)| self.bytes(*from)).sum()
            }
        }
    }

    /// What each step of a valid order costs. O(n + m).
    pub(crate) fn step_costs(&self, order: &[OpId]) -> Vec<u64> {
        let mut left: Vec<u32> = self.touchers.lists().map(|list| raw(list.len())).collect();
        let mut live = self.start_bytes();
        let mut unused = self.unused;
        let mut costs = Vec::with_capacity(order.len());
        for &op in order {
            let sums = self.sums(op);
            let saved = self.savable_bytes(op, |s| left[s.index()] == 1);
            costs.push(live + sums.created + sums.workspace - saved + std::mem::take(&mut unused));
            live += sums.created - sums.dead;
            for &s in self.touches(op) {
                left[s.index()] -= 1;
                if left[s.index()] == 0 {
                    live -= self.bytes(s);
                }
            }
        }
        costs
    }

    /// What is live before each step of a valid order. O(n + m).
    pub(crate) fn live_before(&self, order: &[OpId]) -> Vec<u64> {
        let mut left: Vec<u32> = self.touchers.lists().map(|list| raw(list.len())).collect();
        let mut live = self.start_bytes();
        let mut list = Vec::with_capacity(order.len());
        for &op in order {
            list.push(live);
            live += self.sums(op).created - self.sums(op).dead;
            for &s in self.touches(op) {
                left[s.index()] -= 1;
                if left[s.index()] == 0 {
                    live -= self.bytes(s);
                }
            }
        }
        list
    }

    /// The peak of a valid order whose steps cost `costs`.
    pub(crate) fn peak_bytes(&self, costs: &[u64]) -> u64 {
        let ends = (self.start_bytes() + self.unused).max(self.end_bytes());
        costs.iter().copied().fold(ends, u64::max)
    }
}
