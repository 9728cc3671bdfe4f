//! Right plans hold, and every way to break one is found as what it is.

use super::*;
use crate::id::{QueueId, StorageId, TensorId};
use crate::memory::Profile;
use crate::plan::Event;
use crate::schedule::Action;

/// A graph with an input, a weight, an update, a view, an in-place pair, workspace and a control dependency.
///
/// ```text
/// x ─ a ─▶ h ─ b (in place over h, workspace) ─▶ r ─ c (view) ─▶ v ─ d ─▶ y (output)
/// w ─ a                                               u (updates w, after d) ─▶ w2
/// ```
fn sample() -> Graph {
    let mut g = Graph::builder();
    let (x, w) = (g.input("x", 100), g.weight("w", 50));
    let (h, r, v) = (g.tensor("h", 200), g.tensor("r", 200), g.tensor("v", 200));
    let (y, w2) = (g.tensor("y", 30), g.tensor("w2", 50));
    g.op("a").reads([x, w]).writes([h]);
    g.op("b").reads([h]).writes([r]).in_place(r, h).workspace(70);
    g.op("c").reads([r]).writes([v]).view(v, r);
    let d = g.op("d").reads([v]).writes([y]).id();
    g.op("u").reads([w]).writes([w2]).update(w2, w).after([d]);
    g.output(y);
    g.build().unwrap()
}

fn storage(graph: &Graph, tensor: usize) -> StorageId {
    graph.storage(TensorId::new(tensor))
}

/// A document with an allocation of its own for every stay, but in-place takeovers at the place they take over.
fn spread(graph: &Graph, steps: Vec<Step>) -> PlanDocument {
    let profile = Profile::of(graph, &steps).unwrap();
    let mut next = 0;
    let mut offsets: Vec<u64> = Vec::new();
    let mut allocations = Vec::new();
    for stay in profile.stays() {
        let bytes = stay.bytes.next_multiple_of(8);
        let offset = stay.takes_over.map_or(next, |from| offsets[from]);
        next = next.max(offset + bytes);
        offsets.push(offset);
        allocations.push(Allocation { occupant: stay.occupant, offset, bytes, first: stay.first, last: stay.last });
    }
    PlanDocument {
        graph: String::new(),
        strategy: String::new(),
        seed: 0,
        steps,
        events: Vec::new(),
        peak_bytes: profile.peak_bytes(),
        lower_bound_bytes: 0,
        optimal: false,
        persistent_bytes: 0,
        baseline_peak_bytes: 0,
        alignment: 8,
        arena_bytes: next,
        allocations,
        schedule_seconds: None,
        placement_seconds: None,
    }
}

fn plain(graph: &Graph) -> Vec<Step> {
    Step::plain(graph.given_order())
}

fn run(op: usize) -> Step {
    Step::run(OpId::new(op))
}

/// The sample with a change made to its document; what the checker says.
fn broken(change: impl FnOnce(&mut PlanDocument)) -> Vec<Fault> {
    let graph = sample();
    let mut document = spread(&graph, plain(&graph));
    assert_eq!(super::document(&graph, &document).faults, []);
    change(&mut document);
    super::document(&graph, &document).faults
}

/// Fails unless one of the faults matches.
macro_rules! assert_found {
    ($faults:expr, $pattern:pat) => {{
        let faults = $faults;
        assert!(faults.iter().any(|fault| matches!(fault, $pattern)), "{} not among {faults:?}", stringify!($pattern));
    }};
}

#[test]
fn figures_are_those_counted_by_hand() {
    let graph = sample();
    let checked = document(&graph, &spread(&graph, plain(&graph)));
    // b: r takes over h (200) beside its workspace (70), when x (100) is dead; a: x + h; d: r + y.
    assert_eq!((checked.peak_bytes, checked.peak_without_in_place_bytes), (300, 470));
    assert!(checked.holds());
}

