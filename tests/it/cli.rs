//! The example `plan` as a program: exit statuses, messages, files.

use memsched::import::json::{read_graph, read_plan};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The built example, which `cargo test` puts beside the folder of the tests.
fn program() -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test is a file");
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let program = folder.join("examples").join(format!("plan{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{}: build it first, with `cargo build --example plan`", program.display());
    program
}

fn plan(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().expect("the example starts")
}

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("memsched-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).expect("the folder can be written");
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn corpus(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(file).to_string_lossy().into_owned()
}

/// Fails unless the arguments end with status 2, nothing on standard output, and one line that holds `expected`.
#[track_caller]
fn assert_refused(arguments: &[&str], expected: &[&str]) {
    let output = plan(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    for part in expected {
        assert!(message.contains(part), "{arguments:?}: {message:?} does not say {part:?}");
    }
}

#[test]
fn unusable_arguments_are_refused() {
    let graph = corpus("resnet.json");
    assert_refused(&[], &["no graph"]);
    assert_refused(&[&graph, &graph], &["one too many"]);
    assert_refused(&[&graph, "--strategy", "best"], &["--strategy", "\"best\"", "hybrid"]);
    assert_refused(&[&graph, "--seed", "-1"], &["--seed", "\"-1\""]);
    assert_refused(&[&graph, "--work", "many"], &["--work", "\"many\""]);
    assert_refused(&[&graph, "--time-limit", "-2"], &["--time-limit"]);
    assert_refused(&[&graph, "--time-limit", "nan"], &["--time-limit"]);
    assert_refused(&[&graph, "--alignment", "0"], &["resnet.json", "alignment of 0"]);
    assert_refused(&[&graph, "--alignment", "48"], &["alignment of 48", "power of two"]);
    assert_refused(&[&graph, "--frobnicate"], &["--frobnicate"]);
    assert_refused(&[&graph, "--out"], &["--out"]);
    for option in ["--html", "--svg", "--trace", "--dot", "--bind"] {
        assert_refused(&[&graph, option, "x"], &[option, "not supported yet"]);
    }
}

#[test]
fn unusable_files_are_refused() {
    let folder = Folder::new("files");
    assert_refused(&[&folder.path("none.json")], &["none.json"]);
    assert_refused(&[&folder.file("a.onnx", "")], &["a.onnx", "not supported yet"]);
    assert_refused(&[&folder.file("a.txt.gz", "")], &["a.txt.gz", "not supported yet"]);
    assert_refused(&[&folder.file("a.png", "")], &["a.png", "must end in .json"]);
    assert_refused(&[&folder.file("a.json.gz", "no gzip")], &["a.json.gz"]);
    assert_refused(&[&folder.file("a.json", "{")], &["a.json", "line 1 column 1"]);
    assert_refused(&[&folder.file("p.json", r#"{"format": "memsched-plan/1"}"#)], &["p.json", "memsched-plan/1"]);
    let graph = |tensors: &str, ops: &str| {
        format!(r#"{{"format": "memsched-graph/1", "tensors": [{tensors}], "ops": [{ops}], "outputs": []}}"#)
    };
    let bytes = graph(r#"{"name": "act", "bytes": -5}"#, "");
    assert_refused(&[&folder.file("b.json", &bytes)], &["b.json", "tensor 0 (act)", "-5"]);
    let symbolic = graph(r#"{"name": "act", "bytes": "4*batch"}"#, "");
    assert_refused(&[&folder.file("s.json", &symbolic)], &["s.json", "tensor 0 (act)", "4*batch", "--bind"]);
    let cycle = graph(
        r#"{"bytes": 1}, {"bytes": 1}"#,
        r#"{"name": "p", "inputs": [0], "outputs": [1]}, {"name": "q", "inputs": [1], "outputs": [0]}"#,
    );
    assert_refused(&[&folder.file("c.json", &cycle)], &["c.json", "cycle", "op 0 (p)", "op 1 (q)"]);
    let out = folder.path("no/such/folder/plan.json");
    assert_refused(&[&corpus("resnet.json"), "--work", "1000", "--out", &out], &[&out]);
}

#[test]
fn the_report_and_the_figures_are_printed() {
    let output = plan(&[&corpus("mlp-train-sgd.json"), "--work", "1000000"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "progress is shown on a terminal only");
    assert!(text.lines().count() <= 24, "{text}");
    for word in ["graph", "given order", "found", "bound", "optimal", "arena", "fluctuation", "time", "at the peak"] {
        assert!(text.lines().any(|line| line.starts_with(word)), "no line {word:?} in\n{text}");
    }
    let output = plan(&[&corpus("mlp-train-sgd.json"), "--work", "1000000", "--json"]);
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(figures["graph"], "mlp-train-sgd");
    assert!(figures["peak_bytes"].as_u64() < figures["given_peak_bytes"].as_u64(), "{figures}");
    assert!(figures["arena_bytes"].as_u64() >= figures["peak_bytes"].as_u64(), "{figures}");
}

#[test]
fn the_same_arguments_give_the_same_plan() {
    let folder = Folder::new("same");
    let path = corpus("randwire.json.gz");
    let graph = read_graph(&path).expect("a graph of the corpus");
    let mut texts = Vec::new();
    for name in ["a.json", "b.json"] {
        let out = folder.path(name);
        let output = plan(&[&path, "--seed", "5", "--work", "3000000", "--alignment", "256", "--out", &out]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document = read_plan(&out, &graph).expect("just written");
        assert!(memsched::check::document(&graph, &document).holds());
        assert_eq!((document.seed, document.alignment, document.strategy.as_str()), (5, 256, "hybrid"));
        texts.push(std::fs::read(&out).expect("just written"));
    }
    assert!(texts[0] == texts[1], "two runs wrote different files");
}

#[test]
fn without_in_place_nothing_is_taken_over() {
    let figures = |more: &[&str]| -> serde_json::Value {
        let path = corpus("resnet.json");
        let arguments = [&[path.as_str(), "--strategy", "given", "--json"], more].concat();
        serde_json::from_slice(&plan(&arguments).stdout).expect("one JSON object")
    };
    let (with, without) = (figures(&[]), figures(&["--no-inplace"]));
    assert!(with["peak_bytes"].as_u64() < without["peak_bytes"].as_u64(), "{with} {without}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let mut child = Command::new(program())
        .args([corpus("resnet.json").as_str(), "--work", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}
