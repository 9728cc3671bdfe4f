//! Niche search (doc to follow).

mod state;

use super::part::Part;
use crate::search::Search;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use state::{Full, State, u32_of};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Placed(Vec<u64>),
    /// No layout fits.
    Impossible,
    /// The budget is spent.
    Unknown,
}

/// Nodes of the shortest restart.
const RESTART: u64 = 500;
/// How far priorities are shaken.
const NOISE: f64 = 0.3;
/// The most states remembered.
const MEMO: usize = 1 << 20;

/// Keys are hashes already.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key(u64, u64);

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// A range of sections that must be filled, and what remains to be filled after it.
#[derive(Clone, Copy, Debug)]
struct Goal {
    first: u32,
    end: u32,
    /// The frame whose option made the goal; it fails when the goal does.
    parent: u32,
    next: u32,
    key: Key,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
enum Choice {
    Place(u32),
    Lift(u32, u64),
}

#[derive(Debug)]
struct Frame {
    mark: usize,
    n_goals: usize,
    goal: u32,
    first_choice: usize,
    next_choice: usize,
    end_choice: usize,
}

pub(super) struct Niche {
    state: State,
    memo: HashSet<Key, BuildHasherDefault<Ready>>,
    /// Larger first.
    priority: Vec<f64>,
    weight: Vec<f64>,
    totals: Vec<u64>,
    frames: Vec<Frame>,
    goals: Vec<Goal>,
    choices: Vec<Choice>,
    pub(super) nodes: u64,
    seed: u64, round: u64, mode:u64, jit:Vec<f64>,
}

impl Niche {
    pub(super) fn new(part: &Part, capacity: u64, seed: u64) -> Self {
        Self {
            state: State::new(part, capacity),
            memo: HashSet::default(),
            priority: vec![0.0; part.items.len()],
            weight: vec![1.0; part.n_sections()],
            totals: part.load.clone(),
            frames: Vec::new(),
            goals: Vec::new(),
            choices: Vec::new(),
            nodes: 0,
            seed, round: 0, mode:0, jit:vec![1.0; part.n_sections()],
        }
    }

