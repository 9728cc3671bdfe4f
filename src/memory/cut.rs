//! Minimum cuts: the state with the fewest live bytes among those that an op can run in, or among all.
//!
//! **Network.** A node for each op, on the source's side when the op has run. M(S) is a sum over storages: the bytes
//! count when the creator has run and not all touchers have. With one toucher that is an arc from the creator to the
//! toucher with the storage's bytes as its capacity. With several it is an arc from the creator to a node of the
//! storage, and from there arcs without limit to the touchers: the node can stand on the source's side only if all
//! touchers do. What is given starts at the source, what is kept ends at the sink. An arc without limit from every op
//! to each predecessor makes the source's side a down-set.
//!
//! Ancestors of the op in question are the source, the op and its descendants are the sink; so only the ops that the
//! op does not compare with have nodes of their own. A takeover that the op may make is added as the bound's doc says.
//!
//! **Flow.** Dinitz's algorithm: breadth-first levels from the sink, then a blocking flow by depth-first search
//! without recursion. O(v² e) at worst, near linear on real graphs.
//!
//! Source: Dinitz, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet
//! Mathematics Doklady 11, 1970.

use super::bound::Cones;
use super::instance::Instance;
use crate::id::{Adjacency, OpId};
use crate::search::Search;

/// A state, and what it costs to run an op from it.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The op that was asked about; `None` for the least M of all.
    pub(crate) op: Option<OpId>,
    /// The least cost of the op's step, or the least M.
    pub(crate) bytes: u64,
    /// For each op whether it has run.
    pub(crate) done: Vec<bool>,
}

impl Cut {
    /// What the step of each op that may run next costs in this state. O(n + m).
    pub(crate) fn step_costs(&self, instance: &Instance) -> Vec<(OpId, u64)> {
        let done = |op: OpId| self.done[op.index()];
        let live = live_bytes(instance, &self.done);
        let ready = instance.ops().filter(|op| !done(*op) && instance.predecessors(*op).iter().all(|p| done(*p)));
        let cost = |op: OpId| {
            let sums = instance.sums(op);
            let dies = |s| instance.touchers(s).iter().all(|t| *t == op || done(*t));
            live + sums.created + sums.workspace - instance.savable_bytes(op, dies)
        };
        let unused = if self.done.contains(&true) { 0 } else { instance.unused_bytes() };
        ready.map(|op| (op, cost(op) + unused)).collect()
    }
}

/// M of a down-set. O(n + m).
pub(crate) fn live_bytes(instance: &Instance, done: &[bool]) -> u64 {
    let has = |op: OpId| done[op.index()];
    let live = instance
        .storages()
        .filter(|s| instance.creator(*s).is_none_or(has) && instance.touchers(*s).iter().any(|t| !has(*t)));
    let kept = instance.ops().filter(|op| has(*op)).map(|op| instance.sums(op).kept);
    instance.base_bytes() + live.map(|s| instance.bytes(s)).sum::<u64>() + kept.sum::<u64>()
}

/// Which of several minimum cuts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The one with the fewest ops done.
    Least,
    /// The one with the most ops done.
    Most,
}

/// More than any sum of bytes.
const NO_LIMIT: u64 = u64::MAX;

const SOURCE: u32 = 0;
const SINK: u32 = 1;

/// A directed arc and its reverse share a pair of numbers: `a ^ 1` is the reverse of arc `a`.
struct Arc {
    to: u32,
    room: u64,
}

/// The network of the module doc.
pub(crate) struct Network {
    op: Option<OpId>,
    /// The node of each op.
    nodes: Vec<u32>,
    n_nodes: usize,
    arcs: Vec<Arc>,
    /// Bytes that every cut counts.
    fixed: u64,
}

