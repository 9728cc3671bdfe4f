//! One state of a search over orders: which ops have run, what is live, what each ready op would cost.
//!
//! **Both directions.** The problem is symmetric under time reversal: an order may be built from its first op on, or
//! from its last op back. Let S be the set of ops that stand before the gap, M(S) the bytes live in the gap, and o an
//! op that may stand next to it. Forwards o allocates what it creates and frees what dies with it; backwards it
//! "allocates" what dies with it and "frees" what it creates. Either way its step costs
//!
//! ```text
//!     M before + allocated + workspace − taken over in place
//! ```
//!
//! and the same searches run in both directions.
//!
//! **The run-now rule.** A ready op whose step costs at most B, and which frees at least what it allocates, may be run
//! at once: if any completion stays within B, so does one that runs it now. Proof: take such a completion and move o
//! to its front. M is submodular, so what o adds to M only shrinks as the set grows; hence every set X between has
//! M(X + o) ≤ M(X). With o done, another op x allocates no more, and forwards it can take over no less (more of its
//! operands die with it); backwards, each storage that o touches leaves both what x allocates and, at most, what x
//! takes over. So no step of the completion gets dearer, and o's own step is within B. Graph inputs that nobody reads
//! are live at the first step only, whichever op that is; forwards the proof holds with their bytes counted in o's
//! step, backwards it does not, and the rule is not used there.

use crate::graph::Graph;
use crate::id::{OpId, StorageId};
use crate::memory::bound::savable_bytes;

/// Which end an order is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the first op on.
    Forward,
    /// From the last op back.
    Backward,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// An order that was built in this direction, first op first.
    pub(super) fn in_time(self, mut built: Vec<OpId>) -> Vec<OpId> {
        if self == Self::Backward {
            built.reverse();
        }
        built
    }
}

/// What running an op next would do, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    /// What its step costs.
    pub(super) cost: u64,
    /// What it allocates and needs while it runs, above what is live before.
    pub(super) need: u64,
    pub(super) allocated: u64,
    pub(super) freed: u64,
}

impl Effect {
    /// Whether the run-now rule applies within `budget` bytes.
    pub(super) fn is_free(&self, budget: u64) -> bool {
        self.freed >= self.allocated && self.cost <= budget
    }
}

/// What never changes about an op.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    created: u64,
    /// Part of `created` that nobody reads and that is no output.
    dead: u64,
    workspace: u64,
}

/// The state of an order that is being built from one end.
#[derive(Clone, Debug)]
pub(super) struct Walk<'g> {
    graph: &'g Graph,
    direction: Direction,
    fixed: Vec<Fixed>,
    /// Ops that must still come before the op, in this direction.
    waits: Vec<u32>,
    /// For each storage its touchers that are not done, and the exclusive or of their ids.
    left: Vec<u32>,
    left_ids: Vec<u32>,
    done: Vec<bool>,
    n_done: usize,
    live: u64,
    /// Bytes of graph inputs that nobody reads: live at the first step only.
    unused: u64,
    ends: u64,
}

impl<'g> Walk<'g> {
    /// Nothing has run.
    pub(super) fn new(graph: &'g Graph, direction: Direction) -> Self {
        let dies = |s: StorageId| graph.touchers(s).is_empty() && !graph.is_output(s);
        let sum = |list: &[StorageId], of: &dyn Fn(StorageId) -> bool| -> u64 {
            list.iter().filter(|s| of(**s)).map(|s| graph.storage_bytes(*s)).sum()
        };
        let all: Vec<StorageId> = graph.storages().collect();
        let fixed = graph.ops().map(|op| Fixed {
            created: sum(graph.creates(op), &|_| true),
            dead: sum(graph.creates(op), &dies),
            workspace: graph.workspace_bytes(op),
        });
        let mut walk = Self {
            graph,
            direction,
            fixed: fixed.collect(),
            waits: Vec::new(),
            left: Vec::new(),
            left_ids: Vec::new(),
            done: Vec::new(),
            n_done: 0,
            live: 0,
            unused: sum(&all, &|s| graph.is_input(s) && dies(s)),
            ends: sum(&all, &|s| graph.is_input(s)).max(sum(&all, &|s| graph.is_output(s) && !graph.is_persistent(s))),
        };
        walk.reset();
        walk
    }

    /// Goes back to where nothing has run. O(n + m).
    pub(super) fn reset(&mut self) {
        let graph = self.graph;
        let start = |s: StorageId| match self.direction {
            Direction::Forward => graph.is_input(s) && (graph.is_output(s) || !graph.touchers(s).is_empty()),
            Direction::Backward => graph.is_output(s) && !graph.is_persistent(s),
        };
        self.live = graph.storages().filter(|s| start(*s)).map(|s| graph.storage_bytes(s)).sum();
        self.n_done = 0;
        self.done.clear();
        self.done.resize(graph.n_ops(), false);
        self.waits.clear();
        self.waits.extend(graph.ops().map(|op| match self.direction {
            Direction::Forward => count(graph.predecessors(op)),
            Direction::Backward => count(graph.successors(op)),
        }));
        self.left.clear();
        self.left.extend(graph.storages().map(|s| count(graph.touchers(s))));
        self.left_ids.clear();
        self.left_ids.extend(graph.storages().map(|s| graph.touchers(s).iter().fold(0, |x, op| x ^ raw(*op))));
    }

