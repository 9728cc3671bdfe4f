//! Two searches of one instance side by side: one from each end.
//!
//! Both start from the same best order and bound, with a work budget each; then what they found is put together, the
//! first one's before the second one's where they are equal. If the first proves its order optimal, the second does
//! not count. So the answer does not depend on whether they run one after the other or, with the feature `rayon`, at
//! the same time.

use super::Best;
use crate::search::Search;

/// Runs `search_one` on each of up to two items, with at most `work` units for each.
pub(super) fn both<'i, T: Send>(
    best: &mut Best<'i>,
    search: &mut Search<'_>,
    items: &mut [T],
    work: impl Fn(&T) -> u64 + Sync,
    search_one: impl Fn(&mut T, &mut Best<'i>, &mut Search<'_>) + Sync,
) {
    let start = &*best;
    let most = search.remaining_work() / items.len().max(1) as u64;
    let work = |item: &T| work(item).min(most);
    let run = |item: &mut T, mut own: Search<'static>| {
        let mut found = start.clone();
        search_one(item, &mut found, &mut own);
        (found, own.spent_work())
    };
    let mut results = Vec::with_capacity(2);
    match items {
        [] => {}
        #[cfg(feature = "rayon")]
        [first, second] => {
            let (one, two) = (search.fork(work(first)), search.fork(work(second)));
            let (one, two) = rayon::join(|| run(first, one), || run(second, two));
            let done = one.0.is_optimal();
            results.push(one);
            results.extend((!done).then_some(two));
        }
        items => {
            for item in items {
                let own = search.fork(work(item));
                results.push(run(item, own));
                if results.last().is_some_and(|(found, _)| found.is_optimal()) {
                    break;
                }
            }
        }
    }
    for (found, spent) in results {
        best.absorb(found);
        search.spend(spent);
    }
}
