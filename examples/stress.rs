//! Random graphs against brute force: every strategy, the bounds, the plans, and the checkers against each other.
//!
//! ```text
//! stress [GRAPHS] [--seed N] [--checker DIR]
//! ```
//!
//! Makes GRAPHS (default 2000) random graphs of up to 9 ops with views, updates, in-place pairs, workspace and control
//! dependencies. For each: `dp` equals brute force, no strategy is below it, the bounds are not above it, and arena and
//! blocks pass the crate's checker. With `--checker DIR`, the folder of a Python module `check_plan` that offers
//! `check(graph, plan) -> (faults, figures)`, that checker judges every plan too, and plans that are broken on purpose,
//! on several queues, with recomputation and offload among them. Both must agree on each, but for kinds of faults that
//! only this crate's checker looks for (see `is_stricter`), which are counted.
//!
//! Exits with 1 at the first disagreement.

use memsched::check;
use memsched::id::{QueueId, StepIdx};
use memsched::import::json;
use memsched::memory::Profile;
use memsched::plan::PlanDocument;
use memsched::schedule::{Action, Step};
use memsched::testing::{self, Family, GraphShape};
use memsched::{Graph, MemoryPlanner, Schedule, Strategy};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

type Rng = Xoshiro256PlusPlus;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut n_graphs, mut seed, mut outside) = (2000u64, 0u64, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => seed = words.next().ok_or("--seed needs a number")?.parse()?,
            "--checker" => outside = Some(Outside::start(&words.next().ok_or("--checker needs a folder")?)?),
            number => n_graphs = number.parse()?,
        }
    }
    let (mut judged, mut broken, mut unjudged, mut stricter) = (0u64, 0u64, 0u64, 0u64);
    for k in seed..seed.saturating_add(n_graphs) {
        let mut rng = Rng::seed_from_u64(k);
        let family = Family::ALL[rng.random_range(0..Family::ALL.len())];
        let graph = testing::random_graph(k, &GraphShape::new(family, rng.random_range(0..10)).with_everything());
        let graph = if rng.random_range(0..4) == 0 { graph.without_in_place() } else { graph };
        let fail = |what: String| format!("graph {k}: {what}\n{}", json::graph_to_string(&graph));
        let documents = compare_with_brute_force(&graph).map_err(fail)?;
        let Some(outside) = &mut outside else { continue };
        for document in documents.into_iter().chain(other_schedules(&graph, &mut rng)) {
            for edit in 0..6 {
                let mut edited = document.clone();
                if edit > 0 {
                    break_plan(&mut edited, &mut rng);
                }
                let (ours, theirs) = (check::document(&graph, &edited), outside.holds(&graph, &edited)?);
                let Some(theirs) = theirs else {
                    unjudged += 1;
                    continue;
                };
                judged += 1;
                broken += u64::from(!theirs);
                if theirs && !ours.holds() && is_stricter(&graph, &edited, &ours.faults) {
                    stricter += 1;
                } else if ours.holds() != theirs {
                    let plan = json::plan_to_string(&graph, &edited);
                    return Err(fail(format!("the checkers disagree: outside says {theirs}, {ours:?}\n{plan}")).into());
                }
            }
        }
    }
    println!("{n_graphs} graphs agree with brute force");
    if outside.is_some() {
        println!("{judged} plans judged by both checkers, which agree but on those below; {broken} of them are broken");
        println!("{stricter} plans with faults of kinds that only this crate's checker looks for");
        println!("{unjudged} plans on which the outside checker failed");
    }
    Ok(())
}