#[test]
fn broken_orders_are_found() {
    let graph = sample();
    let ops = |list: &[usize]| list.iter().map(|op| OpId::new(*op)).collect::<Vec<_>>();
    assert_eq!(order(&graph, &ops(&[0, 1, 2, 3, 4])), []);
    assert_found!(order(&graph, &ops(&[1, 0, 2, 3, 4])), Fault::ReadBeforeWritten { .. });
    assert_found!(order(&graph, &ops(&[0, 1, 2, 4, 3])), Fault::RunsTooEarly { .. });
    assert_found!(order(&graph, &ops(&[4, 0, 1, 2, 3])), Fault::WrongVersion { .. });
    assert_found!(order(&graph, &ops(&[0, 1, 2, 3])), Fault::NeverRuns { .. });
    assert_found!(order(&graph, &ops(&[0, 1, 1, 2, 3, 4])), Fault::RunsAgain { times: 2, .. });
    assert_found!(order(&graph, &ops(&[0, 1, 2, 3, 4, 9])), Fault::UnknownOp { .. });
    // Every fault is reported, not just the first.
    let many = order(&graph, &ops(&[4, 3, 2, 1]));
    assert!(many.len() >= 5, "{many:?}");
}

#[test]
fn broken_moves_are_found() {
    let graph = sample();
    let (h, y) = (storage(&graph, 2), storage(&graph, 5));
    let with = |extra: &[(usize, Step)]| {
        let mut list = plain(&graph);
        extra.iter().for_each(|(at, step)| list.insert(*at, *step));
        steps(&graph, &list)
    };
    assert_eq!(with(&[(1, Step::offload(h)), (2, Step::fetch(h))]), []);
    assert_found!(with(&[(1, Step::offload(h))]), Fault::NotResident { .. });
    assert_found!(with(&[(1, Step::fetch(h))]), Fault::FetchNotOffloaded { .. });
    assert_found!(with(&[(0, Step::offload(h))]), Fault::OffloadNotResident { .. });
    assert_found!(with(&[(5, Step::offload(y))]), Fault::OutputNotResident { .. });
    assert_found!(with(&[(5, run(4))]), Fault::WrongVersion { .. });
    assert_found!(with(&[(5, run(0))]), Fault::WrongVersion { .. });
    assert_found!(with(&[(0, Step::offload(StorageId::new(99)))]), Fault::UnknownStorage { storage: 99, .. });
}

#[test]
fn stale_host_copies_are_found() {
    // The host holds the version before the update; bringing that back loses the update.
    let mut g = Graph::builder();
    let (s, t) = (g.tensor("s", 8), g.tensor("t", 8));
    g.op("make").writes([s]);
    g.op("update").reads([s]).writes([t]).update(t, s);
    g.output(t);
    let graph = g.build().unwrap();
    let s = storage(&graph, 0);
    let list = vec![run(0), Step::offload(s), Step::fetch(s), run(1), Step::fetch(s)];
    assert_found!(steps(&graph, &list), Fault::OutputOverwritten { .. });
}

#[test]
fn broken_allocations_are_found() {
    assert_found!(broken(|p| p.allocations.truncate(p.allocations.len() - 1)), Fault::MissingAllocation { .. });
    assert_found!(broken(|p| p.allocations.push(p.allocations[0])), Fault::ExtraAllocation { .. });
    assert_found!(broken(|p| p.allocations[0].bytes -= 8), Fault::TooSmall { .. });
    assert_found!(broken(|p| p.allocations[0].offset += 1), Fault::Misaligned { .. });
    assert_found!(broken(|p| p.alignment = 0), Fault::ZeroAlignment);
    assert_found!(broken(|p| p.allocations[1].last = StepIdx::new(0)), Fault::HeldTooShort { .. });
    assert_found!(broken(|p| p.allocations[2].first = StepIdx::new(3)), Fault::HeldTooShort { .. });
    // x and h are live together at step 0.
    assert_found!(broken(|p| p.allocations[1].offset = 0), Fault::Overlap { .. });
    let workspace = |p: &PlanDocument| p.allocations.iter().position(|a| matches!(a.occupant, Occupant::Workspace(_)));
    assert_found!(
        broken(|p| p.allocations.retain(|a| !matches!(a.occupant, Occupant::Workspace(_)))),
        Fault::MissingAllocation { .. }
    );
    let moved = |p: &mut PlanDocument| {
        let at = workspace(p).unwrap();
        p.allocations[at].first = StepIdx::new(0);
    };
    assert_found!(broken(moved), Fault::ExtraAllocation { .. });
    let unknown = Occupant::Storage(StorageId::new(1000));
    assert_found!(broken(|p| p.allocations[0].occupant = unknown), Fault::ExtraAllocation { .. });
}

