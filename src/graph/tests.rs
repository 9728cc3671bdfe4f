use super::*;
use crate::error::GraphError;
use crate::memory::Profile;
use crate::schedule::Step;

fn op_ids(ops: &[OpLabel]) -> Vec<usize> {
    ops.iter().map(|op| op.id.index()).collect()
}

/// The peak of the given order, which every valid graph has.
fn given_peak(graph: &Graph) -> u64 {
    Profile::of(graph, &Step::plain(graph.given_order())).unwrap().peak_bytes()
}

// What is an error, and whose.

#[test]
fn a_cycle_names_its_ops_in_order() {
    let mut b = Graph::builder();
    let (x, y, z, w) = (b.tensor("x", 1), b.tensor("y", 1), b.tensor("z", 1), b.tensor("w", 1));
    b.op("before").writes([w]);
    b.op("a").reads([z, w]).writes([x]);
    b.op("b").reads([x]).writes([y]);
    b.op("c").reads([y]).writes([z]);
    b.op("behind").reads([z]);
    let error = b.build().unwrap_err();
    let GraphError::Cycle { path } = &error else { panic!("{error}") };
    let mut ids = op_ids(path);
    let least = ids.iter().position(|op| *op == 1).unwrap();
    ids.rotate_left(least);
    assert_eq!(ids, [1, 2, 3]);
    assert!(error.to_string().contains("(b) -> op 3 (c)") || error.to_string().contains("(a) -> op 2 (b)"), "{error}");
}

#[test]
fn control_dependencies_close_cycles_too() {
    let mut b = Graph::builder();
    let first = b.op("first").after([OpId::new(1)]).id();
    b.op("second").after([first]);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::Cycle { path } if path.len() == 2), "{error}");
}

#[test]
fn self_loops_name_the_tensor_or_none() {
    let mut b = Graph::builder();
    let x = b.tensor("x", 1);
    b.op("loop").reads([x]).writes([x]);
    let error = b.build().unwrap_err();
    assert!(
        matches!(&error, GraphError::SelfLoop { op, through: Some(t) } if op.name == "loop" && t.name == "x"),
        "{error}"
    );

    let mut b = Graph::builder();
    b.op("loop").after([OpId::new(0)]);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::SelfLoop { op, through: None } if op.name == "loop"), "{error}");

    let mut b = Graph::builder();
    let (x, y) = (b.tensor("x", 1), b.tensor("y", 1));
    b.op("updates its own output").writes([x, y]).update(y, x);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::SelfLoop { through: Some(t), .. } if t.name == "x"), "{error}");
}

#[test]
fn a_tensor_has_one_producer() {
    let mut b = Graph::builder();
    let x = b.tensor("x", 1);
    b.op("a").writes([x]);
    b.op("b").writes([x]);
    let error = b.build().unwrap_err();
    let GraphError::TwoProducers { tensor, first, second } = error else { panic!("{error}") };
    assert_eq!((tensor.id, &*first.name, &*second.name), (x, "a", "b"));

    let mut b = Graph::builder();
    let x = b.tensor("x", 1);
    b.op("twice").writes([x, x]);
    assert!(matches!(b.build(), Err(GraphError::TwoProducers { first, second, .. }) if first == second));
}

