//! Places the intervals of a table: `id,lower,upper,size`, half open, other column orders by the header, `.gz` too.
//!
//!     cargo run --release --example place -- FILE.csv [--capacity BYTES] [--alignment BYTES] [--work N]
//!         [--time-limit SECONDS] [--seed N] [--out FILE.csv] [--permutations N]
//!     cargo run --release --example place -- --puzzle N [--remove PERCENT] [--permutations N] …
//!
//! Without a capacity the height is minimised. Prints one line: `height=H load=L seconds=S optimal=true|false`.
//! `--out` writes the rows again with a column `offset`. `--permutations N` places N permutations of the rows, and
//! prints the median and the worst time, and the greatest height. `--puzzle N` takes no file, but a rectangle cut into N
//! pieces (another one each time), from which `--remove` takes some away; its capacity is the rectangle's height.
//! Exit status: 0; 3 when nothing fits in the capacity, or nothing was found; 2 for unusable arguments or input.

use lexopt::prelude::*;
use memsched::plan::puzzle::{HEIGHT_BYTES, guillotine};
use memsched::plan::{Interval, Relations};
use memsched::search::Search;
use memsched::{MemoryPlanner, PlanError};
use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The work budget for which nothing else was said: some 20 seconds.
const WORK: u64 = 1_000_000_000;

struct Args {
    file: PathBuf,
    capacity: Option<u64>,
    alignment: u64,
    work: u64,
    time_limit: Option<Duration>,
    seed: u64,
    out: Option<PathBuf>,
    permutations: usize,
    puzzle: Option<usize>,
    remove: usize,
}

fn main() -> ExitCode {
    match parse_args().and_then(|args| run(&args)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("place: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse_args() -> Result<Args, Box<dyn Error>> {
    let mut parser = lexopt::Parser::from_env();
    let mut file = None;
    let mut args = Args {
        file: PathBuf::new(),
        capacity: None,
        alignment: 1,
        work: WORK,
        time_limit: None,
        seed: 0,
        out: None,
        permutations: 0,
        puzzle: None,
        remove: 0,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("capacity") => args.capacity = Some(parser.value()?.parse()?),
            Long("alignment") => args.alignment = parser.value()?.parse()?,
            Long("work") => args.work = parser.value()?.parse()?,
            Long("time-limit") => args.time_limit = Some(Duration::try_from_secs_f64(parser.value()?.parse()?)?),
            Long("seed") => args.seed = parser.value()?.parse()?,
            Long("out") => args.out = Some(parser.value()?.into()),
            Long("permutations") => args.permutations = parser.value()?.parse()?,
            Long("puzzle") => args.puzzle = Some(parser.value()?.parse()?),
            Long("remove") => args.remove = parser.value()?.parse()?,
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            other => return Err(other.unexpected().into()),
        }
    }
    if args.puzzle.is_some() {
        args.capacity = Some(HEIGHT_BYTES);
    } else {
        args.file = file.ok_or("no file is named")?;
    }
    Ok(args)
}

fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(n) = args.puzzle {
        return permute(args, |round| puzzle(n, args.remove, args.seed + round));
    }
    let text = read(&args.file).map_err(|error| format!("{}: {error}", args.file.display()))?;
    let table = Table::parse(&text).map_err(|error| format!("{}: {error}", args.file.display()))?;
    if args.permutations > 0 {
        let mut state = args.seed;
        let mut rows = table.intervals;
        return permute(args, |_| {
            shuffle(&mut rows, &mut state);
            rows.clone()
        });
    }
    let started = Instant::now();
    let result = place(args, &table.intervals);
    let seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(layout) => {
            let (height, load, optimal) = (layout.height_bytes(), layout.load_bytes(), layout.is_optimal());
            println!("height={height} load={load} seconds={seconds:.3} optimal={optimal}");
            if let Some(path) = &args.out {
                let written = table.with_offsets(layout.offsets());
                std::fs::write(path, written).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ PlanError::DoesNotFit { is_proven, .. }) => {
            println!("{error} ({}, {seconds:.3} seconds)", if is_proven { "proven" } else { "the budget is spent" });
            Ok(ExitCode::from(3))
        }
        Err(error) => Err(format!("{}: {error}", args.file.display()).into()),
    }
}