#[test]
fn in_place_is_all_or_nothing() {
    // r partly over h: neither identical nor disjoint.
    assert_found!(broken(|p| p.allocations[2].offset += 8), Fault::Overlap { .. });
    // At the place of h, but h is held a step longer, so it does not die there.
    assert_found!(broken(|p| p.allocations[1].last = StepIdx::new(2)), Fault::Overlap { .. });
    // Without the pair the same places overlap.
    let graph = sample();
    let document_in_place = spread(&graph, plain(&graph));
    assert_found!(document(&graph.without_in_place(), &document_in_place).faults, Fault::Overlap { .. });
}

#[test]
fn false_claims_are_found() {
    assert_found!(broken(|p| p.arena_bytes += 8), Fault::WrongArena { .. });
    assert_found!(broken(|p| p.peak_bytes -= 1), Fault::WrongPeak { .. });
    assert_found!(broken(|p| p.lower_bound_bytes = p.peak_bytes + 1), Fault::BoundAbovePeak { .. });
    assert_found!(broken(|p| p.optimal = true), Fault::NotOptimal { .. });
    assert_eq!(broken(|p| p.peak_bytes = 470), []);
    // The places decide which peak is found: apart, nothing is taken over.
    let apart = |p: &mut PlanDocument| {
        p.allocations[2].offset = p.arena_bytes;
        p.arena_bytes += 200;
    };
    assert_found!(broken(apart), Fault::WrongPeak { found: 470, .. });
}

#[test]
fn numbers_of_any_size_are_judged() {
    assert_found!(
        broken(|p| {
            p.allocations[0].offset = u64::MAX - 7;
            p.allocations[0].bytes = u64::MAX;
            p.peak_bytes = u64::MAX;
        }),
        Fault::WrongPeak { .. }
    );
    let far = StepIdx::new(usize::MAX);
    let faults = broken(|p| (p.allocations[0].first, p.allocations[0].last) = (far, far));
    assert_found!(faults, Fault::HeldTooShort { .. });
}

/// The sample on two queues: b and d on queue 1.
fn two_queues() -> Vec<Step> {
    let mut list = plain(&sample());
    list[1].queue = QueueId::new(1);
    list[3].queue = QueueId::new(1);
    list
}

fn event(record: usize, wait: usize) -> Event {
    Event { record: StepIdx::new(record), wait: StepIdx::new(wait) }
}

fn with_events(events: &[(usize, usize)]) -> Vec<Fault> {
    let graph = sample();
    let mut document = spread(&graph, two_queues());
    document.events = events.iter().map(|(record, wait)| event(*record, *wait)).collect();
    super::document(&graph, &document).faults
}

#[test]
fn races_are_found() {
    assert_eq!(with_events(&[(0, 1), (1, 2), (2, 3), (3, 4)]), []);
    // u must follow d, which no tensor shows.
    assert_found!(with_events(&[(0, 1), (1, 2), (2, 3)]), Fault::DependencyNotOrdered { .. });
    // b reads what a made; c views what b made; d reads what c viewed: made by b, on the same queue.
    assert_found!(with_events(&[(1, 2), (2, 3)]), Fault::UseNotOrdered { .. });
    assert_found!(with_events(&[(0, 1), (2, 3)]), Fault::UseNotOrdered { .. });
    assert_found!(with_events(&[(0, 1), (2, 1), (1, 2)]), Fault::EventBackwards { .. });
}

