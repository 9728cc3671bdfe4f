//! Lower bounds: bytes that no plain schedule of a graph can go below, each with its proof.
//!
//! For a set S of ops that has run (a down-set: with every op, its predecessors), let M(S) be the bytes live after it.
//!
//! 1. **Ends.** All graph inputs are live at step 0, and all outputs at the last step.
//! 2. **Operands.** While op v runs, its inputs, outputs and workspace are in use. This holds for recomputation and
//!    offload too.
//! 3. **Forced live.** While op v runs, every storage is live that was given, or made by v or an ancestor of v, and
//!    that is still to be read by v or a descendant of v, or is an output: its creator has run in every order, and a
//!    reader has not. This contains 2.
//! 4. **Cut.** Op v runs in some state: a down-set S with all ancestors of v in it, and neither v nor a descendant of
//!    v. So its step costs at least the minimum over these S of M(S) + what v allocates. M is a sum of cut functions,
//!    and the minimum is one maximum flow (see `cut`). This contains 3.
//!
//! **In place** a takeover at v needs that the operand's storage dies at v, which it cannot when a descendant of v
//! touches it. Bound 3 counts both sides of each pair and subtracts the most that a matching of the other pairs can
//! save. Bound 4 does the same, and where the pairs of v share no storages it adds to the cut, for each pair, its
//! bytes when another op that touches the operand is not in S: then the operand lives on and nothing is saved. That
//! is a cut function too, and the minimum is exact.
//!
//! **Cost.** Bounds 3 and 4 are computed only where they can still matter: an op's bound is at most what the op's step
//! costs in *any* order (the op's *ceiling*), so ops are tried from the highest ceiling down, and once the best bound
//! reaches the next ceiling no other op can raise it. Bound 3 takes one pass over the graph for 64 ops at once. A flow
//! also lowers the ceiling of every other op that may run next at its cut.
//!
//! Source: the forced-live argument is folklore in register allocation; the bound is stated for tensors in, for
//! instance, Steiner, Elhoushi, Kahn, Hegarty, "OLLA: Optimizing the Lifetime and Location of Arrays", 2022. Minimum
//! cuts of hypergraphs by flows: Lawler, "Cutsets and partitions of hypergraphs", Networks 3, 1973.

use super::cut::{Cut, Network};
use super::instance::Instance;
use crate::graph::Graph;
use crate::id::{OpId, StorageId};
use crate::search::Search;

/// A lower bound on the peak of every schedule of the graph without recomputation and offload, in bytes.
///
/// Spends at most the default work budget. O(n + m) for each 64 of the ops whose bound could still raise it, and one
/// maximum flow for each op whose flow could; both are few on real graphs.
#[must_use]
pub fn lower_bound_bytes(graph: &Graph) -> u64 {
    let instance = Instance::of(graph);
    let mut bound = Bound::new(&instance);
    let mut search = Search::new();
    bound.raise(&instance, &mut search);
    while bound.cut(&instance, &mut search).is_some() {}
    bound.bytes()
}

/// Bounds 1 and 2 of the module doc, which hold for every schedule, with recomputation and offload too. O(n + m).
pub(crate) fn operand_bound_bytes(graph: &Graph) -> u64 {
    let sum = |of: &dyn Fn(StorageId) -> bool| -> u64 {
        graph.storages().filter(|s| of(*s)).map(|s| graph.storage_bytes(s)).sum()
    };
    let given = sum(&|s| graph.is_input(s));
    let kept = sum(&|s| graph.is_output(s) && !graph.is_persistent(s));
    let operands = graph.ops().map(|op| {
        let storages = graph.touches(op).iter().chain(graph.creates(op));
        let pairs: Vec<_> = graph.takeovers(op).iter().map(|t| (t.to, t.from)).collect();
        let saved: u64 = super::matching(&pairs).iter().map(|(to, _)| graph.storage_bytes(*to)).sum();
        storages.map(|s| graph.storage_bytes(*s)).sum::<u64>() + graph.workspace_bytes(op) - saved
    });
    operands.fold(given.max(kept), u64::max)
}

/// The best bound of an instance proven so far, and what is known about which ops could still raise it.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    bytes: u64,
    /// For each op the least cost of its step in any order seen; no bound of the op can exceed it.
    ceilings: Vec<u64>,
    /// Whether the forced-live bound of the op was computed.
    forced: Vec<bool>,
    /// Whether the cut bound of the op was computed.
    cut: Vec<bool>,
}

impl Bound {
    /// Bound 1. O(n).
    pub(crate) fn new(instance: &Instance) -> Self {
        let n = instance.n_ops();
        Self {
            bytes: (instance.start_bytes() + instance.unused_bytes()).max(instance.end_bytes()),
            ceilings: vec![u64::MAX; n],
            forced: vec![false; n],
            cut: vec![false; n],
        }
    }

