//! Which section a run of the search branches on.
//!
//! No rule is best on all inputs, and times to a solution are heavy-tailed; so runs take turns. Runs under a capacity
//! that leaves every section bytes to lose (loose) do better on high or narrow niches, others (tight) where choices are
//! fewest. All of them share one memo.

/// Which section a run branches on: the least score, then the least tie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taste {
    pub(super) score: Score,
    /// What decides between equal scores.
    pub(super) tie: Tie,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Score {
    /// The number of choices.
    Choices,
    /// The number of choices, more where the section has more bytes to lose: times 1 + 0.3 slack / mean size.
    Slack,
    /// The number of choices, plus the logarithm of 1 + slack / mean size.
    LogSlack,
    /// The number of choices, less where sections failed often.
    Failures,
    /// The width of the niche, then the number of choices.
    Width,
    /// The height of the floor, the highest first, then the number of choices.
    Height,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Tie {
    Slack,
    Random,
}

/// The tastes of the first runs, in turn.
const TASTES: [Taste; 4] = [
    Taste { score: Score::Choices, tie: Tie::Slack },
    Taste { score: Score::Choices, tie: Tie::Random },
    Taste { score: Score::Slack, tie: Tie::Random },
    Taste { score: Score::Failures, tie: Tie::Random },
];
/// The tastes of most later runs where even the fullest section has bytes to lose.
const LOOSE_TASTES: [Taste; 4] = [
    Taste { score: Score::Height, tie: Tie::Slack },
    Taste { score: Score::Width, tie: Tie::Slack },
    Taste { score: Score::LogSlack, tie: Tie::Random },
    Taste { score: Score::Height, tie: Tie::Slack },
];
/// Those where it has none.
const TIGHT_TASTES: [Taste; 4] = [
    Taste { score: Score::Choices, tie: Tie::Slack },
    Taste { score: Score::Choices, tie: Tie::Random },
    Taste { score: Score::Choices, tie: Tie::Slack },
    Taste { score: Score::Choices, tie: Tie::Slack },
];

impl Taste {
    /// The taste of a run, counted from 0.
    pub(super) fn of_run(run: u64, is_loose: bool) -> Self {
        let (patience, share, late) = if is_loose { (15, 4, LOOSE_TASTES) } else { (63, 2, TIGHT_TASTES) };
        let (tastes, turn) = match run {
            _ if run < patience => (TASTES, run),
            _ if run.is_multiple_of(share) => (TASTES, run / share),
            _ => (late, run - run / share),
        };
        tastes[usize::try_from(turn % 4).unwrap_or(0)]
    }
}
