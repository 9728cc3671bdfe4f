//! Forced-live bounds of a few ops, kept up to date while a search goes from state to state.
//!
//! Let S be the ops that a search has placed so far and o an op that it has not. Whatever comes next, while o runs
//! these storages are live: those that o's forced-live bound counts (see `memory/bound`), and
//!
//! - forwards, those made in S that o or a descendant of o touches, or that are kept to the end;
//! - backwards, those that are given or made by an ancestor of o, and that an op of S touches.
//!
//! So each op o has a bound that starts at its forced-live bound and grows as storages *enter*: forwards with the op
//! that creates them, backwards with the first op that touches them. A storage bears one bit for each of up to 64 hot
//! ops whose bound it raises when it enters.
//!
//! **In place** the forced-live bound already leaves out what o could save. A storage that o may take over has no
//! toucher below o, and what enters forwards is touched below o or kept; backwards a storage that enters and that o
//! touches is counted already. So nothing that enters could be saved.
//!
//! Complexity: O(n + m) to set up, O(bits) for each storage that enters or leaves, O(64) to read.

use super::walk::{Direction, bits};
use crate::id::{OpId, StorageId};
use crate::memory::bound::{Cones, forced_live_bytes};
use crate::memory::instance::Instance;

/// See the module doc.
#[derive(Clone, Debug)]
pub(super) struct Hot {
    ops: Vec<OpId>,
    start: Vec<u64>,
    now: Vec<u64>,
    /// For each storage the hot ops whose bound it raises when it enters.
    raises: Vec<u64>,
    /// For each op the hot ops whose bound its kept bytes raise; forwards only.
    kept_raises: Vec<u64>,
}

impl Hot {
    /// The most ops that one can hold.
    pub(super) const MOST: usize = 64;

    pub(super) fn new(instance: &Instance, direction: Direction, mut ops: Vec<OpId>) -> Self {
        ops.truncate(Self::MOST);
        let cones = Cones::new(instance, &ops);
        let start = forced_live_bytes(instance, &ops, &cones);
        let below = |s: StorageId| instance.touchers(s).iter().fold(0, |mask, t| mask | cones.descendants[t.index()]);
        let raises = instance.storages().map(|s| match (direction, instance.creator(s)) {
            (Direction::Forward, None) => 0,
            (Direction::Forward, Some(creator)) => below(s) & !cones.ancestors[creator.index()],
            (Direction::Backward, None) => !below(s),
            (Direction::Backward, Some(creator)) => cones.ancestors[creator.index()] & !below(s),
        });
        let kept_raises = instance.ops().map(|op| match direction {
            Direction::Forward => !cones.ancestors[op.index()],
            Direction::Backward => 0,
        });
        let all = if ops.len() == 64 { u64::MAX } else { (1 << ops.len()) - 1 };
        Self {
            raises: raises.map(|mask| mask & all).collect(),
            kept_raises: kept_raises.map(|mask| mask & all).collect(),
            now: start.clone(),
            start,
            ops,
        }
    }

    pub(super) fn reset(&mut self) {
        self.now.clone_from(&self.start);
    }

    /// The best bound of an op that is not done.
    pub(super) fn bytes(&self, is_done: impl Fn(OpId) -> bool) -> u64 {
        self.ops.iter().zip(&self.now).filter(|(op, _)| !is_done(**op)).map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// Backwards: the first op that touches the storage was placed.
    pub(super) fn enter(&mut self, instance: &Instance, storage: StorageId) {
        let bytes = instance.bytes(storage);
        bits(self.raises[storage.index()], |hot| self.now[hot] += bytes);
    }

    /// Takes [`enter`](Self::enter) back.
    pub(super) fn leave(&mut self, instance: &Instance, storage: StorageId) {
        let bytes = instance.bytes(storage);
        bits(self.raises[storage.index()], |hot| self.now[hot] -= bytes);
    }

    /// Forwards: the op was placed, and so what it creates enters.
    pub(super) fn create(&mut self, instance: &Instance, op: OpId) {
        instance.creates(op).iter().for_each(|s| self.enter(instance, *s));
        match instance.sums(op).kept {
            0 => {}
            kept => bits(self.kept_raises[op.index()], |hot| self.now[hot] += kept),
        }
    }

    /// Takes [`create`](Self::create) back.
    pub(super) fn uncreate(&mut self, instance: &Instance, op: OpId) {
        instance.creates(op).iter().for_each(|s| self.leave(instance, *s));
        match instance.sums(op).kept {
            0 => {}
            kept => bits(self.kept_raises[op.index()], |hot| self.now[hot] -= kept),
        }
    }
}
