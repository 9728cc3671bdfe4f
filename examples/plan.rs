//! The command-line face: reads a graph, finds a schedule and a memory plan, and reports.
//!
//! `cargo run --release --example plan -- GRAPH [options]`; `--help` lists them.

use lexopt::prelude::*;
use memsched::import::{ImportError, json};
use memsched::memory::Profile;
use memsched::plan::PlanDocument;
use memsched::report::{Report, human_bytes};
use memsched::schedule::Step;
use memsched::search::{DEFAULT_WORK, Progress, Search};
use memsched::{Graph, MemoryPlanner, Strategy, schedule_with};
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
plan GRAPH [options]

Finds an execution order with a low peak of live bytes, and a place for every tensor in one arena.
GRAPH is a memsched-graph/1 file, .json or .json.gz.

  --strategy given|greedy|genetic|dp|hybrid   how to search (hybrid)
  --seed N               seed of everything random (0)
  --work N               work budget of the search, in units of about one visit of an op or operand
  --time-limit SECONDS   time budget of the search; gives up that the same arguments give the same plan
  --alignment BYTES      what offsets and sizes are rounded up to, a power of two (64)
  --no-inplace           no output takes over the bytes of an operand
  --out PLAN.json        write a memsched-plan/1 file (compressed when it ends in .gz)
  --json                 print the figures as one JSON object

Exit status: 0, or 2 for unusable arguments or input.";

/// Options that the command promises but does not have yet.
const NOT_YET: [&str; 5] = ["html", "svg", "trace", "dot", "bind"];

struct Args {
    graph: PathBuf,
    strategy: Strategy,
    seed: u64,
    work: u64,
    time_limit: Option<Duration>,
    alignment: u64,
    in_place: bool,
    out: Option<PathBuf>,
    json: bool,
}

fn main() -> ExitCode {
    match parse_args().and_then(|args| args.map_or_else(|| Ok(HELP.to_owned()), |args| run(&args))) {
        // A reader that has seen enough (`plan ... | head -1`) is no error.
        Ok(text) => match writeln!(std::io::stdout(), "{text}") {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error),
            _ => ExitCode::SUCCESS,
        },
        Err(message) => fail(&message),
    }
}

fn fail(message: &dyn Display) -> ExitCode {
    // One line, whatever the message holds; nobody is told when standard error is closed.
    let line = message.to_string().replace('\n', " ");
    let _ = writeln!(std::io::stderr(), "plan: {line}");
    ExitCode::from(2)
}

/// The arguments; `None` where help is asked for.
fn parse_args() -> Result<Option<Args>, String> {
    let text = |error: lexopt::Error| error.to_string();
    let mut parser = lexopt::Parser::from_env();
    let mut graph = None;
    let mut args = Args {
        graph: PathBuf::new(),
        strategy: Strategy::default(),
        seed: 0,
        work: DEFAULT_WORK,
        time_limit: None,
        alignment: 64,
        in_place: true,
        out: None,
        json: false,
    };
    while let Some(argument) = parser.next().map_err(text)? {
        match argument {
            Long("strategy") => {
                let name = parser.value().and_then(|v| v.string()).map_err(text)?;
                args.strategy = name.parse().map_err(|error| format!("--strategy: {error}"))?;
            }
            Long("seed") => args.seed = number(&mut parser, "--seed")?,
            Long("work") => args.work = number(&mut parser, "--work")?,
            Long("alignment") => args.alignment = number(&mut parser, "--alignment")?,
            Long("time-limit") => {
                let seconds: f64 = number(&mut parser, "--time-limit")?;
                let limit = Duration::try_from_secs_f64(seconds);
                args.time_limit = Some(limit.map_err(|error| format!("--time-limit {seconds}: {error}"))?);
            }
            Long("no-inplace") => args.in_place = false,
            Long("out") => args.out = Some(parser.value().map_err(text)?.into()),
            Long("json") => args.json = true,
            Long("help") | Short('h') => return Ok(None),
            Long(name) if NOT_YET.contains(&name) => return Err(format!("--{name} is not supported yet")),
            Value(path) if graph.is_none() => graph = Some(PathBuf::from(path)),
            Value(path) => return Err(format!("one graph at a time, and {path:?} is one too many")),
            other => return Err(other.unexpected().to_string()),
        }
    }
    args.graph = graph.ok_or("no graph is named; --help shows how")?;
    Ok(Some(args))
}

