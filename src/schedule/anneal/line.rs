//! An order in a row of slots, with its profile in a segment tree.
//!
//! **Slots.** There are more slots than ops, and the free ones lie between the ops. An op that goes elsewhere leaves
//! its slot free and takes one that is free; where none is, the ops from there to the nearest free slot move up by one.
//! The slot that the op leaves is free too, so that never more ops move than lie between the two places, and mostly
//! none.
//!
//! **What changes.** A leaf of the tree depends on the op in its slot, and on which storages die with it. So a leaf is
//! computed anew when an op has come to its slot or left it, and when its op has become the last toucher of a storage
//! or ceased to be: that can happen only for storages that a moved op touches, to that op, the last toucher before, and
//! the last toucher after. Takeovers in place hang on the same deaths. What is live at the first step only is in the
//! leaf of the op that comes first.
//!
//! **Invariants.** The order is topological. `last` is the last toucher of each storage. The leaves are those of the
//! order. A move that is taken back leaves no trace.

use super::tree::{Span, Tree};
use crate::id::{OpId, StorageId};
use crate::memory::instance::{Instance, Sums};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Stands for "no op" in a slot.
const FREE: u32 = u32::MAX;

/// A run of ops that move together, and where they may go.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// In their order.
    pub(super) ops: Vec<OpId>,
    /// The slots of the first and the last of them.
    pub(super) first: usize,
    pub(super) last: usize,
    /// The first and the last slot that they may go to.
    pub(super) low: usize,
    pub(super) high: usize,
}

/// See the module doc.
#[derive(Clone, Debug)]
pub(super) struct Line<'i> {
    instance: &'i Instance,
    slots: Vec<u32>,
    /// The slot of each op.
    place: Vec<u32>,
    /// For each storage the op that touches it last.
    last: Vec<OpId>,
    tree: Tree,
    /// The op that comes first.
    first: OpId,
    /// Bytes live before the first step.
    start: i64,
    /// Slots and last touchers that were written since the last `commit`, with what they were.
    slot_log: Vec<(u32, u32)>,
    last_log: Vec<(StorageId, OpId)>,
    first_log: OpId,
    /// Slots whose leaf may have changed.
    stale: Vec<u32>,
    leaves: Vec<(u32, Span)>,
    /// What was done, in work units.
    work: u64,
}

impl<'i> Line<'i> {
    /// A valid order of at least one op; `unit` is that of the tree. O(n + m).
    pub(super) fn new(instance: &'i Instance, order: &[OpId], unit: f64) -> Self {
        let n = order.len();
        let n_slots = (n + n / 4).next_power_of_two();
        let mut slots = vec![FREE; n_slots];
        let mut place = vec![0; n];
        for (i, op) in order.iter().enumerate() {
            let at = i * n_slots / n;
            slots[at] = raw(op.index());
            place[op.index()] = raw(at);
        }
        let last_of = |s: StorageId| last_toucher(instance, &place, s);
        let mut line = Self {
            instance,
            last: instance.storages().map(last_of).collect(),
            slots,
            place,
            tree: Tree::new(n_slots, unit),
            first: order[0],
            start: signed(instance.start_bytes()),
            slot_log: Vec::new(),
            last_log: Vec::new(),
            first_log: order[0],
            stale: Vec::new(),
            leaves: Vec::new(),
            work: (n + instance.n_storages()) as u64,
        };
        let mut tree = std::mem::replace(&mut line.tree, Tree::new(1, unit));
        tree.fill((0..n_slots).map(|at| line.leaf(at)));
        line.tree = tree;
        line
    }

    fn leaf(&self, at: usize) -> Span {
        let Some(op) = self.op_at(at) else { return Span::EMPTY };
        let dies = |s: StorageId| self.last[s.index()] == op;
        let Sums { created, dead, kept: _, workspace } = self.instance.sums(op);
        let dying = self.instance.touches(op).iter().filter(|s| dies(**s));
        let freed = dead + dying.map(|s| self.instance.bytes(*s)).sum::<u64>();
        let extra = if op == self.first { self.instance.unused_bytes() } else { 0 };
        let need = created + workspace + extra - self.instance.savable_bytes(op, dies);
        Span::step(signed(created) - signed(freed), signed(need))
    }

