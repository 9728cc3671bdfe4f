//! The state of a niche search: floors of sections, least offsets of items, and what follows from them.

use super::super::part::Part;

/// An item as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) bytes: u64,
    /// Equal for items that are equal.
    pub(super) class: u32,
}

/// A value before it was changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    Floor(u32, u64),
    Least(u32, u64),
    Placed(u32),
}

/// Floors and least offsets.
///
/// Invariants, whenever [`State::place`] or [`State::lift`] has returned `Ok`, for every item that is not placed and
/// every section that such an item covers:
/// 1. the least offset of an item is the greatest floor of its sections;
/// 2. the floor of a section is the least of the least offsets of its items that are not placed;
/// 3. the floor of a section and the bytes that are still to be placed there fit under the capacity.
#[derive(Debug)]
pub(super) struct State {
    pub(super) pieces: Vec<Piece>,
    pub(super) capacity: u64,
    pub(super) floor: Vec<u64>,
    /// Bytes that are still to be placed in each section.
    pub(super) rest: Vec<u64>,
    pub(super) least: Vec<u64>,
    /// The items that are not placed, as bits.
    unplaced: Vec<u64>,
    /// The items of each section, as bits, in `n_words` words.
    cover: Vec<u64>,
    n_words: usize,
    /// The words of each section that are not 0: first, and first after.
    words: Vec<(u32, u32)>,
    /// How many items that are not placed cover both a section and the one before it.
    crossing: Vec<u32>,
    /// The first item that starts in each section or later.
    first_at: Vec<u32>,
    /// Random factors and terms of each item for keys; equal for equal items.
    salts: Vec<[u64; 4]>,
    trail: Vec<Change>,
    raised: Vec<u32>,
    dirty: Vec<u32>,
    is_raised: Vec<bool>,
    is_dirty: Vec<bool>,
    /// Items and sections looked at since the count was last taken.
    pub(super) visits: u64,
}

/// The section in which something does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full(pub(super) usize);

impl State {
    pub(super) fn new(part: &Part, capacity: u64) -> Self {
        let (n, n_sections) = (part.items.len(), part.n_sections());
        let n_words = n.div_ceil(64);
        let mut cover = vec![0u64; n_words * n_sections];
        let mut words = vec![(u32::MAX, 0u32); n_sections];
        let mut pieces: Vec<Piece> = Vec::with_capacity(n);
        let mut crossing = vec![0; n_sections];
        let mut salts = Vec::with_capacity(n);
        let mut random = SplitMix(0);
        let mut salt = [0; 4];
        let mut class = 0;
        for (i, item) in part.items.iter().enumerate() {
            if i == 0 || part.items[i - 1] != *item {
                class += 1;
                salt = std::array::from_fn(|_| random.next() | 1);
            }
            salts.push(salt);
            for across in &mut crossing[item.left + 1..item.right] {
                *across += 1;
            }
            for s in item.left..item.right {
                cover[s * n_words + i / 64] |= 1 << (i % 64);
                let word = u32_of(i / 64);
                words[s] = (words[s].0.min(word), words[s].1.max(word + 1));
            }
            pieces.push(Piece { left: u32_of(item.left), right: u32_of(item.right), bytes: item.bytes, class });
        }
        let mut unplaced = vec![u64::MAX; n_words];
        if !n.is_multiple_of(64) {
            unplaced[n_words - 1] = (1 << (n % 64)) - 1;
        }
        let first_at = (0..=n_sections).map(|s| u32_of(part.items.partition_point(|item| item.left < s))).collect();
        Self {
            pieces,
            capacity,
            floor: vec![0; n_sections],
            rest: part.load.clone(),
            least: vec![0; n],
            unplaced,
            cover,
            n_words,
            words,
            crossing,
            first_at,
            salts,
            trail: Vec::new(),
            raised: Vec::new(),
            dirty: Vec::new(),
            is_raised: vec![false; n_sections],
            is_dirty: vec![false; n_sections],
            visits: 0,
        }
    }

