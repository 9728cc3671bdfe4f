//! Intervals whose best layout is known: a rectangle that was cut up.

use super::interval::Interval;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The height of the rectangle that [`guillotine`] cuts up, in bytes: the least height of any layout.
pub const HEIGHT_BYTES: u64 = 1 << 20;
/// Its width, in moments.
const WIDTH: u64 = 1 << 16;

/// A rectangle cut into `n` pieces by cuts from edge to edge, each through a random piece at a random place. Their best
/// layout has no hole, so its height is [`HEIGHT_BYTES`].
///
/// ```
/// use memsched::MemoryPlanner;
/// use memsched::plan::puzzle::{HEIGHT_BYTES, guillotine};
///
/// let layout = MemoryPlanner::new().alignment(1).place(&guillotine(30, 7))?;
/// assert_eq!(layout.height_bytes(), HEIGHT_BYTES);
/// # Ok::<(), memsched::PlanError>(())
/// ```
#[must_use]
pub fn guillotine(n: usize, seed: u64) -> Vec<Interval> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pieces = vec![(0, WIDTH, HEIGHT_BYTES)];
    while pieces.len() < n {
        let at = random.random_range(0..pieces.len());
        let (start, end, bytes) = pieces[at];
        if random.random() && end - start > 1 {
            let cut = random.random_range(start + 1..end);
            pieces[at].1 = cut;
            pieces.push((cut, end, bytes));
        } else if bytes > 1 {
            let cut = random.random_range(1..bytes);
            pieces[at].2 = cut;
            pieces.push((start, end, bytes - cut));
        } else if end - start == 1 && pieces.iter().all(|(start, end, bytes)| end - start == 1 && *bytes == 1) {
            break;
        }
    }
    for k in (1..pieces.len()).rev() {
        pieces.swap(k, random.random_range(0..=k));
    }
    pieces.into_iter().map(|(start, end, bytes)| Interval::new(start, end, bytes)).collect()
}
