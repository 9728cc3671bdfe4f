//! Schedules every graph file of a folder by several strategies, and prints what each reaches.
//!
//!     cargo run --release --example strategies -- FOLDER [--only TEXT...] [--strategies NAME...] [--seed N]
//!         [--work N] [--in-place] [--seconds]
//!
//! `--only` keeps the graphs whose names contain one of the texts. Takeovers in place are left out unless asked for.
//! `bound` is the best lower bound that any of the strategies proved. Exit status: 0; 2 for unusable arguments.

use lexopt::prelude::*;
use memsched::import::{ImportError, json};
use memsched::search::{DEFAULT_WORK, Search};
use memsched::{Graph, Strategy, schedule_with};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

struct Args {
    folder: PathBuf,
    only: Vec<String>,
    strategies: Vec<Strategy>,
    seed: u64,
    work: u64,
    in_place: bool,
    seconds: bool,
}

fn main() -> ExitCode {
    match parse_args().and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("strategies: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse_args() -> Result<Args, Box<dyn Error>> {
    let mut parser = lexopt::Parser::from_env();
    let mut args = Args {
        folder: PathBuf::new(),
        only: Vec::new(),
        strategies: Strategy::ALL.to_vec(),
        seed: 0,
        work: DEFAULT_WORK,
        in_place: false,
        seconds: false,
    };
    let mut folder = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => args.only = parser.values()?.map(|text| text.string()).collect::<Result<_, _>>()?,
            Long("strategies") => {
                args.strategies = parser.values()?.map(|name| name.parse()).collect::<Result<_, _>>()?
            }
            Long("seed") => args.seed = parser.value()?.parse()?,
            Long("work") => args.work = parser.value()?.parse()?,
            Long("in-place") => args.in_place = true,
            Long("seconds") => args.seconds = true,
            Value(path) if folder.is_none() => folder = Some(PathBuf::from(path)),
            other => return Err(other.unexpected().into()),
        }
    }
    args.folder = folder.ok_or("no folder is named")?;
    Ok(args)
}

/// The graph files of the folder that are asked for, by name.
fn files(args: &Args) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let entries = std::fs::read_dir(&args.folder).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".gz").unwrap_or(&file).strip_suffix(".json") else { continue };
        if args.only.is_empty() || args.only.iter().any(|text| name.contains(text)) {
            files.push((name.to_owned(), path));
        }
    }
    files.sort();
    Ok(files)
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let names = args.strategies.iter().map(|strategy| format!(" {:>15} |", strategy.to_string()));
    println!("| {:<40} | {:>6} |{} {:>15} |", "graph", "ops", names.collect::<String>(), "bound");
    println!("|{:-<42}|{:->7}:|{}{:->16}:|", "", "", format!("{:->16}:|", "").repeat(args.strategies.len()), "");
    for (name, path) in files(args)? {
        let graph = match json::read_graph(&path) {
            Ok(graph) => graph,
            Err(ImportError::Symbolic { .. }) => continue,
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        };
        let graph = if args.in_place { graph } else { graph.without_in_place() };
        print_row(args, &name, &graph)?;
    }
    Ok(())
}

fn print_row(args: &Args, name: &str, graph: &Graph) -> Result<(), Box<dyn Error>> {
    let (mut peaks, mut seconds) = (String::new(), String::new());
    let mut bound = 0;
    for strategy in &args.strategies {
        let started = Instant::now();
        let mut search = Search::new().with_seed(args.seed).with_work_budget(args.work);
        let schedule = schedule_with(graph, strategy, &mut search)?;
        bound = bound.max(schedule.lower_bound_bytes());
        peaks += &format!(" {:>15} |", schedule.peak_bytes());
        seconds += &format!(" {:>13.3} s |", started.elapsed().as_secs_f64());
    }
    println!("| {name:<40} | {:>6} |{peaks} {bound:>15} |", graph.n_ops());
    if args.seconds {
        println!("| {:<40} | {:>6} |{seconds} {:>15} |", "", "", "");
    }
    Ok(())
}
