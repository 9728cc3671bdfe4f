//! The memory model: which bytes are live at which step, and the peak.
//!
//! This is the one production evaluator; every scheduler, planner and report measures with it. The rules stand in
//! `docs/memory-model.md`. In short: a **stay** of a storage reaches from the step that creates it (step 0 for what
//! the graph is given) to the last step that uses it, both included; graph outputs stay to the last step; a view has
//! no bytes of its own and touching it touches its storage; `live(s)` is the sum over the stays that contain step s,
//! the peak is the largest `live(s)` + workspace of the op run at s; persistent storages are left out.
//!
//! **In place.** A takeover at step s saves bytes at step s only, since the two stays share no other step. So the
//! takeovers of different steps never compete, and the profile is least at every step at once when each step makes a
//! maximum matching between the stays that begin and the stays that end there. All takeovers of a step come from one
//! op, and both sides of a pair have equal size; so storages of different sizes never compete, and every matching of
//! the most pairs saves the most bytes.
//!
//! Complexity: O(n + m) time and space for n steps and m operands; the p in-place pairs of one op take O(p log p)
//! where they share no storages, O(p³) at worst.

pub(crate) mod bound;
pub(crate) mod cut;
pub(crate) mod instance;

pub use bound::lower_bound_bytes;

use crate::error::ScheduleError;
use crate::graph::{Graph, Takeover};
use crate::id::{OpId, StepIdx, StorageId};
use crate::schedule::{Action, Step};

/// What occupies bytes during a stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Occupant {
    /// A storage.
    Storage(StorageId),
    /// The workspace of one run of an op.
    Workspace(OpId),
}

/// One live interval of a storage, or of the workspace of one run, on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stay {
    /// What is live.
    pub occupant: Occupant,
    /// The step that creates it.
    pub first: StepIdx,
    /// The last step that uses it; at `first` and at `last` it is live.
    pub last: StepIdx,
    /// Its size in bytes.
    pub bytes: u64,
    /// The stay, by its position in [`Profile::stays`], whose bytes it takes over in place at step `first`.
    pub takes_over: Option<usize>,
}

/// Which bytes are live at which step of a schedule.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Profile {
    stays: Vec<Stay>,
    live_bytes: Vec<u64>,
    workspace_bytes: Vec<u64>,
    peak_bytes: u64,
    peak_step: StepIdx,
}

impl Profile {
    /// Replays steps on a graph, checks that they are a schedule of it, and measures them.
    ///
    /// O(n + m) for n steps and m operands.
    ///
    /// # Errors
    /// [`ScheduleError`] for the first rule that is broken: an op that runs before what it needs, reads a tensor that
    /// is not resident or is another version, never runs, and so on.
    pub fn of(graph: &Graph, steps: &[Step]) -> Result<Self, ScheduleError> {
        let mut replay = Replay::new(graph, steps)?;
        for (s, step) in steps.iter().enumerate() {
            replay.step(StepIdx::new(s), step)?;
        }
        let (mut stays, candidates) = replay.finish()?;
        let n = steps.len().max(1);
        let mut saved = vec![0u64; n];
        take_over(&mut stays, &candidates, &mut saved);

        let mut workspace_bytes = vec![0u64; n];
        let mut begin = vec![0u64; n + 1];
        let mut end = vec![0u64; n + 1];
        for stay in &stays {
            match stay.occupant {
                Occupant::Workspace(_) => workspace_bytes[stay.first.index()] = stay.bytes,
                Occupant::Storage(_) => {
                    begin[stay.first.index()] += stay.bytes;
                    end[stay.last.index() + 1] += stay.bytes;
                }
            }
        }
        let mut live_bytes = Vec::with_capacity(n);
        let (mut live, mut peak_bytes, mut peak_step) = (0u64, 0u64, 0usize);
        for s in 0..n {
            // In this order no sum exceeds that of all storages.
            live = live - end[s] + begin[s];
            live_bytes.push(live - saved[s]);
            let used = live - saved[s] + workspace_bytes[s];
            if used > peak_bytes {
                (peak_bytes, peak_step) = (used, s);
            }
        }
        Ok(Self { stays, live_bytes, workspace_bytes, peak_bytes, peak_step: StepIdx::new(peak_step) })
    }

