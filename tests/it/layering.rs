//! Who may use whom: the picture of `docs/architecture.md`, read off the `use crate::` lines.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What the code of each module outside its tests may name of other modules. A path stands for what lies below it.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("id", &[]),
    ("error", &["id"]),
    ("graph", &["error", "id"]),
    ("search", &[]),
    // The plain data of steps, and the budget that bounds are raised within; no algorithm.
    ("memory", &["error", "id", "graph", "schedule::Action", "schedule::Step", "search::Search"]),
    ("schedule", &["error", "id", "graph", "memory", "search"]),
    ("plan", &["error", "id", "graph", "memory", "schedule::Schedule", "schedule::Step", "search"]),
    // Data that it judges; no arithmetic of others.
    (
        "check",
        &[
            "error",
            "id",
            "graph",
            "memory::Occupant",
            "plan::Allocation",
            "plan::BlockPlan",
            "plan::MemoryPlan",
            "plan::PlanDocument",
            "plan::Event",
            "schedule::Action",
            "schedule::Schedule",
            "schedule::Step",
        ],
    ),
    ("report", &["error", "id", "graph", "memory", "plan", "schedule", "search"]),
    ("import", &["error", "id", "graph", "memory::Occupant", "plan", "schedule::Action", "schedule::Step"]),
    ("testing", &["check", "error", "id", "graph", "memory", "plan", "schedule", "search"]),
    ("lib", &["error", "id", "graph", "memory", "plan", "schedule", "search"]),
];

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_name().is_some_and(|n| n != "tests.rs") {
            into.push(path);
        }
    }
}

/// The code of a file without its tests and comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The paths that a `use` tree names: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn expand(tree: &str) -> Vec<String> {
    let Some(open) = tree.find('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let (prefix, rest) = (tree[..open].trim(), &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&rest[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&rest[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(expand).map(|part| format!("{prefix}{part}")).collect()
}

/// Every path into the crate that the code names, in `use` lines and elsewhere.
fn crate_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` and `other_crate::` are other things.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let is_use = code[..at].trim_end().ends_with("use");
        if is_use {
            paths.extend(expand(rest.split(';').next().unwrap_or_default()));
        } else {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
            paths.push(rest[..end].trim_end_matches(':').to_owned());
        }
    }
    paths
}

#[test]
fn modules_use_those_below_them_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 20, "only {} files found", files.len());

    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files {
        let inside = file.strip_prefix(&src).expect("it lies in src").to_string_lossy().replace('\\', "/");
        let module = inside.split(['/', '.']).next().expect("a name").to_owned();
        let Some(rules) = allowed.get(module.as_str()) else {
            wrong.push(format!("{inside}: nothing says what the module {module} may use"));
            continue;
        };
        let text = fs::read_to_string(&file).expect("a source is text");
        for path in crate_paths(&code(&text)) {
            seen += 1;
            let used = path.split("::").next().unwrap_or_default();
            let own = used == module;
            let may = rules.iter().any(|rule| path == *rule || path.starts_with(&format!("{rule}::")));
            if !own && !may {
                wrong.push(format!("{inside} uses {path}"));
            }
        }
    }
    assert!(seen > 50, "only {seen} paths found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_use_lines_reads_them() {
    let text =
        "use crate::a::{B, c::{D, E}};\n// use crate::no;\nlet x = crate::f::g(1); $crate::h::i\nuse crate::j as k;";
    assert_eq!(crate_paths(&code(text)), ["a::B", "a::c::D", "a::c::E", "f::g", "j"]);
}