fn place(args: &Args, intervals: &[Interval]) -> Result<memsched::plan::Layout, PlanError> {
    let mut planner = MemoryPlanner::new().alignment(args.alignment);
    if let Some(bytes) = args.capacity {
        planner = planner.capacity(bytes);
    }
    let mut search = Search::new().with_seed(args.seed).with_work_budget(args.work);
    if let Some(limit) = args.time_limit {
        search = search.with_time_budget(limit);
    }
    planner.place_with(intervals, &Relations::new(), &mut search)
}

/// Places what `rows` gives for each round.
fn permute(args: &Args, mut rows: impl FnMut(u64) -> Vec<Interval>) -> Result<ExitCode, Box<dyn Error>> {
    let mut times = Vec::new();
    let (mut n_failed, mut highest) = (0, 0);
    for round in 0..args.permutations.max(1) {
        let rows = rows(round as u64);
        let started = Instant::now();
        let result = place(args, &rows);
        times.push(started.elapsed().as_secs_f64());
        match result {
            Ok(layout) => highest = highest.max(layout.height_bytes()),
            Err(PlanError::DoesNotFit { .. }) => n_failed += 1,
            Err(error) => return Err(format!("{}: {error}", args.file.display()).into()),
        }
    }
    times.sort_by(f64::total_cmp);
    let (n, median, worst) = (times.len(), times[times.len() / 2], times[times.len() - 1]);
    println!("height={highest} median={median:.4} worst={worst:.4} placed={} of {n}", n - n_failed);
    Ok(if n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Numbers that look random enough to shuffle, after the method of D. Lehmer.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn shuffle(rows: &mut [Interval], state: &mut u64) {
    for k in (1..rows.len()).rev() {
        let other = usize::try_from(next(state) % (k as u64 + 1)).unwrap_or(0);
        rows.swap(k, other);
    }
}

fn puzzle(n: usize, remove: usize, seed: u64) -> Vec<Interval> {
    let mut pieces = guillotine(n, seed);
    pieces.truncate(n - n * remove.min(100) / 100);
    pieces
}

fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        std::io::BufReader::new(file).read_to_string(&mut text)?;
    }
    Ok(text)
}

/// The rows of a file.
struct Table<'t> {
    header: &'t str,
    lines: Vec<&'t str>,
    intervals: Vec<Interval>,
}

impl<'t> Table<'t> {
    fn parse(text: &'t str) -> Result<Self, Box<dyn Error>> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, header) = lines.next().ok_or("the file is empty")?;
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let place = |name: &str| {
            names.iter().position(|column| *column == name).ok_or_else(|| format!("the header has no column {name:?}"))
        };
        let columns = [place("lower")?, place("upper")?, place("size")?];
        let mut table = Self { header, lines: Vec::new(), intervals: Vec::new() };
        for (number, line) in lines {
            let mut values = [0u64; 3];
            let words: Vec<&str> = line.split(',').map(str::trim).collect();
            for (value, column) in values.iter_mut().zip(columns) {
                let word = words.get(column).ok_or_else(|| format!("line {}: too few columns", number + 1))?;
                *value = word.parse().map_err(|_| format!("line {}: {word:?} is no size or time", number + 1))?;
            }
            let [lower, upper, size] = values;
            if lower >= upper {
                return Err(
                    format!("line {}: row {:?} starts at {lower} and ends at {upper}", number + 1, words[0]).into()
                );
            }
            table.lines.push(line);
            table.intervals.push(Interval::new(lower, upper, size));
        }
        Ok(table)
    }

    fn with_offsets(&self, offsets: &[u64]) -> String {
        let mut text = format!("{},offset\n", self.header.trim_end());
        for (line, offset) in self.lines.iter().zip(offsets) {
            text.push_str(&format!("{},{offset}\n", line.trim_end()));
        }
        text
    }
}