    /// The most bytes in use at any step: live bytes and workspace.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// The first step at which the peak is reached.
    #[must_use]
    pub fn peak_step(&self) -> StepIdx {
        self.peak_step
    }

    /// Live bytes at every step, workspace left out. A schedule without steps has one entry: its inputs and outputs.
    #[must_use]
    pub fn live_bytes(&self) -> &[u64] {
        &self.live_bytes
    }

    /// Live bytes and workspace at every step: the peak is the largest of them.
    pub fn used_bytes(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.live_bytes.iter().zip(&self.workspace_bytes).map(|(live, workspace)| live + workspace)
    }

    /// Standard deviation of the live bytes over the steps, in bytes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub fn fluctuation_bytes(&self) -> f64 {
        let n = self.live_bytes.len() as f64;
        let mean = self.live_bytes.iter().map(|b| *b as f64).sum::<f64>() / n;
        (self.live_bytes.iter().map(|b| (*b as f64 - mean).powi(2)).sum::<f64>() / n).sqrt()
    }

    /// All stays, in the order in which they begin; of those that begin together, inputs by id, then an op's outputs
    /// as it lists them, then its workspace.
    #[must_use]
    pub fn stays(&self) -> &[Stay] {
        &self.stays
    }

    /// The stays that contain `step`. A stay that is taken over there, and the one that takes it over, both do.
    pub fn live_at(&self, step: StepIdx) -> impl Iterator<Item = &Stay> {
        self.stays.iter().filter(move |stay| stay.first <= step && step <= stay.last)
    }
}

/// A takeover that an op might make at step `at`, as positions of stays.
struct Candidate {
    at: StepIdx,
    to: usize,
    from: usize,
}

const NO_STAY: usize = usize::MAX;

/// The state of the device while steps are replayed.
struct Replay<'g> {
    graph: &'g Graph,
    stays: Vec<Stay>,
    /// The present stay of each storage, or `NO_STAY`.
    current: Vec<usize>,
    /// Which version of its tensors stands in each storage.
    version: Vec<u32>,
    /// Which version the host holds of each storage, where it holds one.
    on_host: Vec<Option<u32>>,
    has_run: Vec<bool>,
    candidates: Vec<Candidate>,
    last_step: StepIdx,
}

impl<'g> Replay<'g> {
    fn new(graph: &'g Graph, steps: &[Step]) -> Result<Self, ScheduleError> {
        if steps.len() >= u32::MAX as usize {
            return Err(ScheduleError::TooManySteps);
        }
        let mut replay = Self {
            graph,
            stays: Vec::with_capacity(graph.n_storages()),
            current: vec![NO_STAY; graph.n_storages()],
            version: vec![0; graph.n_storages()],
            on_host: vec![None; graph.n_storages()],
            has_run: vec![false; graph.n_ops()],
            candidates: Vec::new(),
            last_step: StepIdx::new(steps.len().saturating_sub(1)),
        };
        for storage in graph.storages().filter(|s| graph.is_input(*s)) {
            replay.begin(storage, StepIdx::new(0));
        }
        Ok(replay)
    }

    fn begin(&mut self, storage: StorageId, at: StepIdx) {
        self.current[storage.index()] = self.stays.len();
        let bytes = self.graph.storage_bytes(storage);
        let occupant = Occupant::Storage(storage);
        self.stays.push(Stay { occupant, first: at, last: at, bytes, takes_over: None });
    }

