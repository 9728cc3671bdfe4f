//! Niche search against brute force, and on packings without a hole.

use super::super::part::{Part, Span};
use super::*;

fn part(rows: &[(u64, u64, u64)]) -> Vec<Part> {
    let span = |(row, &(start, end, bytes)): (usize, &(u64, u64, u64))| Span { start, end, bytes, alignment: 1, row };
    Part::split(rows.iter().enumerate().map(span).collect())
}

/// Whether offsets under the capacity exist, by trying all of them.
fn is_possible(part: &Part, capacity: u64, offsets: &mut Vec<u64>) -> bool {
    let Some(item) = part.items.get(offsets.len()) else { return true };
    for offset in 0..=capacity.saturating_sub(item.bytes) {
        let is_free = part.items.iter().zip(&*offsets).all(|(other, at)| {
            item.left >= other.right || other.left >= item.right || offset + item.bytes <= *at || at + other.bytes <= offset
        });
        if offset + item.bytes <= capacity && is_free {
            offsets.push(offset);
            if is_possible(part, capacity, offsets) {
                return true;
            }
            offsets.pop();
        }
    }
    false
}

fn assert_holds(part: &Part, capacity: u64, offsets: &[u64]) {
    for (i, item) in part.items.iter().enumerate() {
        assert!(offsets[i] + item.bytes <= capacity);
        for (j, other) in part.items.iter().enumerate().take(i) {
            let meet = item.left < other.right && other.left < item.right;
            let is_apart = offsets[i] + item.bytes <= offsets[j] || offsets[j] + other.bytes <= offsets[i];
            assert!(!meet || is_apart, "{item:?} {other:?}");
        }
    }
}

#[test]
fn few_items_are_placed_exactly_where_that_can_be() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut n_possible, mut n_impossible) = (0, 0);
    for _ in 0..1_500 {
        let rows: Vec<(u64, u64, u64)> = (0..random.random_range(2..8))
            .map(|_| {
                let start = random.random_range(0..8);
                (start, start + random.random_range(1..6), random.random_range(1..6))
            })
            .collect();
        for part in part(&rows) {
            for capacity in part.most()..part.most() + 3 {
                let outcome = Niche::new(&part, capacity, 0).run(u64::MAX, &mut Search::new());
                let possible = is_possible(&part, capacity, &mut Vec::new());
                match outcome {
                    Outcome::Placed(offsets) => assert_holds(&part, capacity, &offsets),
                    Outcome::Impossible => assert!(!possible, "{rows:?} under {capacity}"),
                    Outcome::Unknown => panic!("{rows:?} under {capacity}: the budget is spent"),
                }
                if possible { n_possible += 1 } else { n_impossible += 1 }
            }
        }
    }
    assert!(n_possible > 500 && n_impossible > 20, "{n_possible} {n_impossible}");
}

#[test]
fn packings_without_a_hole_are_found() {
    for n in [10, 40, 100] {
        let rows: Vec<(u64, u64, u64)> =
            super::super::puzzle::guillotine(n, 3).iter().map(|i| (i.start, i.end, i.bytes)).collect();
        for part in part(&rows) {
            let capacity = part.most();
            let outcome = Niche::new(&part, capacity, 0).run(200_000, &mut Search::new());
            let Outcome::Placed(offsets) = outcome else { panic!("{n}: {outcome:?}") };
            assert_holds(&part, capacity, &offsets);
        }
    }
}

#[test]
fn the_sequence_of_restarts() {
    assert_eq!((1..16).map(luby).collect::<Vec<_>>(), [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]);
}
