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
    /// Runs by floor; entries of runs that are no more are skipped when they come up.
    lowest: BinaryHeap<Reverse<(u64, usize, usize)>>,
}

const NO_RUN: usize = usize::MAX;

impl Skyline {
    pub(super) fn new(n_sections: usize) -> Self {
        let mut skyline = Self {
            end_of: vec![NO_RUN; n_sections + 1],
            start_of: vec![NO_RUN; n_sections + 1],
            floor: vec![0; n_sections + 1],
            lowest: BinaryHeap::new(),
        };
        skyline.add(Run { left: 0, right: n_sections, floor: 0 });
        skyline
    }

    /// The lowest run, the first of several. It stays in the skyline. There is one, since runs tile the sections.
    pub(super) fn lowest(&mut self) -> Option<Run> {
        loop {
            let Reverse((floor, left, right)) = *self.lowest.peek()?;
            if self.end_of[left] == right && self.floor[left] == floor {
                return Some(Run { left, right, floor });
            }
            self.lowest.pop();
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
        self.lowest.push(Reverse((run.floor, run.left, run.right)));
    }

    fn remove(&mut self, run: Run) {
        self.end_of[run.left] = NO_RUN;
        self.start_of[run.right] = NO_RUN;
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
        let before = (run.left > 0).then(|| self.floor[self.start_of[run.left]]);
        let after = (self.end_of[run.right] != NO_RUN).then(|| self.floor[run.right]);
        let floor = before.into_iter().chain(after).min()?;
        self.remove(run);
        self.add(Run { floor, ..run });
        Some(())
    }
}
