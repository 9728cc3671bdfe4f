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

use super::hot::Hot;
use crate::id::{OpId, StorageId};
use crate::memory::instance::{Instance, Sums};

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

/// An op that waits for more ops than that need not be looked at again when one of them has run.
const MOST_LEADS: u32 = 2;

/// The state of an order that is being built from one end.
#[derive(Clone, Debug)]
pub(super) struct Walk<'i> {
    instance: &'i Instance,
    direction: Direction,
    /// Ops that must still come before the op, in this direction.
    waits: Vec<u32>,
    /// For each storage its touchers that are not done, and the exclusive or of their ids.
    left: Vec<u32>,
    left_ids: Vec<u32>,
    /// Bit `i % 64` of word `i / 64` stands for op i.
    done: Vec<u64>,
    ready: Vec<u64>,
    n_done: usize,
    live: u64,
    ends: u64,
    /// See [`moves`](Self::moves).
    moves: u64,
    /// Forced-live bounds of some ops; see there.
    hot: Option<Hot>,
}

impl<'i> Walk<'i> {
    /// Nothing has run. O(n + m).
    pub(super) fn new(instance: &'i Instance, direction: Direction) -> Self {
        let mut walk = Self {
            instance,
            direction,
            waits: Vec::new(),
            left: Vec::new(),
            left_ids: Vec::new(),
            done: Vec::new(),
            ready: Vec::new(),
            n_done: 0,
            live: 0,
            ends: (instance.start_bytes() + instance.unused_bytes()).max(instance.end_bytes()),
            moves: 0,
            hot: None,
        };
        walk.reset();
        walk
    }

    /// The same, with the forced-live bounds of `ops` (at most [`Hot::MOST`]) kept up to date.
    pub(super) fn with_hot(instance: &'i Instance, direction: Direction, ops: Vec<OpId>) -> Self {
        Self { hot: Some(Hot::new(instance, direction, ops)), ..Self::new(instance, direction) }
    }

    /// Goes back to where nothing has run. O(n + m).
    pub(super) fn reset(&mut self) {
        let instance = self.instance;
        self.live = match self.direction {
            Direction::Forward => instance.start_bytes(),
            Direction::Backward => instance.end_bytes(),
        };
        self.n_done = 0;
        let words = instance.n_ops().div_ceil(64);
        self.done.clear();
        self.done.resize(words, 0);
        self.ready.clear();
        self.ready.resize(words, 0);
        self.waits.clear();
        self.waits.extend(instance.ops().map(|op| match self.direction {
            Direction::Forward => count(instance.predecessors(op)),
            Direction::Backward => count(instance.successors(op)),
        }));
        for op in instance.ops().filter(|op| self.waits[op.index()] == 0) {
            self.ready[op.index() / 64] |= 1 << (op.index() % 64);
        }
        self.left.clear();
        self.left.extend(instance.storages().map(|s| count(instance.touchers(s))));
        self.left_ids.clear();
        self.left_ids.extend(instance.storages().map(|s| instance.touchers(s).iter().fold(0, |x, op| x ^ raw(*op))));
        if let Some(hot) = &mut self.hot {
            hot.reset();
        }
    }

