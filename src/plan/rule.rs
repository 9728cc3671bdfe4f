//! The orders in which items are placed.

use super::part::{Item, Part};
use std::cmp::Reverse;

/// A rule by which items are ordered, most urgent first. T is the largest load of a section that the item covers, W
/// the number of sections, A bytes times sections, Z the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Size,
    Area,
    Width,
    Start,
    Twa,
    Taw,
    Tz,
}

impl Rule {
    pub(super) const ALL: [Self; 7] =
        [Self::Size, Self::Twa, Self::Area, Self::Width, Self::Start, Self::Taw, Self::Tz];

    /// The items in the order of the rule.
    pub(super) fn order(self, part: &Part) -> Vec<usize> {
        let totals = totals(part);
        let key = |i: &usize| {
            let item = &part.items[*i];
            let (t, w, a, z) = (u128::from(totals[*i]), item.width() as u128, item.area(), u128::from(item.bytes));
            let key = match self {
                Self::Size => (z, w, 0),
                Self::Area => (a, z, 0),
                Self::Width => (w, z, 0),
                Self::Start => (u128::MAX - item.left as u128, a, 0),
                Self::Twa => (t, w, a),
                Self::Taw => (t, a, w),
                Self::Tz => (t, z, w),
            };
            Reverse(key)
        };
        let mut order: Vec<usize> = (0..part.items.len()).collect();
        order.sort_by_cached_key(key);
        order
    }
}

/// For each item, the largest load of a section that it covers. O((n + s) log s).
fn totals(part: &Part) -> Vec<u64> {
    // A bottom-up tree of maxima: node k covers nodes 2k and 2k + 1.
    let n = part.n_sections();
    let mut tree = vec![0; 2 * n];
    tree[n..].copy_from_slice(&part.load);
    for node in (1..n).rev() {
        tree[node] = tree[2 * node].max(tree[2 * node + 1]);
    }
    let most = |item: &Item| {
        let (mut l, mut r, mut most) = (item.left + n, item.right + n, 0);
        while l < r {
            if l % 2 == 1 {
                most = most.max(tree[l]);
                l += 1;
            }
            if r % 2 == 1 {
                r -= 1;
                most = most.max(tree[r]);
            }
            l /= 2;
            r /= 2;
        }
        most
    };
    part.items.iter().map(most).collect()
}
