//! Happens-before by vector clocks: every dependency, every overwrite and every reuse of bytes across queues.

use super::Fault;
use super::lives::{Facts, Life, Subject};
use crate::id::{QueueId, StepIdx};
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
    lives: &[Life],
    takes_over: &HashMap<usize, usize>,
    faults: &mut Vec<Fault>,
) {
    let Some(clocks) = clocks(plan, faults) else { return };
    for life in lives {
        let Subject::Root(root) = life.subject else { continue };
        find_in_life(facts, plan, &clocks, life, root, faults);
    }
    find_reuse(facts, &clocks, lives, takes_over, faults);
}

/// The clocks; `None` when there is one queue only, or an event that makes no sense, which is reported.
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
    let n_faults = faults.len();
    for event in &plan.events {
        if event.record >= event.wait {
            faults.push(Fault::EventBackwards { record: event.record, wait: event.wait });
        }
        waits.entry(event.wait.index()).or_default().push(event.record.index());
    }
    if faults.len() > n_faults {
        return None;
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

/// Each use happens after the creation; each overwrite is ordered against every other touch.
fn find_in_life(
    facts: &Facts<'_>,
    plan: &PlanDocument,
    clocks: &Clocks,
    life: &Life,
    root: crate::id::TensorId,
    faults: &mut Vec<Fault>,
) {
    let (graph, uses) = (facts.graph, &life.uses);
    let is_made = graph.producer(root).is_some()
        || uses.first().is_some_and(|s| matches!(plan.steps[*s].action, Action::Fetch(_)));
    if let Some((&made, later)) = uses.split_first().filter(|_| is_made) {
        for &used in later.iter().filter(|used| !clocks.ordered(made, **used)) {
            let what = facts.subject(life);
            faults.push(Fault::UseNotOrdered { what, made: StepIdx::new(made), used: StepIdx::new(used) });
        }
    }
    let overwrites = |s: &usize| match plan.steps[*s].action {
        Action::Run(op) => graph.updates(op).iter().any(|(new, _)| facts.root[new.index()] == root),
        Action::Offload(_) | Action::Fetch(_) => false,
    };
    for &write in uses.iter().filter(|s| overwrites(s)) {
        for &touch in uses {
            let (early, late) = (write.min(touch), write.max(touch));
            if !clocks.ordered(early, late) {
                let what = facts.subject(life);
                faults.push(Fault::UpdateNotOrdered { what, write: StepIdx::new(write), touch: StepIdx::new(touch) });
            }
        }
    }
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
