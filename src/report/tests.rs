use super::{Report, human_bytes};
use crate::graph::Graph;
use crate::schedule::{Schedule, Strategy};
use crate::{plan, schedule};
use expect_test::expect;

/// Two branches from x; the given order holds both wide results at once.
fn branches() -> Graph {
    let mut b = Graph::builder();
    b.name("branches");
    let x = b.input("x", 64);
    let wide = [b.tensor("wide0", 4096), b.tensor("wide1", 4096)];
    let thin = [b.tensor("thin0", 64), b.tensor("thin1", 64)];
    let (w, sum) = (b.weight("w", 1 << 20), b.tensor("sum", 64));
    for t in wide {
        b.op("widen").kind("matmul").reads([x, w]).writes([t]).workspace(128);
    }
    for (t, of) in thin.into_iter().zip(wide) {
        b.op("narrow").reads([of]).writes([t]);
    }
    b.dtype(wide[0], "f32").shape(wide[0], [16, 64]);
    b.op("add").reads(thin).writes([sum]);
    b.output(sum);
    b.build().expect("the graph is valid")
}

#[test]
fn sizes_for_people() {
    let shown = [0, 1023, 1024, 1536, 1_048_575, 1 << 20, u64::MAX].map(human_bytes);
    assert_eq!(shown, ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "1.00 MiB", "1.00 MiB", "16.00 EiB"]);
}

#[test]
fn the_text_shows_the_given_order_as_it_is() {
    let graph = branches();
    let given = Schedule::from_order(&graph, graph.given_order()).expect("a valid order");
    let report = Report::new(&graph, &given, &plan(&graph, &given).expect("a plan")).expect("its schedule");
    expect![[r#"
        graph        branches: 5 ops, 7 tensors
        bytes        8.25 KiB without reuse, 1.00 MiB persistent and not counted below
        given order  8.19 KiB (8384 B) peak
        found        8.19 KiB (8384 B) peak, 0.00 % less (custom, seed 0)
        bound        4.19 KiB (4288 B), gap 95.52 %
        optimal      not proven; the search stopped: came to its end
        arena        8.19 KiB (8384 B), fragmentation 0.00 %, alignment 64 B
        fluctuation  2.95 KiB before, 2.95 KiB after
        at the peak  step 1 runs op 1, widen (matmul), workspace 128 B
            4.00 KiB  tensor 1 (wide0), activation, f32 [16, 64]
            4.00 KiB  tensor 2 (wide1), activation
                64 B  tensor 0 (x), input"#]]
    .assert_eq(&report.to_string());
}

#[test]
fn the_figures_are_those_of_the_schedule_and_the_plan() {
    let graph = branches();
    let found = schedule(&graph, Strategy::Hybrid).expect("every graph has a schedule");
    let planned = plan(&graph, &found).expect("every schedule has a plan");
    let report = Report::new(&graph, &found, &planned).expect("its schedule").with_seconds(1.5, 0.25);
    assert_eq!(report.given_peak_bytes, 8384);
    assert_eq!((report.peak_bytes, report.arena_bytes), (found.peak_bytes(), planned.arena_bytes()));
    assert!(report.reduction_percent() > 45.0, "{report}");
    assert!(report.to_string().contains("1.500 s schedule, 0.250 s placement"), "{report}");
    assert!(report.largest_at_peak.is_sorted_by(|a, b| a.bytes >= b.bytes));
}

#[test]
fn what_is_taken_over_at_the_peak_is_named_once() {
    let mut b = Graph::builder();
    let (x, y) = (b.input("x", 100), b.tensor("y", 100));
    b.op("relu").reads([x]).writes([y]).in_place(y, x);
    b.output(y);
    let graph = b.build().expect("the graph is valid");
    let given = schedule(&graph, Strategy::Given).expect("a schedule");
    let report = Report::new(&graph, &given, &plan(&graph, &given).expect("a plan")).expect("its schedule");
    assert_eq!(report.peak_bytes, 100);
    assert_eq!(report.largest_at_peak.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["y"]);
}

#[test]
fn a_graph_without_ops_has_a_report() {
    let graph = Graph::builder().build().expect("no ops are fine");
    let given = schedule(&graph, Strategy::Given).expect("a schedule");
    let report = Report::new(&graph, &given, &plan(&graph, &given).expect("a plan")).expect("its schedule");
    assert_eq!((report.peak_bytes, report.peak_op), (0, None));
    assert!(report.to_string().starts_with("graph        (no name): 0 ops"));
}

#[cfg(feature = "json")]
#[test]
fn json_holds_the_same_figures() {
    let graph = branches();
    let found = schedule(&graph, Strategy::Hybrid).expect("a schedule");
    let report = Report::new(&graph, &found, &plan(&graph, &found).expect("a plan")).expect("its schedule");
    let value: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    assert_eq!(value["peak_bytes"], found.peak_bytes());
    assert_eq!(value["given_peak_bytes"], 8384);
    assert_eq!(value["optimal"], found.is_optimal());
    assert_eq!(value["largest_at_peak"][0]["bytes"], 4096);
}
