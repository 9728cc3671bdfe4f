//! Niche search: which item stands on the floor of this section?
//!
//! **Problem.** Place the items of a part under a capacity, or prove that it cannot be done. No item has an alignment.
//!
//! **State.** Some items are placed. Every section has a *floor*: what is still to be placed there lies above it. Every
//! item has a *least offset*, the greatest floor of its sections. See `state` for what follows from them.
//!
//! **Branching.** Take a stretch of sections with one floor whose neighbours are higher (a niche), and one section s of
//! it. Let h be its floor. The choices: for each unplaced item that covers s and has the least offset h, place it at h;
//! and, if s has bytes to lose, lift the floor of s to the next height at which an item of s can be supported.
//!
//! **Why that is complete.** Suppose that the state has a layout: offsets at or above the least offsets, disjoint where
//! items share a section, under the capacity. Lower items one by one while they meet neither others nor their least
//! offsets; the sum of the offsets falls, so this ends, and then every item lies at its least offset or on top of an
//! unplaced item that shares a section with it. Call i the lowest unplaced item at s.
//! 1. If i lies at h, then its least offset is h, and it is one of the choices. An item with least offset h lies within
//!    the niche, where no floor is above h; sections beside the niche are higher. All its sections have the floor h, so
//!    nothing unplaced lies below it, and what shares a section with it lies above it: the state after the choice has
//!    the layout.
//! 2. If i lies higher, it lies at its least offset, which is then above h; or on top of an item k. Item k does not
//!    cover s, since i is the lowest there. If the least offset of i is h, then k shares a section of the niche with i,
//!    and its top is at least its least offset + its size. So the offset of i is at least the smallest of (a) the least
//!    offsets above h of items of s, and (b) least offset + size of items that do not cover s but share a section with
//!    an item of s whose least offset is h. (An item of case (a) counts with its least offset, whatever it lies on.)
//!    That is the height to which the last choice lifts s: the state after it has the layout.
//!
//! The choices exclude one another (the lowest item of s, or none at h), so no state is searched in two ways from one
//! node. Of equal items one is tried.
//!
//! **Parts.** Where no unplaced item crosses from a section to the next, the two sides are independent goals. Each is
//! solved by itself; if one fails, so does the choice that made it, and no other goal is tried again.
//!
//! **Memo.** A goal is known by its unplaced items and their least offsets, since its floors follow from them. Goals
//! that failed are remembered by a hash of 128 bits; what failed fails in whatever order it was reached, so all
//! restarts share the memo. (Two of a million goals have one hash with a chance below 10⁻²⁵.)
//!
//! **Order.** Which section: see [`Taste`]. Which item first: by the largest load of its sections, then by width, then by
//! area. Times to a solution are heavy-tailed, so the search restarts after 500 nodes times the sequence of M. Luby,
//! A. Sinclair, D. Zuckerman, "Optimal speedup of Las Vegas algorithms", 1993; all but the first two runs shake the order of
//! items, and every third weighs sections by how often they failed.
//!
//! **Complexity.** Exponential. A node takes O(u + s w) time for u unplaced items and s sections of a goal, with w
//! words of 64 items to a section. Space O(n s / 64) bits, and the memo: at most 2²⁰ goals.
//!
//! **Determinism.** Everything random comes from the seed; budgets are counted in nodes and work.
//!
//! **Source.** The tree search over sections with least offsets goes back to M. Moffitt, "MiniMalloc", ASPLOS 2023;
//! branching on what fills a lowest place is known from perfect packing of rectangles (R. Korf, "Optimal rectangle
//! packing: new results", ICAPS 2004). The choice by niches, the lift to supported heights and the memo that ignores
//! order are ours.
//!
//! **Limits.** It proves that nothing fits only where the search is small.

mod state;
mod taste;

use super::part::Part;
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use state::{Full, State, u32_of};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use taste::{Score, Taste, Tie};

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The offset of each item.
    Placed(Vec<u64>),
    /// No layout fits.
    Impossible,
    /// The budget is spent.
    Unknown,
}

/// Nodes of the shortest run.
const RESTART: u64 = 500;
/// How far an item may be shaken up the order, as a share of all items.
const NOISE: f64 = 0.3;
/// The most goals remembered.
const MEMO: usize = 1 << 20;
/// How much heavier a section becomes when it fails.
const WEIGHT: f64 = 0.05;