    pub(super) fn n_sections(&self) -> usize {
        self.floor.len()
    }

    /// The items of a section that are not placed.
    pub(super) fn waiting(&self, section: usize) -> Bits<'_> {
        let cover = &self.cover[section * self.n_words..][..self.n_words];
        let (first, end) = self.words[section];
        Bits::new(&self.unplaced, Some(cover), first as usize * 64, end as usize * 64)
    }

    /// Whether an item that is not placed covers both the section and the one before it.
    pub(super) fn is_joined(&self, section: usize) -> bool {
        self.crossing[section] > 0
    }

    /// The items that are not placed, and start in `first..end`.
    pub(super) fn starting_in(&self, first: usize, end: usize) -> Bits<'_> {
        Bits::new(&self.unplaced, None, self.first_at[first] as usize, self.first_at[end] as usize)
    }

    /// The items of a section that are not placed, and start in `first` or later.
    pub(super) fn waiting_from(&self, section: usize, first: usize) -> Bits<'_> {
        let cover = &self.cover[section * self.n_words..][..self.n_words];
        let (from, end) = (self.first_at[first], self.first_at[section + 1]);
        Bits::new(&self.unplaced, Some(cover), from as usize, end as usize)
    }

    /// A hash of which items that start in `first..end` are not placed, and of their least offsets.
    pub(super) fn key(&self, first: usize, end: usize) -> (u64, u64) {
        let mut key = (0u64, 0u64);
        for i in self.starting_in(first, end) {
            let [a, b, c, d] = self.salts[i];
            let least = self.least[i];
            key.0 = key.0.wrapping_add(least.wrapping_mul(a).wrapping_add(b));
            key.1 = key.1.wrapping_add(least.wrapping_mul(c).wrapping_add(d));
        }
        (SplitMix(key.0).next(), key.1)
    }

    /// A mark to go back to.
    pub(super) fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Goes back to a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            match self.trail.pop() {
                Some(Change::Floor(s, old)) => self.floor[s as usize] = old,
                Some(Change::Least(i, old)) => self.least[i as usize] = old,
                Some(Change::Placed(i)) => {
                    let piece = self.pieces[i as usize];
                    self.unplaced[i as usize / 64] |= 1 << (i % 64);
                    for s in piece.left as usize..piece.right as usize {
                        self.rest[s] += piece.bytes;
                        self.crossing[s] += u32::from(s > piece.left as usize);
                    }
                }
                None => {}
            }
        }
    }

    /// Places an item at its least offset, which is the floor of all of its sections.
    pub(super) fn place(&mut self, i: usize) -> Result<(), Full> {
        let piece = self.pieces[i];
        let top = self.least[i] + piece.bytes;
        self.trail.push(Change::Placed(u32_of(i)));
        self.unplaced[i / 64] &= !(1 << (i % 64));
        for s in piece.left as usize..piece.right as usize {
            self.rest[s] -= piece.bytes;
            self.crossing[s] -= u32::from(s > piece.left as usize);
            if self.rest[s] > 0 {
                self.set_floor(s, top);
                self.mark_dirty(s);
            }
        }
        self.propagate()
    }

    /// Raises the floor of a section.
    pub(super) fn lift(&mut self, section: usize, floor: u64) -> Result<(), Full> {
        self.set_floor(section, floor);
        self.mark_dirty(section);
        self.propagate()
    }

    fn set_floor(&mut self, section: usize, floor: u64) {
        self.trail.push(Change::Floor(u32_of(section), self.floor[section]));
        self.floor[section] = floor;
        if !std::mem::replace(&mut self.is_raised[section], true) {
            self.raised.push(u32_of(section));
        }
    }

    fn mark_dirty(&mut self, section: usize) {
        if !std::mem::replace(&mut self.is_dirty[section], true) {
            self.dirty.push(u32_of(section));
        }
    }

    fn propagate(&mut self) -> Result<(), Full> {
        let result = self.propagate_all();
        for s in self.raised.drain(..) {
            self.is_raised[s as usize] = false;
        }
        for s in self.dirty.drain(..) {
            self.is_dirty[s as usize] = false;
        }
        result
    }

    fn propagate_all(&mut self) -> Result<(), Full> {
        loop {
            if let Some(s) = self.raised.pop() {
                let s = s as usize;
                self.is_raised[s] = false;
                self.raise_items(s)?;
            } else if let Some(s) = self.dirty.pop() {
                let s = s as usize;
                self.is_dirty[s] = false;
                let floor = self.floor[s];
                let lowest = self.lowest(s, floor);
                if lowest > floor && lowest < u64::MAX {
                    self.set_floor(s, lowest);
                }
            } else {
                return Ok(());
            }
        }
    }

    /// The least of the least offsets of a section's items; once one is not above `enough`, any such value.
    fn lowest(&mut self, s: usize, enough: u64) -> u64 {
        let (first, end) = self.words[s];
        let mut lowest = u64::MAX;
        // From the latest start on: what starts late is short, and holds a floor down more often.
        for word in (first as usize..end as usize).rev() {
            let mut bits = self.cover[s * self.n_words + word] & self.unplaced[word];
            while bits != 0 {
                let bit = bits.ilog2() as usize;
                bits ^= 1 << bit;
                self.visits += 1;
                lowest = lowest.min(self.least[word * 64 + bit]);
                if lowest <= enough {
                    return lowest;
                }
            }
        }
        lowest
    }

    /// Raises the least offsets of a section's items to its floor.
    fn raise_items(&mut self, s: usize) -> Result<(), Full> {
        let floor = self.floor[s];
        if floor > self.capacity || self.rest[s] > self.capacity - floor {
            return Err(Full(s));
        }
        let (first, end) = self.words[s];
        for word in first as usize..end as usize {
            let mut bits = self.cover[s * self.n_words + word] & self.unplaced[word];
            while bits != 0 {
                let i = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.visits += 1;
                let old = self.least[i];
                if old >= floor {
                    continue;
                }
                self.trail.push(Change::Least(u32_of(i), old));
                self.least[i] = floor;
                let piece = self.pieces[i];
                self.visits += u64::from(piece.right - piece.left) / 4;
                for t in piece.left as usize..piece.right as usize {
                    // The item may have been what held the floor of this section down.
                    if self.floor[t] == old {
                        self.mark_dirty(t);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Items as bits, ascending.
pub(super) struct Bits<'a> {
    bits: u64,
    word: usize,
    /// Where the last word is, and which bits of it count.
    last: usize,
    last_mask: u64,
    unplaced: &'a [u64],
    cover: Option<&'a [u64]>,
}

impl<'a> Bits<'a> {
    fn new(unplaced: &'a [u64], cover: Option<&'a [u64]>, from: usize, end: usize) -> Self {
        if from >= end {
            return Self { bits: 0, word: 0, last: 0, last_mask: 0, unplaced, cover };
        }
        let (word, last) = (from / 64, (end - 1) / 64);
        let mut bits = Self { bits: 0, word, last, last_mask: u64::MAX >> (63 - (end - 1) % 64), unplaced, cover };
        bits.bits = bits.load(word) & (u64::MAX << (from % 64));
        bits
    }

    fn load(&self, word: usize) -> u64 {
        let bits = self.unplaced[word] & self.cover.map_or(u64::MAX, |cover| cover[word]);
        if word == self.last { bits & self.last_mask } else { bits }
    }
}

impl Iterator for Bits<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            if self.word >= self.last {
                return None;
            }
            self.word += 1;
            self.bits = self.load(self.word);
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(self.word * 64 + bit)
    }
}

/// Numbers that look random.
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}

/// Positions fit in 32 bits: a search takes a few thousand items.
pub(super) fn u32_of(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
