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
use super::both::both;
use super::expand::{Child, Expander, Place, Rules};
use super::greedy::{self, Rule, ranks};
use super::hot::Hot;
use super::walk::{Direction, Walk};
use crate::id::OpId;
use crate::search::{Search, StopReason};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most bytes that the states of one search hold; then it stops with the best found so far.
pub const MEMORY_LIMIT_BYTES: u64 = 1 << 29;

/// Work units of the first slice in each direction; every later slice is twice as long. Counting expansions instead
/// would let the direction in which they are dear use up the budget.
const FIRST_SLICE: u64 = 200_000;

/// By what the slice of a direction is divided that has proven less than the other.
const BEHIND: u64 = 4;

/// Ways are completed by rules after that many work units for each op.
const COMPLETE_EVERY: u64 = 20;

/// Searches until the best order is proven optimal or the budget or memory is spent; why it stopped otherwise.
pub(super) fn improve(best: &mut Best<'_>, search: &mut Search<'_>) {
    super::greedy::improve(best, search);
    run(best, search);
}

/// The search alone.
pub(super) fn run(best: &mut Best<'_>, search: &mut Search<'_>) {
    let mut exact = Exact::new(best);
    while !best.is_optimal() && search.stopped().is_none() {
        if !exact.advance(best, search) {
            search.stop(StopReason::MemoryLimit);
        }
        search.tell("dp", best.peak_bytes(), best.bound.bytes());
    }
}

/// Both directions of the search, and how far they have come.
pub(super) struct Exact<'i> {
    frontiers: Vec<Frontier<'i>>,
    slice: u64,
}

impl<'i> Exact<'i> {
    pub(super) fn new(best: &mut Best<'i>) -> Self {
        Self::with(best, &Direction::BOTH, Rules::ALL)
    }

    /// A search in these directions and by these rules.
    pub(super) fn with(best: &mut Best<'i>, directions: &[Direction], rules: Rules) -> Self {
        let hot = hottest(best);
        let instance = best.instance();
        let frontiers = directions
            .iter()
            .map(|direction| Expander::new(instance, *direction, hot.clone(), rules))
            .filter(|expander| expander.walk.may_run_now())
            .map(|expander| Frontier::new(expander, best))
            .collect();
        Self { frontiers, slice: FIRST_SLICE }
    }

    /// One slice in each direction, less when the best order is proven optimal or the search must stop; `false` when
    /// nothing was done because memory is used up. The direction that has proven less gets a shorter slice.
    pub(super) fn advance(&mut self, best: &mut Best<'i>, search: &mut Search<'_>) -> bool {
        let most = self.frontiers.iter().map(Frontier::level).max().unwrap_or(0);
        let slice = self.slice;
        if self.frontiers.iter().all(|frontier| frontier.memory_bytes() > MEMORY_LIMIT_BYTES) {
            return false;
        }
        let work = |frontier: &Frontier<'i>| if frontier.level() < most { slice / BEHIND } else { slice };
        both(best, search, &mut self.frontiers, work, |frontier, best, search| frontier.expand(best, search));
        self.slice = self.slice.saturating_mul(2);
        true
    }
}

/// The ops whose steps cost most in the cheapest order that is known for each.
pub(super) fn hottest(best: &Best<'_>) -> Vec<OpId> {
    let mut ops: Vec<OpId> = best.instance().ops().collect();
    let ceiling = |op: &OpId| Reverse(best.bound.ceiling(*op));
    if ops.len() > Hot::MOST {
        ops.select_nth_unstable_by_key(Hot::MOST, |op| (ceiling(op), *op));
        ops.truncate(Hot::MOST);
    }
    ops
}

/// What is stored of a state besides its set.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The largest step cost on the way.
    cost: u64,
    /// What no completion can go below.
    level: u64,
    /// The level up to which its children are stored.
    above: Option<u64>,
    live: u64,
    hash: u64,
    parent: u32,
    /// Where the ops that lead here from the parent end in `Frontier::ways`, and how many they are.
    way_end: usize,
    way_len: u32,
}

/// The open state that comes first: least level, most done, least live, stored first.
type Priority = (u64, Reverse<u32>, u64, u32);

/// One direction of the search.
struct Frontier<'i> {
    expander: Expander<'i>,
    states: States,
    open: BinaryHeap<Reverse<Priority>>,
    /// Work of expansions since an order was last completed by rule.
    since: u64,
}

/// The states that were stored, and how they were reached.
struct States {
    list: Vec<State>,
    /// The sets, `words` words each.
    sets: Vec<u64>,
    words: usize,
    ways: Vec<OpId>,
    /// Positions of states by their sets.
    seen: HashTable<u32>,
}

impl<'i> Frontier<'i> {
    fn new(mut expander: Expander<'i>, best: &mut Best<'i>) -> Self {
        let states = States {
            list: Vec::new(),
            sets: Vec::new(),
            words: best.instance().n_ops().div_ceil(64),
            ways: Vec::new(),
            seen: HashTable::new(),
        };
        let child = expander.start(best.bound.bytes());
        let mut frontier = Self { expander, states, open: BinaryHeap::new(), since: u64::MAX };
        if frontier.expander.walk.is_complete() {
            best.offer(frontier.expander.walk.direction().in_time(child.ops));
        } else if let Some(priority) = frontier.states.store(&frontier.expander.walk, &child, u32::MAX) {
            frontier.open.push(Reverse(priority));
        }
        frontier
    }

