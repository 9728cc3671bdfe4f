//! Dense typed ids, and the flat adjacency lists that they index.
//!
//! Every id is a position in a dense table, so a table indexed by an id is a plain vector. Ids of one graph mean
//! nothing in another.

/// Defines a `u32` newtype that indexes a dense table.
macro_rules! dense_id {
    ($(#[$meta:meta])* $name:ident, $word:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        pub struct $name(u32);

        impl $name {
            /// The id of the entry at `index`.
            ///
            /// An id that no graph has handed out may be made this way; whoever looks it up answers with an error
            /// or, where it documents so, panics as slice indexing does. Positions from 2³² − 1 on, which no graph
            /// can hold, all become the same unknown id.
            #[must_use]
            pub const fn new(index: usize) -> Self {
                if index < u32::MAX as usize {
                    #[expect(clippy::cast_possible_truncation, reason = "just compared")]
                    Self(index as u32)
                } else {
                    Self(u32::MAX)
                }
            }

            /// The position in a table of such entries.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($word, "{}"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

dense_id!(
    /// An op of a graph: its position in the framework's own order of ops.
    OpId, "op"
);
dense_id!(
    /// A tensor of a graph.
    TensorId, "t"
);
dense_id!(
    /// A storage of a graph: the bytes that a tensor and all views of it share.
    StorageId, "s"
);
dense_id!(
    /// A position in a schedule, from 0.
    StepIdx, "step"
);
dense_id!(
    /// A queue (a stream) that steps are issued to; 0 where nothing else is said.
    QueueId, "q"
);

/// Lists of `T`, one per dense key, stored back to back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adjacency<T> {
    /// `ends[k]` is where list `k` ends, and where list `k + 1` starts.
    ends: Vec<usize>,
    items: Vec<T>,
}

impl<T> Default for Adjacency<T> {
    fn default() -> Self {
        Self { ends: Vec::new(), items: Vec::new() }
    }
}

impl<T> Adjacency<T> {
    /// Appends an item to the list that is being built; `close` ends that list.
    pub(crate) fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Appends items to the list that is being built.
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
    }

    /// Ends the list that is being built, and starts the next.
    pub(crate) fn close(&mut self) {
        self.ends.push(self.items.len());
    }

    /// Appends one whole list.
    pub(crate) fn push_list(&mut self, list: impl IntoIterator<Item = T>) {
        self.items.extend(list);
        self.close();
    }

    /// The number of lists.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All items of all lists.
    pub(crate) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// The list of key `k`.
    pub(crate) fn list(&self, k: usize) -> &[T] {
        let start = if k == 0 { 0 } else { self.ends[k - 1] };
        &self.items[start..self.ends[k]]
    }

    /// All lists in the order of their keys.
    pub(crate) fn lists(&self) -> impl ExactSizeIterator<Item = &[T]> {
        (0..self.len()).map(|k| self.list(k))
    }
}

impl<T: Copy> Adjacency<T> {
    /// Groups `(key, item)` pairs by key in two passes; within a key the items keep the order of the pairs.
    ///
    /// `pairs` is called twice and must yield the same pairs. O(keys + pairs).
    pub(crate) fn group<I>(n_keys: usize, pairs: impl Fn() -> I) -> Self
    where
        I: Iterator<Item = (usize, T)>,
    {
        let mut ends = vec![0usize; n_keys];
        let mut first = None;
        for (key, item) in pairs() {
            ends[key] += 1;
            first.get_or_insert(item);
        }
        let mut total = 0;
        for end in &mut ends {
            let count = *end;
            *end = total;
            total += count;
        }
        let mut items = first.map_or_else(Vec::new, |item| vec![item; total]);
        // `ends[k]` is the next free place of list k, which after the last item is the list's end.
        for (key, item) in pairs() {
            items[ends[key]] = item;
            ends[key] += 1;
        }
        Self { ends, items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouping_keeps_the_order_of_the_pairs() {
        let pairs = [(2, 'a'), (0, 'b'), (2, 'c'), (2, 'd')];
        let lists = Adjacency::group(4, || pairs.iter().copied());
        let lists: Vec<_> = lists.lists().map(<[char]>::to_vec).collect();
        assert_eq!(lists, [vec!['b'], vec![], vec!['a', 'c', 'd'], vec![]]);
    }

    #[test]
    fn positions_that_no_graph_can_hold_are_unknown_ids() {
        assert_eq!(OpId::new(7).index(), 7);
        assert_eq!(OpId::new(usize::MAX), OpId::new(u32::MAX as usize));
        assert_eq!(format!("{:?} {}", TensorId::new(3), TensorId::new(3)), "t3 3");
    }
}