    fn op_at(&self, at: usize) -> Option<OpId> {
        match self.slots[at] {
            FREE => None,
            op => Some(OpId::new(op as usize)),
        }
    }

    /// The ops in their order.
    pub(super) fn order(&self) -> Vec<OpId> {
        (0..self.slots.len()).filter_map(|at| self.op_at(at)).collect()
    }

    pub(super) fn n_slots(&self) -> usize {
        self.slots.len()
    }

    /// The cost of the dearest step.
    pub(super) fn peak(&self) -> i64 {
        self.start + self.tree.root().peak
    }

    /// How many steps are about as dear as the dearest; see the tree.
    pub(super) fn weight(&self) -> f64 {
        self.tree.root().weight
    }

    /// The unit of the tree, in bytes.
    pub(super) fn unit(&self) -> f64 {
        self.tree.unit()
    }

    /// Work units since the last call.
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// The slot of a step, dear ones with more chance.
    pub(super) fn draw_dear(&mut self, rng: &mut Xoshiro256PlusPlus) -> usize {
        self.work += u64::from(self.slots.len().ilog2()) / 3;
        self.tree.draw(rng)
    }

    /// Finds up to `length` ops that stand in a row, from slot `at` on, and the slots that they may go to. Their cost
    /// is that of their degree.
    pub(super) fn block(&mut self, at: usize, length: usize, block: &mut Block) {
        block.ops.clear();
        let occupied = (at..self.slots.len()).chain(0..at).filter_map(|at| Some((at, self.op_at(at)?)));
        for (at, op) in occupied.take(length) {
            if block.ops.is_empty() {
                block.first = at;
            } else if at < block.first {
                break;
            }
            block.last = at;
            block.ops.push(op);
        }
        (block.low, block.high) = (0, self.slots.len() - 1);
        for &op in &block.ops {
            let places = |ops: &'i [OpId]| ops.iter().map(|op| self.place[op.index()] as usize);
            let (before, behind) = (self.instance.predecessors(op), self.instance.successors(op));
            let low = places(before).filter(|at| *at < block.first).max();
            block.low = block.low.max(low.map_or(0, |at| at + 1));
            let high = places(behind).filter(|at| *at > block.last).min();
            block.high = block.high.min(high.map_or(block.high, |at| at - 1));
            self.work += 1 + (before.len() + behind.len()) as u64 / 4;
        }
    }

    /// Moves a block to slot `to`, within `low..=high` and outside `first..=last`.
    pub(super) fn shift(&mut self, block: &Block, to: usize) {
        debug_assert!((block.low..=block.high).contains(&to) && !(block.first..=block.last).contains(&to));
        for op in &block.ops {
            self.put(self.place[op.index()] as usize, FREE);
        }
        let mut previous = None;
        for op in &block.ops {
            let at = match previous {
                None => self.make_room(to),
                Some(previous) => self.make_room_behind(previous),
            };
            self.put(at, raw(op.index()));
            previous = Some(at);
        }
        for &op in &block.ops {
            self.touch_anew(op, to < block.first);
        }
        self.refresh();
    }

    fn put(&mut self, at: usize, op: u32) {
        self.slot_log.push((raw(at), self.slots[at]));
        self.stale.push(raw(at));
        self.slots[at] = op;
        if let Some(place) = self.place.get_mut(op as usize) {
            *place = raw(at);
        }
    }

    /// Frees a slot: its op, if it holds one, moves up or down.
    fn make_room(&mut self, at: usize) -> usize {
        self.free_either(at, at)
    }

    /// Frees a slot right behind the op of slot `at`, which may move down itself.
    fn make_room_behind(&mut self, at: usize) -> usize {
        self.free_either(at, at + 1)
    }

    /// Frees slot `high` by moving ops up, or slot `low` by moving ops down, whichever moves fewer.
    fn free_either(&mut self, low: usize, high: usize) -> usize {
        let n = self.slots.len();
        for distance in 0..n {
            let up = high + distance;
            if up < n && self.slots[up] == FREE {
                for at in (high..up).rev() {
                    self.put(at + 1, self.slots[at]);
                }
                self.work += distance as u64 / 4;
                return high;
            }
            if let Some(down) = low.checked_sub(distance)
                && self.slots[down] == FREE
            {
                for at in down..low {
                    self.put(at, self.slots[at + 1]);
                }
                self.work += distance as u64 / 4;
                return low;
            }
        }
        debug_assert!(false, "a slot is always free");
        low
    }

