//! Beam search: best-first search that keeps only the most promising states of each size.
//!
//! States are taken by the number of ops that have run, fewest first. Of those with equally many, at most `width` are
//! expanded: half of them those of the least level, half those with the fewest live bytes. Children come from
//! `expand`, so the safe rules carry many of them past sizes that are then never visited. A set of ops that was
//! reached twice is kept once, with the lower level.
//!
//! Complexity: O(n w (r d + n / 64)) time for n ops, width w, r ready ops of degree d; the sets of states that are
//! still to be expanded, and the ways to all of them, are held in memory. Deterministic: ties go to the state that was
//! stored first. Limits: it proves nothing.
//!
//! Source: beam search as in Lowerre, "The HARPY speech recognition system", 1976.

use super::Best;
use super::expand::{Child, Expander, Place, Rules};
use super::walk::{Direction, Walk};
use crate::id::OpId;
use crate::search::Search;
use std::collections::BTreeMap;

/// A state that waits to be expanded.
struct Node {
    cost: u64,
    level: u64,
    live: u64,
    hash: u64,
    set: Box<[u64]>,
    /// The end of the way to it, in `Ways`.
    way: u32,
}

/// The ways to all states: each the ops that lead to it from the way before.
#[derive(Default)]
struct Ways {
    ops: Vec<OpId>,
    /// For each way the one before it, and where its ops end.
    ends: Vec<(u32, usize)>,
}

impl Ways {
    fn push(&mut self, before: u32, ops: &[OpId]) -> u32 {
        self.ops.extend_from_slice(ops);
        self.ends.push((before, self.ops.len()));
        u32::try_from(self.ends.len() - 1).unwrap_or(u32::MAX)
    }

    /// The ops of a way and then `ops`.
    fn follow(&self, way: u32, ops: &[OpId]) -> Vec<OpId> {
        let mut list: Vec<OpId> = ops.iter().rev().copied().collect();
        let mut at = way;
        while let Some(&(before, end)) = self.ends.get(at as usize) {
            let start = at.checked_sub(1).map_or(0, |last| self.ends[last as usize].1);
            list.extend(self.ops[start..end].iter().rev());
            at = before;
        }
        list.reverse();
        list
    }
}

/// Searches once in one direction; whether a better order was found.
pub(super) fn improve(
    best: &mut Best<'_>,
    direction: Direction,
    width: usize,
    hot: Vec<OpId>,
    search: &mut Search<'_>,
) -> bool {
    let instance = best.instance();
    let mut expander = Expander::new(instance, direction, hot, Rules::ALL);
    if !expander.walk.may_run_now() {
        return false;
    }
    let before = best.peak_bytes();
    let mut ways = Ways::default();
    let mut sizes: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    let start = expander.start(best.bound.bytes());
    offer(best, &mut ways, &mut sizes, &expander.walk, &start, u32::MAX);
    while let Some((_, mut nodes)) = sizes.pop_first() {
        choose(&mut nodes, width);
        for node in nodes {
            let level = node.level.max(best.bound.bytes());
            if level >= best.peak_bytes() {
                continue;
            }
            let place = Place { set: &node.set, live: node.live, cost: node.cost, level, hash: node.hash };
            let limit = best.peak_bytes();
            let (_, work) = expander.children(place, None, limit - 1, |walk, child| {
                offer(best, &mut ways, &mut sizes, walk, child, node.way);
                best.peak_bytes()
            });
            if !search.spend(work) || best.is_optimal() {
                return best.peak_bytes() < before;
            }
        }
    }
    best.peak_bytes() < before
}

/// Keeps the child for later, or the order that it completes.
fn offer(
    best: &mut Best<'_>,
    ways: &mut Ways,
    sizes: &mut BTreeMap<usize, Vec<Node>>,
    walk: &Walk<'_>,
    child: &Child,
    way: u32,
) {
    if walk.is_complete() {
        best.offer(walk.direction().in_time(ways.follow(way, &child.ops)));
        return;
    }
    let way = ways.push(way, &child.ops);
    let &Child { cost, level, hash, .. } = child;
    let node = Node { cost, level, live: walk.live(), hash, set: walk.set().into(), way };
    sizes.entry(walk.n_done()).or_default().push(node);
}

/// Leaves of each set of ops the way with the lowest level, and of these at most `width`, those that should go on.
fn choose(nodes: &mut Vec<Node>, width: usize) {
    nodes.sort_by(|a, b| (a.hash, &a.set, a.level, a.way).cmp(&(b.hash, &b.set, b.level, b.way)));
    nodes.dedup_by(|later, first| later.hash == first.hash && later.set == first.set);
    nodes.sort_by_key(|node| (node.level, node.live, node.way));
    if nodes.len() > width {
        let mut rest = nodes.split_off(width.div_ceil(2));
        rest.sort_by_key(|node| (node.live, node.level, node.way));
        rest.truncate(width / 2);
        nodes.append(&mut rest);
    }
}