#[test]
fn reuse_and_overwrites_across_queues_need_events() {
    // Two chains that share nothing but, in the arena, their bytes.
    let mut g = Graph::builder();
    let (a, b) = (g.tensor("a", 8), g.tensor("b", 8));
    g.op("make a").writes([a]);
    g.op("read a").reads([a]);
    g.op("make b").writes([b]);
    g.op("read b").reads([b]);
    let graph = g.build().unwrap();
    let mut list = plain(&graph);
    (list[2].queue, list[3].queue) = (QueueId::new(1), QueueId::new(1));
    let mut reused = spread(&graph, list);
    reused.allocations[1].offset = 0;
    reused.arena_bytes = 8;
    assert_found!(document(&graph, &reused).faults, Fault::ReuseNotOrdered { .. });
    reused.events = vec![event(0, 2)];
    assert_found!(document(&graph, &reused).faults, Fault::ReuseNotOrdered { .. });
    reused.events = vec![event(1, 2)];
    assert_eq!(document(&graph, &reused).faults, []);

    // A reader on another queue than the op that overwrites what it reads.
    let mut g = Graph::builder();
    let (s, t) = (g.input("s", 8), g.tensor("t", 8));
    g.op("read").reads([s]);
    g.op("update").reads([s]).writes([t]).update(t, s);
    let graph = g.build().unwrap();
    let mut list = plain(&graph);
    list[1].queue = QueueId::new(7);
    let mut racing = spread(&graph, list);
    assert_found!(document(&graph, &racing).faults, Fault::UpdateNotOrdered { .. });
    racing.events = vec![event(0, 1)];
    assert_eq!(document(&graph, &racing).faults, []);
}

#[test]
fn recomputation_and_offload_hold() {
    let graph = sample();
    let r = storage(&graph, 3);
    let list = vec![run(0), run(1), run(2), Step::offload(r), run(0), run(1), run(2), run(3), run(4)];
    assert_eq!(document(&graph, &spread(&graph, list)).faults, []);
    let list = vec![run(0), run(1), Step::offload(r), Step::fetch(r), run(2), run(3), run(4)];
    let moved = spread(&graph, list);
    assert_eq!(document(&graph, &moved).faults, []);
    assert!(matches!(moved.steps[2].action, Action::Offload(_)));
}

#[test]
fn broken_blocks_are_found() {
    let graph = sample();
    let schedule = Schedule::from_order(&graph, graph.given_order()).unwrap();
    let plan = crate::MemoryPlanner::new().blocks(&graph, &schedule).unwrap();
    assert_eq!(blocks(&graph, schedule.steps(), &plan), []);
    let with = |change: fn(&mut Vec<u64>, &mut Vec<crate::plan::BlockUse>)| {
        let (mut sizes, mut uses) = (plan.block_bytes().to_vec(), plan.uses().to_vec());
        change(&mut sizes, &mut uses);
        blocks(&graph, schedule.steps(), &BlockPlan::from_parts(sizes, uses))
    };
    assert_found!(with(|sizes, _| sizes.iter_mut().for_each(|bytes| *bytes = 8)), Fault::TooSmall { .. });
    assert_found!(with(|_, uses| uses.iter_mut().for_each(|used| used.block = 0)), Fault::Overlap { .. });
    assert_found!(with(|_, uses| uses[0].block = 99), Fault::UnknownBlock { block: 99, .. });
    assert_found!(with(|_, uses| uses.truncate(1)), Fault::MissingAllocation { .. });
    assert_found!(with(|_, uses| uses.push(uses[0])), Fault::ExtraAllocation { .. });
    // The second use is h, which b reads at step 1.
    assert_found!(with(|_, uses| uses[1].last = StepIdx::new(0)), Fault::HeldTooShort { .. });
}

/// Three ops on a weight: a reader, the op that overwrites it, and a reader of the next version.
///
/// ```text
/// w ─ read ;  w ─ update ─▶ w2 ─ use
/// ```
fn updated_weight() -> Graph {
    let mut g = Graph::builder();
    let (w, w2) = (g.weight("w", 8), g.tensor("w2", 8));
    g.op("read").reads([w]);
    g.op("update").reads([w]).writes([w2]).update(w2, w);
    g.op("use").reads([w2]);
    g.build().unwrap()
}