#[test]
fn unknown_ids_are_named_with_what_was_done_to_them() {
    let strange = TensorId::new(99);
    type Use = fn(OpBuilder<'_>, TensorId, TensorId) -> OpBuilder<'_>;
    let uses: [(&str, Use); 8] = [
        ("reads", |op, _, strange| op.reads([strange])),
        ("writes", |op, _, strange| op.writes([strange])),
        ("views", |op, x, strange| op.view(x, strange)),
        ("views", |op, x, strange| op.view(strange, x)),
        ("updates", |op, x, strange| op.update(x, strange)),
        ("updates", |op, x, strange| op.update(strange, x)),
        ("writes over", |op, x, strange| op.in_place(x, strange)),
        ("writes over", |op, x, strange| op.in_place(strange, x)),
    ];
    for (expected, use_it) in uses {
        let mut b = Graph::builder();
        let x = b.tensor("x", 1);
        use_it(b.op("op").writes([x]), x, strange);
        let error = b.build().unwrap_err();
        let GraphError::UnknownTensor { op, role, tensor } = error else { panic!("{error}") };
        assert_eq!((&*op.name, role, tensor.id), ("op", expected, strange));
    }

    let mut b = Graph::builder();
    b.op("op").after([OpId::new(5)]);
    let error = b.build().unwrap_err();
    assert!(
        matches!(&error, GraphError::UnknownOp { op, after } if op.name == "op" && after.id.index() == 5),
        "{error}"
    );

    let mut b = Graph::builder();
    b.output(strange);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::UnknownOutput { tensor } if tensor.id == strange), "{error}");
}

#[test]
fn unknown_keys_are_named_by_their_key() {
    let mut b = Graph::keyed_builder::<&str>();
    b.op("op").reads(["nobody's"]);
    let error = b.build().unwrap_err();
    assert_eq!(error.to_string(), r#"op 0 ("op") reads tensor 0 ("nobody's"), which is not a tensor of the graph"#);

    let mut b = Graph::keyed_builder::<u64>();
    b.op(1).after([1 << 50]);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::UnknownOp { after, .. } if after.name == "1125899906842624"), "{error}");

    let mut b = Graph::keyed_builder::<u64>();
    b.output(77);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::UnknownOutput { tensor } if tensor.name == "77"), "{error}");
}

#[test]
fn a_key_is_given_once() {
    let mut b = Graph::keyed_builder::<u8>();
    b.tensor(3, 1).input(3, 1);
    assert_eq!(b.build().unwrap_err(), GraphError::DuplicateKey { what: "tensors", key: "3".into() });
    let mut b = Graph::keyed_builder::<u8>();
    b.op(3);
    b.op(4);
    b.op(3);
    assert_eq!(b.build().unwrap_err(), GraphError::DuplicateKey { what: "ops", key: "3".into() });
}

