//! Happens-before by vector clocks: every dependency, every overwrite and every reuse of bytes across queues, and the
//! copies that lie outside the arena, on the host or in persistent storages.

use super::Fault;
use super::lives::{Facts, Life, Lives, Subject};
use crate::graph::Graph;
use crate::id::{OpId, QueueId, StepIdx, TensorId};
use crate::plan::PlanDocument;
use crate::schedule::Action;
use std::collections::{BTreeMap, HashMap};

/// The order of happening of the steps.
struct Clocks {
    /// The queue of each step, numbered densely.
    queue: Vec<usize>,
    /// For each step, how many steps of each queue are known to have happened when it has.
    clock: Vec<Vec<u32>>,
}

impl Clocks {
    fn ordered(&self, before: usize, after: usize) -> bool {
        let queue = self.queue[before];
        before == after || self.clock[after][queue] >= self.clock[before][queue]
    }
}

/// Finds what the queues and events of a plan leave unordered.
pub(super) fn find(
    facts: &Facts<'_>,
    plan: &PlanDocument,
    found: &Lives,
    takes_over: &HashMap<usize, usize>,
    faults: &mut Vec<Fault>,
) {
    let Some(clocks) = clocks(plan, faults) else { return };
    find_dependencies(facts, plan, &clocks, faults);
    for life in &found.lives {
        let Subject::Root(root) = life.subject else { continue };
        find_in_life(facts, plan, &clocks, life, root, faults);
    }
    for storage in &found.overwritten {
        find_overwrites(facts, plan, &clocks, storage.root, &storage.steps, faults);
    }
    for copy in &found.host_copies {
        let is_offload = |s: usize| matches!(plan.steps[s].action, Action::Offload(_));
        faults.extend(unordered_writes(&clocks, &copy.steps, is_offload).into_iter().map(|(write, used)| {
            let what = facts.graph.tensor_label(copy.root).to_string();
            Fault::HostCopyNotOrdered { what, write: StepIdx::new(write), used: StepIdx::new(used) }
        }));
    }
    find_reuse(facts, &clocks, &found.lives, takes_over, faults);
}

/// The clocks; `None` when there is one queue only. An event that goes back is reported, and orders nothing.
fn clocks(plan: &PlanDocument, faults: &mut Vec<Fault>) -> Option<Clocks> {
    let n = plan.steps.len();
    let mut numbers: HashMap<QueueId, usize> = HashMap::new();
    let queue: Vec<usize> = plan
        .steps
        .iter()
        .map(|step| {
            let next = numbers.len();
            *numbers.entry(step.queue).or_insert(next)
        })
        .collect();
    if numbers.len() < 2 {
        return None;
    }
    let mut waits: HashMap<usize, Vec<usize>> = HashMap::new();
    for event in &plan.events {
        if event.record >= event.wait {
            faults.push(Fault::EventBackwards { record: event.record, wait: event.wait });
            continue;
        }
        waits.entry(event.wait.index()).or_default().push(event.record.index());
    }
    let mut clock: Vec<Vec<u32>> = Vec::with_capacity(n);
    let mut last: Vec<Option<usize>> = vec![None; numbers.len()];
    for s in 0..n {
        let mut now = last[queue[s]].map_or_else(|| vec![0; numbers.len()], |before| clock[before].clone());
        for record in waits.get(&s).into_iter().flatten() {
            now.iter_mut().zip(&clock[*record]).for_each(|(now, then)| *now = (*now).max(*then));
        }
        now[queue[s]] += 1;
        clock.push(now);
        last[queue[s]] = Some(s);
    }
    Some(Clocks { queue, clock })
}

/// Each op happens after some run of every op that must come first and that no life stands for: those that it follows
/// without a tensor that shows it, and those that made the views that it reads.
fn find_dependencies(facts: &Facts<'_>, plan: &PlanDocument, clocks: &Clocks, faults: &mut Vec<Fault>) {
    let graph = facts.graph;
    let mut runs: Vec<Vec<usize>> = vec![Vec::new(); graph.n_ops()];
    let mut first: Vec<OpId> = Vec::new();
    for (s, step) in plan.steps.iter().enumerate() {
        let Action::Run(op) = step.action else { continue };
        first.clear();
        first.extend(graph.after(op));
        first.extend(graph.inputs(op).iter().filter_map(|t| viewed_by(facts, graph, *t)));
        first.sort_unstable();
        first.dedup();
        for &missing in &first {
            if !runs[missing.index()].iter().any(|ran| clocks.ordered(*ran, s)) {
                let (at, op, missing) = (StepIdx::new(s), graph.op_label(op), graph.op_label(missing));
                faults.push(Fault::DependencyNotOrdered { at, op, missing });
            }
        }
        runs[op.index()].push(s);
    }
}