#[test]
fn races_on_persistent_storages_are_found() {
    let graph = updated_weight();
    let judge = |queues: [usize; 3], events: &[(usize, usize)]| {
        let list = plain(&graph).into_iter().zip(queues).map(|(step, queue)| step.on(QueueId::new(queue))).collect();
        let mut plan = spread(&graph, list);
        plan.events = events.iter().map(|(record, wait)| event(*record, *wait)).collect();
        document(&graph, &plan).faults
    };
    let (before, after) = (StepIdx::new(0), StepIdx::new(2));
    let write = StepIdx::new(1);
    let is_race = |faults: &[Fault], at: StepIdx| matches!(faults, [Fault::UpdateNotOrdered { write: w, touch, .. }] if *w == write && *touch == at);
    let faults = judge([1, 0, 0], &[]);
    assert!(is_race(&faults, before), "{faults:?}");
    let faults = judge([0, 0, 1], &[]);
    assert!(is_race(&faults, after), "{faults:?}");
    assert_eq!(judge([1, 0, 0], &[(0, 1)]), []);
    assert_eq!(judge([0, 0, 1], &[(1, 2)]), []);
    // Two readers of one version need no order between them.
    assert_eq!(judge([1, 0, 2], &[(0, 1), (1, 2)]), []);
}

#[test]
fn control_dependencies_across_queues_need_events() {
    let mut g = Graph::builder();
    let first = g.op("first").id();
    g.op("second").after([first]);
    let graph = g.build().unwrap();
    let mut plan = spread(&graph, vec![run(0), run(1).on(QueueId::new(1))]);
    assert_found!(document(&graph, &plan).faults, Fault::DependencyNotOrdered { .. });
    plan.events = vec![event(0, 1)];
    assert_eq!(document(&graph, &plan).faults, []);
    // Either run of what must come first will do.
    let twice = vec![run(0), run(0).on(QueueId::new(1)), run(1).on(QueueId::new(1))];
    assert_eq!(document(&graph, &spread(&graph, twice)).faults, []);
}

#[test]
fn views_across_queues_need_events() {
    let mut g = Graph::builder();
    let (x, v) = (g.tensor("x", 8), g.tensor("v", 8));
    g.op("make").writes([x]);
    g.op("view").reads([x]).writes([v]).view(v, x);
    g.op("read").reads([v]);
    let graph = g.build().unwrap();
    let mut plan = spread(&graph, vec![run(0), run(1), run(2).on(QueueId::new(1))]);
    // The storage is ordered, the view is not.
    plan.events = vec![event(0, 2)];
    let faults = document(&graph, &plan).faults;
    assert!(
        matches!(&faults[..], [Fault::DependencyNotOrdered { missing, .. }] if missing.name == "view"),
        "{faults:?}"
    );
    plan.events = vec![event(1, 2)];
    assert_eq!(document(&graph, &plan).faults, []);
}

#[test]
fn a_fetch_waits_for_its_offload() {
    let mut g = Graph::builder();
    let x = g.tensor("x", 8);
    g.op("make").writes([x]);
    g.op("read").reads([x]);
    let graph = g.build().unwrap();
    let (x, aside) = (storage(&graph, 0), QueueId::new(1));
    // The stays lie apart, so that no reuse of bytes orders them.
    let list = vec![run(0), Step::offload(x), Step::fetch(x).on(aside), run(1).on(aside)];
    let mut plan = spread(&graph, list);
    assert_ne!(plan.allocations[0].offset, plan.allocations[1].offset);
    let faults = document(&graph, &plan).faults;
    assert!(matches!(&faults[..], [Fault::HostCopyNotOrdered { .. }]), "{faults:?}");
    plan.events = vec![event(1, 2)];
    assert_eq!(document(&graph, &plan).faults, []);
    // A second copy to the host must not be written while the first is brought back.
    let list =
        vec![run(0), Step::offload(x), Step::fetch(x).on(aside), run(0), Step::offload(x), Step::fetch(x), run(1)];
    let mut plan = spread(&graph, list);
    plan.events = vec![event(1, 2)];
    assert_found!(document(&graph, &plan).faults, Fault::HostCopyNotOrdered { .. });
    plan.events.push(event(2, 4));
    assert_eq!(document(&graph, &plan).faults, []);
}

#[test]
fn a_backward_event_hides_no_race() {
    let faults = with_events(&[(2, 1), (1, 2), (2, 3)]);
    assert_found!(&faults, Fault::EventBackwards { .. });
    assert_found!(&faults, Fault::UseNotOrdered { .. });
}