#[test]
fn pairs_start_with_an_output_of_their_op() {
    type Pair = fn(OpBuilder<'_>, TensorId, TensorId) -> OpBuilder<'_>;
    let pairs: [(&str, Pair); 3] = [
        ("a view", |op, out, of| op.view(out, of)),
        ("an update", |op, out, of| op.update(out, of)),
        ("in place", |op, out, of| op.in_place(out, of)),
    ];
    for (expected, pair) in pairs {
        let mut b = Graph::builder();
        let (x, y) = (b.input("x", 1), b.tensor("y", 1));
        pair(b.op("op").reads([x]), y, x);
        let error = b.build().unwrap_err();
        let GraphError::PairNotWritten { op, tensor, relation } = error else { panic!("{error}") };
        assert_eq!((&*op.name, tensor.id, relation), ("op", y, expected));
    }
}

#[test]
fn an_in_place_pair_ends_with_an_operand() {
    let mut b = Graph::builder();
    let (x, y) = (b.input("x", 1), b.tensor("y", 1));
    b.op("op").writes([y]).in_place(y, x);
    let error = b.build().unwrap_err();
    let GraphError::InPlaceNotRead { op, out, operand } = error else { panic!("{error}") };
    assert_eq!((&*op.name, out.id, operand.id), ("op", y, x));
}

#[test]
fn a_tensor_has_one_source() {
    let mut b = Graph::builder();
    let (x, y, v) = (b.input("x", 1), b.input("y", 1), b.tensor("v", 1));
    b.op("op").writes([v]).view(v, x).view(v, y);
    let error = b.build().unwrap_err();
    let GraphError::TwoSources { op, tensor, first, second } = error else { panic!("{error}") };
    assert_eq!((&*op.name, tensor.id, first.id, second.id), ("op", v, x, y));

    let mut b = Graph::builder();
    let (x, v) = (b.input("x", 1), b.tensor("v", 1));
    b.op("both").writes([v]).view(v, x).update(v, x);
    assert!(matches!(b.build(), Err(GraphError::TwoSources { .. })));

    let mut b = Graph::builder();
    let (x, v) = (b.input("x", 1), b.tensor("v", 1));
    b.op("the same twice").writes([v]).view(v, x).view(v, x);
    assert!(b.build().is_ok());
}

#[test]
fn a_view_of_itself_is_no_view() {
    let mut b = Graph::builder();
    let v = b.tensor("v", 1);
    b.op("op").writes([v]).view(v, v);
    assert!(matches!(b.build(), Err(GraphError::ViewCycle { tensor }) if tensor.id == v));

    let mut b = Graph::builder();
    let (u, v) = (b.tensor("u", 1), b.tensor("v", 1));
    b.op("op").writes([u, v]).view(u, v).view(v, u);
    assert!(matches!(b.build(), Err(GraphError::ViewCycle { .. })));
}

#[test]
fn a_view_comes_after_what_it_views() {
    let mut b = Graph::builder();
    let (v, x) = (b.tensor("v", 1), b.tensor("x", 1));
    b.op("view").writes([v]).view(v, x);
    b.op("make").reads([v]).writes([x]);
    let error = b.build().unwrap_err();
    let GraphError::ViewBeforeSource { op, view, source_tensor, path } = error else { panic!("{error}") };
    assert_eq!((&*op.name, view.id, source_tensor.id, path.len()), ("view", v, x, 2));
}

#[test]
fn a_version_is_overwritten_once() {
    let mut b = Graph::builder();
    let (w, w1, w2) = (b.weight("w", 1), b.tensor("w1", 1), b.tensor("w2", 1));
    b.op("a").writes([w1]).update(w1, w);
    b.op("b").writes([w2]).update(w2, w);
    let error = b.build().unwrap_err();
    let GraphError::TwoUpdates { tensor, first, second } = error else { panic!("{error}") };
    assert_eq!((tensor.id, &*first.name, &*second.name), (w, "a", "b"));

    // Through a view it is the same storage.
    let mut b = Graph::builder();
    let (w, v) = (b.weight("w", 1), b.tensor("v", 1));
    let (w1, w2) = (b.tensor("w1", 1), b.tensor("w2", 1));
    b.op("view").writes([v]).view(v, w);
    b.op("a").writes([w1]).update(w1, w);
    b.op("b").writes([w2]).update(w2, v);
    assert!(matches!(b.build(), Err(GraphError::TwoUpdates { .. })));
}

/// Two outputs of one op cannot both be the next version.
#[test]
fn one_op_overwrites_a_version_once() {
    let mut b = Graph::builder();
    let (w, w1, w2) = (b.weight("w", 1), b.tensor("w1", 1), b.tensor("w2", 1));
    b.op("op").writes([w1, w2]).update(w1, w).update(w2, w);
    assert!(matches!(b.build(), Err(GraphError::TwoUpdates { tensor, .. }) if tensor.id == w));

    let mut b = Graph::builder();
    let (w, w1) = (b.weight("w", 1), b.tensor("w1", 1));
    b.op("the same twice").writes([w1]).update(w1, w).update(w1, w);
    assert!(b.build().is_ok());
}

#[test]
fn readers_come_before_the_update() {
    let mut b = Graph::builder();
    let (x, x1, y) = (b.input("x", 1), b.tensor("x1", 1), b.tensor("y", 1));
    b.op("update").writes([x1]).update(x1, x);
    b.op("late").reads([x, x1]).writes([y]);
    let error = b.build().unwrap_err();
    let GraphError::UpdateBeforeReader { op, tensor, reader, path } = error else { panic!("{error}") };
    assert_eq!((&*op.name, tensor.id, &*reader.name, path.len()), ("update", x, "late", 2));

    // A reader that could run before does.
    let mut b = Graph::builder();
    let (x, x1, y) = (b.input("x", 1), b.tensor("x1", 1), b.tensor("y", 1));
    let update = b.op("update").writes([x1]).update(x1, x).id();
    let reader = b.op("reader").reads([x]).writes([y]).id();
    let graph = b.build().unwrap();
    assert_eq!(graph.given_order(), [reader, update]);
}

#[test]
fn an_output_is_the_last_version() {
    let mut b = Graph::builder();
    let (x, v, x1) = (b.input("x", 1), b.tensor("v", 1), b.tensor("x1", 1));
    b.op("view").writes([v]).view(v, x);
    b.op("update").writes([x1]).update(x1, x);
    b.output(v);
    let error = b.build().unwrap_err();
    let GraphError::OutputOverwritten { tensor, op } = error else { panic!("{error}") };
    assert_eq!((tensor.id, &*op.name), (v, "update"));
}

#[test]
fn times_are_times() {
    for seconds in [-1.0, f64::NAN, f64::INFINITY] {
        let mut b = Graph::builder();
        b.op("op").seconds(seconds);
        assert!(matches!(b.build(), Err(GraphError::BadSeconds { op, .. }) if op.name == "op"));
    }
    let mut b = Graph::builder();
    b.op("op").seconds(0.0);
    assert!(b.build().is_ok());
}

#[test]
fn all_bytes_together_fit() {
    let mut b = Graph::builder();
    b.input("x", u64::MAX);
    b.weight("w", 1);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::BytesOverflow { at } if at == "tensor 1 (w)"), "{error}");

    let mut b = Graph::builder();
    b.input("x", u64::MAX);
    b.op("op").workspace(1);
    let error = b.build().unwrap_err();
    assert!(matches!(&error, GraphError::BytesOverflow { at } if at == "op 0 (op)"), "{error}");

    // A view may look as large as it likes.
    let mut b = Graph::builder();
    let (x, v) = (b.input("x", u64::MAX), b.tensor("v", u64::MAX));
    b.op("view").writes([v]).view(v, x);
    assert_eq!(given_peak(&b.build().unwrap()), u64::MAX);
}

