//! Plans every graph file of a folder, checks each plan, and prints a table to compare with.
//!
//!     cargo run --release --example corpus -- FOLDER [--strategy NAME] [--seed N] [--work N] [--no-inplace]
//!         [--checker check_plan.py] [--peers TABLE.tsv] [--known TABLE.tsv] [--out-dir FOLDER] [--only TEXT]
//!
//! `--peers` and `--known` are tables with a header; the columns `graph` and `best` (peers), `best_known` (known) are
//! read, and compared with the peak. Exit status: 0; 1 when a plan does not hold; 2 for unusable arguments.

use lexopt::prelude::*;
use memsched::import::{ImportError, json};
use memsched::memory::Profile;
use memsched::plan::PlanDocument;
use memsched::report::Report;
use memsched::schedule::Step;
use memsched::search::{DEFAULT_WORK, Search};
use memsched::{Graph, MemoryPlanner, Strategy, check, schedule_with};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

type Figures = BTreeMap<String, u64>;

struct Args {
    folder: PathBuf,
    strategy: Strategy,
    seed: u64,
    work: u64,
    in_place: bool,
    checker: Option<PathBuf>,
    peers: Figures,
    known: Figures,
    out_dir: Option<PathBuf>,
    only: String,
}

/// What one graph came to.
struct Row {
    name: String,
    report: Report,
    seconds: f64,
    faults: Vec<String>,
}

fn main() -> ExitCode {
    match parse_args().and_then(|args| run(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse_args() -> Result<Args, Box<dyn Error>> {
    let mut parser = lexopt::Parser::from_env();
    let mut args = Args {
        folder: PathBuf::new(),
        strategy: Strategy::Hybrid,
        seed: 0,
        work: DEFAULT_WORK,
        in_place: true,
        checker: None,
        peers: Figures::new(),
        known: Figures::new(),
        out_dir: None,
        only: String::new(),
    };
    let mut folder = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("strategy") => args.strategy = parser.value()?.parse()?,
            Long("seed") => args.seed = parser.value()?.parse()?,
            Long("work") => args.work = parser.value()?.parse()?,
            Long("no-inplace") => args.in_place = false,
            Long("checker") => args.checker = Some(parser.value()?.into()),
            Long("peers") => args.peers = column(Path::new(&parser.value()?), "best")?,
            Long("known") => args.known = column(Path::new(&parser.value()?), "best_known")?,
            Long("out-dir") => args.out_dir = Some(parser.value()?.into()),
            Long("only") => args.only = parser.value()?.string()?,
            Value(path) if folder.is_none() => folder = Some(PathBuf::from(path)),
            other => return Err(other.unexpected().into()),
        }
    }
    args.folder = folder.ok_or("no folder is named")?;
    Ok(args)
}

/// One column of a table with tabs, by the graph's name; rows without a number there are left out.
fn column(path: &Path, name: &str) -> Result<Figures, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let place = |wanted: &str| {
        let found = header.iter().position(|word| *word == wanted);
        found.ok_or_else(|| format!("{}: no column {wanted:?}", path.display()))
    };
    let (graph, figure) = (place("graph")?, place(name)?);
    Ok(lines.filter_map(|row| Some(((*row.get(graph)?).to_owned(), row.get(figure)?.parse().ok()?))).collect())
}

fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let entries = std::fs::read_dir(&args.folder).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = file.strip_suffix(".gz").unwrap_or(&file).strip_suffix(".json").map(str::to_owned);
        if let Some(name) = name.filter(|name| name.contains(&args.only)) {
            files.push((name, path));
        }
    }
    files.sort();
    let temporary = std::env::temp_dir().join(format!("memsched-corpus-{}", std::process::id()));
    let out_dir = args.out_dir.clone().unwrap_or_else(|| temporary.clone());
    if args.out_dir.is_some() || args.checker.is_some() {
        std::fs::create_dir_all(&out_dir)?;
    }

    println!(
        "{:<46} {:>6} {:>15} {:>15} {:>15} {:>7} {:>3} {:>15} {:>6} {:>7} {:>15} {:>15} holds",
        "graph", "ops", "file order", "peak", "bound", "gap %", "opt", "arena", "frag %", "seconds", "peers", "known"
    );
    let (mut rows, mut skipped) = (Vec::new(), Vec::new());
    for (name, path) in &files {
        let graph = match json::read_graph(path) {
            Ok(graph) => graph,
            Err(error @ ImportError::Symbolic { .. }) => {
                skipped.push(format!("{name}: {error}"));
                continue;
            }
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        };
        let row = plan_one(args, name, path, graph, &out_dir)?;
        print_row(args, &row);
        rows.push(row);
    }
    if args.out_dir.is_none() && args.checker.is_some() {
        std::fs::remove_dir_all(&temporary)?;
    }
    skipped.iter().for_each(|line| println!("skipped {line}"));
    print_summary(args, &rows);
    Ok(rows.iter().all(|row| row.faults.is_empty()))
}

