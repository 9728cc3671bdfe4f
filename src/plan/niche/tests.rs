//! Niche search against brute force, and on packings without a hole.

use super::super::part::{Part, Span};
use super::*;

/// Start, end, bytes.
type Row = (u64, u64, u64);

fn part(rows: &[Row]) -> Vec<Part> {
    let span = |(row, &(start, end, bytes)): (usize, &Row)| Span { start, end, bytes, alignment: 1, row };
    Part::split(rows.iter().enumerate().map(span).collect())
}

/// Whether offsets under the capacity exist, by trying all of them.
fn is_possible(part: &Part, capacity: u64, offsets: &mut Vec<u64>) -> bool {
    let Some(item) = part.items.get(offsets.len()) else { return true };
    for offset in 0..=capacity.saturating_sub(item.bytes) {
        let is_free = part.items.iter().zip(&*offsets).all(|(other, at)| {
            item.left >= other.right
                || other.left >= item.right
                || offset + item.bytes <= *at
                || at + other.bytes <= offset
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

/// Random rows, added while they fit under a load.
fn dense(random: &mut Xoshiro256PlusPlus) -> Vec<Row> {
    let (n_moments, most) = (random.random_range(4..8), random.random_range(4..8));
    let mut load = vec![0; n_moments];
    let mut rows = Vec::new();
    while rows.len() < 9 {
        let start = random.random_range(0..n_moments);
        let end = random.random_range(start + 1..=n_moments.min(start + 4));
        let bytes = random.random_range(1..4);
        if load[start..end].iter().any(|held| held + bytes > most) {
            if random.random_range(0..20) == 0 {
                break;
            }
            continue;
        }
        load[start..end].iter_mut().for_each(|held| *held += bytes);
        rows.push((start as u64, end as u64, bytes));
    }
    rows
}

#[test]
fn few_items_are_placed_exactly_where_that_can_be() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..1_500 {
        let rows = dense(&mut random);
        for part in part(&rows) {
            for capacity in part.most()..part.most() + 2 {
                let outcome = Niche::new(&part, capacity, 0).run(u64::MAX, &mut Search::new());
                let possible = is_possible(&part, capacity, &mut Vec::new());
                match outcome {
                    Outcome::Placed(offsets) => assert_holds(&part, capacity, &offsets),
                    Outcome::Impossible => assert!(!possible, "{rows:?} under {capacity}"),
                    Outcome::Unknown => panic!("{rows:?} under {capacity}: the budget is spent"),
                }
            }
        }
    }
}

#[test]
fn layouts_that_need_more_than_the_load() {
    let cases: [(u64, &[Row]); 3] = [
        (4, &[(4, 6, 2), (1, 3, 2), (0, 2, 2), (2, 5, 1), (3, 5, 1), (2, 4, 1), (5, 6, 2), (3, 4, 1)]),
        (6, &[(0, 2, 3), (1, 4, 2), (3, 5, 2), (2, 4, 2), (4, 5, 3), (0, 1, 3), (1, 3, 1), (4, 5, 1)]),
        (
            4,
            &[
                (3, 5, 2),
                (0, 2, 2),
                (1, 4, 1),
                (5, 6, 3),
                (6, 7, 2),
                (1, 3, 1),
                (5, 7, 1),
                (2, 4, 1),
                (4, 5, 2),
                (0, 1, 2),
                (6, 7, 1),
            ],
        ),
    ];
    for (load, rows) in cases {
        let parts = part(rows);
        assert_eq!(parts.iter().map(Part::most).max(), Some(load));
        let outcomes = parts.iter().map(|part| Niche::new(part, load, 0).run(u64::MAX, &mut Search::new()));
        assert!(outcomes.into_iter().any(|outcome| outcome == Outcome::Impossible), "{rows:?}");
    }
}

#[test]
fn packings_without_a_hole_are_found() {
    for n in [10, 40, 100] {
        let rows: Vec<Row> = super::super::puzzle::guillotine(n, 3).iter().map(|i| (i.start, i.end, i.bytes)).collect();
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