// What is valid.

#[test]
fn the_empty_graph() {
    let graph = Graph::builder().build().unwrap();
    assert_eq!((graph.n_ops(), graph.n_tensors(), graph.n_storages()), (0, 0, 0));
    assert_eq!(given_peak(&graph), 0);
}

#[test]
fn ops_without_operands_and_disconnected_parts() {
    let mut b = Graph::builder();
    b.op("nothing");
    let x = b.tensor("x", 8);
    b.op("source").writes([x]);
    b.op("sink").reads([x]);
    let lone = b.input("lone", 16);
    b.op("lone sink").reads([lone]);
    let graph = b.build().unwrap();
    assert_eq!(graph.predecessors(OpId::new(0)), []);
    assert_eq!(graph.successors(OpId::new(1)), [OpId::new(2)]);
    assert_eq!(given_peak(&graph), 24);
}

#[test]
fn one_tensor_read_twice() {
    let mut b = Graph::builder();
    let (x, y) = (b.input("x", 8), b.tensor("y", 8));
    let square = b.op("mul").reads([x, x]).writes([y]).in_place(y, x).id();
    let graph = b.build().unwrap();
    assert_eq!(graph.inputs(square), [x, x]);
    assert_eq!(graph.consumers(x), [square]);
    assert_eq!(graph.touches(square), [graph.storage(x)]);
    assert_eq!(graph.takeovers(square).len(), 1, "both operands are the one tensor that is overwritten");
}

#[test]
fn zero_bytes_unused_inputs_and_outputs_that_are_inputs() {
    let mut b = Graph::builder();
    let (x, unused, y) = (b.input("x", 8), b.input("unused", 32), b.tensor("y", 0));
    b.op("op").reads([x]).writes([y]).in_place(y, x);
    b.output(x).output(x);
    let graph = b.build().unwrap();
    assert_eq!(graph.outputs(), [x]);
    assert!(graph.is_input(graph.storage(unused)) && graph.consumers(unused).is_empty());
    assert!(graph.is_output(graph.storage(x)) && graph.is_input(graph.storage(x)));
    assert_eq!(given_peak(&graph), 40);
}

