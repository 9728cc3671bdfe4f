//! Exact search over the sets of ops that have run.
//!
//! **Problem.** The bytes live after a set S of ops depend on S alone, not on the order within it. So the least peak
//! is a bottleneck shortest path from the empty set to the set of all ops, where the step S → S + o costs what op o's
//! step costs from S.
//!
//! **Search.** Best first by the largest cost on the way (at least the proven bound), then the most ops done, then
//! the least live bytes. States are taken in order of their cost, so each set is expanded once, and the cost of the
//! state that is expanded is itself a proven lower bound: every order must pass through one of the open states.
//! Before a state is stored, the run-now rule (see `walk`, with its proof) runs every op that is free within
//! that cost. States at or above the best known peak are never stored.
//!
//! Two such searches run in turn in slices that double, one from each end of the order: on many graphs one of them
//! needs a few expansions where the other needs millions.
//!
//! **Invariants.** (1) A state's set is closed: with every op, those before it in this direction. (2) The stored cost
//! of a state is the largest step cost on the stored way to it. (3) A set is stored once; a cheaper way replaces the
//! way to it, and cannot come once it is expanded. (4) If the best known peak is P, every order below P passes
//! through an open state.
//!
//! **Answer.** With fewer than 50 ops the optimum, unless budgets are set too small. Above that it is honest: the
//! best order found, the proven bound, and the reason why it stopped (work, time, or [`MEMORY_LIMIT_BYTES`]).
//!
//! Complexity: O(N (n + m + w d)) time and O(N n / 64) words for N sets visited, n ops, m operands, w ready ops of
//! degree d; N is exponential at worst. Deterministic: ties go to the state that was stored first.
//!
//! Source: dynamic programming over down-sets for this problem: Ahn et al., "Ordering chaos: memory-aware scheduling
//! of irregularly wired neural networks for edge devices", MLSys 2020 (breadth first, with budgets tried in turn;
//! here one best-first pass in both directions, with the run-now rule).

use super::Best;
use super::walk::{Direction, Walk};
use crate::graph::Graph;
use crate::id::OpId;
use crate::search::{Search, StopReason};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hasher};

/// The most bytes that the states of one search hold; then it stops with the best found so far.
pub const MEMORY_LIMIT_BYTES: u64 = 1 << 29;

/// Expansions of the first slice in each direction; every later slice is twice as long.
const FIRST_SLICE: u64 = 500;

/// Searches until the best order is proven optimal or the budget or memory is spent; why it stopped otherwise.
pub(super) fn improve(graph: &Graph, best: &mut Best, search: &mut Search<'_>) {
    super::greedy::improve(graph, best, search);
    run(graph, best, search);
}

/// The search alone.
pub(super) fn run(graph: &Graph, best: &mut Best, search: &mut Search<'_>) {
    if best.is_optimal() {
        return;
    }
    let mut frontiers: Vec<Frontier<'_>> = Direction::BOTH
        .into_iter()
        .map(|direction| Walk::new(graph, direction))
        .filter(Walk::may_run_now)
        .map(|walk| Frontier::new(graph, walk, best))
        .collect();
    let mut slice = FIRST_SLICE;
    loop {
        for frontier in &mut frontiers {
            match frontier.expand(slice, best, search) {
                Slice::Spent => {}
                Slice::Proved => return search.tell("dp", best.peak_bytes(), best.bound.bytes()),
                Slice::Stopped => return,
            }
        }
        if frontiers.iter().all(|f| f.memory_bytes() > MEMORY_LIMIT_BYTES) {
            search.stop(StopReason::MemoryLimit);
            return;
        }
        search.tell("dp", best.peak_bytes(), best.bound.bytes());
        slice = slice.saturating_mul(2);
    }
}

/// How a slice of the search ended.
enum Slice {
    Spent,
    Proved,
    Stopped,
}