fn plan_one(args: &Args, name: &str, path: &Path, graph: Graph, out_dir: &Path) -> Result<Row, Box<dyn Error>> {
    let graph = if args.in_place { graph } else { graph.without_in_place() };
    let started = Instant::now();
    let mut search = Search::new().with_seed(args.seed).with_work_budget(args.work);
    let schedule = schedule_with(&graph, &args.strategy, &mut search)?;
    let schedule_seconds = started.elapsed().as_secs_f64();
    let plan = MemoryPlanner::new().plan(&graph, &schedule)?;
    let seconds = started.elapsed().as_secs_f64();
    let report = Report::new(&graph, &schedule, &plan)?.with_seconds(schedule_seconds, seconds - schedule_seconds);

    let checked = check::memory_plan(&graph, &schedule, &plan);
    let mut faults: Vec<String> = checked.faults.iter().map(ToString::to_string).collect();
    if args.out_dir.is_some() || args.checker.is_some() {
        let given = Step::plain(graph.given_order());
        let baseline = Profile::of(&graph, &given)?.peak_bytes();
        let mut document = PlanDocument::new(&graph, &schedule, &plan, baseline);
        document.schedule_seconds = report.schedule_seconds;
        document.placement_seconds = report.placement_seconds;
        let out = out_dir.join(format!("{name}.plan.json"));
        json::write_plan(&out, &graph, &document)?;
        if let Some(checker) = &args.checker {
            let answer = Command::new("python3").arg(checker).arg(path).arg(&out).output()?;
            if !answer.status.success() {
                let text = [answer.stdout, answer.stderr].concat();
                faults.push(format!("{}: {}", checker.display(), String::from_utf8_lossy(&text).trim()));
            }
        }
        if args.out_dir.is_none() {
            std::fs::remove_file(&out)?;
        }
    }
    Ok(Row { name: name.to_owned(), report, seconds, faults })
}

fn print_row(args: &Args, row: &Row) {
    let Report { n_ops, given_peak_bytes, peak_bytes, lower_bound_bytes, arena_bytes, .. } = row.report;
    let figure = |of: &Figures| of.get(&row.name).map_or_else(|| "-".to_owned(), ToString::to_string);
    println!(
        "{:<46} {n_ops:>6} {given_peak_bytes:>15} {peak_bytes:>15} {lower_bound_bytes:>15} {:>7.3} {:>3} \
         {arena_bytes:>15} {:>6.3} {:>7.2} {:>15} {:>15} {}",
        row.name,
        row.report.gap_percent(),
        if row.report.is_optimal() { "yes" } else { "no" },
        row.report.fragmentation_percent(),
        row.seconds,
        figure(&args.peers),
        figure(&args.known),
        if row.faults.is_empty() { "yes" } else { "NO" },
    );
    row.faults.iter().for_each(|fault| println!("    fault: {fault}"));
}

fn print_summary(args: &Args, rows: &[Row]) {
    let count = |what: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| what(row)).count();
    let n = rows.len();
    println!("{} of {n} plans hold", count(&|row| row.faults.is_empty()));
    println!("{} of {n} proven optimal", count(&|row| row.report.is_optimal()));
    println!("{} of {n} below the file order", count(&|row| row.report.peak_bytes < row.report.given_peak_bytes));
    for (what, figures) in [("the best peer", &args.peers), ("the best known", &args.known)] {
        let compared = count(&|row| figures.contains_key(&row.name));
        if compared > 0 {
            let at_most = count(&|row| figures.get(&row.name).is_some_and(|best| row.report.peak_bytes <= *best));
            let below = count(&|row| figures.get(&row.name).is_some_and(|best| row.report.peak_bytes < *best));
            println!("{at_most} of {compared} at most {what}, {below} of them below it");
        }
    }
    println!("{:.1} seconds in all", rows.iter().map(|row| row.seconds).sum::<f64>());
}