#[test]
fn sizes_beyond_32_bits() {
    let mut b = Graph::builder();
    let tensors: Vec<TensorId> = (0..4).map(|_| b.tensor("", (1 << 40) + 1)).collect();
    b.op("huge").writes(tensors).workspace(1 << 33);
    let graph = b.build().unwrap();
    assert_eq!(graph.transient_bytes(), 4 * ((1 << 40) + 1));
    assert_eq!(given_peak(&graph), 4 * ((1 << 40) + 1) + (1 << 33));
}

#[test]
fn a_chain_of_a_million_ops() {
    let mut b = Graph::builder();
    let mut last = b.input("", 8);
    for _ in 0..1_000_000 {
        let next = b.tensor("", 8);
        b.op("").reads([last]).writes([next]);
        last = next;
    }
    b.output(last);
    let graph = b.build().unwrap();
    assert_eq!(graph.n_ops(), 1_000_000);
    assert_eq!(given_peak(&graph), 16);
}

/// The longest possible cycle, and the longest possible chain of views, are told without recursion.
#[test]
fn a_cycle_and_a_chain_of_views_of_a_hundred_thousand() {
    let n = 100_000;
    let mut b = Graph::builder();
    let tensors: Vec<TensorId> = (0..n).map(|_| b.tensor("", 1)).collect();
    for k in 0..n {
        b.op("").reads([tensors[k]]).writes([tensors[(k + 1) % n]]);
    }
    let error = b.build().unwrap_err();
    let GraphError::Cycle { path } = &error else { panic!("{error}") };
    assert_eq!(path.len(), n);
    assert!(error.to_string().ends_with("(100000 ops in all)"));

    // Added from the last view to the first, so that the root is the last tensor.
    let mut b = Graph::builder();
    let tensors: Vec<TensorId> = (0..n).map(|_| b.tensor("", 1)).collect();
    for pair in tensors.windows(2) {
        b.op("").writes([pair[0]]).view(pair[0], pair[1]);
    }
    let graph = b.build().unwrap();
    assert_eq!(graph.n_storages(), 1);
    assert_eq!(graph.root(graph.storage(tensors[0])), tensors[n - 1]);
    assert_eq!(graph.given_order()[0], OpId::new(n - 2));
}

#[test]
fn a_star_of_a_hundred_thousand_readers_and_then_an_update() {
    let n = 100_000;
    let mut b = Graph::builder();
    let (x, x1) = (b.input("x", 8), b.tensor("x1", 8));
    let update = b.op("update").writes([x1]).update(x1, x).id();
    for _ in 0..n {
        b.op("reader").reads([x]);
    }
    let graph = b.build().unwrap();
    assert_eq!(graph.consumers(x).len(), n + 1);
    assert_eq!(graph.predecessors(update).len(), n);
    assert_eq!(graph.given_order().last(), Some(&update));
    assert_eq!(given_peak(&graph), 8);
}

/// One op with very many operands, pairs, views and updates: nothing may be quadratic in their number.
#[test]
fn an_op_with_a_hundred_thousand_of_everything() {
    let n = 100_000;
    let mut b = Graph::builder();
    let of = |b: &mut GraphBuilder, bytes| (0..n).map(|_| b.tensor("", bytes)).collect::<Vec<_>>();
    let (inputs, viewed, weights) = (of(&mut b, 8), of(&mut b, 8), of(&mut b, 8));
    let (outs, views, updated) = (of(&mut b, 8), of(&mut b, 8), of(&mut b, 8));
    weights.iter().for_each(|w| {
        b.kind(*w, TensorKind::Weight);
    });
    let mut op = b.op("op").reads(inputs.iter().copied());
    op = op.writes(outs.iter().chain(&views).chain(&updated).copied());
    for k in 0..n {
        op = op.in_place(outs[k], inputs[k]).view(views[k], viewed[k]).update(updated[k], weights[k]);
    }
    let op = op.id();
    let graph = b.build().unwrap();
    assert_eq!(graph.inputs(op).len(), 3 * n);
    assert_eq!(graph.takeovers(op).len(), n);
    assert_eq!(graph.persistent_bytes(), 8 * n as u64);
    // Inputs, and what is viewed; the outputs lie in the inputs' bytes.
    assert_eq!(given_peak(&graph), 8 * 2 * n as u64);
}