#[test]
fn an_op_does_not_take_over_what_it_overwrites() {
    let mut g = Graph::builder();
    let (x, next, y) = (g.tensor("x", 8), g.tensor("next", 8), g.tensor("y", 8));
    g.op("make").writes([x]);
    g.op("op").reads([x]).writes([next, y]).update(next, x).in_place(y, x);
    g.output(y);
    let graph = g.build().unwrap();
    let mut plan = spread(&graph, plain(&graph));
    assert_eq!(document(&graph, &plan).faults, []);
    plan.allocations[1].offset = plan.allocations[0].offset;
    plan.arena_bytes = 8;
    assert_found!(document(&graph, &plan).faults, Fault::Overlap { .. });
}

#[test]
fn what_a_takeover_leaves_is_still_held() {
    // h is given more than it needs; b's workspace lies in the part that r does not take over.
    let change = |p: &mut PlanDocument| {
        let end = p.arena_bytes;
        let workspace = p.allocations.iter().position(|a| matches!(a.occupant, Occupant::Workspace(_))).unwrap();
        (p.allocations[1].offset, p.allocations[2].offset) = (end, end);
        p.allocations[1].bytes = 400;
        p.allocations[workspace].offset = end + 200;
        p.arena_bytes = end + 400;
    };
    let faults = broken(change);
    assert!(matches!(&faults[..], [Fault::Overlap { .. }]), "{faults:?}");
}

/// Nothing may be quadratic in the operands of one op, or in how often one storage is touched and overwritten.
#[test]
fn large_ops_and_long_chains_of_updates_are_judged() {
    let n = 50_000;
    let mut g = Graph::builder();
    let inputs: Vec<TensorId> = (0..n).map(|_| g.input("", 8)).collect();
    let outputs: Vec<TensorId> = (0..n).map(|_| g.tensor("", 8)).collect();
    let mut op = g.op("op").reads(inputs.iter().copied()).writes(outputs.iter().copied());
    for (out, operand) in outputs.iter().zip(&inputs) {
        op = op.in_place(*out, *operand);
    }
    op.id();
    let graph = g.build().unwrap();
    let checked = document(&graph, &spread(&graph, plain(&graph)));
    assert_eq!((checked.faults, checked.arena_bytes), (vec![], 8 * n as u128));

    let mut g = Graph::builder();
    let mut last = g.weight("w", 8);
    for _ in 0..n {
        let next = g.tensor("", 8);
        g.op("update").reads([last]).writes([next]).update(next, last);
        last = next;
    }
    let graph = g.build().unwrap();
    let list: Vec<Step> = plain(&graph).into_iter().enumerate().map(|(s, step)| step.on(QueueId::new(s % 2))).collect();
    let mut plan = spread(&graph, list);
    plan.events = (1..n).map(|wait| event(wait - 1, wait)).collect();
    assert_eq!(document(&graph, &plan).faults, []);
    let lost = plan.events.swap_remove(n / 2);
    let faults = document(&graph, &plan).faults;
    assert!(
        matches!(&faults[..], [Fault::UpdateNotOrdered { write, touch, .. }] if (*touch, *write) == (lost.record, lost.wait)
            || (*write, *touch) == (lost.record, lost.wait)),
        "{faults:?}"
    );
}

/// Numbers without any meaning, in every field: judged, and never a panic.
#[test]
fn documents_of_noise_are_judged() {
    let graph = sample();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Now and then a number near the largest.
        if state.is_multiple_of(5) { u64::MAX - state % 9 } else { (state >> 8) % below }
    };
    for _ in 0..5000 {
        let mut plan = spread(&graph, two_queues());
        let n_changes = 1 + noise(3) % 4;
        for _ in 0..n_changes {
            let at = usize::try_from(noise(100) % plan.allocations.len() as u64).unwrap();
            let mut place = |below| usize::try_from(noise(below)).unwrap_or(usize::MAX);
            let (small, large) = (place(9), place(9));
            let held = &mut plan.allocations[at];
            match place(9) % 9 {
                0 => held.offset = small as u64,
                1 => held.bytes = small as u64,
                2 => (held.first, held.last) = (StepIdx::new(small), StepIdx::new(large)),
                3 => held.occupant = Occupant::Storage(StorageId::new(small)),
                4 => held.occupant = Occupant::Workspace(OpId::new(small)),
                5 => plan.events.push(event(small, large)),
                6 => plan.steps[at % 5].queue = QueueId::new(small),
                7 => (plan.alignment, plan.arena_bytes) = (small as u64, large as u64),
                _ => plan.steps[at % 5].action = Action::Fetch(StorageId::new(small)),
            }
        }
        // Racy as it stands, and the changes add no event that orders all of it.
        assert!(!document(&graph, &plan).holds());
    }
}

