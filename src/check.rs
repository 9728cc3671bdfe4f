//! Independent validators: they say whether an order, a schedule or a plan is right, whoever made it.
//!
//! **What is proved.** Let the *root* of a tensor be the end of its chain of views and updates, and its *version* the
//! number of updates on that chain, both taken from the graph's raw lists. When no fault is reported, then
//!
//! 1. every op runs, after the ops it must follow; each tensor that it reads was written, stands in its storage in the
//!    right version, and the storage is resident or persistent; at the end every output is resident, in its last
//!    version;
//! 2. every stay that needs bytes has one allocation, in the order of the stays: large enough, aligned, held for at
//!    least the stay; and two allocations that are held at the same step share no byte, unless one is an allowed
//!    in-place takeover of the other;
//! 3. the claimed arena is the largest offset + bytes; the claimed peak is the one found here, with the takeovers that
//!    the allocations make or without any; the claimed bound is not above it, and equals it where the plan claims to
//!    be optimal;
//! 4. with several queues, by the order of each queue and the events: each op happens after those that it must follow
//!    and those that made the views it reads; each use of a stay happens after its creation; each overwrite of a
//!    storage, persistent ones included, is ordered against every other access; each fetch happens after the offload
//!    whose copy it brings back, and before the next; and each reuse of bytes happens after every access of the stay
//!    that had them before.
//!
//! **Where it stops.** It does not prove that a claimed lower bound holds, nor that contents are right, nor anything
//! about the next iteration. The claimed bytes of persistent storages and the peak of the given order are not looked
//! at. Blocks have no events of their own, so that [`blocks`] says nothing about reuse across queues. It looks at the
//! whole plan unless the steps themselves are wrong, since then the stays have no meaning.
//!
//! It shares no arithmetic with `memory` and `plan`: stays, peaks and overlaps are computed a second time on purpose,
//! from the graph's raw lists. Sums are in 128 bits, so a document may hold any numbers.
//!
//! Complexity: O(n log n + m) for n stays and m operands; with q queues O(q n) more for the clocks.

mod lives;
mod races;
#[cfg(test)]
mod tests;

use crate::error::{OpLabel, TensorLabel};
use crate::graph::Graph;
use crate::id::{OpId, StepIdx};
use crate::memory::Occupant;
use crate::plan::{Allocation, BlockPlan, MemoryPlan, PlanDocument};
use crate::schedule::{Schedule, Step};
use lives::{Facts, Life, Lives, Subject};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// A rule that an order, a schedule or a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what its fields are")]
pub enum Fault {
    #[error("{at:?}: there is no op {op}")]
    UnknownOp { at: StepIdx, op: OpId },
    #[error("{at:?}: there is no storage {storage}")]
    UnknownStorage { at: StepIdx, storage: usize },
    #[error("{at:?}: {op} runs before {missing}, which it must follow")]
    RunsTooEarly { at: StepIdx, op: OpLabel, missing: OpLabel },
    #[error("{at:?}: {op} reads {tensor} before its producer ran")]
    ReadBeforeWritten { at: StepIdx, op: OpLabel, tensor: TensorLabel },
    #[error("{at:?}: {op} reads {tensor}, which is overwritten or not yet written there")]
    WrongVersion { at: StepIdx, op: OpLabel, tensor: TensorLabel },
    #[error("{at:?}: {op} overwrites {tensor} out of turn")]
    UpdateOutOfTurn { at: StepIdx, op: OpLabel, tensor: TensorLabel },
    #[error("{at:?}: {op} needs {tensor}, whose storage is not resident")]
    NotResident { at: StepIdx, op: OpLabel, tensor: TensorLabel },
    #[error("{at:?}: offloads {tensor}, which is not resident")]
    OffloadNotResident { at: StepIdx, tensor: TensorLabel },
    #[error("{at:?}: fetches {tensor}, which was not offloaded")]
    FetchNotOffloaded { at: StepIdx, tensor: TensorLabel },
    #[error("{op} never runs")]
    NeverRuns { op: OpLabel },
    #[error("{op} runs {times} times in a plain order")]
    RunsAgain { op: OpLabel, times: usize },
    #[error("the graph output {tensor} is overwritten before the end")]
    OutputOverwritten { tensor: TensorLabel },
    #[error("the graph output {tensor} is not resident at the end")]
    OutputNotResident { tensor: TensorLabel },
    #[error("{what}: one allocation too many")]
    ExtraAllocation { what: String },
    #[error("{what}: its stay from {from:?} on has no allocation")]
    MissingAllocation { what: String, from: StepIdx },
    #[error("{what}: {bytes} bytes allocated, needs {need}")]
    TooSmall { what: String, bytes: u64, need: u64 },
    #[error("{what}: offset {offset} is not a multiple of {alignment}")]
    Misaligned { what: String, offset: u64, alignment: u64 },
    #[error("{what}: held for {first:?}..={last:?}, live for {live_first:?}..={live_last:?}")]
    HeldTooShort { what: String, first: StepIdx, last: StepIdx, live_first: StepIdx, live_last: StepIdx },
    #[error("{what} and {other} overlap in memory at {at:?}")]
    Overlap { what: String, other: String, at: StepIdx },
    #[error("claims an arena of {claimed} bytes, uses {found}")]
    WrongArena { claimed: u64, found: u128 },
    #[error("claims a peak of {claimed} bytes; found {found}, and {without_in_place} without in-place takeovers")]
    WrongPeak { claimed: u64, found: u128, without_in_place: u128 },
    #[error("claims a lower bound of {bound} bytes, above its peak of {peak}")]
    BoundAbovePeak { bound: u64, peak: u64 },
    #[error("claims to be optimal, yet its lower bound of {bound} bytes is not its peak of {peak}")]
    NotOptimal { bound: u64, peak: u64 },
    #[error("an alignment of 0 bytes")]
    ZeroAlignment,
    #[error("the event from {record:?} to {wait:?} goes back in issue order")]
    EventBackwards { record: StepIdx, wait: StepIdx },
    #[error("{what}: made at {made:?}, used at {used:?} on another queue, without an event between")]
    UseNotOrdered { what: String, made: StepIdx, used: StepIdx },
    #[error("{what}: overwritten at {write:?}, touched at {touch:?} on another queue, without an event between")]
    UpdateNotOrdered { what: String, write: StepIdx, touch: StepIdx },
    #[error(
        "{what}, from {first:?} on, reuses bytes of {other}, last touched at {touch:?} on another queue, without an event between"
    )]
    ReuseNotOrdered { what: String, first: StepIdx, other: String, touch: StepIdx },
    #[error("{at:?}: {op} follows {missing} on another queue, without an event between")]
    DependencyNotOrdered { at: StepIdx, op: OpLabel, missing: OpLabel },
    #[error(
        "the host copy of {what}: written at {write:?}, used at {used:?} on another queue, without an event between"
    )]
    HostCopyNotOrdered { what: String, write: StepIdx, used: StepIdx },
    #[error("{what}: there is no block {block}")]
    UnknownBlock { what: String, block: usize },
}