/// The hash of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key(u64, u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0);
    }
}

/// Keys are hashes already.
#[derive(Debug, Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

const NONE: u32 = u32::MAX;

/// A stretch of sections to be filled.
#[derive(Clone, Copy, Debug)]
struct Goal {
    first: u32,
    end: u32,
    /// The frame whose choice made the goal, or [`NONE`]; the choice fails when the goal does.
    parent: u32,
    /// The goal that is next when this one is filled, or [`NONE`].
    next: u32,
    key: Key,
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Place(u32),
    Lift(u32, u64),
}

/// A goal that is being filled.
#[derive(Clone, Copy, Debug)]
struct Frame {
    goal: u32,
    /// What to go back to before the next choice.
    mark: usize,
    n_goals: usize,
    /// Its choices in the list of all, and the next of them.
    choices: (usize, usize),
    next_choice: usize,
}

/// A search under one capacity, which can be run again and again.
#[derive(Debug)]
pub(super) struct Niche {
    state: State,
    memo: HashSet<Key, BuildHasherDefault<Ready>>,
    /// The load of each section at the start.
    totals: Vec<u64>,
    mean_bytes: f64,
    seed: u64,
    n_runs: u64,
    n_nodes: u64,
    taste: Taste,
    /// By item: larger is tried first.
    priority: Vec<f64>,
    /// By section: how often it failed.
    weight: Vec<f64>,
    /// By section: random values for ties.
    luck: Vec<f64>,
    frames: Vec<Frame>,
    goals: Vec<Goal>,
    choices: Vec<Choice>,
}

impl Niche {
    #[expect(clippy::cast_precision_loss, reason = "a rough measure")]
    pub(super) fn new(part: &Part, capacity: u64, seed: u64) -> Self {
        let bytes: f64 = part.items.iter().map(|item| item.bytes as f64).sum();
        Self {
            state: State::new(part, capacity),
            memo: HashSet::default(),
            totals: part.load.clone(),
            mean_bytes: bytes / part.items.len() as f64,
            seed,
            n_runs: 0,
            n_nodes: 0,
            taste: Taste::of_run(0, false),
            priority: vec![0.0; part.items.len()],
            weight: vec![1.0; part.n_sections()],
            luck: vec![1.0; part.n_sections()],
            frames: Vec::new(),
            goals: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// Looks for a layout in about `n_nodes` nodes.
    pub(super) fn run(&mut self, n_nodes: u64, search: &mut Search<'_>) -> Outcome {
        if self.totals.iter().any(|total| *total > self.state.capacity) {
            return Outcome::Impossible;
        }
        let end = self.n_nodes.saturating_add(n_nodes);
        loop {
            self.n_runs += 1;
            self.prioritise();
            let limit = self.n_nodes.saturating_add(RESTART * luby(self.n_runs)).min(end);
            let outcome = self.descend(limit, search);
            match outcome {
                Outcome::Placed(_) => return outcome,
                Outcome::Impossible => return outcome,
                Outcome::Unknown => self.state.undo(0),
            }
            if self.n_nodes >= end || search.stopped().is_some() {
                return Outcome::Unknown;
            }
        }
    }

    /// Sets the order of items and the taste of the present run.
    #[expect(clippy::cast_precision_loss, reason = "a rough measure")]
    fn prioritise(&mut self) {
        let turn = self.n_runs - 1;
        let is_loose = self.totals.iter().all(|total| *total < self.state.capacity);
        self.taste = Taste::of_run(turn, is_loose);
        let mut random =
            Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(1).wrapping_mul(0x9E37_79B9).wrapping_add(turn));
        let is_first = turn < 2;
        if !is_first {
            self.luck.iter_mut().for_each(|luck| *luck = random.random());
        }
        let is_weighted = self.n_runs.is_multiple_of(3);
        let n = self.state.pieces.len();
        let mut keyed: Vec<([f64; 3], usize)> = Vec::with_capacity(n);
        for (i, piece) in self.state.pieces.iter().enumerate() {
            let sections = piece.left as usize..piece.right as usize;
            let width = f64::from(piece.right - piece.left);
            let total = |s: usize| self.totals[s] as f64 * if is_weighted { self.weight[s] } else { 1.0 };
            keyed.push(([sections.map(total).fold(0.0, f64::max), width, width * piece.bytes as f64], i));
        }
        keyed.sort_by(|(a, i), (b, j)| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal).then(i.cmp(j)));
        for (rank, (_, i)) in keyed.into_iter().enumerate() {
            let noise = if is_first { 0.0 } else { NOISE * random.random::<f64>() };
            self.priority[i] = noise - rank as f64 / n as f64;
        }
    }