impl Network {
    /// The network of the states that `op` can run in; `cones` are those of this one op. O(n + m).
    pub(crate) fn around(instance: &Instance, op: OpId, cones: &Cones) -> Self {
        let mut n_nodes = 2;
        let nodes =
            instance.ops().map(|other| match (cones.ancestors[other.index()], cones.descendants[other.index()]) {
                (_, 1) => SINK,
                (1, _) => SOURCE,
                _ => {
                    n_nodes += 1;
                    n_nodes - 1
                }
            });
        let nodes: Vec<u32> = nodes.collect();
        let sums = instance.sums(op);
        // Pairs whose operand must live on can save nothing.
        let below = |t: &OpId| *t != op && cones.descendants[t.index()] == 1;
        let may_die = |s| !instance.touchers(s).iter().any(below);
        let fixed = instance.base_bytes() + sums.created + sums.workspace - instance.savable_bytes(op, may_die);
        let mut network = Self { op: Some(op), nodes, n_nodes: n_nodes as usize, arcs: Vec::new(), fixed };
        network.connect(instance);
        let pairs: Vec<_> = instance.pairs(op).iter().filter(|p| may_die(p.from)).collect();
        let mut sides: Vec<(bool, usize)> =
            pairs.iter().flat_map(|p| [(false, p.to.index()), (true, p.from.index())]).collect();
        sides.sort_unstable();
        if sides.windows(2).all(|pair| pair[0] != pair[1]) {
            for pair in pairs {
                let others = instance.touchers(pair.from).iter().filter(|t| **t != op);
                let heads: Vec<u32> = others.map(|t| network.nodes[t.index()]).collect();
                network.count(SOURCE, &heads, pair.bytes);
            }
        }
        network
    }

    /// The network of all states. O(n + m).
    pub(crate) fn whole(instance: &Instance) -> Self {
        let nodes = (2..).take(instance.n_ops()).collect();
        let n_nodes = instance.n_ops() + 2;
        let mut network = Self { op: None, nodes, n_nodes, arcs: Vec::new(), fixed: instance.base_bytes() };
        network.connect(instance);
        network
    }

    fn connect(&mut self, instance: &Instance) {
        let mut heads = Vec::new();
        for s in instance.storages() {
            let from = instance.creator(s).map_or(SOURCE, |op| self.nodes[op.index()]);
            if from != SINK {
                heads.clear();
                heads.extend(instance.touchers(s).iter().map(|t| self.nodes[t.index()]));
                self.count(from, &heads, instance.bytes(s));
            }
        }
        for op in instance.ops() {
            let node = self.nodes[op.index()];
            match instance.sums(op).kept {
                0 => {}
                kept if node == SOURCE => self.fixed += kept,
                kept => self.arc(node, SINK, kept, 0),
            }
            if node != SOURCE {
                for &before in instance.predecessors(op) {
                    let before = self.nodes[before.index()];
                    if before != SINK && node != SINK && before != SOURCE {
                        self.arc(node, before, NO_LIMIT, 0);
                    }
                }
            }
        }
    }

    /// Counts `bytes` when `from` stands on the source's side and not all of `heads` do.
    fn count(&mut self, from: u32, heads: &[u32], bytes: u64) {
        let sink = heads.contains(&SINK);
        match (from, sink) {
            (SOURCE, true) => self.fixed += bytes,
            (_, true) => self.arc(from, SINK, bytes, 0),
            _ => match heads.iter().filter(|head| **head != SOURCE).count() {
                0 => {}
                1 => {
                    let head = heads.iter().find(|head| **head != SOURCE);
                    head.iter().for_each(|head| self.arc(from, **head, bytes, 0));
                }
                _ => {
                    let node = u32::try_from(self.n_nodes).unwrap_or(u32::MAX);
                    self.n_nodes += 1;
                    self.arc(from, node, bytes, 0);
                    for &head in heads.iter().filter(|head| **head != SOURCE) {
                        self.arc(node, head, NO_LIMIT, 0);
                    }
                }
            },
        }
    }

    fn arc(&mut self, from: u32, to: u32, room: u64, back: u64) {
        if from != to && from != SINK && to != SOURCE {
            self.arcs.push(Arc { to, room });
            self.arcs.push(Arc { to: from, room: back });
        }
    }

    /// A minimum cut; `None` when the budget is spent.
    pub(crate) fn solve(self, instance: &Instance, search: &mut Search<'_>) -> Option<Cut> {
        self.flow(instance, Side::Least, |work| search.spend(work))
    }

