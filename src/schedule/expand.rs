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
//! **Late ops** are not chosen by themselves: they run right before an op that waits for them.
//!
//! - Forwards, an op that creates for others at least as many bytes as it touches, if every successor needs, above what
//!   is live, at least what the op touches, needs as workspace, and creates for nobody.
//! - Forwards, an op that creates at least as many bytes as it touches, needs no workspace and creates for nobody
//!   nothing, *while* each storage that it touches has another toucher to come that is never late.
//! - Backwards, an op at which surely as many bytes die as it creates, if every predecessor frees or needs at its own
//!   step at least what the op creates and needs as workspace.
//!
//! Proof: in any order, move the op right before the first successor t (forwards). Between its old place and its new
//! one it has not yet created its bytes, while storages that it touches may be live that were not; they are fewer. A
//! takeover that another op loses, because the late op still touches the operand, concerns bytes of that same sum. At
//! the new place its step costs no more than t's step: when t runs, its bytes are live, and t needs what the condition
//! says. The mirror image holds backwards: right after the last predecessor. An op of the second kind moves only up to
//! the first toucher r after which one of its operands has no other toucher that is never late, where it becomes an op
//! like others; right after r its step costs no more than r's step did, when its bytes were live beside the operand.
//! Before t the operands are live anyhow. Only ops that are never late count as other touchers: two late ops that wait
//! for each other to read an operand would wait for ever.
//!
//! **Level.** What no completion of the state can go below: the dearest step on the way to it, the forced-live bound of
//! a hot op that is still to run, or the proven bound of the instance. The rules run ops whose steps cost at most the
//! level: every completion has a peak of at least that, so nothing is lost.
//!
//! Complexity: O(w d + c) for w ready ops of degree d, and c ops that the rules run in all children together.

use super::walk::{Direction, Walk};
use crate::id::{OpId, StorageId};
use crate::memory::cut::{Network, Side};
use crate::memory::instance::Instance;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most ops of a chain that is run at once.
const CHAIN: usize = 8;

/// The most ops that are followed to find a segment that is not a chain.
const DIVE: usize = 256;

/// Which rules are in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Single ops that free at least what they allocate.
    pub(super) run_now: bool,
    /// Chains of ops.
    pub(super) chains: bool,
    /// Segments that are found by following the order of the ids.
    pub(super) dives: bool,
    /// Late ops.
    pub(super) late: bool,
    /// Not a rule of the expander: exact search completes ways by list scheduling now and then.
    pub(super) completions: bool,
}

impl Rules {
    pub(super) const ALL: Self = Self { run_now: true, chains: true, dives: true, late: true, completions: true };
}

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
    pub(super) rules: Rules,
    instance: &'i Instance,
    pub(super) walk: Walk<'i>,
    ready: Vec<OpId>,
    /// What the rules would run from the state but for its cost: what it needs above the live bytes, least first.
    blocked: Vec<(u64, OpId)>,
    /// How many of them the child looks at again so far.
    unblocked: usize,
    /// The same for what the child met.
    waiting: BinaryHeap<Reverse<(u64, OpId)>>,
    maybe: Vec<OpId>,
    child: Child,
    late: Vec<Late>,
    leads: Vec<OpId>,
    choices: Vec<OpId>,
}