/// What was found when a plan was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Every broken rule that was found.
    pub faults: Vec<Fault>,
    /// The peak with the takeovers that the allocations make, in bytes; 0 when the steps are wrong.
    pub peak_bytes: u128,
    /// The peak without takeovers, in bytes; 0 when the steps are wrong.
    pub peak_without_in_place_bytes: u128,
    /// The largest offset + bytes; 0 when the steps are wrong.
    pub arena_bytes: u128,
}

impl Checked {
    /// Whether no rule is broken.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Checks a plain order: each op exactly once, after what it needs.
#[must_use]
pub fn order(graph: &Graph, order: &[OpId]) -> Vec<Fault> {
    let run = Step::plain(order);
    let mut faults = steps(graph, &run);
    let mut times: HashMap<OpId, usize> = HashMap::new();
    order.iter().for_each(|op| *times.entry(*op).or_default() += 1);
    let again = graph.ops().filter_map(|op| times.get(&op).filter(|times| **times > 1).map(|times| (op, *times)));
    faults.extend(again.map(|(op, times)| Fault::RunsAgain { op: graph.op_label(op), times }));
    faults
}

/// Checks a sequence of steps: rule 1 of the module's definition.
#[must_use]
pub fn steps(graph: &Graph, steps: &[Step]) -> Vec<Fault> {
    Lives::of(&Facts::new(graph), steps).faults
}

/// Checks a schedule and its plan as the document describes them: all rules of the module's definition.
#[must_use]
pub fn document(graph: &Graph, plan: &PlanDocument) -> Checked {
    let facts = Facts::new(graph);
    let mut found = Lives::of(&facts, &plan.steps);
    let mut faults = std::mem::take(&mut found.faults);
    if !faults.is_empty() {
        return Checked { faults, peak_bytes: 0, peak_without_in_place_bytes: 0, arena_bytes: 0 };
    }
    let n_steps = plan.steps.len();
    let without = peak(&found.lives, n_steps, &HashMap::new());
    if plan.alignment == 0 {
        faults.push(Fault::ZeroAlignment);
    }
    give_allocations(&facts, plan, &mut found.lives, &mut faults);
    let takes_over = takeovers(&facts, &found.lives, &found.pairs);
    let shared = shared_bytes(&found.lives, &takes_over);
    let with = peak(&found.lives, n_steps, &shared);
    let arena = found.lives.iter().filter_map(Life::range).map(|(_, end)| end).max().unwrap_or(0);
    find_overlaps(&facts, &found.lives, &takes_over, &mut faults);
    races::find(&facts, plan, &found, &takes_over, &mut faults);
    if u128::from(plan.arena_bytes) != arena {
        faults.push(Fault::WrongArena { claimed: plan.arena_bytes, found: arena });
    }
    let claimed = u128::from(plan.peak_bytes);
    if claimed != with && claimed != without {
        faults.push(Fault::WrongPeak { claimed: plan.peak_bytes, found: with, without_in_place: without });
    }
    let (bound, peak) = (plan.lower_bound_bytes, plan.peak_bytes);
    if bound > peak {
        faults.push(Fault::BoundAbovePeak { bound, peak });
    }
    if plan.optimal && bound != peak {
        faults.push(Fault::NotOptimal { bound, peak });
    }
    Checked { faults, peak_bytes: with, peak_without_in_place_bytes: without, arena_bytes: arena }
}

/// Checks a schedule and a plan of it.
#[must_use]
pub fn memory_plan(graph: &Graph, schedule: &Schedule, plan: &MemoryPlan) -> Checked {
    document(graph, &PlanDocument::new(graph, schedule, plan, 0))
}

/// Checks that whole-buffer blocks are right for a sequence of steps: every stay that needs bytes has one block, which
/// is large enough, and two stays that are live together have different blocks unless one takes over the other.
#[must_use]
pub fn blocks(graph: &Graph, steps: &[Step], plan: &BlockPlan) -> Vec<Fault> {
    // Every block is laid out as an arena of its own: far apart, so that stays overlap just when they share a block.
    let facts = Facts::new(graph);
    let Lives { mut lives, pairs, mut faults, .. } = Lives::of(&facts, steps);
    if !faults.is_empty() {
        return faults;
    }
    let mut waiting = waiting(&lives);
    for used in plan.uses() {
        let Some(k) = take_waiting(&mut waiting, used.occupant, used.first) else {
            faults.push(Fault::ExtraAllocation { what: facts.occupant(used.occupant) });
            continue;
        };
        let what = facts.subject(&lives[k]);
        let Some(&bytes) = plan.block_bytes().get(used.block) else {
            faults.push(Fault::UnknownBlock { what, block: used.block });
            continue;
        };
        let life = &mut lives[k];
        if bytes < life.need {
            faults.push(Fault::TooSmall { what: what.clone(), bytes, need: life.need });
        }
        hold(life, used.first, used.last, what, &mut faults);
        life.place = Some((used.block as u128 * u128::from(u64::MAX), bytes));
    }
    missing(&facts, &lives, &waiting, &mut faults);
    let takes_over = takeovers(&facts, &lives, &pairs);
    find_overlaps(&facts, &lives, &takes_over, &mut faults);
    faults
}

/// The lives that still wait for their allocation, by what they are lives of.
type Waiting = HashMap<(Occupant, Option<StepIdx>), VecDeque<usize>>;

fn waiting_key(occupant: Occupant, first: StepIdx) -> (Occupant, Option<StepIdx>) {
    // A workspace is told apart by its step; the stays of a storage come in their order.
    (occupant, matches!(occupant, Occupant::Workspace(_)).then_some(first))
}

fn waiting(lives: &[Life]) -> Waiting {
    let mut waiting = Waiting::new();
    for (k, life) in lives.iter().enumerate() {
        waiting.entry(waiting_key(life.occupant, StepIdx::new(life.first))).or_default().push_back(k);
    }
    waiting
}

fn take_waiting(waiting: &mut Waiting, occupant: Occupant, first: StepIdx) -> Option<usize> {
    waiting.get_mut(&waiting_key(occupant, first))?.pop_front()
}

fn missing(facts: &Facts<'_>, lives: &[Life], waiting: &Waiting, faults: &mut Vec<Fault>) {
    let mut rest: Vec<usize> = waiting.values().flatten().copied().filter(|k| lives[*k].need > 0).collect();
    rest.sort_unstable();
    faults.extend(rest.into_iter().map(|k| {
        let what = facts.subject(&lives[k]);
        Fault::MissingAllocation { what, from: StepIdx::new(lives[k].first) }
    }));
}

/// The life is held from `first` to `last`, which must contain it.
fn hold(life: &mut Life, first: StepIdx, last: StepIdx, what: String, faults: &mut Vec<Fault>) {
    if first.index() > life.first || last.index() < life.last {
        let (live_first, live_last) = (StepIdx::new(life.first), StepIdx::new(life.last));
        faults.push(Fault::HeldTooShort { what, first, last, live_first, live_last });
    }
    life.first = life.first.min(first.index());
    life.last = life.last.max(last.index());
}

fn give_allocations(facts: &Facts<'_>, plan: &PlanDocument, lives: &mut [Life], faults: &mut Vec<Fault>) {
    // In the order of the stays of each storage a zero-byte stay may be left out; then it has the only life.
    let mut waiting = waiting(lives);
    for &Allocation { occupant, offset, bytes, first, last } in &plan.allocations {
        let Some(k) = take_waiting(&mut waiting, occupant, first) else {
            faults.push(Fault::ExtraAllocation { what: facts.occupant(occupant) });
            continue;
        };
        let what = facts.subject(&lives[k]);
        let life = &mut lives[k];
        if bytes < life.need {
            faults.push(Fault::TooSmall { what: what.clone(), bytes, need: life.need });
        }
        if plan.alignment > 0 && offset % plan.alignment != 0 {
            faults.push(Fault::Misaligned { what: what.clone(), offset, alignment: plan.alignment });
        }
        hold(life, first, last, what, faults);
        life.place = Some((u128::from(offset), bytes));
    }
    missing(facts, lives, &waiting, faults);
}

/// Which life takes over which, judged by where they lie: `(to → from)`.
fn takeovers(facts: &Facts<'_>, lives: &[Life], pairs: &[(usize, usize)]) -> HashMap<usize, usize> {
    let mut takes_over = HashMap::new();
    let mut taken = HashSet::new();
    for &(to, from) in pairs {
        let (a, b) = (&lives[to], &lives[from]);
        let same_place = a.range().is_some() && a.range().map(|r| r.0) == b.range().map(|r| r.0);
        let output = matches!(b.subject, Subject::Root(root) if facts.output_roots.contains(&root));
        let allowed = same_place && a.first == b.last && a.need == b.need && !output;
        if allowed && !takes_over.contains_key(&to) && taken.insert(from) {
            takes_over.insert(to, from);
        }
    }
    takes_over
}

/// The bytes that takeovers save at each step.
fn shared_bytes(lives: &[Life], takes_over: &HashMap<usize, usize>) -> HashMap<usize, u128> {
    let mut shared: HashMap<usize, u128> = HashMap::new();
    for to in takes_over.keys() {
        *shared.entry(lives[*to].first).or_default() += u128::from(lives[*to].need);
    }
    shared
}

/// The most bytes of lives at any step, less what is shared there.
fn peak(lives: &[Life], n_steps: usize, shared: &HashMap<usize, u128>) -> u128 {
    let n = n_steps.max(1);
    let (mut begin, mut end) = (vec![0u128; n], vec![0u128; n + 1]);
    for life in lives.iter().filter(|life| life.first < n) {
        begin[life.first] += u128::from(life.need);
        end[life.last.min(n - 1) + 1] += u128::from(life.need);
    }
    let mut live = 0;
    let at = |s: usize| {
        live = live - end[s] + begin[s];
        live - shared.get(&s).copied().unwrap_or(0).min(live)
    };
    (0..n).map(at).max().unwrap_or(0)
}

/// Sweeps time, with the blocks that are held sorted by offset: neighbours must not meet.
fn find_overlaps(facts: &Facts<'_>, lives: &[Life], takes_over: &HashMap<usize, usize>, faults: &mut Vec<Fault>) {
    let placed = || (0..lives.len()).filter(|k| lives[*k].range().is_some());
    let (mut by_first, mut by_last): (Vec<usize>, Vec<usize>) = (placed().collect(), placed().collect());
    by_first.sort_by_key(|k| (lives[*k].first, *k));
    by_last.sort_by_key(|k| (lives[*k].last, *k));
    let key = |k: usize| lives[k].range().map(|(start, end)| (start, end, k));
    let mut held: BTreeSet<(u128, u128, usize)> = BTreeSet::new();
    let mut ended = by_last.into_iter().peekable();
    for k in by_first {
        while let Some(over) = ended.next_if(|over| lives[*over].last < lives[k].first) {
            key(over).map(|key| held.remove(&key));
        }
        let Some((start, end, _)) = key(k) else { continue };
        // Everything held is disjoint unless it was reported, but for the two sides of a takeover, which start
        // together; so only neighbours can meet, and those that do are found by walking on. What is taken over is held
        // to the end of this step: the part that the new stay leaves of it is still nobody else's.
        let below = held.range(..(start, end, k)).rev().take_while(|(_, other_end, _)| *other_end > start);
        let above = held.range((start, end, k)..).take_while(|(other_start, _, _)| *other_start < end);
        for (_, _, other) in below.chain(above).filter(|(_, _, other)| takes_over.get(&k) != Some(other)) {
            let (what, other) = (facts.subject(&lives[k]), facts.subject(&lives[*other]));
            faults.push(Fault::Overlap { what, other, at: StepIdx::new(lives[k].first) });
        }
        held.insert((start, end, k));
    }
}