    /// Looks for a layout under the capacity, in at most `n_nodes` nodes.
    pub(super) fn run(&mut self, n_nodes: u64, search: &mut Search<'_>) -> Outcome {
        if self.totals.iter().any(|total| *total > self.state.capacity) {
            return Outcome::Impossible;
        }
        let end = self.nodes.saturating_add(n_nodes);
        loop {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(self.round));
            self.round += 1; let round=self.round; self.mode= if opt(12)==0.0 {opt(11) as u64} else { match opt(12) as u64 {1=>[0,3][round as usize%2], 2=>[0,2][round as usize%2], 3=>[0,2,3][round as usize%3], 4=>[0,0,0,3][round as usize%4],5=>[0,0,0,0,0,0,3,2][round as usize%8],6=>[0,5,3,2][round as usize%4],7=>[0,0,3,0,2,0,0,5][round as usize%8],_=>0 } }; self.prioritise(round, &mut random);
            let limit = (self.nodes + (if opt(4)>0.0 {opt(4) as u64} else {RESTART}) * luby(round)).min(end);
            match self.descend(limit, search) {
                Outcome::Unknown if self.nodes >= end || search.stopped().is_some() => return Outcome::Unknown,
                Outcome::Unknown => {}
                outcome => return outcome,
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rough measure")]
    fn prioritise(&mut self, round: u64, random: &mut Xoshiro256PlusPlus) {
        if round>1 { for j in &mut self.jit { *j=0.3+random.random::<f64>(); } }
        let weighted = (opt(3)==0.0 && round % 3 == 0) || (opt(3)==2.0&& round%2==0) || (opt(3)==3.0&& round>1);
        let n = self.state.pieces.len();
        let mut keys: Vec<(f64, f64, f64)> = Vec::with_capacity(n);
        for piece in &self.state.pieces {
            let sections = piece.left as usize..piece.right as usize;
            let width = (piece.right - piece.left) as f64;
            let area = width * piece.bytes as f64;
            let total = sections
                .map(|s| self.totals[s] as f64 * if weighted { self.weight[s] } else { 1.0 })
                .fold(0.0, f64::max);
            keys.push((total, width, area));
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| keys[*b].partial_cmp(&keys[*a]).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(b)));
        for (rank, i) in order.into_iter().enumerate() {
            let noise = if round == 1 { 0.0 } else { (if opt(1)>0.0 {opt(1)} else {NOISE}) * random.random::<f64>() };
            self.priority[i] = match (if round/2%2==0 {opt(0)} else {opt(9)}) as u64 { 0=>(n - rank) as f64 / n as f64 + noise,
              1=> keys[i].0*(1.0+noise) + if round==1 {(n - rank) as f64*1e-6*keys[i].0} else {0.0},
              2=> { let tmax=keys.iter().map(|k|k.0).fold(0.0,f64::max); let wmax=keys.iter().map(|k|k.1).fold(0.0,f64::max);let amax=keys.iter().map(|k|k.2).fold(0.0,f64::max); (keys[i].0/tmax*100.0+keys[i].1/wmax*1.0+keys[i].2/amax*0.01)*(1.0+noise) }
              3=> { let tmax=keys.iter().map(|k|k.0).fold(0.0,f64::max); let wmax=keys.iter().map(|k|k.1).fold(0.0,f64::max);let amax=keys.iter().map(|k|k.2).fold(0.0,f64::max); (keys[i].0/tmax*10.0+keys[i].1/wmax*1.0+keys[i].2/amax*0.1)*(1.0+noise) }
              _=> { let tmax=keys.iter().map(|k|k.0).fold(0.0,f64::max); let wmax=keys.iter().map(|k|k.1).fold(0.0,f64::max);let amax=keys.iter().map(|k|k.2).fold(0.0,f64::max); (keys[i].0/tmax).powf(opt(5))*(keys[i].1/wmax).powf(opt(6))*(keys[i].2/amax).powf(opt(7))*(1.0+noise) }
            };
        }
    }

    fn descend(&mut self, limit: u64, search: &mut Search<'_>) -> Outcome {
        let outcome = self.descend_inner(limit, search);
        if !matches!(outcome, Outcome::Placed(_)) {
            self.state.undo(0);
        }
        outcome
    }

    fn descend_inner(&mut self, limit: u64, search: &mut Search<'_>) -> Outcome {
        self.frames.clear();
        self.goals.clear();
        self.choices.clear();
        let n_sections = u32_of(self.state.n_sections());
        let Ok(mut agenda) = self.split(0, n_sections, NONE, NONE) else { return Outcome::Impossible };
        'open: loop {
            // Open the next goal.
            if agenda == NONE {
                return Outcome::Placed(self.state.least.clone());
            }
            self.nodes += 1;
            let work = 40 + std::mem::take(&mut self.state.visits) / 2;
            if self.nodes >= limit || !search.spend(work) {
                return Outcome::Unknown;
            }
            let goal = self.goals[agenda as usize];
            let first_choice = self.choices.len();
            self.branch(goal.first as usize, goal.end as usize);
            self.frames.push(Frame {
                mark: self.state.mark(),
                n_goals: self.goals.len(),
                goal: agenda,
                first_choice,
                next_choice: first_choice,
                end_choice: self.choices.len(),
            });
            // Try the choices of the last frame; where they are spent, those of the frame that made its goal.
            loop {
                let at = self.frames.len() - 1;
                let frame = &mut self.frames[at];
                let goal = self.goals[frame.goal as usize];
                if frame.next_choice == frame.end_choice {
                    let (key, first_choice) = (goal.key, frame.first_choice);
                    if self.memo.len() >= MEMO {
                        self.memo.clear();
                    }
                    self.memo.insert(key);
                    self.choices.truncate(first_choice);
                    if goal.parent == NONE {
                        return Outcome::Impossible;
                    }
                    self.frames.truncate(goal.parent as usize + 1);
                    let frame = &self.frames[goal.parent as usize];
                    let (mark, n_goals, end_choice) = (frame.mark, frame.n_goals, frame.end_choice);
                    self.choices.truncate(end_choice);
                    self.state.undo(mark);
                    self.goals.truncate(n_goals);
                    continue;
                }
                let choice = self.choices[frame.next_choice];
                frame.next_choice += 1;
                let (mark, n_goals) = (frame.mark, frame.n_goals);
                let made = match choice {
                    Choice::Place(i) => self.state.place(i as usize),
                    Choice::Lift(s, floor) => self.state.lift(s as usize, floor),
                };
                let made = made.and_then(|()| self.split(goal.first, goal.end, u32_of(at), goal.next));
                match made {
                    Ok(next) => {
                        agenda = next;
                        continue 'open;
                    }
                    Err(Full(s)) => {
                        self.weight[s] += 0.05;
                        self.state.undo(mark);
                        self.goals.truncate(n_goals);
                    }
                }
            }
        }
    }