    /// What every order costs at least that is still to be found in this direction.
    fn level(&self) -> u64 {
        self.open.peek().map_or(u64::MAX, |Reverse(first)| first.0)
    }

    fn memory_bytes(&self) -> u64 {
        let states = &self.states;
        let vectors = states.list.capacity() * size_of::<State>()
            + states.sets.capacity() * size_of::<u64>()
            + states.ways.capacity() * size_of::<OpId>()
            + states.seen.capacity() * (size_of::<u32>() + 1)
            + self.open.capacity() * size_of::<Priority>();
        vectors as u64
    }

    /// Expands states as long as budget and memory last.
    fn expand(&mut self, best: &mut Best<'i>, search: &mut Search<'_>) {
        while search.stopped().is_none() {
            if self.memory_bytes() > MEMORY_LIMIT_BYTES {
                return;
            }
            let Some(Reverse((level, _, _, index))) = self.open.pop() else {
                // Every way on costs at least the best known peak.
                return best.bound.prove(best.peak_bytes());
            };
            let state = self.states.list[index as usize];
            if state.level != level {
                continue;
            }
            best.bound.prove(level.min(best.peak_bytes()));
            if best.is_optimal() {
                return;
            }
            let work = self.expand_state(index, state, best);
            self.since = self.since.saturating_add(work);
            if !search.spend(work) {
                return;
            }
            if self.expander.rules.completions && self.since >= COMPLETE_EVERY * best.instance().n_ops() as u64 {
                self.since = 0;
                self.complete(index, best, search);
            }
        }
    }

    /// Stores the successors of a state up to its level, and where it goes on above that; the work it took.
    fn expand_state(&mut self, index: u32, state: State, best: &mut Best<'i>) -> u64 {
        let Self { expander, states, open, .. } = self;
        let set = states.set(index).to_vec();
        let level = state.level.max(best.bound.bytes());
        let place = Place { set: &set, live: state.live, cost: state.cost, level, hash: state.hash };
        let mut take = |walk: &Walk<'_>, child: &Child, best: &mut Best<'i>| {
            if walk.is_complete() {
                best.offer(walk.direction().in_time(states.way_to(index, &child.ops)));
            } else if child.level < best.peak_bytes()
                && let Some(priority) = states.store(walk, child, index)
            {
                open.push(Reverse(priority));
            }
        };
        let (closed, spent) = expander.close(place, state.above.is_some());
        if let Some(child) = closed {
            take(&expander.walk, &child, best);
            return spent;
        }
        let (next, work) = expander.children(place, state.above, level, |walk, child| {
            take(walk, child, best);
            best.peak_bytes()
        });
        let state = &mut states.list[index as usize];
        state.above = Some(level);
        state.level = next;
        if next < best.peak_bytes() {
            let n_done = u32::try_from(expander.walk.n_done()).unwrap_or(u32::MAX);
            open.push(Reverse((next, Reverse(n_done), state.live, index)));
        }
        spent + work
    }

    /// Completes the way to a state by rules, and offers the orders.
    fn complete(&mut self, index: u32, best: &mut Best<'i>, search: &mut Search<'_>) {
        let live = self.states.list[index as usize].live;
        let rank = ranks(best.order());
        for rule in [Rule::Ranked, Rule::LeastGrowth] {
            self.expander.walk.load(self.states.set(index), live);
            let walk = &mut self.expander.walk;
            let Some(rest) = greedy::complete(walk, rule, &rank, |_| {}, search) else { return };
            best.offer(walk.direction().in_time(self.states.way_to(index, &rest)));
        }
    }
}

impl States {
    fn set(&self, index: u32) -> &[u64] {
        &self.sets[index as usize * self.words..(index as usize + 1) * self.words]
    }

    /// The ops from the start to the state, and then `ops`.
    fn way_to(&self, state: u32, ops: &[OpId]) -> Vec<OpId> {
        let mut way: Vec<OpId> = ops.iter().rev().copied().collect();
        let mut at = state;
        while let Some(state) = self.list.get(at as usize) {
            way.extend(self.ways[state.way_end - state.way_len as usize..state.way_end].iter().rev());
            at = state.parent;
        }
        way.reverse();
        way
    }

    /// Stores the state that the walk is in, reached from `parent` by the child's ops, unless it is known; its place
    /// among the open ones.
    fn store(&mut self, walk: &Walk<'_>, child: &Child, parent: u32) -> Option<Priority> {
        let set = walk.set();
        let known = self.seen.find(child.hash, |index| self.set(*index) == set).copied();
        let index = match known {
            Some(index) => {
                let state = &self.list[index as usize];
                if state.above.is_some() || state.level <= child.level {
                    return None;
                }
                index
            }
            None => {
                let index = u32::try_from(self.list.len()).ok().filter(|index| *index < u32::MAX)?;
                self.seen.insert_unique(child.hash, index, |index| self.list[*index as usize].hash);
                self.sets.extend_from_slice(set);
                index
            }
        };
        self.ways.extend_from_slice(&child.ops);
        let state = State {
            cost: child.cost,
            level: child.level,
            above: None,
            live: walk.live(),
            hash: child.hash,
            parent,
            way_end: self.ways.len(),
            way_len: u32::try_from(child.ops.len()).unwrap_or(u32::MAX),
        };
        match self.list.get_mut(index as usize) {
            Some(known) => *known = state,
            None => self.list.push(state),
        }
        let n_done = u32::try_from(walk.n_done()).unwrap_or(u32::MAX);
        Some((child.level, Reverse(n_done), state.live, index))
    }
}