fn number<T: std::str::FromStr<Err: Display>>(parser: &mut lexopt::Parser, option: &str) -> Result<T, String> {
    let value = parser.value().and_then(|v| v.string()).map_err(|error| error.to_string())?;
    value.parse().map_err(|error| format!("{option} {value:?}: {error}"))
}

fn read(path: &Path) -> Result<Graph, String> {
    let shown = path.display();
    let name = path.to_string_lossy();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if ends(&[".onnx", ".hlo", ".txt", ".txt.gz"]) {
        return Err(format!("{shown}: files of this format are not supported yet; use .json or .json.gz"));
    }
    if !ends(&[".json", ".json.gz"]) {
        return Err(format!("{shown}: not a graph file by its name; it must end in .json or .json.gz"));
    }
    json::read_graph(path).map_err(|error| match error {
        ImportError::Io { .. } => error.to_string(),
        ImportError::Symbolic { .. } => format!("{shown}: {error} (--bind is not supported yet)"),
        _ => format!("{shown}: {error}"),
    })
}

fn run(args: &Args) -> Result<String, String> {
    let shown = args.graph.display();
    let context = |error: &dyn Display| format!("{shown}: {error}");
    let mut graph = read(&args.graph)?;
    if !args.in_place {
        graph = graph.without_in_place();
    }

    let started = Instant::now();
    let mut search = Search::new().with_seed(args.seed).with_work_budget(args.work);
    if let Some(limit) = args.time_limit {
        search = search.with_time_budget(limit);
    }
    let bar = std::io::stderr().is_terminal();
    if bar {
        search = search.with_progress(draw);
    }
    let found = schedule_with(&graph, &args.strategy, &mut search);
    if bar {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let schedule = found.map_err(|error| context(&error))?;
    let schedule_seconds = started.elapsed().as_secs_f64();

    let started = Instant::now();
    let planner = MemoryPlanner::new().alignment(args.alignment);
    let plan = planner.plan(&graph, &schedule).map_err(|error| context(&error))?;
    let placement_seconds = started.elapsed().as_secs_f64();

    let report = Report::new(&graph, &schedule, &plan).map_err(|error| context(&error))?;
    let report = report.with_seconds(schedule_seconds, placement_seconds);
    if let Some(out) = &args.out {
        let given = Step::plain(graph.given_order());
        let given = Profile::of(&graph, &given).map_err(|error| context(&error))?;
        // Times are reported, but not written: the same arguments give the same file.
        let document = PlanDocument::new(&graph, &schedule, &plan, given.peak_bytes());
        json::write_plan(out, &graph, &document).map_err(|error| error.to_string())?;
    }
    Ok(if args.json { report.to_json() } else { report.to_string() })
}

/// One line on standard error, drawn over the one before.
fn draw(progress: &Progress) {
    const WIDTH: u64 = 24;
    let budget = progress.work_budget.max(1);
    let share = u128::from(progress.spent_work.min(budget)) * u128::from(WIDTH) / u128::from(budget);
    let full = usize::try_from(share).unwrap_or(0);
    let empty = usize::try_from(WIDTH).unwrap_or(0) - full;
    let (peak, bound) = (human_bytes(progress.peak_bytes), human_bytes(progress.lower_bound_bytes));
    let _ = write!(
        std::io::stderr(),
        "\r\x1b[K[{}{}] {}: peak {peak}, bound {bound}",
        "#".repeat(full),
        ".".repeat(empty),
        progress.phase
    );
}