/// The op that made a view, when it is neither the one that made the root nor one that overwrites it: those touch the
/// bytes, and are ordered with them.
fn viewed_by(facts: &Facts<'_>, graph: &Graph, t: TensorId) -> Option<OpId> {
    let root = facts.root[t.index()];
    let op = graph.producer(t).filter(|op| graph.producer(root) != Some(*op))?;
    graph.updates(op).iter().all(|(new, _)| facts.root[new.index()] != root).then_some(op)
}

/// Each use happens after the creation; each overwrite is ordered against every other touch.
fn find_in_life(
    facts: &Facts<'_>,
    plan: &PlanDocument,
    clocks: &Clocks,
    life: &Life,
    root: TensorId,
    faults: &mut Vec<Fault>,
) {
    let uses = &life.uses;
    let is_made = facts.graph.producer(root).is_some()
        || uses.first().is_some_and(|s| matches!(plan.steps[*s].action, Action::Fetch(_)));
    if let Some((&made, later)) = uses.split_first().filter(|_| is_made) {
        for &used in later.iter().filter(|used| !clocks.ordered(made, **used)) {
            let what = facts.subject(life);
            faults.push(Fault::UseNotOrdered { what, made: StepIdx::new(made), used: StepIdx::new(used) });
        }
    }
    find_overwrites(facts, plan, clocks, root, uses, faults);
}

/// Each overwrite of a root is ordered against every other touch.
fn find_overwrites(
    facts: &Facts<'_>,
    plan: &PlanDocument,
    clocks: &Clocks,
    root: TensorId,
    touches: &[usize],
    faults: &mut Vec<Fault>,
) {
    let graph = facts.graph;
    let overwrites = |s: usize| match plan.steps[s].action {
        Action::Run(op) => graph.updates(op).iter().any(|(new, _)| facts.root[new.index()] == root),
        Action::Offload(_) | Action::Fetch(_) => false,
    };
    faults.extend(unordered_writes(clocks, touches, overwrites).into_iter().map(|(write, touch)| {
        let what = graph.tensor_label(root).to_string();
        Fault::UpdateNotOrdered { what, write: StepIdx::new(write), touch: StepIdx::new(touch) }
    }));
}

/// The pairs (write, touch) of ascending touches that are not ordered, of each touch with the writes next to it.
///
/// The writes next to a touch stand for all: where they are in order, so are the writes among themselves. O(touches).
fn unordered_writes(clocks: &Clocks, touches: &[usize], is_write: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut unordered = Vec::new();
    let mut last_write: Option<usize> = None;
    // Touches since the last write.
    let mut since: Vec<usize> = Vec::new();
    for &touch in touches {
        if let Some(write) = last_write.filter(|write| !clocks.ordered(*write, touch)) {
            unordered.push((write, touch));
        }
        if is_write(touch) {
            unordered.extend(since.drain(..).filter(|t| !clocks.ordered(*t, touch)).map(|t| (touch, t)));
            last_write = Some(touch);
        } else {
            since.push(touch);
        }
    }
    unordered
}

/// Each first touch of a stay happens after every touch of the stays that had its bytes before.
///
/// It is enough to look at the stay that had each byte last: what that one reused was ordered before it.
fn find_reuse(
    facts: &Facts<'_>,
    clocks: &Clocks,
    lives: &[Life],
    takes_over: &HashMap<usize, usize>,
    faults: &mut Vec<Fault>,
) {
    let mut placed: Vec<usize> =
        (0..lives.len()).filter(|k| lives[*k].range().is_some() && !lives[*k].uses.is_empty()).collect();
    placed.sort_by_key(|k| (lives[*k].first, *k));
    // Who had which bytes last: start → (end, life). Ranges are disjoint.
    let mut last_had: BTreeMap<u128, (u128, usize)> = BTreeMap::new();
    for y in placed {
        let Some((start, end)) = lives[y].range() else { continue };
        let meets = |(from, (to, _)): &(&u128, &(u128, usize))| **from < end && *to > start;
        let below = last_had.range(..start).next_back().filter(meets);
        let met: Vec<(u128, u128, usize)> =
            below.into_iter().chain(last_had.range(start..end)).map(|(from, (to, x))| (*from, *to, *x)).collect();
        let first = lives[y].uses[0];
        let mut seen: Vec<usize> = Vec::new();
        for (from, to, x) in met {
            last_had.remove(&from);
            if from < start {
                last_had.insert(from, (start, x));
            }
            if to > end {
                last_had.insert(end, (to, x));
            }
            let is_before = lives[x].last < lives[y].first || takes_over.get(&y) == Some(&x);
            if !is_before || seen.contains(&x) {
                continue;
            }
            seen.push(x);
            if let Some(&touch) = lives[x].uses.iter().find(|touch| !clocks.ordered(**touch, first)) {
                let (what, other) = (facts.subject(&lives[y]), facts.subject(&lives[x]));
                let (first, touch) = (StepIdx::new(first), StepIdx::new(touch));
                faults.push(Fault::ReuseNotOrdered { what, first, other, touch });
            }
        }
        last_had.insert(start, (end, y));
    }
}