    /// Cuts what is left of a range into goals, the first to be opened; fails when one is known to fail.
    fn split(&mut self, first: u32, end: u32, parent: u32, next: u32) -> Result<u32, Full> {
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
            while s > first as usize && self.state.rest[s - 1] > 0 && self.state.is_joined(s) {
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

    /// Appends the choices at one section of a goal.
    fn branch(&mut self, first: usize, end: usize) {
        let state = &self.state;
        let mut best: Option<(usize, u64, usize, (usize, usize),u64)> = None;
        let mut s = first;
        while s < end {
            let floor = state.floor[s];
            let mut run_end = s + 1;
            while run_end < end && state.floor[run_end] == floor {
                run_end += 1;
            }
            let is_low = (s == first || state.floor[s - 1] > floor) && (run_end == end || state.floor[run_end] > floor);
            if is_low {
                for t in s..run_end {
                    let slack = state.capacity - floor - state.rest[t];
                    let most = if self.mode==0 {best.map_or(usize::MAX, |b| b.0)} else {usize::MAX};
                    let mut count = if opt(10)==1.0 {0} else {usize::from(slack > 0)};
                    let mut class = NONE;
                    for i in state.waiting_from(t, s) {
                        if state.least[i] == floor && state.pieces[i].class != class {
                            class = state.pieces[i].class;
                            count += 1;
                            if count > most {
                                break;
                            }
                        }
                    }
                    let tie=match (if self.round%2==1 {opt(2)} else {opt(8)}) as u64 {0=>slack,1=>0,2=>floor,3=>u64::MAX-state.rest[t],4=>u64::MAX-floor,5=>(run_end-s) as u64,6=>u64::MAX-(run_end-s) as u64,7=>(1e6/self.weight[t]) as u64,9=>(slack as f64*self.jit[t]) as u64,10=>(1e6*self.jit[t]) as u64,_=>u64::MAX-slack};
                    let outer = match self.mode {0=>0, 1=>floor, 2=>(run_end-s) as u64, 3=>self.state.capacity-floor, 4=> u64::from(slack>0), 5=>slack, _=>0};
                    if best.is_none_or(|b| (b.4,b.0, b.1) > (outer,count, tie)) {
                        best = Some((count, tie, t, (s, run_end),outer));
                    }
                }
            }
            s = run_end;
        }
        let Some((_, _, at, _,_)) = best else { return };
        let floor = state.floor[at];
        let slack = state.capacity - floor - state.rest[at];
        let start = self.choices.len();
        let mut class = NONE;
        for i in state.waiting(at) {
            if state.least[i] == floor && state.pieces[i].class != class {
                class = state.pieces[i].class;
                self.choices.push(Choice::Place(u32_of(i)));
            }
        }
        let priority = &self.priority;
        self.choices[start..].sort_by(|a, b| match (a, b) {
            (Choice::Place(a), Choice::Place(b)) => priority[*b as usize].total_cmp(&priority[*a as usize]),
            _ => std::cmp::Ordering::Equal,
        });
        if slack > 0 {
            if let Some(height) = self.support(at, floor).filter(|height| *height - floor <= slack) {
                self.choices.push(Choice::Lift(u32_of(at), height));
            }
        }
    }

    /// The least height above the floor at which an item of the section can stand.
    fn support(&self, at: usize, floor: u64) -> Option<u64> {
        let state = &self.state;
        let mut height = u64::MAX;
        let (mut left, mut right) = (at, at + 1);
        for i in state.waiting(at) {
            if state.least[i] > floor {
                height = height.min(state.least[i]);
            } else {
                left = left.min(state.pieces[i].left as usize);
                right = right.max(state.pieces[i].right as usize);
            }
        }
        // Neighbours that do not cover the section, but overlap an item that could stand on its floor.
        for s in left..right {
            if s != at {
                for k in state.waiting(s) {
                    let piece = &state.pieces[k];
                    let covers = (piece.left as usize) <= at && at < piece.right as usize;
                    if !covers {
                        height = height.min(state.least[k] + piece.bytes);
                    }
                }
            }
        }
        (height < u64::MAX).then_some(height)
    }
}

/// The sequence 1, 1, 2, 1, 1, 2, 4, …
fn luby(mut k: u64) -> u64 {
    loop {
        let bits = 64 - k.leading_zeros();
        if k == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        k -= (1 << (bits - 1)) - 1;
    }
}

pub fn opt(k:usize)->f64{ static O:std::sync::OnceLock<Vec<f64>>=std::sync::OnceLock::new(); O.get_or_init(||std::env::var("OPT").unwrap_or_default().split(',').filter_map(|x|x.parse().ok()).collect()).get(k).copied().unwrap_or(0.0) }