/// Runs every strategy on a graph; the documents of their plans, or what is wrong.
fn compare_with_brute_force(graph: &Graph) -> Result<Vec<PlanDocument>, String> {
    let least = testing::brute_force_peak(graph);
    let baseline = Profile::of(graph, &Step::plain(graph.given_order())).map_err(|e| e.to_string())?.peak_bytes();
    let mut documents = Vec::new();
    for strategy in Strategy::ALL {
        let schedule = memsched::schedule(graph, strategy).map_err(|e| e.to_string())?;
        let (peak, bound) = (schedule.peak_bytes(), schedule.lower_bound_bytes());
        if bound > least || peak < least || peak > baseline {
            return Err(format!("{strategy}: bound {bound}, least {least}, peak {peak}, given {baseline}"));
        }
        if matches!(strategy, Strategy::Dp | Strategy::Hybrid) && (peak != least || !schedule.is_optimal()) {
            return Err(format!("{strategy}: peak {peak}, bound {bound}, but the optimum is {least}"));
        }
        let order: Vec<_> = schedule.order().collect();
        let faults = check::order(graph, &order);
        let planner = MemoryPlanner::new().alignment(if peak % 2 == 0 { 64 } else { 1 });
        let plan = planner.plan(graph, &schedule).map_err(|e| e.to_string())?;
        let blocks = planner.blocks(graph, &schedule).map_err(|e| e.to_string())?;
        let checked = check::memory_plan(graph, &schedule, &plan);
        let block_faults = check::blocks(graph, schedule.steps(), &blocks);
        let exact = checked.peak_bytes == u128::from(peak);
        if !faults.is_empty() || !checked.holds() || !block_faults.is_empty() || !exact {
            return Err(format!("{strategy}: {faults:?} {checked:?} {block_faults:?}"));
        }
        documents.push(PlanDocument::new(graph, &schedule, &plan, baseline));
    }
    documents.dedup_by(|a, b| a.steps == b.steps);
    Ok(documents)
}

/// Plans of schedules that recompute, offload, fetch and use several queues.
fn other_schedules(graph: &Graph, rng: &mut Rng) -> Vec<PlanDocument> {
    let mut steps = Step::plain(graph.given_order());
    // The outside checker does not follow which version of an overwritten storage the host holds, and fails on an
    // offloaded input that nobody has read.
    let updated: Vec<_> = graph.ops().flat_map(|op| graph.updates(op)).map(|(new, _)| graph.storage(*new)).collect();
    let storages: Vec<_> = graph.storages().filter(|s| !updated.contains(s) && !graph.is_input(*s)).collect();
    for _ in 0..8 {
        let mut edited = steps.clone();
        let at = rng.random_range(0..=edited.len());
        if graph.n_ops() > 0 && rng.random::<bool>() {
            edited.insert(at, Step::run(graph.given_order()[rng.random_range(0..graph.n_ops())]));
        } else if !storages.is_empty() {
            let storage = storages[rng.random_range(0..storages.len())];
            edited.insert(rng.random_range(at..=edited.len()), Step::fetch(storage));
            edited.insert(at, Step::offload(storage));
        }
        if Profile::of(graph, &edited).is_ok() {
            steps = edited;
        }
    }
    if rng.random::<bool>() {
        steps.iter_mut().for_each(|step| *step = step.on(QueueId::new(rng.random_range(0..3))));
    }
    let Ok(schedule) = Schedule::from_steps(graph, steps) else { return Vec::new() };
    let Ok(plan) = memsched::plan(graph, &schedule) else { return Vec::new() };
    vec![PlanDocument::new(graph, &schedule, &plan, schedule.peak_bytes())]
}

/// Whether the only faults are of kinds that the outside checker does not look for: uses that no event orders after the
/// fetch of their storage, dependencies that only a view or a control dependency shows, fetches that race with offloads,
/// overwrites of persistent storages that race, and takeovers of an operand by an op that overwrites it.
fn is_stricter(graph: &Graph, plan: &PlanDocument, faults: &[check::Fault]) -> bool {
    let persistent: Vec<String> = graph
        .storages()
        .filter(|storage| graph.is_persistent(*storage))
        .map(|storage| graph.tensor_label(graph.root(storage)).to_string())
        .collect();
    let takes_over_updated = graph.ops().any(|op| {
        let updated = |storage| graph.updates(op).iter().any(|(new, _)| graph.storage(*new) == storage);
        graph.in_place_pairs(op).iter().any(|(_, operand)| updated(graph.storage(*operand)))
    });
    faults.iter().all(|fault| match fault {
        check::Fault::UseNotOrdered { made, .. } => matches!(plan.steps[made.index()].action, Action::Fetch(_)),
        check::Fault::DependencyNotOrdered { .. } | check::Fault::HostCopyNotOrdered { .. } => true,
        check::Fault::UpdateNotOrdered { what, .. } => persistent.contains(what),
        check::Fault::Overlap { .. } => takes_over_updated,
        _ => false,
    })
}