    /// The minimum cut with the fewest or the most ops done; `None` when `spend` says so.
    pub(crate) fn flow(mut self, instance: &Instance, side: Side, mut spend: impl FnMut(u64) -> bool) -> Option<Cut> {
        let arcs_of = self.arcs_of();
        let mut flow = 0;
        let mut level = vec![0u32; self.n_nodes];
        let mut next_arc = vec![0u32; self.n_nodes];
        loop {
            let reached = self.levels(&arcs_of, &mut level);
            if !spend((self.arcs.len() / 8) as u64 + 1) {
                return None;
            }
            if !reached {
                break;
            }
            next_arc.fill(0);
            flow += self.blocking_flow(&arcs_of, &level, &mut next_arc);
        }
        // What cannot reach the sink any more, or what the source can still reach.
        let done: Vec<bool> = match side {
            Side::Most => instance.ops().map(|op| level[self.nodes[op.index()] as usize] == 0).collect(),
            Side::Least => {
                let seen = self.source_side(&arcs_of);
                instance.ops().map(|op| seen[self.nodes[op.index()] as usize]).collect()
            }
        };
        Some(Cut { op: self.op, bytes: self.fixed + flow, done })
    }

    fn arcs_of(&self) -> Adjacency<u32> {
        Adjacency::group(self.n_nodes, || {
            (0u32..).zip(&self.arcs).map(|(a, _)| (self.arcs[(a ^ 1) as usize].to as usize, a))
        })
    }

    /// Distances to the sink over arcs with room, plus 1; 0 where there is no way. Whether the source has one.
    fn levels(&self, arcs_of: &Adjacency<u32>, level: &mut [u32]) -> bool {
        level.fill(0);
        level[SINK as usize] = 1;
        let mut queue = vec![SINK];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &a in arcs_of.list(node as usize) {
                let from = self.arcs[a as usize].to;
                if level[from as usize] == 0 && self.arcs[(a ^ 1) as usize].room > 0 {
                    level[from as usize] = level[node as usize] + 1;
                    if from == SOURCE {
                        return true;
                    }
                    queue.push(from);
                }
            }
        }
        false
    }

    fn blocking_flow(&mut self, arcs_of: &Adjacency<u32>, level: &[u32], next_arc: &mut [u32]) -> u64 {
        let mut flow = 0;
        let mut path: Vec<u32> = Vec::new();
        let mut node = SOURCE;
        loop {
            if node == SINK {
                let room = path.iter().map(|a| self.arcs[*a as usize].room).min().unwrap_or(0);
                flow += room;
                let mut cut_at = 0;
                for (i, &a) in path.iter().enumerate().rev() {
                    let arc = &mut self.arcs[a as usize];
                    if arc.room != NO_LIMIT {
                        arc.room -= room;
                    }
                    if arc.room == 0 {
                        cut_at = i;
                    }
                    let back = &mut self.arcs[(a ^ 1) as usize];
                    back.room = back.room.saturating_add(room);
                }
                node = self.arcs[(path[cut_at] ^ 1) as usize].to;
                path.truncate(cut_at);
                continue;
            }
            let list = arcs_of.list(node as usize);
            let at = &mut next_arc[node as usize];
            let found = list[*at as usize..].iter().position(|a| {
                let arc = &self.arcs[*a as usize];
                arc.room > 0 && level[arc.to as usize] + 1 == level[node as usize] && level[arc.to as usize] > 0
            });
            match found {
                Some(skip) => {
                    *at += u32::try_from(skip).unwrap_or(u32::MAX);
                    let a = list[*at as usize];
                    path.push(a);
                    node = self.arcs[a as usize].to;
                }
                None => {
                    *at = u32::try_from(list.len()).unwrap_or(u32::MAX);
                    let Some(a) = path.pop() else { return flow };
                    node = self.arcs[(a ^ 1) as usize].to;
                    next_arc[node as usize] += 1;
                }
            }
        }
    }

    fn source_side(&self, arcs_of: &Adjacency<u32>) -> Vec<bool> {
        let mut seen = vec![false; self.n_nodes];
        seen[SOURCE as usize] = true;
        let mut stack = vec![SOURCE];
        while let Some(node) = stack.pop() {
            for &a in arcs_of.list(node as usize) {
                let arc = &self.arcs[a as usize];
                if arc.room > 0 && !std::mem::replace(&mut seen[arc.to as usize], true) {
                    stack.push(arc.to);
                }
            }
        }
        seen
    }
}