    /// One run from the start. After [`Outcome::Unknown`] the state must be undone.
    fn descend(&mut self, limit: u64, search: &mut Search<'_>) -> Outcome {
        self.frames.clear();
        self.goals.clear();
        self.choices.clear();
        let Ok(mut agenda) = self.split((0, u32_of(self.state.n_sections())), NONE, NONE) else {
            return Outcome::Impossible;
        };
        while agenda != NONE {
            self.n_nodes += 1;
            if self.n_nodes >= limit || !search.spend(40 + std::mem::take(&mut self.state.visits) / 2) {
                return Outcome::Unknown;
            }
            self.open(agenda);
            match self.advance() {
                Some(next) => agenda = next,
                None => return Outcome::Impossible,
            }
        }
        Outcome::Placed(self.state.least.clone())
    }

    /// Begins to fill a goal.
    fn open(&mut self, goal: u32) {
        let (first, end) = (self.goals[goal as usize].first as usize, self.goals[goal as usize].end as usize);
        let from = self.choices.len();
        if let Some(section) = self.pick(first, end) {
            self.branch(section);
        }
        self.frames.push(Frame {
            goal,
            mark: self.state.mark(),
            n_goals: self.goals.len(),
            choices: (from, self.choices.len()),
            next_choice: from,
        });
    }

    /// Makes the next choice that does not fail at once, in the last goal or, where its choices are spent, in the one
    /// that made it. The goal to be opened next; `None` when nothing is left to try.
    fn advance(&mut self) -> Option<u32> {
        loop {
            let at = self.frames.len() - 1;
            let frame = self.frames[at];
            let goal = self.goals[frame.goal as usize];
            if frame.next_choice == frame.choices.1 {
                self.fail(goal)?;
                continue;
            }
            self.frames[at].next_choice += 1;
            let made = match self.choices[frame.next_choice] {
                Choice::Place(i) => self.state.place(i as usize),
                Choice::Lift(s, floor) => self.state.lift(s as usize, floor),
            };
            match made.and_then(|()| self.split((goal.first, goal.end), u32_of(at), goal.next)) {
                Ok(next) => return Some(next),
                Err(Full(s)) => {
                    self.weight[s] += WEIGHT;
                    self.state.undo(frame.mark);
                    self.goals.truncate(frame.n_goals);
                }
            }
        }
    }

    /// Gives a goal up: goes back to the frame that made it. `None` when it is the whole part.
    fn fail(&mut self, goal: Goal) -> Option<()> {
        if self.memo.len() >= MEMO {
            self.memo.clear();
        }
        self.memo.insert(goal.key);
        if goal.parent == NONE {
            return None;
        }
        self.frames.truncate(goal.parent as usize + 1);
        let parent = self.frames[goal.parent as usize];
        self.choices.truncate(parent.choices.1);
        self.state.undo(parent.mark);
        self.goals.truncate(parent.n_goals);
        Some(())
    }

    /// Cuts what is left of a stretch into goals, before `next`; the first of them, or a failure when one is known to
    /// fail.
    fn split(&mut self, (first, end): (u32, u32), parent: u32, next: u32) -> Result<u32, Full> {
        let mut agenda = next;
        let mut s = end as usize;
        // From the right, so that the leftmost goal comes first.
        while s > first as usize {
            if self.state.rest[s - 1] == 0 {
                s -= 1;
                continue;
            }
            let goal_end = s;
            s -= 1;
            while s > first as usize && self.state.is_joined(s) {
                s -= 1;
            }
            let (a, b) = self.state.key(s, goal_end);
            let key = Key(a, b);
            if self.memo.contains(&key) {
                return Err(Full(s));
            }
            self.goals.push(Goal { first: u32_of(s), end: u32_of(goal_end), parent, next: agenda, key });
            agenda = u32_of(self.goals.len() - 1);
        }
        Ok(agenda)
    }

