use super::*;
use crate::graph::TensorKind;
use crate::id::StorageId;
use crate::{Strategy, plan, schedule};

/// A graph that uses every field of the format.
fn everything() -> Graph {
    let mut b = Graph::builder();
    b.name("every\"thing\n");
    let x = b.input("x", 64);
    let w = b.weight("w", 32);
    let m = b.tensor("m", 32);
    b.kind(m, TensorKind::OptimizerState);
    let (y, v, z) = (b.tensor("y", 64), b.tensor("v", 64), b.tensor("", 64));
    let (g, w2) = (b.tensor("g", u64::MAX / 4), b.tensor("w2", 32));
    b.kind(g, TensorKind::Gradient);
    let c = b.tensor("c", 0);
    b.kind(c, TensorKind::Constant);
    let conv = b.op("conv").kind("aten.conv").reads([x, w, x]).writes([y]).workspace(7).flops(u64::MAX).id();
    b.dtype(y, "bf16").shape(y, [4, 8]).dtype(x, "f32").shape(x, []);
    b.op("view").reads([y]).writes([v]).view(v, y).seconds(0.1 + 0.2);
    b.op("relu").kind("f32").reads([v, c]).writes([z]).in_place(z, v);
    b.op("grad").reads([z, m]).writes([g]).after([conv]);
    b.op("step").reads([w, g]).writes([w2]).update(w2, w);
    b.output(w2).output(z);
    b.build().expect("the graph is valid")
}

#[test]
fn a_graph_comes_back_equal() {
    let graph = everything();
    let text = graph_to_string(&graph);
    assert_eq!(graph_from_str(&text).expect("it reads its own text"), graph);
    assert_eq!(graph_from_reader(text.as_bytes()).expect("it reads its own text"), graph);
}