    /// Sets right who touches the storages of a moved op last.
    fn touch_anew(&mut self, op: OpId, moved_down: bool) {
        let touches = self.instance.touches(op);
        self.work += touches.len() as u64 / 2;
        for &storage in touches {
            let old = self.last[storage.index()];
            let new = if old != op {
                let is_later = self.place[op.index()] > self.place[old.index()];
                if is_later { op } else { old }
            } else if moved_down {
                self.work += self.instance.touchers(storage).len() as u64 / 4;
                last_toucher(self.instance, &self.place, storage)
            } else {
                old
            };
            if new != old {
                self.last_log.push((storage, old));
                self.last[storage.index()] = new;
                self.stale.extend([old, new].map(|op| self.place[op.index()]));
            }
        }
    }

    fn refresh(&mut self) {
        if self.instance.unused_bytes() > 0 {
            let first = self.slots.iter().find(|op| **op != FREE).map_or(self.first, |op| OpId::new(*op as usize));
            if first != self.first {
                self.stale.extend([self.first, first].map(|op| self.place[op.index()]));
                self.first = first;
            }
        }
        self.stale.sort_unstable();
        self.stale.dedup();
        let mut leaves = std::mem::take(&mut self.leaves);
        leaves.extend(self.stale.iter().map(|at| (*at, self.leaf(*at as usize))));
        self.stale.clear();
        self.work += 1 + self.tree.set(&mut leaves) as u64 / 3;
        self.leaves = leaves;
    }

    /// Keeps the moves since the last call.
    pub(super) fn commit(&mut self) {
        self.slot_log.clear();
        self.last_log.clear();
        self.first_log = self.first;
        self.tree.commit();
    }

    /// That the invariants of the module doc hold, as far as the evaluator can tell.
    #[cfg(test)]
    pub(super) fn assert_true(&self) {
        let order = self.order();
        let mut seen = vec![false; self.place.len()];
        let mut live = self.start;
        let mut costs = Vec::new();
        for at in (0..self.slots.len()).filter(|at| self.slots[*at] != FREE) {
            let op = OpId::new(self.slots[at] as usize);
            assert!(self.instance.predecessors(op).iter().all(|before| seen[before.index()]), "{op} comes too early");
            assert!(!std::mem::replace(&mut seen[op.index()], true), "{op} runs twice");
            let leaf = self.tree.leaf(at);
            costs.push(u64::try_from(live + leaf.peak).expect("a cost"));
            live += leaf.growth;
        }
        assert_eq!(costs, self.instance.step_costs(&order));
        assert_eq!(self.peak(), costs.iter().copied().max().map_or(0, signed));
        let mut tree = Tree::new(self.slots.len(), self.tree.unit());
        tree.fill((0..self.slots.len()).map(|at| self.leaf(at)));
        assert_eq!(tree.nodes(), self.tree.nodes());
    }

    /// That nothing tells the one from the other.
    #[cfg(test)]
    pub(super) fn assert_same(&self, other: &Self) {
        assert_eq!(self.slots, other.slots);
        assert_eq!(self.place, other.place);
        assert_eq!(self.last, other.last);
        assert_eq!(self.first, other.first);
        assert_eq!(self.tree.nodes(), other.tree.nodes());
    }

    /// Takes back the moves since the last `commit`.
    pub(super) fn undo(&mut self) {
        while let Some((at, op)) = self.slot_log.pop() {
            self.slots[at as usize] = op;
            if let Some(place) = self.place.get_mut(op as usize) {
                *place = at;
            }
        }
        while let Some((storage, op)) = self.last_log.pop() {
            self.last[storage.index()] = op;
        }
        self.first = self.first_log;
        self.tree.undo();
    }
}

fn last_toucher(instance: &Instance, place: &[u32], storage: StorageId) -> OpId {
    let touchers = instance.touchers(storage).iter().copied();
    touchers.max_by_key(|op| place[op.index()]).unwrap_or(OpId::new(usize::MAX))
}

fn raw(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(FREE)
}

/// Annealing is not begun where this could saturate.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