    /// The bound, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a bound that was proven elsewhere.
    pub(crate) fn prove(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes);
    }

    /// Learns that there is a plain order in which the op's step costs `used` bytes.
    pub(crate) fn lower_ceiling(&mut self, op: OpId, used: u64) {
        let ceiling = &mut self.ceilings[op.index()];
        *ceiling = used.min(*ceiling);
    }

    /// What the op's step costs in the cheapest order seen for it.
    pub(crate) fn ceiling(&self, op: OpId) -> u64 {
        self.ceilings[op.index()]
    }

    /// Raises the bound to the largest forced-live bound of any op, as far as the budget reaches.
    pub(crate) fn raise(&mut self, instance: &Instance, search: &mut Search<'_>) {
        let mut hot: Vec<OpId> =
            instance.ops().filter(|op| !self.forced[op.index()] && self.ceiling(*op) > self.bytes).collect();
        hot.sort_by_key(|op| (std::cmp::Reverse(self.ceiling(*op)), *op));
        // Usually the first op decides.
        let mut take = 1;
        while let Some(first) = hot.first()
            && self.ceiling(*first) > self.bytes
            && search.spend(pass_work(instance))
        {
            let batch: Vec<OpId> = hot.drain(..take.min(hot.len())).collect();
            let cones = Cones::new(instance, &batch);
            for (op, bytes) in batch.iter().zip(forced_live_bytes(instance, &batch, &cones)) {
                self.forced[op.index()] = true;
                self.prove(bytes);
            }
            take = 64;
        }
    }

    /// Raises the bound to the cut bound of the op that could raise it most; the cut, or `None` when no op can or the
    /// budget is spent.
    pub(crate) fn cut(&mut self, instance: &Instance, search: &mut Search<'_>) -> Option<Cut> {
        let open = instance.ops().filter(|op| !self.cut[op.index()] && self.ceiling(*op) > self.bytes);
        let op = open.max_by_key(|op| (self.ceiling(*op), std::cmp::Reverse(*op)))?;
        if !search.spend(pass_work(instance)) {
            return None;
        }
        let cones = Cones::new(instance, &[op]);
        let cut = Network::around(instance, op, &cones).solve(instance, search)?;
        self.cut[op.index()] = true;
        self.forced[op.index()] = true;
        self.prove(cut.bytes);
        for (other, used) in cut.step_costs(instance) {
            self.lower_ceiling(other, used);
        }
        Some(cut)
    }
}

/// Work units of one pass over an instance.
fn pass_work(instance: &Instance) -> u64 {
    (instance.n_ops() + instance.n_storages()) as u64 / 4 + 1
}

/// For up to 64 ops, which ops are above and below them: bit i of a mask stands for the i-th of them.
pub(crate) struct Cones {
    /// The ops of which this op is an ancestor, or that it is.
    pub(crate) ancestors: Vec<u64>,
    /// The ops of which this op is a descendant, or that it is.
    pub(crate) descendants: Vec<u64>,
}

impl Cones {
    /// O(n + m).
    pub(crate) fn new(instance: &Instance, ops: &[OpId]) -> Self {
        let mut itself = vec![0u64; instance.n_ops()];
        for (i, op) in ops.iter().enumerate() {
            itself[op.index()] |= 1 << i;
        }
        let (mut ancestors, mut descendants) = (itself.clone(), itself);
        // The ids of an instance are a topological order.
        for op in instance.ops() {
            let above = instance.predecessors(op).iter().fold(0, |mask, p| mask | descendants[p.index()]);
            descendants[op.index()] |= above;
        }
        for op in instance.ops().rev() {
            let below = instance.successors(op).iter().fold(0, |mask, s| mask | ancestors[s.index()]);
            ancestors[op.index()] |= below;
        }
        Self { ancestors, descendants }
    }
}

/// Bound 3 of each of up to 64 ops. O(n + m).
pub(crate) fn forced_live_bytes(instance: &Instance, ops: &[OpId], cones: &Cones) -> Vec<u64> {
    let all = if ops.len() >= 64 { u64::MAX } else { (1 << ops.len()) - 1 };
    let mut sums = vec![instance.base_bytes(); ops.len()];
    let mut add = |mut mask: u64, bytes: u64| {
        while mask != 0 {
            sums[mask.trailing_zeros() as usize] += bytes;
            mask &= mask - 1;
        }
    };
    for s in instance.storages() {
        let made = instance.creator(s).map_or(all, |op| cones.ancestors[op.index()]);
        if made != 0 {
            let below = instance.touchers(s).iter().fold(0, |mask, t| mask | cones.descendants[t.index()]);
            add(made & below, instance.bytes(s));
        }
    }
    for op in instance.ops() {
        match instance.sums(op).kept {
            0 => {}
            kept => add(cones.ancestors[op.index()], kept),
        }
    }
    for (i, &op) in ops.iter().enumerate() {
        let below = |t: &OpId| *t != op && cones.descendants[t.index()] >> i & 1 == 1;
        let saved = instance.savable_bytes(op, |s| !instance.touchers(s).iter().any(below));
        sums[i] = sums[i] + instance.sums(op).dead + instance.sums(op).workspace - saved;
    }
    sums
}