#[test]
fn files_come_back_equal_compressed_or_not() {
    let graph = everything();
    let folder = std::env::temp_dir().join(format!("memsched-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    for name in ["g.json", "g.json.gz"] {
        write_graph(folder.join(name), &graph).expect("the folder can be written");
        assert_eq!(read_graph(folder.join(name)).expect("just written"), graph);
    }
    let plain = std::fs::read(folder.join("g.json")).expect("just written");
    assert_ne!(plain, std::fs::read(folder.join("g.json.gz")).expect("just written"));
    std::fs::write(folder.join("cut.json.gz"), &plain[..10]).expect("the folder can be written");
    let error = read_graph(folder.join("cut.json.gz")).expect_err("not gzip");
    assert!(matches!(&error, ImportError::Io { path, .. } if path.ends_with("cut.json.gz")), "{error}");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_plan_comes_back_equal() {
    let graph = everything();
    let found = schedule(&graph, Strategy::Given).expect("every graph has a schedule");
    let placed = plan(&graph, &found).expect("every schedule has a plan");
    let mut document = PlanDocument::new(&graph, &found, &placed, found.peak_bytes());
    document.schedule_seconds = Some(1e-7);
    // Plans may hold steps that no scheduler of the crate makes; they must come back all the same.
    document.steps.push(Step::offload(StorageId::new(0)).on(QueueId::new(3)));
    document.steps.push(Step::fetch(StorageId::new(0)));
    document.events.push(Event { record: StepIdx::new(1), wait: StepIdx::new(2) });
    let text = plan_to_string(&graph, &document);
    assert_eq!(plan_from_slice(text.as_bytes(), &graph).expect("it reads its own text"), document);
}

/// The message for a graph whose one tensor and one op have these fields.
fn message(tensor: &str, op: &str) -> String {
    let text = format!(r#"{{"format": "memsched-graph/1", "tensors": [{{{tensor}}}], "ops": [{{{op}}}]}}"#);
    match graph_from_str(&text) {
        Ok(graph) => format!("{} tensors", graph.n_tensors()),
        Err(error) => error.to_string(),
    }
}

const OP: &str = r#""name": "o", "inputs": [0], "outputs": []"#;
const TENSOR: &str = r#""name": "t", "bytes": 8"#;

#[test]
fn what_is_wrong_is_named() {
    for (tensor, expected) in [
        (r#""name": "t", "bytes": -1"#, "bytes of tensor 0 (t): -1 is no whole number of 64 bits"),
        (r#""bytes": 1.5"#, "bytes of tensor 0: 1.5 is no whole number of 64 bits"),
        (r#""bytes": null"#, "bytes of tensor 0: null is no whole number of 64 bits"),
        (r#""bytes": 36893488147419103232"#, "bytes of tensor 0: 36893488147419103000 is no whole number of 64 bits"),
        (r#""bytes": 8, "shape": [2, -4]"#, "shape of tensor 0: -4 is no whole number of 64 bits"),
        (
            r#""name": "t", "bytes": "4*n""#,
            r#"tensor 0 (t): its size "4*n" depends on symbolic dimensions, which are not bound"#,
        ),
    ] {
        assert_eq!(message(tensor, OP), expected);
    }
    for (op, expected) in [
        (r#""name": "o", "inputs": [1], "outputs": []"#, "op 0 (o) reads tensor 1, which is not a tensor"),
        (r#""name": "o", "inputs": [], "outputs": [], "workspace": -2"#, "workspace of op 0 (o): -2 is no whole"),
        (r#""inputs": [-1], "outputs": []"#, "not a valid file: invalid value: integer `-1`"),
        (r#""inputs": [], "outputs": [], "flops": -3"#, "flops of op 0: -3 is no whole"),
        (r#""outputs": []"#, "not a valid file: missing field `inputs` at line 1 column"),
    ] {
        assert!(message(TENSOR, op).starts_with(expected), "{}", message(TENSOR, op));
    }
    assert_eq!(message(TENSOR, OP), "1 tensors");
}

#[test]
fn estimates_may_be_fractions_and_unknown_fields_are_ignored() {
    let text = r#"{"format": "memsched-graph/1", "meta": {"a": [1, {}]}, "tensors": [], "ops": [
        {"inputs": [], "outputs": [], "flops": 2.5e3, "more": 1}, {"inputs": [], "outputs": [], "flops": 1e300},
        {"inputs": [], "outputs": [], "flops": "2*n"}]}"#;
    let graph = graph_from_str(text).expect("valid");
    let flops: Vec<_> = graph.ops().map(|op| graph.flops(op)).collect();
    assert_eq!(flops, [Some(2500), Some(u64::MAX), None]);
}

#[test]
fn other_formats_are_told_by_their_name() {
    let plan = r#"{"format": "memsched-plan/1", "steps": [], "peak_bytes": 0}"#;
    let error = graph_from_str(plan).expect_err("a plan is no graph");
    assert!(matches!(&error, ImportError::Format { found, .. } if found == PLAN_FORMAT), "{error}");
    let error = graph_from_str(r#"{"tensors": [], "ops": []}"#).expect_err("no format");
    assert!(matches!(&error, ImportError::Format { found, .. } if found.is_empty()), "{error}");
}

#[test]
fn no_text_makes_it_panic() {
    let text = graph_to_string(&everything());
    for end in 0..text.len() {
        assert!(graph_from_slice(&text.as_bytes()[..end]).is_err(), "cut at {end}");
    }
    // Every byte replaced by one that may mean something else.
    for at in 0..text.len() {
        for with in *b"0-\"[{e9" {
            let mut broken = text.clone().into_bytes();
            broken[at] = with;
            if let Ok(graph) = graph_from_slice(&broken) {
                let again = graph_from_str(&graph_to_string(&graph)).expect("it reads its own text");
                assert_eq!(again, graph);
            }
        }
    }
    for text in ["", "null", "[]", "7", "\"memsched-graph/1\"", "{\"format\": 3}", "\u{0}"] {
        assert!(matches!(graph_from_str(text), Err(ImportError::Syntax(_) | ImportError::Format { .. })), "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert!(graph_from_str(&deep).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn serde_checks_what_it_reads() {
    let graph = everything();
    let text = serde_json::to_string(&graph).expect("plain data");
    assert_eq!(text, graph_to_string(&graph));
    assert_eq!(serde_json::from_str::<Graph>(&text).expect("its own text"), graph);
    let error = serde_json::from_str::<Graph>(r#"{"tensors": [], "ops": [], "outputs": [4]}"#).expect_err("no tensor");
    assert!(error.to_string().contains("the graph output tensor 4 is made by nobody"), "{error}");
}