/// A key of the op for hashes of sets (the finalizer of SplitMix64).
fn key(op: OpId) -> u64 {
    let mut x = (op.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl<'i> Expander<'i> {
    pub(super) fn new(instance: &'i Instance, direction: Direction, hot: Vec<OpId>, rules: Rules) -> Self {
        let late = |op| if rules.late { Late::of(instance, direction, op) } else { Late::Never };
        Self {
            rules,
            instance,
            walk: Walk::with_hot(instance, direction, hot),
            ready: Vec::new(),
            blocked: Vec::new(),
            unblocked: 0,
            waiting: BinaryHeap::new(),
            maybe: Vec::new(),
            child: Child::default(),
            late: instance.ops().map(late).collect(),
            leads: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// The first state: nothing has run but what the rules run at once.
    pub(super) fn start(&mut self, bound: u64) -> Child {
        self.walk.reset();
        let mut child = Child { level: bound.max(self.walk.ends_bytes()), ..Child::default() };
        self.blocked.clear();
        self.maybe.clear();
        self.walk.ready_into(&mut self.maybe);
        self.run_safe(&mut child);
        child
    }

    /// Goes to a state and runs what the rules run there at its level: the child that stands for it, if they run
    /// anything, and the work it took. `again` says that the level has risen since the state was made.
    pub(super) fn close(&mut self, place: Place<'_>, again: bool) -> (Option<Child>, u64) {
        let moves = self.walk.moves();
        self.walk.load(place.set, place.live);
        let mut child =
            Child { cost: place.cost, level: place.level, hash: place.hash, ops: Vec::new(), undo: Vec::new() };
        self.blocked.clear();
        self.maybe.clear();
        let mut work = place.set.len() as u64 / 4;
        if again {
            self.walk.ready_into(&mut self.maybe);
            work += self.maybe.len() as u64;
            self.run_safe(&mut child);
        }
        while self.rules.dives && !self.walk.is_complete() && self.dive(&mut child, &mut work) {
            self.run_safe(&mut child);
        }
        work += self.walk.moves() - moves;
        (if child.ops.is_empty() { None } else { Some(child) }, work)
    }

    /// Follows the order of the ids from here until no more bytes are live than here, and commits what it passed up to
    /// the state with the fewest live bytes of all between; whether it committed anything.
    fn dive(&mut self, child: &mut Child, work: &mut u64) -> bool {
        if self.walk.n_done() == 0 && self.instance.unused_bytes() > 0 {
            // Then it matters which op is the first.
            return false;
        }
        let live = self.walk.live();
        let before = (child.ops.len(), child.cost, child.hash);
        self.maybe.clear();
        while let Some((op, effect)) = self.walk.first_ready(child.level) {
            child.ops.push(op);
            child.undo.push(self.walk.live());
            self.walk.run(op, effect, &mut self.maybe);
            if self.walk.live() <= live || child.ops.len() - before.0 == DIVE {
                break;
            }
        }
        let found = self.walk.live() <= live && child.ops.len() > before.0;
        let mut ops = child.ops.split_off(before.0);
        for (op, live) in ops.iter().zip(child.undo.drain(before.0..)).rev() {
            self.walk.undo(*op, live);
        }
        if !found {
            return false;
        }
        let direction = self.walk.direction();
        let mut in_time = direction.in_time(ops.clone());
        let mut places: hashbrown::HashMap<OpId, u32> = hashbrown::HashMap::new();
        for (place, op) in (0..).zip(&in_time) {
            places.insert(*op, place);
        }
        let here = |op: OpId| places.get(&op).copied();
        let lives_on = |s| self.walk.lives_on(s, |op| places.contains_key(&op));
        // The bytes live at the stretch's start do not matter here, so long as they are enough.
        let part = self.instance.stretch(&in_time, here, lives_on, u64::MAX / 2, 0);
        let side = if direction == Direction::Forward { Side::Most } else { Side::Least };
        let Some(cut) = Network::whole(&part).flow(&part, side, |spent| {
            *work += spent;
            true
        }) else {
            return false;
        };
        let mut place = 0;
        in_time.retain(|_| {
            place += 1;
            cut.done[place - 1] == (direction == Direction::Forward)
        });
        ops.clear();
        if direction == Direction::Backward {
            in_time.reverse();
        }
        self.maybe.clear();
        for op in in_time {
            let effect = self.walk.effect(op);
            debug_assert!(effect.cost <= child.level, "moving a least state to the front made a step dearer");
            child.cost = child.cost.max(effect.cost);
            child.hash ^= key(op);
            child.ops.push(op);
            child.undo.push(self.walk.live());
            self.walk.run(op, effect, &mut self.maybe);
        }
        child.level = child.level.max(self.walk.forced_bytes());
        child.ops.len() > before.0
    }

    /// Calls `keep` for each child of a state by an op whose step costs more than `above` and at most `most`; the least
    /// cost of an op above that, and the work it took.
    ///
    /// `keep` says below what level children are still of use.
    pub(super) fn children(
        &mut self,
        place: Place<'_>,
        above: Option<u64>,
        most: u64,
        mut keep: impl FnMut(&Walk<'_>, &Child) -> u64,
    ) -> (u64, u64) {
        let moves = self.walk.moves();
        self.walk.load(place.set, place.live);
        self.ready.clear();
        self.walk.ready_into(&mut self.ready);
        let mut work = (place.set.len() / 4 + self.ready.len()) as u64;
        let mut next = u64::MAX;
        let mut child = std::mem::take(&mut self.child);
        self.choose();
        self.blocked.clear();
        let mut blocked_are_known = false;
        let mut limit = u64::MAX;
        let mut i = 0;
        while i < self.choices.len() {
            child.cost = place.cost;
            child.level = most;
            child.hash = place.hash;
            self.maybe.clear();
            let ran = self.run_with_leads(&mut child, self.choices[i]);
            let cost = ran.unwrap_or_else(|cost| cost);
            if ran.is_err() {
                next = next.min(cost);
            } else if above.is_none_or(|above| cost > above) {
                child.level = place.level.max(cost);
                let room = self.run_safe(&mut child);
                if room > place.level - place.live && !blocked_are_known {
                    // What was too dear in the state itself may be so no longer.
                    self.take_back(&mut child, 0);
                    self.find_blocked(place, &mut child);
                    blocked_are_known = true;
                    continue;
                }
                work += place.set.len() as u64 / 4;
                if child.level < limit {
                    limit = keep(&self.walk, &child).min(limit);
                }
            }
            self.take_back(&mut child, 0);
            i += 1;
        }
        self.child = child;
        (next, work + self.walk.moves() - moves)
    }

    /// Lists what the rules would run from this state but for its cost.
    fn find_blocked(&mut self, place: Place<'_>, child: &mut Child) {
        child.level = place.level;
        for i in 0..self.choices.len() {
            if let Ran::TooDear { need } = self.run_if_safe(child, self.choices[i]) {
                self.blocked.push((need, self.choices[i]));
            }
            self.take_back(child, 0);
        }
        self.blocked.sort_unstable();
    }

    /// Lists what may be run next: ready ops that are not late, and ops that wait for ready late ops only.
    fn choose(&mut self) {
        self.choices.clear();
        for i in 0..self.ready.len() {
            let op = self.ready[i];
            if self.is_late(op) {
                for &next in self.walk.behind(op) {
                    if self.walk.before(next).iter().find(|op| !self.walk.is_done(**op)) == Some(&op)
                        && self.find_leads(next)
                    {
                        self.choices.push(next);
                    }
                }
            } else {
                self.choices.push(op);
            }
        }
    }

    /// Whether a ready op is late in this state.
    fn is_late(&self, op: OpId) -> bool {
        let keeps = |s: &StorageId| {
            let mut others = self.instance.touchers(*s).iter();
            others.any(|t| *t != op && self.late[t.index()] == Late::Never && !self.walk.is_done(*t))
        };
        match self.late[op.index()] {
            Late::Never => false,
            Late::Always => true,
            Late::WhileOthersRead => self.instance.touches(op).iter().all(keeps),
        }
    }

    /// Whether an op that is not done waits for ready late ops only; these are in `leads` then.
    fn find_leads(&mut self, op: OpId) -> bool {
        self.leads.clear();
        if self.walk.is_done(op) {
            return false;
        }
        for &before in self.walk.before(op) {
            if !self.walk.is_done(before) {
                if !self.walk.is_ready(before) || !self.is_late(before) {
                    return false;
                }
                self.leads.push(before);
            }
        }
        true
    }

    /// Runs the late ops that `op` waits for, and `op`: the cost of the dearest step, or of the first above the level.
    fn run_with_leads(&mut self, child: &mut Child, op: OpId) -> Result<u64, u64> {
        if !self.find_leads(op) {
            debug_assert!(false, "{op} cannot run");
            return Err(u64::MAX);
        }
        self.leads.push(op);
        let mut dearest = 0;
        for i in 0..self.leads.len() {
            let op = self.leads[i];
            let effect = self.walk.effect(op);
            if effect.cost > child.level {
                return Err(effect.cost);
            }
            dearest = dearest.max(effect.cost);
            child.cost = child.cost.max(effect.cost);
            child.hash ^= key(op);
            child.ops.push(op);
            child.undo.push(self.walk.live());
            self.walk.run(op, effect, &mut self.maybe);
        }
        Ok(dearest)
    }

    /// Takes back all but the first `keep` ops of the child.
    fn take_back(&mut self, child: &mut Child, keep: usize) {
        while child.ops.len() > keep
            && let (Some(op), Some(live)) = (child.ops.pop(), child.undo.pop())
        {
            self.walk.undo(op, live);
        }
    }

    /// Runs what the rules allow; only `maybe`, what is blocked, and what the ops that run change, can have become free.
    /// The most that the level ever was above the live bytes.
    fn run_safe(&mut self, child: &mut Child) -> u64 {
        self.unblocked = 0;
        self.waiting.clear();
        child.level = child.level.max(self.walk.forced_bytes());
        let mut room = 0;
        loop {
            room = room.max(child.level.saturating_sub(self.walk.live()));
            let Some(mut op) = self.maybe.pop().or_else(|| self.next_unblocked(child.level)) else { return room };
            // An op that is not ready can have changed the chain that leads to it.
            let mut steps = 0;
            while let Some(before) = self.walk.only_wait(op) {
                op = before;
                steps += 1;
                if steps == CHAIN {
                    break;
                }
            }
            if self.find_leads(op) {
                match self.run_if_safe(child, op) {
                    Ran::All => child.level = child.level.max(self.walk.forced_bytes()),
                    Ran::TooDear { need } => self.waiting.push(Reverse((need, op))),
                    Ran::Nothing => {}
                }
            }
        }
    }

    /// What was too dear and is no longer: live bytes have fallen, or the level has risen.
    fn next_unblocked(&mut self, level: u64) -> Option<OpId> {
        let room = level.saturating_sub(self.walk.live());
        if let Some((need, op)) = self.blocked.get(self.unblocked)
            && *need <= room
        {
            self.unblocked += 1;
            return Some(*op);
        }
        let Reverse((need, op)) = self.waiting.pop()?;
        if need <= room {
            return Some(op);
        }
        self.waiting.push(Reverse((need, op)));
        None
    }

    /// Runs a ready op, or the chain that starts with it, if that is safe.
    fn run_if_safe(&mut self, child: &mut Child, op: OpId) -> Ran {
        let Rules { run_now, chains, .. } = self.rules;
        if !run_now {
            return Ran::Nothing;
        }
        let before = (child.ops.len(), child.cost, child.hash, self.maybe.len());
        let live = self.walk.live();
        let mut next = Some(op);
        let mut ran = Ran::Nothing;
        while let Some(op) = next {
            if let Err(cost) = self.run_with_leads(child, op) {
                ran = Ran::TooDear { need: cost.saturating_sub(live) };
                break;
            }
            if self.walk.live() <= live {
                return Ran::All;
            }
            if !chains || child.ops.len() - before.0 >= CHAIN {
                break;
            }
            let mut best = None;
            for &op in self.walk.behind(op) {
                if self.find_leads(op) {
                    let effect = self.walk.effect(op);
                    let gain = i128::from(effect.freed) - i128::from(effect.allocated);
                    best = best.max(Some((gain, std::cmp::Reverse(op))));
                }
            }
            next = best.map(|(_, std::cmp::Reverse(op))| op);
        }
        self.take_back(child, before.0);
        (child.cost, child.hash) = (before.1, before.2);
        self.maybe.truncate(before.3);
        ran
    }
}

/// When the late rule of the module doc holds for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    Never,
    Always,
    /// While each storage that it touches has another toucher to come that is never late.
    WhileOthersRead,
}

impl Late {
    fn of(instance: &Instance, direction: Direction, op: OpId) -> Self {
        if instance.unused_bytes() > 0 {
            // Then it matters which op is the first.
            return Self::Never;
        }
        let bytes = |list: &[StorageId]| list.iter().map(|s| instance.bytes(*s)).sum::<u64>();
        // What dies at the op in every order, and what the op can save.
        let surely_dies = |op: OpId| {
            let mine = instance.touches(op).iter().filter(|s| instance.touchers(**s) == [op]);
            mine.map(|s| instance.bytes(*s)).sum::<u64>()
        };
        let saves = |op: OpId| instance.savable_bytes(op, |_| true);
        let sums = instance.sums(op);
        match direction {
            Direction::Forward => {
                let touched = bytes(instance.touches(op));
                if sums.created - sums.dead < touched || instance.successors(op).is_empty() {
                    return Self::Never;
                }
                let least = touched + sums.dead + sums.workspace;
                let needs = |next: &OpId| {
                    let sums = instance.sums(*next);
                    sums.created + sums.workspace >= least + saves(*next)
                };
                if least == 0 || instance.successors(op).iter().all(needs) {
                    return Self::Always;
                }
                let may_be_taken = |s: &StorageId| {
                    let mut touchers = instance.touchers(*s).iter();
                    touchers.any(|t| *t != op && instance.pairs(*t).iter().any(|pair| pair.from == *s))
                };
                if sums.dead + sums.workspace == 0 && !instance.touches(op).iter().any(may_be_taken) {
                    Self::WhileOthersRead
                } else {
                    Self::Never
                }
            }
            Direction::Backward => {
                let least = sums.created + sums.workspace;
                let frees = |before: &OpId| {
                    let sums = instance.sums(*before);
                    sums.workspace + sums.dead + surely_dies(*before).saturating_sub(saves(*before)) >= least
                };
                let late = surely_dies(op) >= sums.created
                    && !instance.predecessors(op).is_empty()
                    && (least == 0 || instance.predecessors(op).iter().all(frees));
                if late { Self::Always } else { Self::Never }
            }
        }
    }
}

/// What became of an attempt to run an op or the chain that starts with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    /// It was safe and is done.
    All,
    /// A step would need so many bytes above those live that it costs more than the level.
    TooDear { need: u64 },
    /// It does not end with fewer live bytes.
    Nothing,
}
