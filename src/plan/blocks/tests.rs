//! Blocks against all partitions of few items.

use super::*;

/// The fewest bytes of blocks, over all ways to put items together that are never live together.
fn fewest(items: &[Item], blocks: &mut Vec<Vec<usize>>, next: usize) -> u64 {
    if next == items.len() {
        return blocks.iter().map(|block| block.iter().map(|k| items[*k].bytes).max().unwrap_or(0)).sum();
    }
    let meet = |a: usize, b: usize| items[a].first <= items[b].last && items[b].first <= items[a].last;
    let mut least = u64::MAX;
    for at in 0..=blocks.len() {
        if at == blocks.len() {
            blocks.push(Vec::new());
        }
        if blocks[at].iter().all(|k| !meet(*k, next)) {
            blocks[at].push(next);
            least = least.min(fewest(items, blocks, next + 1));
            blocks[at].pop();
        }
        if blocks[at].is_empty() {
            blocks.pop();
        }
    }
    least
}

#[test]
fn the_bound_holds_and_is_mostly_reached_on_few_items() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let (mut n_best, mut n_tight) = (0, 0);
    let n_cases = 400;
    for _ in 0..n_cases {
        let items: Vec<Item> = (0..random.random_range(1..8))
            .map(|_| {
                let first = random.random_range(0..8);
                Item { first, last: first + random.random_range(0..5), bytes: random.random_range(1..10) }
            })
            .collect();
        let bound = bound::lower_bound(&items);
        let (blocks, block_of) = assign_best(&items, bound, f64::INFINITY);
        let found: u64 = blocks.iter().sum();
        let least = fewest(&items, &mut Vec::new(), 0);
        assert!(bound <= least && least <= found, "{bound} {least} {found}");
        for (i, a) in items.iter().enumerate() {
            assert!(blocks[block_of[i]] >= a.bytes);
            for (j, b) in items.iter().enumerate().take(i) {
                assert!(block_of[i] != block_of[j] || a.last < b.first || b.last < a.first);
            }
        }
        n_best += u64::from(found == least);
        n_tight += u64::from(bound == least);
    }
    assert!(n_best * 100 >= n_cases * 99, "{n_best} of {n_cases} at the least");
    assert!(n_tight * 10 >= n_cases * 9, "{n_tight} of {n_cases} with the bound at the least");
}