    fn behind(&self, op: OpId) -> &'g [OpId] {
        match self.direction {
            Direction::Forward => self.graph.successors(op),
            Direction::Backward => self.graph.predecessors(op),
        }
    }

    /// Goes to the state in which just the ops of a closed set have run; bit `i % 64` of word `i / 64` is op i.
    /// `live` is what is live there. O(n + m).
    pub(super) fn load(&mut self, set: &[u64], live: u64) {
        self.reset();
        let graph = self.graph;
        for op in graph.ops().filter(|op| set[op.index() / 64] >> (op.index() % 64) & 1 == 1) {
            self.done[op.index()] = true;
            self.n_done += 1;
            for &next in self.behind(op) {
                self.waits[next.index()] -= 1;
            }
            for &storage in graph.touches(op) {
                self.left[storage.index()] -= 1;
                self.left_ids[storage.index()] ^= raw(op);
            }
        }
        self.live = live;
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Bytes live in the gap.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes that are live before the first step or after the last, whichever are more: no peak is below.
    pub(super) fn ends_bytes(&self) -> u64 {
        self.ends
    }

    pub(super) fn n_done(&self) -> usize {
        self.n_done
    }

    pub(super) fn is_complete(&self) -> bool {
        self.n_done == self.graph.n_ops()
    }

    /// Whether the run-now rule is proven in this direction.
    pub(super) fn may_run_now(&self) -> bool {
        self.direction == Direction::Forward || self.unused == 0
    }

    pub(super) fn is_ready(&self, op: OpId) -> bool {
        !self.done[op.index()] && self.waits[op.index()] == 0
    }

    pub(super) fn ready(&self) -> impl Iterator<Item = OpId> + '_ {
        self.graph.ops().filter(|op| self.is_ready(*op))
    }

    /// Whether the storage would die with an op that touches it and is run next.
    fn would_die(&self, storage: StorageId) -> bool {
        let left = self.left[storage.index()];
        !self.graph.is_output(storage)
            && match self.direction {
                Direction::Forward => left == 1,
                Direction::Backward => left == count(self.graph.touchers(storage)),
            }
    }

    fn dying(&self, op: OpId) -> u64 {
        let touched = self.graph.touches(op).iter();
        touched.filter(|s| self.would_die(**s)).map(|s| self.graph.storage_bytes(*s)).sum()
    }

    /// What running a ready op next would do. O(degree of the op).
    pub(super) fn effect(&self, op: OpId) -> Effect {
        let Fixed { created, dead, workspace } = self.fixed[op.index()];
        let dying = self.dying(op) + dead;
        let (allocated, freed) = match self.direction {
            Direction::Forward => (created, dying),
            Direction::Backward => (dying, created),
        };
        let saved = savable_bytes(self.graph, op, |s| self.would_die(s));
        let is_first_step = match self.direction {
            Direction::Forward => self.n_done == 0,
            Direction::Backward => self.n_done + 1 == self.graph.n_ops(),
        };
        let need = allocated + workspace - saved;
        Effect { cost: self.live + need + if is_first_step { self.unused } else { 0 }, need, allocated, freed }
    }

    /// Runs a ready op. Ops that became ready, and other ops whose effect may have changed, are appended to `changed`
    /// (they need not be ready).
    pub(super) fn run(&mut self, op: OpId, effect: Effect, changed: &mut Vec<OpId>) {
        self.live = self.live + effect.allocated - effect.freed;
        self.done[op.index()] = true;
        self.n_done += 1;
        for &next in self.behind(op) {
            self.waits[next.index()] -= 1;
            if self.waits[next.index()] == 0 {
                changed.push(next);
            }
        }
        for &storage in self.graph.touches(op) {
            let s = storage.index();
            let touchers = self.graph.touchers(storage);
            if self.direction == Direction::Backward && self.left[s] == count(touchers) {
                changed.extend(touchers.iter().filter(|t| **t != op));
            }
            self.left[s] -= 1;
            self.left_ids[s] ^= raw(op);
            if self.direction == Direction::Forward && self.left[s] == 1 {
                changed.push(OpId::new(self.left_ids[s] as usize));
            }
        }
    }

    /// Takes back the run of `op`, which was the last one; `live` is what was live before it.
    pub(super) fn undo(&mut self, op: OpId, live: u64) {
        self.live = live;
        self.done[op.index()] = false;
        self.n_done -= 1;
        for &next in self.behind(op) {
            self.waits[next.index()] += 1;
        }
        for &storage in self.graph.touches(op) {
            self.left[storage.index()] += 1;
            self.left_ids[storage.index()] ^= raw(op);
        }
    }
}

fn raw(op: OpId) -> u32 {
    u32::try_from(op.index()).unwrap_or(u32::MAX)
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