/// The evaluator and the checker derive the model apart from each other; on steps of every sort, right and wrong, they
/// must come to one verdict and one peak.
#[test]
fn the_evaluator_and_the_checker_agree_on_random_steps() {
    use crate::testing::{Family, GraphShape, random_graph};
    use rand::{RngExt, SeedableRng};
    let (mut n_right, mut n_wrong, mut n_moved) = (0, 0, 0);
    for seed in 0..3000 {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
        let family = Family::ALL[rng.random_range(0..Family::ALL.len())];
        let graph = random_graph(seed, &GraphShape::new(family, rng.random_range(1..12)).with_everything());
        let mut list = plain(&graph);
        for _ in 0..6 {
            let mut edited = list.clone();
            let at = rng.random_range(0..=edited.len());
            let any = StorageId::new(rng.random_range(0..graph.n_storages().max(1)));
            match rng.random_range(0..5) {
                0 => edited.insert(at, run(rng.random_range(0..graph.n_ops()))),
                1 => edited.insert(at, Step::fetch(any)),
                2 => edited.insert(at, Step::offload(any)),
                3 if at + 1 < edited.len() => edited.swap(at, at + 1),
                _ => {
                    edited.insert(rng.random_range(at..=edited.len()), Step::fetch(any));
                    edited.insert(at, Step::offload(any));
                }
            }
            let (evaluated, faults) = (Profile::of(&graph, &edited), steps(&graph, &edited));
            assert_eq!(evaluated.is_ok(), faults.is_empty(), "seed {seed}: {evaluated:?} {faults:?} {edited:?}");
            let Ok(profile) = evaluated else {
                n_wrong += 1;
                continue;
            };
            n_right += 1;
            n_moved += usize::from(edited.iter().any(|step| matches!(step.action, Action::Fetch(_))));
            let checked = document(&graph, &spread(&graph, edited.clone()));
            assert_eq!(checked.faults, [], "seed {seed}: {edited:?}");
            assert_eq!(checked.peak_bytes, u128::from(profile.peak_bytes()), "seed {seed}: {edited:?}");
            list = edited;
        }
    }
    assert!(n_right > 1000 && n_wrong > 1000 && n_moved > 300, "{n_right} {n_wrong} {n_moved}");
}

#[test]
fn an_offload_is_a_use_of_the_stay_that_it_ends() {
    let mut g = Graph::builder();
    let x = g.tensor("x", 8);
    let make = g.op("make").writes([x]).id();
    g.op("read").reads([x]);
    g.op("other").after([make]);
    let graph = g.build().unwrap();
    let x = storage(&graph, 0);
    let list = |queue| vec![run(0), run(2), Step::offload(x).on(QueueId::new(queue)), Step::fetch(x), run(1)];
    let mut plan = spread(&graph, list(0));
    assert_eq!(document(&graph, &plan).faults, []);
    plan.allocations[0].last = StepIdx::new(1);
    assert_found!(document(&graph, &plan).faults, Fault::HeldTooShort { .. });
    // Copied out on another queue before it is made.
    let mut plan = spread(&graph, list(1));
    plan.events = vec![event(2, 3)];
    let faults = document(&graph, &plan).faults;
    assert!(matches!(&faults[..], [Fault::UseNotOrdered { .. }]), "{faults:?}");
    plan.events.push(event(0, 2));
    assert_eq!(document(&graph, &plan).faults, []);
}
