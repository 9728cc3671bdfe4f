//! The floors of all sections, as runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A run of sections with one floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) floor: u64,
}

/// The floors of all sections.
#[derive(Debug)]
pub(super) struct Skyline {
    /// By its first section, the end of the run that starts there; `NO_RUN` where none does.
    end_of: Vec<usize>,
    /// By the first section after it, the first section of the run that ends there.
    start_of: Vec<usize>,
    /// The floor of the run that starts at a section.
    floor: Vec<u64>,
    /// Low runs by key and floor; entries of runs that are no more are skipped when they come up.
    low: BinaryHeap<Reverse<(u64, u64, usize, usize)>>,
    /// The first sections of runs that may have become low since they were last looked at.
    fresh: Vec<usize>,
}

const NO_RUN: usize = usize::MAX;

impl Skyline {
    pub(super) fn new(n_sections: usize) -> Self {
        let mut skyline = Self {
            end_of: vec![NO_RUN; n_sections + 1],
            start_of: vec![NO_RUN; n_sections + 1],
            floor: vec![0; n_sections + 1],
            low: BinaryHeap::new(),
            fresh: Vec::new(),
        };
        skyline.add(Run { left: 0, right: n_sections, floor: 0 });
        skyline
    }

    /// The run with the least key, then the least floor, of those whose neighbours are higher. It stays in the skyline.
    /// The key of a run must not change while the run stands.
    pub(super) fn pick(&mut self, key: impl Fn(Run) -> u64) -> Option<Run> {
        while let Some(left) = self.fresh.pop() {
            let right = self.end_of[left];
            if right == NO_RUN {
                continue;
            }
            let run = Run { left, right, floor: self.floor[left] };
            let (before, after) = self.walls(run);
            if before > run.floor && after > run.floor {
                self.low.push(Reverse((key(run), run.floor, left, right)));
            }
        }
        loop {
            let Reverse((_, floor, left, right)) = *self.low.peek()?;
            if self.end_of[left] == right && self.floor[left] == floor {
                return Some(Run { left, right, floor });
            }
            self.low.pop();
        }
    }

    /// Adds a run where none is, and joins it with neighbours of the same floor.
    fn add(&mut self, mut run: Run) {
        let before = self.start_of[run.left];
        if run.left > 0 && before != NO_RUN && self.floor[before] == run.floor {
            self.end_of[before] = NO_RUN;
            self.start_of[run.left] = NO_RUN;
            run.left = before;
        }
        let after_end = self.end_of[run.right];
        if after_end != NO_RUN && self.floor[run.right] == run.floor {
            self.end_of[run.right] = NO_RUN;
            self.start_of[after_end] = NO_RUN;
            run.right = after_end;
        }
        self.end_of[run.left] = run.right;
        self.start_of[run.right] = run.left;
        self.floor[run.left] = run.floor;
        self.fresh.push(run.left);
        if run.left > 0 && self.start_of[run.left] != NO_RUN {
            self.fresh.push(self.start_of[run.left]);
        }
        if self.end_of[run.right] != NO_RUN {
            self.fresh.push(run.right);
        }
    }

    fn remove(&mut self, run: Run) {
        self.end_of[run.left] = NO_RUN;
        self.start_of[run.right] = NO_RUN;
    }

    /// The floors of a run's neighbours; `u64::MAX` where there is none.
    pub(super) fn walls(&self, run: Run) -> (u64, u64) {
        let before = if run.left > 0 { self.floor[self.start_of[run.left]] } else { u64::MAX };
        let after = if self.end_of[run.right] == NO_RUN { u64::MAX } else { self.floor[run.right] };
        (before, after)
    }

    /// Raises a part of a run to `top`.
    pub(super) fn raise(&mut self, run: Run, left: usize, right: usize, top: u64) {
        self.remove(run);
        if run.left < left {
            self.add(Run { left: run.left, right: left, floor: run.floor });
        }
        if right < run.right {
            self.add(Run { left: right, right: run.right, floor: run.floor });
        }
        self.add(Run { left, right, floor: top });
    }

    /// Raises a run to its lower neighbour, and joins them; `None` when the run covers all sections.
    pub(super) fn lift(&mut self, run: Run) -> Option<()> {
        let (before, after) = self.walls(run);
        let floor = before.min(after);
        if floor == u64::MAX {
            return None;
        }
        self.remove(run);
        self.add(Run { floor, ..run });
        Some(())
    }
}