/// What is stored of a state besides its set.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The largest step cost on the way.
    cost: u64,
    live: u64,
    parent: u32,
    /// Where the ops that lead here from the parent end in `Frontier::ways`, and how many they are.
    way_end: usize,
    way_len: u32,
    n_done: u32,
    expanded: bool,
}

/// The open state that comes first: least cost, most done, least live, stored first.
type Priority = (u64, Reverse<u32>, u64, u32);

/// One direction of the search.
struct Frontier<'g> {
    graph: &'g Graph,
    walk: Walk<'g>,
    states: Vec<State>,
    /// The sets, `words` words each.
    sets: Vec<u64>,
    words: usize,
    ways: Vec<OpId>,
    /// Positions of states by their sets.
    seen: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
    open: BinaryHeap<Reverse<Priority>>,
}

impl<'g> Frontier<'g> {
    fn new(graph: &'g Graph, walk: Walk<'g>, best: &mut Best) -> Self {
        let mut frontier = Self {
            graph,
            states: Vec::new(),
            sets: Vec::new(),
            words: graph.n_ops().div_ceil(64),
            ways: Vec::new(),
            seen: HashTable::new(),
            hasher: hashbrown::DefaultHashBuilder::default(),
            open: BinaryHeap::new(),
            walk,
        };
        let mut child = Child { cost: 0, ops: Vec::new(), undo: Vec::new() };
        let ready: Vec<OpId> = frontier.walk.ready().collect();
        frontier.run_free(&mut child, best.bound.bytes(), ready);
        let set = vec![0; frontier.words];
        frontier.store(&set, u32::MAX, &child, best);
        frontier
    }

    /// Bytes held by the states, about.
    fn memory_bytes(&self) -> u64 {
        let per_state = size_of::<State>() + size_of::<Priority>() + 8 * self.words + 8;
        (self.states.len() * per_state + self.ways.len() * size_of::<OpId>()) as u64
    }

    /// Expands up to `slice` states.
    fn expand(&mut self, slice: u64, best: &mut Best, search: &mut Search<'_>) -> Slice {
        for _ in 0..slice {
            if best.is_optimal() {
                return Slice::Proved;
            }
            if self.memory_bytes() > MEMORY_LIMIT_BYTES {
                return Slice::Spent;
            }
            let Some(Reverse((cost, _, _, index))) = self.open.pop() else {
                // No order below the best known peak is left.
                best.bound.prove(best.peak_bytes());
                return Slice::Proved;
            };
            // A state that was reached by a cheaper way later stands in the heap twice.
            if self.states[index as usize].expanded {
                continue;
            }
            best.bound.prove(cost.min(best.peak_bytes()));
            if best.is_optimal() {
                return Slice::Proved;
            }
            self.states[index as usize].expanded = true;
            let work = self.expand_state(index, best);
            if !search.spend(work) {
                return Slice::Stopped;
            }
        }
        Slice::Spent
    }

    /// Stores every successor of a state; the work it took.
    fn expand_state(&mut self, index: u32, best: &mut Best) -> u64 {
        let state = self.states[index as usize];
        let start = index as usize * self.words;
        let set: Vec<u64> = self.sets[start..start + self.words].to_vec();
        self.walk.load(&set, state.live);
        let ready: Vec<OpId> = self.walk.ready().collect();
        let mut work = (self.graph.n_ops() / 8 + ready.len()) as u64;
        // An op that the run-now rule would take but for its cost: it may become free after any other op.
        let level = state.cost.max(best.bound.bytes());
        let blocked: Vec<OpId> = ready
            .iter()
            .copied()
            .filter(|op| {
                let effect = self.walk.effect(*op);
                effect.freed >= effect.allocated && effect.cost > level
            })
            .collect();
        let mut child = Child { cost: 0, ops: Vec::new(), undo: Vec::new() };
        for &op in &ready {
            let effect = self.walk.effect(op);
            if effect.cost >= best.peak_bytes() {
                continue;
            }
            child.cost = state.cost.max(effect.cost);
            let mut changed = blocked.clone();
            child.undo.push((op, self.walk.live()));
            child.ops.push(op);
            self.walk.run(op, effect, &mut changed);
            self.run_free(&mut child, best.bound.bytes(), changed);
            work += 4 * child.ops.len() as u64 + self.words as u64;
            self.store(&set, index, &child, best);
            for (op, live) in child.undo.drain(..).rev() {
                self.walk.undo(op, live);
            }
            child.ops.clear();
        }
        work
    }