    /// The section of a goal to branch on.
    fn pick(&self, first: usize, end: usize) -> Option<usize> {
        let state = &self.state;
        let mut best: Option<((f64, f64), usize)> = None;
        let mut s = first;
        while s < end {
            let floor = state.floor[s];
            let mut niche_end = s + 1;
            while niche_end < end && state.floor[niche_end] == floor {
                niche_end += 1;
            }
            let is_low =
                (s == first || state.floor[s - 1] > floor) && (niche_end == end || state.floor[niche_end] > floor);
            if is_low {
                for t in s..niche_end {
                    let most = best.map_or(f64::INFINITY, |(score, _)| score.0);
                    let score = self.score(t, (s, niche_end), most);
                    if best.is_none_or(|(least, _)| score < least) {
                        best = Some((score, t));
                    }
                }
            }
            s = niche_end;
        }
        best.map(|(_, section)| section)
    }

    /// How gladly a run branches on a section: the less the better. Counting ends when the score is above `most`.
    #[expect(clippy::cast_precision_loss, reason = "a rough measure")]
    fn score(&self, section: usize, (first, end): (usize, usize), most: f64) -> (f64, f64) {
        let state = &self.state;
        let floor = state.floor[section];
        let slack = state.capacity - floor - state.rest[section];
        let slack_sizes = slack as f64 / self.mean_bytes;
        // The score is `base + factor * choices`.
        let (base, factor) = match self.taste.score {
            Score::Choices => (0.0, 1.0),
            Score::Slack => (0.0, 1.0 + 0.3 * slack_sizes),
            Score::LogSlack => (slack_sizes.ln_1p(), 1.0),
            Score::Failures => (0.0, 1.0 / self.weight[section].ln_1p()),
            Score::Width => ((end - first) as f64 * 1e4, 1.0),
            Score::Height => ((state.capacity - floor) as f64 * 1e4, 1.0),
        };
        let mut n_choices = usize::from(slack > 0);
        let mut class = NONE;
        for i in state.waiting_from(section, first) {
            if state.least[i] == floor && state.pieces[i].class != class {
                class = state.pieces[i].class;
                n_choices += 1;
                if base + factor * n_choices as f64 > most {
                    break;
                }
            }
        }
        let tie = match self.taste.tie {
            Tie::Slack => slack as f64,
            Tie::Random => self.luck[section],
        };
        (base + factor * n_choices as f64, tie)
    }

    /// Appends the choices at a section.
    fn branch(&mut self, section: usize) {
        let state = &self.state;
        let floor = state.floor[section];
        let slack = state.capacity - floor - state.rest[section];
        let from = self.choices.len();
        let mut class = NONE;
        for i in state.waiting(section) {
            if state.least[i] == floor && state.pieces[i].class != class {
                class = state.pieces[i].class;
                self.choices.push(Choice::Place(u32_of(i)));
            }
        }
        let priority = &self.priority;
        self.choices[from..].sort_by(|a, b| match (a, b) {
            (Choice::Place(a), Choice::Place(b)) => priority[*b as usize].total_cmp(&priority[*a as usize]),
            _ => std::cmp::Ordering::Equal,
        });
        if slack > 0
            && let Some(height) = self.support(section, floor)
            && height - floor <= slack
        {
            self.choices.push(Choice::Lift(u32_of(section), height));
        }
    }

    /// The least height above the floor at which an item of the section can be supported.
    fn support(&self, section: usize, floor: u64) -> Option<u64> {
        let state = &self.state;
        let mut height = u64::MAX;
        let (mut left, mut right) = (section, section + 1);
        for i in state.waiting(section) {
            if state.least[i] > floor {
                height = height.min(state.least[i]);
            } else {
                left = left.min(state.pieces[i].left as usize);
                right = right.max(state.pieces[i].right as usize);
            }
        }
        // What shares a section with them covers the first of their sections, or starts in a later one.
        for k in state.waiting(left).chain(state.starting_in(left + 1, right)) {
            let piece = &state.pieces[k];
            let covers = (piece.left as usize) <= section && section < piece.right as usize;
            if !covers {
                height = height.min(state.least[k] + piece.bytes);
            }
        }
        (height < u64::MAX).then_some(height)
    }
}

/// The sequence 1, 1, 2, 1, 1, 2, 4, …, from its first member on.
fn luby(mut k: u64) -> u64 {
    loop {
        let bits = 64 - k.leading_zeros();
        if k == u64::MAX >> (64 - bits) {
            return 1 << (bits - 1);
        }
        k -= (1 << (bits - 1)) - 1;
    }
}

#[cfg(test)]
mod tests;