#[test]
fn sources_missing_from_the_inputs_are_added() {
    let mut b = Graph::builder();
    let (w, x, w1, v) = (b.weight("w", 8), b.input("x", 4), b.tensor("w1", 8), b.tensor("v", 4));
    let op = b.op("op").writes([w1, v]).update(w1, w).view(v, x).id();
    let graph = b.build().unwrap();
    assert_eq!(graph.inputs(op), [x, w]);
    assert_eq!(graph.consumers(w), [op]);
    assert_eq!((graph.version(w), graph.version(w1)), (0, 1));
    assert!(graph.is_persistent(graph.storage(w1)));
}

#[test]
fn a_view_of_a_sibling_output() {
    let mut b = Graph::builder();
    let (y, v) = (b.tensor("y", 8), b.tensor("v", 8));
    let op = b.op("op").writes([v, y]).view(v, y).id();
    b.op("reader").reads([v]);
    let graph = b.build().unwrap();
    assert_eq!(graph.inputs(op), []);
    assert_eq!(graph.storage(v), graph.storage(y));
    assert_eq!(graph.creates(op), [graph.storage(y)]);
    assert_eq!(graph.touches(op), []);
    assert_eq!(given_peak(&graph), 8);
}

#[test]
fn ops_in_any_order() {
    let mut b = Graph::builder();
    let (x, y, z) = (b.tensor("x", 1), b.tensor("y", 1), b.tensor("z", 1));
    let last = b.op("last").reads([y]).writes([z]).id();
    let middle = b.op("middle").reads([x]).writes([y]).id();
    let free = b.op("free").id();
    let first = b.op("first").writes([x]).id();
    let graph = b.build().unwrap();
    assert_eq!(graph.given_order(), [free, first, middle, last]);
    assert_eq!(graph.producer(z), Some(last));
}

#[test]
#[expect(clippy::forget_non_drop, clippy::drop_non_drop, reason = "whether or not it has something to drop")]
fn op_builders_may_be_forgotten_or_dropped() {
    let mut b = Graph::builder();
    let (x, y) = (b.input("x", 1), b.tensor("y", 1));
    std::mem::forget(b.op("forgotten").reads([x]));
    drop(b.op("dropped").reads([x]).writes([y]));
    let graph = b.build().unwrap();
    assert_eq!(graph.inputs(OpId::new(0)), [x]);
    assert_eq!(graph.op_outputs(OpId::new(0)), []);
    assert_eq!(graph.op_outputs(OpId::new(1)), [y]);
    assert_eq!(graph.consumers(x).len(), 2);
}

#[test]
fn keys_map_both_ways_whatever_the_order_of_mention() {
    let mut b = Graph::keyed_builder::<String>();
    let key = |s: &str| s.to_owned();
    b.op(key("late")).reads([key("y")]).writes([key("z")]).after([key("early")]).workspace(3);
    b.output(key("z"));
    b.op(key("early")).reads([key("x")]).writes([key("y")]).in_place(key("y"), key("x")).kind("relu");
    b.tensor(key("z"), 1).tensor(key("y"), 2).input(key("x"), 2);
    let (graph, keys) = b.build().unwrap();
    for op in graph.ops() {
        assert_eq!(keys.op(keys.op_key(op).unwrap()), Some(op));
        assert_eq!(graph.op_name(op), format!("{:?}", keys.op_key(op).unwrap()));
    }
    for t in graph.tensors() {
        assert_eq!(keys.tensor(keys.tensor_key(t).unwrap()), Some(t));
    }
    let (late, early) = (keys.op(&key("late")).unwrap(), keys.op(&key("early")).unwrap());
    assert_eq!(graph.given_order(), [early, late]);
    assert_eq!(graph.after(late), [early]);
    assert_eq!((graph.op_kind(early), graph.workspace_bytes(late)), (Some("relu"), 3));
    assert_eq!(graph.tensor_kind(keys.tensor(&key("x")).unwrap()), TensorKind::Input);
    assert_eq!(keys.op(&key("x")), None);
}

