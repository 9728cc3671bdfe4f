//! From one state of a search to the states after it: what exact search and beam search share.
//!
//! **A child** of a state is reached by one ready op, and then by every op that the safe rules run at once:
//!
//! - the run-now rule of `walk`, for single ops;
//! - *segment commit* for chains: from S, a chain of up to [`CHAIN`] ops, each of which became ready by the one before
//!   it, may be run if its steps cost at most the level and if it ends in the first of its states with no more live
//!   bytes than S. The states between S and the chain's end are just the chain's prefixes, as each op of it depends on
//!   the one before; all of them have more live bytes than S, so the end has the fewest of all states between, which
//!   is the condition of segment commit (`docs/algorithms/scheduling.md` has the proof, and a graph where the optimum
//!   is lost when the end is compared with S alone).
//!
//! **Level.** What no completion of the state can go below: the dearest step on the way to it, the forced-live bound of
//! a hot op that is still to run, or the proven bound of the instance. The rules run ops whose steps cost at most the
//! level: every completion has a peak of at least that, so nothing is lost.
//!
//! Complexity: O(w d + c) for w ready ops of degree d, and c ops that the rules run in all children together.

use super::walk::{Direction, Walk};
use crate::id::OpId;
use crate::memory::instance::Instance;

/// The most ops of a chain that is run at once.
const CHAIN: usize = 8;

/// A state of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'s> {
    /// The ops that have run, one bit each.
    pub(super) set: &'s [u64],
    pub(super) live: u64,
    /// The dearest step on the way, in bytes.
    pub(super) cost: u64,
    /// See the module doc.
    pub(super) level: u64,
    /// The exclusive or of the keys of the ops that have run.
    pub(super) hash: u64,
}

/// A state that is one choice away from another; the walk stands in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Child {
    pub(super) cost: u64,
    pub(super) level: u64,
    pub(super) hash: u64,
    /// The ops that lead to it.
    pub(super) ops: Vec<OpId>,
    /// What was live before each of them.
    undo: Vec<u64>,
}

/// Finds the children of states of one instance in one direction.
pub(super) struct Expander<'i> {
    instance: &'i Instance,
    pub(super) walk: Walk<'i>,
    ready: Vec<OpId>,
    blocked: Vec<OpId>,
    maybe: Vec<OpId>,
    waiting: Vec<OpId>,
    child: Child,
}

/// A key of the op for hashes of sets (the finalizer of SplitMix64).
fn key(op: OpId) -> u64 {
    let mut x = (op.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl<'i> Expander<'i> {
    pub(super) fn new(instance: &'i Instance, direction: Direction, hot: Vec<OpId>) -> Self {
        Self {
            instance,
            walk: Walk::with_hot(instance, direction, hot),
            ready: Vec::new(),
            blocked: Vec::new(),
            maybe: Vec::new(),
            waiting: Vec::new(),
            child: Child::default(),
        }
    }

    /// The first state: nothing has run but what the rules run at once.
    pub(super) fn start(&mut self, bound: u64) -> Child {
        self.walk.reset();
        let mut child = Child { level: bound.max(self.walk.forced_bytes()), ..Child::default() };
        self.maybe.clear();
        self.walk.ready_into(&mut self.maybe);
        self.run_safe(&mut child);
        child
    }

    /// Calls `keep` for each child of a state whose level is below `limit`; the work it took.
    pub(super) fn children(
        &mut self,
        place: Place<'_>,
        limit: u64,
        mut keep: impl FnMut(&Walk<'_>, &Child) -> u64,
    ) -> u64 {
        self.walk.load(place.set, place.live);
        self.ready.clear();
        self.walk.ready_into(&mut self.ready);
        let mut work = (place.set.len() / 4 + self.ready.len() + 8) as u64;
        // Ops that the run-now rule would take but for their cost: they may become free after any other op.
        self.blocked.clear();
        for &op in &self.ready {
            let effect = self.walk.effect(op);
            if effect.freed >= effect.allocated && effect.cost > place.level {
                self.blocked.push(op);
            }
        }
        let mut child = std::mem::take(&mut self.child);
        let mut limit = limit;
        for i in 0..self.ready.len() {
            let op = self.ready[i];
            let effect = self.walk.effect(op);
            if effect.cost >= limit {
                continue;
            }
            child.cost = place.cost.max(effect.cost);
            child.level = place.level.max(effect.cost);
            child.hash = place.hash ^ key(op);
            child.ops.push(op);
            child.undo.push(self.walk.live());
            self.maybe.clear();
            self.maybe.extend_from_slice(&self.blocked);
            self.walk.run(op, effect, &mut self.maybe);
            self.run_safe(&mut child);
            work += 4 * child.ops.len() as u64 + place.set.len() as u64 / 4 + 4;
            if child.level < limit {
                limit = keep(&self.walk, &child).min(limit);
            }
            while let (Some(op), Some(live)) = (child.ops.pop(), child.undo.pop()) {
                self.walk.undo(op, live);
            }
        }
        self.child = child;
        work
    }

    /// Runs what the rules allow; only `maybe`, and what the ops that run change, can have become free.
    fn run_safe(&mut self, child: &mut Child) {
        child.level = child.level.max(self.walk.forced_bytes());
        // Ops that are free but for their cost are looked at again when the live bytes have fallen.
        self.waiting.clear();
        while let Some(op) = self.maybe.pop() {
            if !self.walk.is_ready(op) {
                continue;
            }
            let effect = self.walk.effect(op);
            let releases = effect.freed >= effect.allocated;
            if effect.cost > child.level {
                if releases {
                    self.waiting.push(op);
                }
                continue;
            }
            if releases {
                self.commit(child, op, effect);
            } else if !self.run_chain(child, op) {
                continue;
            }
            child.level = child.level.max(self.walk.forced_bytes());
            self.maybe.append(&mut self.waiting);
        }
    }

    fn commit(&mut self, child: &mut Child, op: OpId, effect: super::walk::Effect) {
        child.cost = child.cost.max(effect.cost);
        child.hash ^= key(op);
        child.ops.push(op);
        child.undo.push(self.walk.live());
        self.walk.run(op, effect, &mut self.maybe);
    }

    /// Runs the chain that starts with `op` if that is safe; whether it did.
    fn run_chain(&mut self, child: &mut Child, op: OpId) -> bool {
        let before = (child.ops.len(), child.cost, child.hash, self.maybe.len());
        let live = self.walk.live();
        let mut next = Some(op);
        while let Some(op) = next {
            let effect = self.walk.effect(op);
            if effect.cost > child.level {
                break;
            }
            self.commit(child, op, effect);
            if self.walk.live() <= live {
                return true;
            }
            if child.ops.len() - before.0 == CHAIN {
                break;
            }
            let behind = match self.walk.direction() {
                Direction::Forward => self.instance.successors(op),
                Direction::Backward => self.instance.predecessors(op),
            };
            let walk = &self.walk;
            next = behind.iter().copied().filter(|op| walk.is_ready(*op)).max_by_key(|op| {
                let effect = walk.effect(*op);
                (i128::from(effect.freed) - i128::from(effect.allocated), std::cmp::Reverse(*op))
            });
        }
        while child.ops.len() > before.0 {
            if let (Some(op), Some(live)) = (child.ops.pop(), child.undo.pop()) {
                self.walk.undo(op, live);
            }
        }
        (child.cost, child.hash) = (before.1, before.2);
        self.maybe.truncate(before.3);
        false
    }
}
