//! Placement by order: each item goes into a gap that is free during all of its time.
//!
//! **Idea.** Sort the items by some rule, and place one after the other at the lowest offset (first fit), or in the
//! tightest gap (best fit), that no item placed before it overlaps in time and space.
//!
//! **Problem.** For an item over sections `[l, r)`, the bytes that are taken are the union of the bytes of all placed
//! items that share a section with it. The conflict graph that would list these has O(n²) edges and is never made.
//!
//! **Structure.** A segment tree over the sections. Each node keeps two unions of byte ranges, as sorted lists of
//! disjoint ranges: of the items that cover the node's whole range and were stored there (`cover`), and of all items
//! that touch its range at or below it (`below`). What is taken in `[l, r)` is `below` of the O(log s) nodes that make
//! up `[l, r)`, and `cover` of their ancestors. Ranges that touch are merged, so the lists stay short where the
//! packing is dense.
//!
//! **Invariants.** (1) Ranges of a list are sorted, disjoint, and do not touch. (2) `cover` of a node is part of its
//! `below`. (3) `below` of a node is the union of `below` of its children and its own `cover`.
//!
//! **Complexity.** For s sections and unions of k ranges, O(k log s) an item; k is 1 where the packing has no holes,
//! n at worst. Space O(n log s).
//!
//! **Determinism.** Orders are total: ties are broken by the canonical position of the item.
//!
//! **Source.** First fit by decreasing size and its relatives are folklore of dynamic storage allocation; the orders
//! by section total are those of M. Moffitt, "MiniMalloc", ASPLOS 2023. The tree of merged unions is ours.
//!
//! **Limits.** No order guarantees more than first fit does: a few per cent above the load are usual on crowded
//! inputs, a third on adversarial ones.

mod taken;

use super::part::Part;
use super::rule::Rule;
use super::solve::Best;
use crate::search::Search;
pub(super) use taken::{Range, Taken};

/// Where an item goes among the gaps in which it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The lowest gap.
    First,
    /// The tightest gap; the open end above everything counts as the loosest.
    Best,
}

/// How many items all decodes of one part place together.
const MANY_ITEMS: usize = 900_000;

/// Tries every order with every fit until one reaches the target.
pub(super) fn by_orders(part: &Part, best: &mut Best, search: &mut Search<'_>) {
    let mut n_left = (MANY_ITEMS / part.items.len().max(1)).max(usize::from(!best.has_answer()));
    for rule in Rule::ALL {
        let order = rule.order(part);
        for fit in [Fit::First, Fit::Best] {
            if n_left == 0 {
                return;
            }
            n_left -= 1;
            let attempt = place_in_order(part, &order, fit, best, search);
            if best.offer(part, attempt) || search.stopped().is_some() {
                return;
            }
        }
    }
}

/// Places items one after the other; `None` when an offset does not fit in 64 bits, or when the budget is spent and
/// there is an answer already.
fn place_in_order(part: &Part, order: &[usize], fit: Fit, best: &Best, search: &mut Search<'_>) -> Option<Vec<u64>> {
    let mut taken = Taken::new(part.n_sections());
    let mut offsets = vec![0; part.items.len()];
    for &i in order {
        let item = &part.items[i];
        let mut visits = 0;
        let offset = taken.find(item, fit, &[], &mut visits)?;
        if !search.spend(4 + visits) && best.has_answer() {
            return None;
        }
        let end = offset.checked_add(item.bytes)?;
        taken.insert(item, Range { start: offset, end });
        offsets[i] = offset;
    }
    Some(offsets)
}