    fn step(&mut self, at: StepIdx, step: &Step) -> Result<(), ScheduleError> {
        let known = |storage: StorageId| {
            let storage = storage.index();
            if storage < self.graph.n_storages() { Ok(()) } else { Err(ScheduleError::UnknownStorage { at, storage }) }
        };
        match step.action {
            Action::Run(op) if op.index() < self.graph.n_ops() => self.run(at, op),
            Action::Run(op) => Err(ScheduleError::UnknownOp { at, op }),
            Action::Offload(storage) => known(storage).and_then(|()| self.offload(at, storage)),
            Action::Fetch(storage) => known(storage).and_then(|()| self.fetch(at, storage)),
        }
    }

    fn run(&mut self, at: StepIdx, op: OpId) -> Result<(), ScheduleError> {
        let graph = self.graph;
        self.check_operands(at, op)?;
        for &(new, _) in graph.updates(op) {
            self.version[graph.storage(new).index()] = graph.version(new);
        }
        for &storage in graph.touches(op) {
            let stay = self.current[storage.index()];
            if stay == NO_STAY {
                // The op makes a view of a storage that it does not read from, which went away.
                let (op, tensor) = (graph.op_label(op), graph.tensor_label(graph.root(storage)));
                return Err(ScheduleError::NotResident { at, op, tensor });
            }
            self.stays[stay].last = at;
        }
        for &storage in graph.creates(op) {
            self.version[storage.index()] = 0;
            self.begin(storage, at);
        }
        for &Takeover { to, from } in graph.takeovers(op) {
            self.candidates.push(Candidate { at, to: self.current[to.index()], from: self.current[from.index()] });
        }
        let bytes = graph.workspace_bytes(op);
        if bytes > 0 {
            self.stays.push(Stay { occupant: Occupant::Workspace(op), first: at, last: at, bytes, takes_over: None });
        }
        self.has_run[op.index()] = true;
        Ok(())
    }

    /// Everything that the op must follow has run, and its operands stand where it expects them.
    fn check_operands(&self, at: StepIdx, op: OpId) -> Result<(), ScheduleError> {
        let graph = self.graph;
        let too_early = |missing| {
            let (op, missing) = (graph.op_label(op), graph.op_label(missing));
            Err(ScheduleError::TooEarly { at, op, missing })
        };
        if let Some(&missing) = graph.predecessors(op).iter().find(|pred| !self.has_run[pred.index()]) {
            return too_early(missing);
        }
        for &tensor in graph.inputs(op) {
            let storage = graph.storage(tensor);
            if self.version[storage.index()] != graph.version(tensor) {
                let (op, tensor) = (graph.op_label(op), graph.tensor_label(tensor));
                return Err(ScheduleError::WrongVersion { at, op, tensor });
            }
            if self.current[storage.index()] == NO_STAY && !graph.is_persistent(storage) {
                let (op, tensor) = (graph.op_label(op), graph.tensor_label(tensor));
                return Err(ScheduleError::NotResident { at, op, tensor });
            }
        }
        Ok(())
    }

    fn offload(&mut self, at: StepIdx, storage: StorageId) -> Result<(), ScheduleError> {
        let stay = std::mem::replace(&mut self.current[storage.index()], NO_STAY);
        if stay == NO_STAY {
            let tensor = self.graph.tensor_label(self.graph.root(storage));
            return Err(ScheduleError::OffloadNotResident { at, tensor });
        }
        self.stays[stay].last = at;
        self.on_host[storage.index()] = Some(self.version[storage.index()]);
        Ok(())
    }

    fn fetch(&mut self, at: StepIdx, storage: StorageId) -> Result<(), ScheduleError> {
        let Some(version) = self.on_host[storage.index()] else {
            let tensor = self.graph.tensor_label(self.graph.root(storage));
            return Err(ScheduleError::FetchNotOffloaded { at, tensor });
        };
        self.version[storage.index()] = version;
        self.begin(storage, at);
        Ok(())
    }

