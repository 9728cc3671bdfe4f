//! The normal form of a placement problem: independent parts, items in canonical order, time in sections.

/// An interval of the normal form: its size is above 0, and its time is a range of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The first section that it covers.
    pub(super) left: usize,
    /// The first section after it.
    pub(super) right: usize,
    pub(super) bytes: u64,
    /// What its offset must be a multiple of.
    pub(super) alignment: u64,
}

impl Item {
    /// The number of sections that it covers.
    pub(super) fn width(&self) -> usize {
        self.right - self.left
    }

    /// Bytes times sections.
    pub(super) fn area(&self) -> u128 {
        u128::from(self.bytes) * self.width() as u128
    }
}

/// Items that share no section with the items of another part.
///
/// 1. Items stand in the order of left, right, bytes, alignment, whatever the order of the caller's rows.
/// 2. Two items overlap in time exactly when they share a section.
/// 3. Every section is covered, and every two neighbouring sections share an item.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) items: Vec<Item>,
    /// What each item is in the list from which the part was made.
    pub(super) rows: Vec<usize>,
    /// The bytes held in each section.
    pub(super) load: Vec<u64>,
}

/// An interval before it is cut into sections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    pub(super) alignment: u64,
    pub(super) row: usize,
}

impl Part {
    /// The number of sections.
    pub(super) fn n_sections(&self) -> usize {
        self.load.len()
    }

    /// The most bytes held in a section.
    pub(super) fn most(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// Whether an offset is as good as any other: no item asks for an alignment.
    pub(super) fn is_plain(&self) -> bool {
        self.items.iter().all(|item| item.alignment == 1)
    }

    /// The largest offset + bytes.
    pub(super) fn height(&self, offsets: &[u64]) -> u64 {
        offsets.iter().zip(&self.items).map(|(offset, item)| offset + item.bytes).max().unwrap_or(0)
    }

    /// Cuts time into sections and the spans into parts. Spans are neither empty nor of 0 bytes, and their bytes
    /// together fit in 64 bits. O(n log n).
    pub(super) fn split(mut spans: Vec<Span>) -> Vec<Self> {
        spans.sort_unstable_by_key(|s| (s.start, s.end, s.bytes, s.alignment, s.row));
        let mut ends: Vec<u64> = spans.iter().map(|s| s.end).collect();
        ends.sort_unstable();
        // A section ends where an end is followed by a start; its spans are not part of its neighbour's.
        let mut sections: Vec<u64> = Vec::new();
        let (mut at, mut ended) = (0, true);
        for span in &spans {
            while at < ends.len() && ends[at] <= span.start {
                (at, ended) = (at + 1, true);
            }
            if ended {
                sections.push(span.start);
                ended = false;
            }
        }
        // A span covers the sections whose first moment of spans it holds: from the last that begins at its start or
        // before, to the last that begins before its end.
        let mut parts: Vec<Self> = Vec::new();
        let (mut base, mut reach) = (0, 0);
        for span in &spans {
            let left = sections.partition_point(|begin| *begin <= span.start) - 1;
            let right = sections.partition_point(|begin| *begin < span.end);
            if left >= reach {
                base = left;
                parts.push(Self { items: Vec::new(), rows: Vec::new(), load: Vec::new() });
            }
            reach = reach.max(right);
            if let Some(part) = parts.last_mut() {
                let (left, right) = (left - base, right - base);
                part.items.push(Item { left, right, bytes: span.bytes, alignment: span.alignment });
                part.rows.push(span.row);
            }
        }
        for part in &mut parts {
            part.find_load();
            // Starts that were told apart by time alone may fall into one section.
            let mut order: Vec<usize> = (0..part.items.len()).collect();
            order.sort_by_key(|k| {
                let item = &part.items[*k];
                (item.left, item.right, item.bytes, item.alignment, *k)
            });
            part.items = order.iter().map(|k| part.items[*k]).collect();
            part.rows = order.iter().map(|k| part.rows[*k]).collect();
        }
        parts
    }

    /// All spans in one part, with the sections of `split` one after the other.
    pub(super) fn whole(spans: Vec<Span>) -> Self {
        let mut whole = Self { items: Vec::new(), rows: Vec::new(), load: Vec::new() };
        for part in Self::split(spans) {
            let base = whole.load.len();
            let moved = |item: Item| Item { left: item.left + base, right: item.right + base, ..item };
            whole.items.extend(part.items.into_iter().map(moved));
            whole.rows.extend(part.rows);
            whole.load.extend(part.load);
        }
        whole
    }

    /// Sums up the load from the items.
    pub(super) fn find_load(&mut self) {
        let n_sections = self.items.iter().map(|item| item.right).max().unwrap_or(0);
        let mut change = vec![(0u64, 0u64); n_sections + 1];
        for item in &self.items {
            change[item.left].0 += item.bytes;
            change[item.right].1 += item.bytes;
        }
        let mut held = 0;
        self.load = change[..n_sections]
            .iter()
            .map(|(more, less)| {
                held = held - less + more;
                held
            })
            .collect();
    }
}