    /// The ops that wait for `op`.
    pub(super) fn behind(&self, op: OpId) -> &'i [OpId] {
        match self.direction {
            Direction::Forward => self.instance.successors(op),
            Direction::Backward => self.instance.predecessors(op),
        }
    }

    /// The ops that `op` waits for.
    pub(super) fn before(&self, op: OpId) -> &'i [OpId] {
        match self.direction {
            Direction::Forward => self.instance.predecessors(op),
            Direction::Backward => self.instance.successors(op),
        }
    }

    /// Goes to the state in which just the ops of a closed set have run; bit `i % 64` of word `i / 64` is op i.
    /// `live` is what is live there. O(n / 64 + degree of the ops that this set and the present one do not share).
    pub(super) fn load(&mut self, set: &[u64], live: u64) {
        // Counters do not mind in which order ops come and go.
        for (word, &want) in set.iter().enumerate() {
            let have = self.done[word];
            bits(have & !want, |bit| self.unmark(OpId::new(word * 64 + bit)));
            bits(want & !have, |bit| self.mark(OpId::new(word * 64 + bit), |_| {}));
        }
        self.live = live;
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// The ops that have run, as [`load`](Self::load) takes them.
    pub(super) fn set(&self) -> &[u64] {
        &self.done
    }

    /// Bytes live in the gap.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes that are live before the first step or after the last, whichever are more: no peak is below.
    pub(super) fn ends_bytes(&self) -> u64 {
        self.ends
    }

    /// The best forced-live bound of a hot op that has not run: no completion has a lower peak.
    pub(super) fn forced_bytes(&self) -> u64 {
        self.hot.as_ref().map_or(0, |hot| hot.bytes(|op| self.is_done(op)))
    }

    fn count_move(&mut self, op: OpId) {
        self.moves += 1 + (self.behind(op).len() + self.instance.touches(op).len()) as u64 / 8;
    }

    /// How often an op was run or taken back so far; ops with many neighbours count for more.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    pub(super) fn n_done(&self) -> usize {
        self.n_done
    }

    /// How many ops have not run.
    pub(super) fn n_left(&self) -> usize {
        self.instance.n_ops() - self.n_done
    }

    pub(super) fn is_complete(&self) -> bool {
        self.n_done == self.instance.n_ops()
    }

    /// Whether the run-now rule is proven in this direction.
    pub(super) fn may_run_now(&self) -> bool {
        self.direction == Direction::Forward || self.instance.unused_bytes() == 0
    }

    /// Whether a storage that ops of the gap create or touch lives on after them: `gap` says which ops these are.
    pub(super) fn lives_on(&self, storage: StorageId, gap: impl Fn(OpId) -> bool) -> bool {
        let touchers = self.instance.touchers(storage);
        match self.direction {
            Direction::Forward => touchers.iter().any(|t| !self.is_done(*t) && !gap(*t)),
            Direction::Backward => touchers.iter().any(|t| self.is_done(*t)),
        }
    }

    /// The first ready op, in the order of the ids (forwards) or against it, whose step costs at most `level`.
    pub(super) fn first_ready(&self, level: u64) -> Option<(OpId, Effect)> {
        let words = self.ready.len();
        for i in 0..words {
            let word = if self.direction == Direction::Forward { i } else { words - 1 - i };
            let mut ready = self.ready[word];
            while ready != 0 {
                let bit = match self.direction {
                    Direction::Forward => ready.trailing_zeros() as usize,
                    Direction::Backward => 63 - ready.leading_zeros() as usize,
                };
                ready &= !(1 << bit);
                let op = OpId::new(word * 64 + bit);
                let effect = self.effect(op);
                if effect.cost <= level {
                    return Some((op, effect));
                }
            }
        }
        None
    }

    pub(super) fn is_done(&self, op: OpId) -> bool {
        self.done[op.index() / 64] >> (op.index() % 64) & 1 == 1
    }

    pub(super) fn is_ready(&self, op: OpId) -> bool {
        self.ready[op.index() / 64] >> (op.index() % 64) & 1 == 1
    }

    /// The op that must still come before `op`, when it is just one.
    pub(super) fn only_wait(&self, op: OpId) -> Option<OpId> {
        if self.is_done(op) || self.waits[op.index()] != 1 {
            return None;
        }
        self.before(op).iter().copied().find(|op| !self.is_done(*op))
    }

    /// Appends the ready ops, in the order of their ids. O(n / 64 + ready ops).
    pub(super) fn ready_into(&self, list: &mut Vec<OpId>) {
        for (word, &ready) in self.ready.iter().enumerate() {
            bits(ready, |bit| list.push(OpId::new(word * 64 + bit)));
        }
    }

    /// Whether the storage would die with an op that touches it and is run next.
    fn would_die(&self, storage: StorageId) -> bool {
        let left = self.left[storage.index()];
        match self.direction {
            Direction::Forward => left == 1,
            Direction::Backward => left == count(self.instance.touchers(storage)),
        }
    }

    /// What running a ready op next would do. O(degree of the op).
    pub(super) fn effect(&self, op: OpId) -> Effect {
        let Sums { created, dead, kept: _, workspace } = self.instance.sums(op);
        let touched = self.instance.touches(op).iter();
        let dying = dead + touched.filter(|s| self.would_die(**s)).map(|s| self.instance.bytes(*s)).sum::<u64>();
        let (allocated, freed) = match self.direction {
            Direction::Forward => (created, dying),
            Direction::Backward => (dying, created),
        };
        let saved = self.instance.savable_bytes(op, |s| self.would_die(s));
        let is_first_step = match self.direction {
            Direction::Forward => self.n_done == 0,
            Direction::Backward => self.n_done + 1 == self.instance.n_ops(),
        };
        let need = allocated + workspace - saved;
        let unused = if is_first_step { self.instance.unused_bytes() } else { 0 };
        Effect { cost: self.live + need + unused, need, allocated, freed }
    }

    /// Runs a ready op. Ops that wait for few others now, and other ops whose effect may have changed, are appended to `changed`
    /// (they need not be ready).
    pub(super) fn run(&mut self, op: OpId, effect: Effect, changed: &mut Vec<OpId>) {
        self.live = self.live + effect.allocated - effect.freed;
        self.mark(op, |op| changed.push(op));
    }

    fn mark(&mut self, op: OpId, mut changed: impl FnMut(OpId)) {
        let (word, bit) = (op.index() / 64, 1u64 << (op.index() % 64));
        self.count_move(op);
        self.done[word] |= bit;
        self.ready[word] &= !bit;
        self.n_done += 1;
        for &next in self.behind(op) {
            let waits = &mut self.waits[next.index()];
            *waits -= 1;
            if *waits == 0 {
                let (word, bit) = (next.index() / 64, 1u64 << (next.index() % 64));
                self.ready[word] |= bit & !self.done[word];
            }
            if *waits <= MOST_LEADS {
                changed(next);
            }
        }
        let instance = self.instance;
        for &storage in instance.touches(op) {
            let s = storage.index();
            let touchers = instance.touchers(storage);
            if self.direction == Direction::Backward && self.left[s] == count(touchers) {
                let near = |t: &&OpId| self.waits[t.index()] <= MOST_LEADS && !self.is_done(**t);
                touchers.iter().filter(near).for_each(|t| changed(*t));
                self.moves += touchers.len() as u64 / 8;
                if let Some(hot) = &mut self.hot {
                    hot.enter(instance, storage);
                }
            }
            self.left[s] -= 1;
            self.left_ids[s] ^= raw(op);
            if self.direction == Direction::Forward && self.left[s] == 1 {
                changed(OpId::new(self.left_ids[s] as usize));
            }
        }
        if let (Direction::Forward, Some(hot)) = (self.direction, &mut self.hot) {
            hot.create(instance, op);
        }
    }

    /// Takes back the run of `op`, which was the last one; `live` is what was live before it.
    pub(super) fn undo(&mut self, op: OpId, live: u64) {
        self.live = live;
        self.unmark(op);
    }

    fn unmark(&mut self, op: OpId) {
        let (word, bit) = (op.index() / 64, 1u64 << (op.index() % 64));
        self.count_move(op);
        self.done[word] &= !bit;
        self.n_done -= 1;
        if self.waits[op.index()] == 0 {
            self.ready[word] |= bit;
        }
        for &next in self.behind(op) {
            self.waits[next.index()] += 1;
            self.ready[next.index() / 64] &= !(1 << (next.index() % 64));
        }
        let instance = self.instance;
        for &storage in instance.touches(op) {
            let s = storage.index();
            self.left[s] += 1;
            self.left_ids[s] ^= raw(op);
            if self.direction == Direction::Backward
                && self.left[s] == count(instance.touchers(storage))
                && let Some(hot) = &mut self.hot
            {
                hot.leave(instance, storage);
            }
        }
        if let (Direction::Forward, Some(hot)) = (self.direction, &mut self.hot) {
            hot.uncreate(instance, op);
        }
    }
}

/// Calls `with` for each bit that is set, from the lowest on.
pub(super) fn bits(mut word: u64, mut with: impl FnMut(usize)) {
    while word != 0 {
        with(word.trailing_zeros() as usize);
        word &= word - 1;
    }
}

fn raw(op: OpId) -> u32 {
    u32::try_from(op.index()).unwrap_or(u32::MAX)
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
