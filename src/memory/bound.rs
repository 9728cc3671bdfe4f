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
//!
//! **In place** each of the sums counts both sides of a pair. A takeover at v needs that the operand's storage dies
//! at v, which it cannot when a descendant of v touches it. So at most a maximum matching of the other pairs can be
//! saved at v, and the bound subtracts just that.
//!
//! **Cost.** Bound 3 takes O(n + m) time for one op, so it is computed where it can still matter only: an op's bound
//! is at most what the op's step costs in *any* order (the op's *ceiling*), so ops are tried from the highest ceiling
//! down, and once the best bound reaches the next ceiling no other op can raise it.
//!
//! Source: the forced-live argument is folklore in register allocation; the bound is stated for tensors in, for
//! instance, Steiner, Elhoushi, Kahn, Hegarty, "OLLA: Optimizing the Lifetime and Location of Arrays", 2022.

use super::{Profile, matching};
use crate::graph::Graph;
use crate::id::OpId;
use crate::schedule::{Action, Step};
use crate::search::Search;

/// A lower bound on the peak of every schedule of the graph without recomputation and offload, in bytes.
///
/// Spends at most the default work budget. O(k (n + m)) for n ops, m operands and the k ops for which a traversal of
/// the graph could still raise the bound; k is small on real graphs.
#[must_use]
pub fn lower_bound_bytes(graph: &Graph) -> u64 {
    let mut bound = Bound::new(graph);
    bound.raise(graph, &mut Search::new());
    bound.bytes()
}

/// The best bound proven so far, and what is known about which ops could still raise it.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    bytes: u64,
    /// For each op the least cost of its step in any order seen; no per-op bound can exceed it.
    ceilings: Vec<u64>,
    /// Whether the forced-live bound of the op was computed.
    done: Vec<bool>,
}

impl Bound {
    /// Bounds 1 and 2, which hold for every schedule, with recomputation and offload too.
    pub(crate) fn new(graph: &Graph) -> Self {
        let sum = |of: &dyn Fn(crate::id::StorageId) -> bool| -> u64 {
            graph.storages().filter(|s| of(*s)).map(|s| graph.storage_bytes(s)).sum()
        };
        let given = sum(&|s| graph.is_input(s));
        let kept = sum(&|s| graph.is_output(s) && !graph.is_persistent(s));
        let bytes = graph.ops().map(|op| operand_bytes(graph, op)).fold(given.max(kept), u64::max);
        Self { bytes, ceilings: vec![u64::MAX; graph.n_ops()], done: vec![false; graph.n_ops()] }
    }

    /// The bound, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a bound that was proven elsewhere.
    pub(crate) fn prove(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes);
    }

    /// Learns from a plain order what each op's step can cost.
    pub(crate) fn lower_ceilings(&mut self, steps: &[Step], profile: &Profile) {
        for (step, used) in steps.iter().zip(profile.used_bytes()) {
            if let Action::Run(op) = step.action {
                self.lower_ceiling(op, used);
            }
        }
    }

    /// Learns that there is a plain order in which the op's step costs `used` bytes.
    pub(crate) fn lower_ceiling(&mut self, op: OpId, used: u64) {
        let ceiling = &mut self.ceilings[op.index()];
        *ceiling = used.min(*ceiling);
    }

    /// Raises the bound to the largest forced-live bound of any op, as far as the budget reaches.
    pub(crate) fn raise(&mut self, graph: &Graph, search: &mut Search<'_>) {
        let mut hot: Vec<OpId> = graph.ops().filter(|op| !self.done[op.index()]).collect();
        hot.sort_by_key(|op| (std::cmp::Reverse(self.ceilings[op.index()]), *op));
        let mut cone = Cone::new(graph);
        for op in hot {
            if self.ceilings[op.index()] <= self.bytes || !search.spend(cone.visited) {
                break;
            }
            self.done[op.index()] = true;
            self.prove(cone.forced_live_bytes(graph, op));
        }
    }
}