/// Changes one thing, which may or may not break a rule.
fn break_plan(plan: &mut PlanDocument, rng: &mut Rng) {
    let n = plan.steps.len();
    let some = |len: usize, rng: &mut Rng| if len == 0 { 0 } else { rng.random_range(0..len) };
    let allocation = some(plan.allocations.len(), rng);
    match rng.random_range(0..16) {
        0 if n > 1 => {
            let at = rng.random_range(0..n - 1);
            plan.steps.swap(at, at + 1);
        }
        1 if n > 0 => drop(plan.steps.remove(some(n, rng))),
        2 if n > 0 => plan.steps.insert(some(n, rng), plan.steps[some(n, rng)]),
        3 => plan.peak_bytes = plan.peak_bytes.wrapping_add(1),
        4 => plan.lower_bound_bytes = plan.peak_bytes.saturating_add(1),
        5 => plan.optimal = true,
        6 => plan.arena_bytes = plan.arena_bytes.wrapping_sub(1),
        7 if !plan.events.is_empty() => drop(plan.events.remove(some(plan.events.len(), rng))),
        8 if n > 1 && !plan.events.is_empty() => {
            let event = &mut plan.events[0];
            (event.record, event.wait) = (event.wait, event.record);
        }
        9 if n > 0 => {
            let at = some(n, rng);
            plan.steps[at].queue = QueueId::new(rng.random_range(0..3));
        }
        10 if n > 0 => {
            let at = some(n, rng);
            if let Action::Offload(storage) | Action::Fetch(storage) = plan.steps[at].action {
                plan.steps[at].action = Action::Fetch(storage);
            }
        }
        _ if plan.allocations.is_empty() => plan.peak_bytes /= 2,
        11 => plan.allocations[allocation].offset ^= 1 << rng.random_range(0..8),
        12 => plan.allocations[allocation].offset = plan.allocations[some(plan.allocations.len(), rng)].offset,
        13 => plan.allocations[allocation].bytes -= 1,
        14 => {
            let held = &mut plan.allocations[allocation];
            held.last = StepIdx::new(held.last.index().saturating_sub(1));
        }
        _ if rng.random::<bool>() => drop(plan.allocations.remove(allocation)),
        _ => plan.allocations.push(plan.allocations[allocation]),
    }
}

/// A checker in Python that runs beside this program.
struct Outside {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

const DRIVER: &str = "
import json, sys
sys.path.insert(0, sys.argv[1])
import check_plan
for line in sys.stdin:
    graph, plan = json.loads(line)
    try:
        print('faulty' if check_plan.check(graph, plan)[0] else 'holds', flush=True)
    except (ValueError, KeyError, TypeError, IndexError):
        print('unjudged', flush=True)
";

impl Outside {
    fn start(folder: &str) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new("python3")
            .args(["-B", "-c", DRIVER, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = child.stdin.take().ok_or("no pipe to the checker")?;
        let from = BufReader::new(child.stdout.take().ok_or("no pipe from the checker")?);
        Ok(Self { child, to, from })
    }

    /// Whether it finds no fault; `None` when it fails itself.
    fn holds(&mut self, graph: &Graph, plan: &PlanDocument) -> Result<Option<bool>, Box<dyn Error>> {
        writeln!(self.to, "[{},{}]", json::graph_to_string(graph), json::plan_to_string(graph, plan))?;
        let mut answer = String::new();
        self.from.read_line(&mut answer)?;
        match answer.trim() {
            "holds" => Ok(Some(true)),
            "faulty" => Ok(Some(false)),
            "unjudged" => Ok(None),
            other => Err(format!("the checker said {other:?} (it ended with {:?})", self.child.try_wait()).into()),
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The checker ends with its input; if it does not, it is no use to wait for it.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}
