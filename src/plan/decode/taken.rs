//! Which bytes are taken when: a tree of merged byte ranges.

use super::super::part::Item;
use super::Fit;

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Range {
    pub(in super::super) start: u64,
    pub(in super::super) end: u64,
}

/// A union of byte ranges: sorted, disjoint, not touching.
#[derive(Clone, Debug, Default)]
struct Union(Vec<Range>);

impl Union {
    fn insert(&mut self, mut range: Range) {
        let from = self.0.partition_point(|r| r.end < range.start);
        let to = from + self.0[from..].partition_point(|r| r.start <= range.end);
        if from == to {
            self.0.insert(from, range);
            return;
        }
        range.start = range.start.min(self.0[from].start);
        range.end = range.end.max(self.0[to - 1].end);
        self.0[from] = range;
        self.0.drain(from + 1..to);
    }
}

/// Which bytes are taken in which sections.
#[derive(Debug)]
pub(in super::super) struct Taken {
    /// The number of leaves, a power of two; leaf `s` is node `n_leaves + s`.
    n_leaves: usize,
    cover: Vec<Union>,
    below: Vec<Union>,
}

impl Taken {
    pub(in super::super) fn new(n_sections: usize) -> Self {
        let n_leaves = n_sections.next_power_of_two();
        Self { n_leaves, cover: vec![Union::default(); 2 * n_leaves], below: vec![Union::default(); 2 * n_leaves] }
    }

    /// The nodes that make up `[left, right)`.
    fn parts(&self, item: &Item) -> impl Iterator<Item = usize> + use<> {
        let (mut l, mut r) = (item.left + self.n_leaves, item.right + self.n_leaves);
        std::iter::from_fn(move || {
            while l < r {
                if l % 2 == 1 {
                    l += 1;
                    return Some(l - 1);
                }
                if r % 2 == 1 {
                    r -= 1;
                    return Some(r);
                }
                l /= 2;
                r /= 2;
            }
            None
        })
    }

    /// The nodes of which `[left, right)` covers a part only.
    fn partly(&self, item: &Item) -> impl Iterator<Item = usize> + use<> {
        let (left, right, n_leaves) = (item.left, item.right, self.n_leaves);
        let (mut a, mut b, mut span) = (left + n_leaves, right - 1 + n_leaves, 1);
        let mut pending = None;
        std::iter::from_fn(move || {
            if let Some(node) = pending.take() {
                return Some(node);
            }
            while a > 1 {
                (a, b, span) = (a / 2, b / 2, 2 * span);
                let inside = |node: usize| {
                    // The nodes of one level start at the same power of two.
                    let first = (node - n_leaves / span) * span;
                    left <= first && first + span <= right
                };
                match (inside(a), inside(b)) {
                    (false, false) if a != b => {
                        pending = Some(b);
                        return Some(a);
                    }
                    (false, _) => return Some(a),
                    (true, false) => return Some(b),
                    (true, true) => {}
                }
            }
            None
        })
    }

    pub(in super::super) fn insert(&mut self, item: &Item, range: Range) {
        for node in self.parts(item) {
            self.cover[node].insert(range);
            self.below[node].insert(range);
        }
        for node in self.partly(item) {
            self.below[node].insert(range);
        }
    }

    /// The offset that `fit` picks, clear of `more` too (ranges that are sorted by their start); `None` when it does
    /// not fit in 64 bits.
    pub(in super::super) fn find(&self, item: &Item, fit: Fit, more: &[Range], visits: &mut u64) -> Option<u64> {
        let mut lists: Vec<&[Range]> = vec![more];
        lists.extend(self.parts(item).map(|node| self.below[node].0.as_slice()));
        lists.extend(self.partly(item).map(|node| self.cover[node].0.as_slice()));
        lists.retain(|list| !list.is_empty());
        let mut at = 0u64;
        let mut tightest: Option<(u64, u64)> = None;
        loop {
            // Climb until no list takes the byte at `at`; then the gap ends where the next range of a list starts.
            let mut gap_end = u64::MAX;
            let mut climbed = true;
            while climbed {
                climbed = false;
                gap_end = u64::MAX;
                *visits += lists.len() as u64;
                for list in &mut lists {
                    while let [first, rest @ ..] = *list
                        && first.end <= at
                    {
                        *list = rest;
                        *visits += 1;
                    }
                    if let [first, ..] = *list {
                        if first.start <= at {
                            at = first.end;
                            climbed = true;
                        } else {
                            gap_end = gap_end.min(first.start);
                        }
                    }
                }
                lists.retain(|list| !list.is_empty());
            }
            let open = lists.is_empty();
            let offset = at.checked_next_multiple_of(item.alignment);
            let fits = offset.and_then(|o| o.checked_add(item.bytes)).is_some_and(|end| end <= gap_end);
            if let Some(offset) = offset.filter(|_| fits) {
                if open {
                    return Some(tightest.map_or(offset, |(_, offset)| offset));
                }
                if fit == Fit::First {
                    return Some(offset);
                }
                let gap = gap_end - at;
                if tightest.is_none_or(|(least, _)| gap < least) {
                    tightest = Some((gap, offset));
                }
            }
            if open {
                return tightest.map(|(_, offset)| offset);
            }
            at = gap_end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_merge_what_touches() {
        let mut union = Union::default();
        for (start, end) in [(10, 20), (30, 40), (0, 5), (20, 30), (50, 60), (4, 10)] {
            union.insert(Range { start, end });
        }
        assert_eq!(union.0, [Range { start: 0, end: 40 }, Range { start: 50, end: 60 }]);
    }

    #[test]
    fn parts_make_up_the_range_and_partly_covered_nodes_are_their_ancestors() {
        let taken = Taken::new(13);
        for left in 0..13 {
            for right in left + 1..=13 {
                let item = Item { left, right, bytes: 1, alignment: 1 };
                let parts: Vec<usize> = taken.parts(&item).collect();
                let mut leaves: Vec<usize> = Vec::new();
                let mut ancestors: Vec<usize> = Vec::new();
                for &part in &parts {
                    let level = part.ilog2();
                    let span = 16 >> level;
                    leaves.extend((part - (1 << level)) * span..(part - (1 << level) + 1) * span);
                    ancestors.extend((1..=level).map(|up| part >> up));
                }
                leaves.sort_unstable();
                assert_eq!(leaves, (left..right).collect::<Vec<_>>());
                ancestors.sort_unstable();
                ancestors.dedup();
                let mut partly: Vec<usize> = taken.partly(&item).collect();
                partly.sort_unstable();
                assert_eq!(partly, ancestors, "{left}..{right}");
            }
        }
    }

    #[test]
    fn best_fit_takes_the_tightest_gap() {
        let mut taken = Taken::new(1);
        let item = |bytes| Item { left: 0, right: 1, bytes, alignment: 1 };
        for (start, end) in [(30, 40), (50, 60)] {
            taken.insert(&item(10), Range { start, end });
        }
        assert_eq!(taken.find(&item(8), Fit::First, &[], &mut 0), Some(0));
        assert_eq!(taken.find(&item(8), Fit::Best, &[], &mut 0), Some(40));
        assert_eq!(taken.find(&item(31), Fit::Best, &[], &mut 0), Some(60));
        assert_eq!(taken.find(&item(u64::MAX), Fit::Best, &[], &mut 0), None);
    }
}