/// Bound 2 of one op: its inputs, outputs and workspace, less what it could save in place.
fn operand_bytes(graph: &Graph, op: OpId) -> u64 {
    let storages = graph.touches(op).iter().chain(graph.creates(op));
    storages.map(|s| graph.storage_bytes(*s)).sum::<u64>() + graph.workspace_bytes(op)
        - savable_bytes(graph, op, |_| true)
}

/// The most bytes that `op` can save in place, when only storages for which `may_die` holds can die with it.
pub(crate) fn savable_bytes(graph: &Graph, op: OpId, mut may_die: impl FnMut(crate::id::StorageId) -> bool) -> u64 {
    let takeovers = graph.takeovers(op);
    match takeovers {
        [] => return 0,
        [only] => return if may_die(only.from) { graph.storage_bytes(only.to) } else { 0 },
        _ => {}
    }
    let pairs: Vec<_> = takeovers.iter().filter(|t| may_die(t.from)).map(|t| (t.to, t.from)).collect();
    matching(&pairs).iter().map(|(to, _)| graph.storage_bytes(*to)).sum()
}

/// Marks of the ancestors and descendants of one op, reused from op to op.
struct Cone {
    /// `ancestor[op] == mark`: op is an ancestor of the present op, or that op itself.
    ancestor: Vec<u32>,
    descendant: Vec<u32>,
    mark: u32,
    stack: Vec<OpId>,
    /// Storages with bytes, in which bound 3 counts.
    storages: Vec<crate::id::StorageId>,
    /// Work that the last traversal took.
    visited: u64,
}

impl Cone {
    fn new(graph: &Graph) -> Self {
        let n = graph.n_ops();
        let counts = |s: &crate::id::StorageId| !graph.is_persistent(*s) && graph.storage_bytes(*s) > 0;
        Self {
            ancestor: vec![0; n],
            descendant: vec![0; n],
            mark: 0,
            stack: Vec::new(),
            storages: graph.storages().filter(counts).collect(),
            visited: 0,
        }
    }

    fn forced_live_bytes(&mut self, graph: &Graph, op: OpId) -> u64 {
        self.mark += 1;
        self.visited = graph.n_storages() as u64;
        let stack = &mut self.stack;
        self.visited += mark_all(op, &mut self.ancestor, self.mark, stack, |op| graph.predecessors(op));
        self.visited += mark_all(op, &mut self.descendant, self.mark, stack, |op| graph.successors(op));
        let is = |marks: &[u32], op: OpId| marks[op.index()] == self.mark;
        let mut bytes = graph.workspace_bytes(op);
        for &storage in &self.storages {
            let made = graph.creator(storage).is_none_or(|creator| is(&self.ancestor, creator));
            let needed =
                || graph.is_output(storage) || graph.touchers(storage).iter().any(|t| is(&self.descendant, *t));
            // What the op itself makes is live while it runs, even if nobody reads it.
            if made && (graph.creator(storage) == Some(op) || needed()) {
                bytes += graph.storage_bytes(storage);
            }
        }
        let may_die = |s| !graph.touchers(s).iter().any(|t| *t != op && is(&self.descendant, *t));
        bytes - savable_bytes(graph, op, may_die)
    }
}

/// Marks `start` and everything that `next` leads to from it; the number of visits.
fn mark_all<'g>(
    start: OpId,
    marks: &mut [u32],
    mark: u32,
    stack: &mut Vec<OpId>,
    next: impl Fn(OpId) -> &'g [OpId],
) -> u64 {
    let mut visits = 0;
    marks[start.index()] = mark;
    stack.push(start);
    while let Some(op) = stack.pop() {
        let list = next(op);
        visits += 1 + list.len() as u64;
        for &other in list {
            if std::mem::replace(&mut marks[other.index()], mark) != mark {
                stack.push(other);
            }
        }
    }
    visits
}