    /// Runs ops while the run-now rule takes one within the child's cost; only `maybe` and what they change can be.
    fn run_free(&mut self, child: &mut Child, bound: u64, mut maybe: Vec<OpId>) {
        let level = child.cost.max(bound);
        // Ops that are free but for their cost are looked at again when the live bytes have fallen.
        let mut waiting: Vec<OpId> = Vec::new();
        while let Some(op) = maybe.pop() {
            if !self.walk.is_ready(op) {
                continue;
            }
            let effect = self.walk.effect(op);
            if effect.is_free(level) {
                child.cost = child.cost.max(effect.cost);
                child.undo.push((op, self.walk.live()));
                child.ops.push(op);
                self.walk.run(op, effect, &mut maybe);
                maybe.append(&mut waiting);
            } else if effect.freed >= effect.allocated {
                waiting.push(op);
            }
        }
    }

    /// Stores the state that the walk is in, reached from `parent` by the child's ops, unless it is known or useless.
    fn store(&mut self, parent_set: &[u64], parent: u32, child: &Child, best: &mut Best) {
        if self.walk.is_complete() {
            let mut order = child.ops.clone();
            order.reverse();
            let mut at = parent;
            while at != u32::MAX {
                let state = self.states[at as usize];
                order.extend(self.ways[state.way_end - state.way_len as usize..state.way_end].iter().rev());
                at = state.parent;
            }
            order.reverse();
            best.offer(self.graph, self.walk.direction().in_time(order));
            return;
        }
        if child.cost >= best.peak_bytes() {
            return;
        }
        let mut set = parent_set.to_vec();
        for op in &child.ops {
            set[op.index() / 64] |= 1 << (op.index() % 64);
        }
        let hash = |set: &[u64]| {
            let mut hasher = self.hasher.build_hasher();
            set.iter().for_each(|word| hasher.write_u64(*word));
            hasher.finish()
        };
        let (sets, words) = (&self.sets, self.words);
        let set_of = |index: u32| &sets[index as usize * words..(index as usize + 1) * words];
        let key = hash(&set);
        let known = self.seen.find(key, |index| set_of(*index) == set.as_slice()).copied();
        let index = match known {
            Some(index) => {
                let state = &self.states[index as usize];
                if state.expanded || state.cost <= child.cost {
                    return;
                }
                index
            }
            None => {
                let Ok(index) = u32::try_from(self.states.len()) else { return };
                self.seen.insert_unique(key, index, |index| hash(set_of(*index)));
                self.sets.extend_from_slice(&set);
                index
            }
        };
        self.ways.extend_from_slice(&child.ops);
        let state = State {
            cost: child.cost,
            live: self.walk.live(),
            parent,
            way_end: self.ways.len(),
            way_len: u32::try_from(child.ops.len()).unwrap_or(u32::MAX),
            n_done: u32::try_from(self.walk.n_done()).unwrap_or(u32::MAX),
            expanded: false,
        };
        match self.states.get_mut(index as usize) {
            Some(known) => *known = state,
            None => self.states.push(state),
        }
        let level = child.cost.max(best.bound.bytes());
        self.open.push(Reverse((level, Reverse(state.n_done), state.live, index)));
    }
}

/// The ops that lead from a state to the one after it, and how to take them back.
struct Child {
    cost: u64,
    ops: Vec<OpId>,
    /// Each op that was run, and what was live before it.
    undo: Vec<(OpId, u64)>,
}