#[test]
fn keys_may_be_sparse() {
    let mut b = Graph::keyed_builder::<u64>();
    let (op, x, y) = (u64::MAX, 0, u64::MAX - 1);
    b.op(op).reads([x]).writes([y]).update(y, x);
    b.weight(x, 1 << 41).tensor(y, 7);
    b.output(y);
    let (graph, keys) = b.build().unwrap();
    assert_eq!(graph.persistent_bytes(), 1 << 41);
    assert_eq!(graph.updates(keys.op(&op).unwrap()), [(keys.tensor(&y).unwrap(), keys.tensor(&x).unwrap())]);
}

#[test]
fn takeovers_are_only_those_that_some_order_may_use() {
    let takeovers = |make: fn(&mut GraphBuilder) -> OpId| {
        let mut b = Graph::builder();
        let op = make(&mut b);
        b.build().unwrap().takeovers(op).len()
    };
    let size = |b: &mut GraphBuilder| {
        let (x, y) = (b.input("x", 8), b.tensor("y", 4));
        b.op("op").reads([x]).writes([y]).in_place(y, x).id()
    };
    let persistent = |b: &mut GraphBuilder| {
        let (x, y) = (b.weight("x", 8), b.tensor("y", 8));
        b.op("op").reads([x]).writes([y]).in_place(y, x).id()
    };
    let output = |b: &mut GraphBuilder| {
        let (x, y) = (b.input("x", 8), b.tensor("y", 8));
        b.output(x);
        b.op("op").reads([x]).writes([y]).in_place(y, x).id()
    };
    let shifted_view = |b: &mut GraphBuilder| {
        let (x, v, y) = (b.input("x", 8), b.tensor("v", 8), b.tensor("y", 8));
        b.op("view").writes([v]).view(v, x);
        b.op("op").reads([x, v]).writes([y]).in_place(y, x).id()
    };
    let allowed = |b: &mut GraphBuilder| {
        let (x, y) = (b.input("x", 8), b.tensor("y", 8));
        b.op("op").reads([x]).writes([y]).in_place(y, x).in_place(y, x).id()
    };
    assert_eq!([size, persistent, output, shifted_view].map(takeovers), [0; 4]);
    assert_eq!(takeovers(allowed), 1, "a pair that is given twice counts once");
}

#[test]
fn a_key_that_was_only_described_is_named() {
    let mut b = Graph::keyed_builder::<&str>();
    b.dtype("ghost", "f32");
    let error = b.build().map(|_| ()).unwrap_err();
    assert!(matches!(&error, GraphError::NeverAdded { tensor } if tensor.name.contains("ghost")), "{error}");
}

#[test]
fn an_op_does_not_take_over_what_it_overwrites() {
    let mut b = Graph::builder();
    let (x, next, y) = (b.tensor("x", 8), b.tensor("next", 8), b.tensor("y", 8));
    b.op("make").writes([x]);
    let op = b.op("op").reads([x]).writes([next, y]).update(next, x).in_place(y, x).id();
    b.output(y);
    assert_eq!(b.build().unwrap().takeovers(op), []);
}

#[test]
fn a_graph_can_do_without_in_place() {
    let mut b = Graph::builder();
    let (x, y) = (b.input("x", 8), b.tensor("y", 8));
    let op = b.op("op").reads([x]).writes([y]).in_place(y, x).id();
    let graph = b.build().unwrap();
    assert_eq!(given_peak(&graph), 8);
    let graph = graph.without_in_place();
    assert_eq!((graph.takeovers(op), graph.in_place_pairs(op)), (&[][..], &[][..]));
    assert_eq!(given_peak(&graph), 16);
}