    /// Every op ran, every output is there; outputs stay to the last step.
    fn finish(mut self) -> Result<(Vec<Stay>, Vec<Candidate>), ScheduleError> {
        let graph = self.graph;
        if let Some(op) = graph.ops().find(|op| !self.has_run[op.index()]) {
            return Err(ScheduleError::NeverRuns { op: graph.op_label(op) });
        }
        for &output in graph.outputs() {
            let storage = graph.storage(output);
            if self.version[storage.index()] != graph.version(output) {
                return Err(ScheduleError::OutputWrongVersion { tensor: graph.tensor_label(output) });
            }
            if graph.is_persistent(storage) {
                continue;
            }
            match self.current[storage.index()] {
                NO_STAY => return Err(ScheduleError::OutputNotResident { tensor: graph.tensor_label(output) }),
                stay => self.stays[stay].last = self.last_step,
            }
        }
        let mut candidates = self.candidates;
        candidates.retain(|c| self.stays[c.from].last == c.at);
        Ok((self.stays, candidates))
    }
}

/// Gives each step a maximum matching of its takeovers, and adds up the bytes that each step saves.
fn take_over(stays: &mut [Stay], candidates: &[Candidate], saved: &mut [u64]) {
    for group in candidates.chunk_by(|a, b| a.at == b.at) {
        let pairs: Vec<(usize, usize)> = group.iter().map(|c| (c.to, c.from)).collect();
        for (to, from) in matching(&pairs) {
            stays[to].takes_over = Some(from);
            saved[group[0].at.index()] += stays[to].bytes;
        }
    }
}

/// A maximum matching of `(left, right)` pairs, each side used at most once, by augmenting paths.
///
/// Where the pairs fall into classes that share no endpoint, it is maximum in every class. Earlier pairs are
/// preferred. O(p³) for p pairs, O(p log p) where they share no endpoints.
pub(crate) fn matching<T: Copy + Ord>(pairs: &[(T, T)]) -> Vec<(T, T)> {
    if pairs.len() < 2 || (all_differ(pairs.iter().map(|p| p.0)) && all_differ(pairs.iter().map(|p| p.1))) {
        return pairs.to_vec();
    }
    // Positions in `pairs` of the chosen ones.
    let mut chosen = vec![false; pairs.len()];
    for start in 0..pairs.len() {
        let left = pairs[start].0;
        let first_of_left = pairs[..start].iter().all(|p| p.0 != left);
        if first_of_left {
            augment(pairs, &mut chosen, left);
        }
    }
    pairs.iter().zip(chosen).filter_map(|(pair, chosen)| chosen.then_some(*pair)).collect()
}

fn all_differ<T: Ord>(items: impl Iterator<Item = T>) -> bool {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.windows(2).all(|pair| pair[0] != pair[1])
}

/// Searches breadth first for an alternating path from the unmatched `left` to an unmatched right side, and flips it.
fn augment<T: Copy + PartialEq>(pairs: &[(T, T)], chosen: &mut [bool], left: T) {
    // The pair by which each reached pair's left side was reached, for the way back.
    let mut came_by: Vec<Option<usize>> = vec![None; pairs.len()];
    let mut seen = vec![false; pairs.len()];
    let mut queue: Vec<usize> = (0..pairs.len()).filter(|p| pairs[*p].0 == left).collect();
    queue.iter().for_each(|p| seen[*p] = true);
    let mut next = 0;
    while let Some(&p) = queue.get(next) {
        next += 1;
        let Some(holder) = (0..pairs.len()).find(|q| chosen[*q] && pairs[*q].1 == pairs[p].1) else {
            let mut step = Some(p);
            while let Some(p) = step {
                if let Some(held) = (0..pairs.len()).find(|q| chosen[*q] && pairs[*q].0 == pairs[p].0) {
                    chosen[held] = false;
                }
                chosen[p] = true;
                step = came_by[p];
            }
            return;
        };
        for q in 0..pairs.len() {
            if pairs[q].0 == pairs[holder].0 && !seen[q] {
                seen[q] = true;
                came_by[q] = Some(p);
                queue.push(q);
            }
        }
    }
}

#[cfg(test)]
mod tests;
