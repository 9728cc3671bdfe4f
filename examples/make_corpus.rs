//! Writes the graphs of `tests/corpus/`: four small networks, made here from their published shapes.
//!
//! `cargo run --release --example make_corpus -- tests/corpus`; the files are the same on every machine.

use memsched::graph::GraphBuilder;
use memsched::id::{OpId, TensorId};
use memsched::import::json;
use memsched::{Graph, GraphError};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: make_corpus FOLDER")?);
    std::fs::create_dir_all(&folder)?;
    for (file, graph) in [
        ("randwire.json.gz", randwire()?),
        ("mlp-train-sgd.json", mlp_train()?),
        ("resnet.json", resnet()?),
        ("decoder-step.json", decoder_step()?),
    ] {
        json::write_graph(folder.join(file), &graph)?;
        println!("{file}: {} ops, {} tensors", graph.n_ops(), graph.n_tensors());
    }
    Ok(())
}

/// A builder of tensors with shapes, 4 bytes an element.
struct Net(GraphBuilder);

impl Net {
    fn new(name: &str) -> Self {
        let mut b = Graph::builder();
        b.name(name);
        Self(b)
    }

    fn shaped(&mut self, tensor: TensorId, shape: &[u64]) -> TensorId {
        self.0.dtype(tensor, "f32").shape(tensor, shape);
        tensor
    }

    fn tensor(&mut self, name: &str, shape: &[u64]) -> TensorId {
        let tensor = self.0.tensor(name, bytes(shape));
        self.shaped(tensor, shape)
    }

    fn input(&mut self, name: &str, shape: &[u64]) -> TensorId {
        let tensor = self.0.input(name, bytes(shape));
        self.shaped(tensor, shape)
    }

    fn weight(&mut self, name: &str, shape: &[u64]) -> TensorId {
        let tensor = self.0.weight(name, bytes(shape));
        self.shaped(tensor, shape)
    }

    /// An op with one output.
    fn op(&mut self, name: &str, kind: &str, inputs: &[TensorId], shape: &[u64]) -> TensorId {
        let out = self.tensor(name, shape);
        self.0.op(name).kind(kind).reads(inputs.iter().copied()).writes([out]);
        out
    }

    /// An op whose output may take over the bytes of its first input.
    fn in_place(&mut self, name: &str, kind: &str, inputs: &[TensorId], shape: &[u64]) -> TensorId {
        let out = self.tensor(name, shape);
        self.0.op(name).kind(kind).reads(inputs.iter().copied()).writes([out]).in_place(out, inputs[0]);
        out
    }

    /// An op whose output is a view of its input.
    fn view(&mut self, name: &str, of: TensorId, shape: &[u64]) -> TensorId {
        let out = self.tensor(name, shape);
        self.0.op(name).kind("view").reads([of]).writes([out]).view(out, of);
        out
    }

    /// A convolution with a square kernel and as much workspace as its patches take for one row of outputs.
    fn conv(&mut self, name: &str, x: TensorId, (from, to): (u64, u64), kernel: u64, shape: &[u64]) -> TensorId {
        let w = self.weight(&format!("{name}.weight"), &[to, from, kernel, kernel]);
        let out = self.tensor(name, shape);
        let patches = if kernel == 1 { 0 } else { bytes(&[from, kernel, kernel, shape[3]]) };
        let flops = 2 * shape.iter().product::<u64>() * from * kernel * kernel;
        self.0.op(name).kind("conv").reads([x, w]).writes([out]).workspace(patches).flops(flops);
        out
    }

    fn build(self) -> Result<Graph, GraphError> {
        self.0.build()
    }
}

fn bytes(shape: &[u64]) -> u64 {
    4 * shape.iter().product::<u64>()
}

/// A small generator of random numbers (SplitMix64), so that the files never change.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap_or(0)
    }
}

/// Watts–Strogatz: a ring of n nodes, each joined to its k nearest, each edge rewired with a chance of 3 in 4; edges
/// then lead from the lower to the higher number. The sources of each node are returned.
fn small_world(n: usize, k: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let mut joined = vec![vec![false; n]; n];
    let mut join = |a: usize, b: usize, yes: bool| (joined[a][b], joined[b][a]) = (yes, yes);
    let ring: Vec<(usize, usize)> = (1..=k / 2).flat_map(|d| (0..n).map(move |a| (a, (a + d) % n))).collect();
    ring.iter().for_each(|&(a, b)| join(a, b, true));
    for (a, b) in ring {
        let to = random.below(n);
        if random.below(4) < 3 && to != a && !joined[a][to] {
            (joined[a][b], joined[b][a]) = (false, false);
            (joined[a][to], joined[to][a]) = (true, true);
        }
    }
    (0..n).map(|b| (0..b).filter(|a| joined[*a][b]).collect()).collect()
}

/// An irregular network in the manner of Xie, Kirillov, Girshick, He, "Exploring randomly wired neural networks for
/// image recognition", 2019. Its ops stand level by level, all weighted edges of a level first, which keeps far more
/// alive than need be.
fn randwire() -> Result<Graph, GraphError> {
    const NODES: usize = 20;
    let (mut net, mut random) = (Net::new("randwire"), Random(1));
    let image = net.input("image", &[1, 3, 224, 224]);
    let mut x = net.conv("stem", image, (3, 78), 3, &[1, 78, 56, 56]);
    let mut from = 78;
    for (stage, (channels, side)) in [(78, 28), (156, 14), (312, 7)].into_iter().enumerate() {
        let shape = [1, channels, side, side];
        let entry = net.conv(&format!("stage{stage}.entry"), x, (from, channels), 3, &shape);
        let sources = small_world(NODES, 4, &mut random);
        let mut level = [0usize; NODES];
        for node in 0..NODES {
            level[node] = sources[node].iter().map(|s| level[*s] + 1).max().unwrap_or(0);
        }
        let mut out: [Option<TensorId>; NODES] = [None; NODES];
        for depth in 0..=level.iter().copied().max().unwrap_or(0) {
            let nodes: Vec<usize> = (0..NODES).filter(|n| level[*n] == depth).collect();
            let name = |node: usize, what: &str| format!("stage{stage}.node{node}.{what}");
            let mut scaled: Vec<Vec<TensorId>> = Vec::new();
            for &node in &nodes {
                let inputs: Vec<TensorId> = sources[node].iter().filter_map(|s| out[*s]).collect();
                let inputs = if inputs.is_empty() { vec![entry] } else { inputs };
                let mut one = |(edge, x): (usize, &TensorId)| {
                    let w = net.weight(&name(node, &format!("edge{edge}")), &[1]);
                    net.op(&name(node, &format!("scale{edge}")), "mul", &[*x, w], &shape)
                };
                scaled.push(inputs.iter().enumerate().map(&mut one).collect());
            }
            let mut now: Vec<TensorId> = Vec::new();
            for (terms, &node) in scaled.iter().zip(&nodes) {
                let mut sum = terms[0];
                for (edge, term) in terms.iter().enumerate().skip(1) {
                    sum = net.in_place(&name(node, &format!("add{edge}")), "add", &[sum, *term], &shape);
                }
                now.push(sum);
            }
            for (x, &node) in now.iter_mut().zip(&nodes) {
                *x = net.in_place(&name(node, "relu"), "relu", &[*x], &shape);
            }
            for (x, &node) in now.iter_mut().zip(&nodes) {
                *x = net.conv(&name(node, "depthwise"), *x, (1, channels), 3, &shape);
            }
            for (x, &node) in now.iter_mut().zip(&nodes) {
                *x = net.conv(&name(node, "pointwise"), *x, (channels, channels), 1, &shape);
            }
            for (x, &node) in now.iter_mut().zip(&nodes) {
                *x = net.in_place(&name(node, "norm"), "batch_norm", &[*x], &shape);
                out[node] = Some(*x);
            }
        }
        let is_read = |node: usize| sources.iter().any(|s| s.contains(&node));
        let last: Vec<TensorId> = (0..NODES).filter(|n| !is_read(*n)).filter_map(|n| out[n]).collect();
        x = net.op(&format!("stage{stage}.mean"), "mean", &last, &shape);
        from = channels;
    }
    let pooled = net.op("pool", "global_average", &[x], &[1, 312]);
    let w = net.weight("classifier.weight", &[1000, 312]);
    let logits = net.op("classifier", "matmul", &[pooled, w], &[1, 1000]);
    net.0.output(logits);
    net.build()
}

/// A perceptron's training step: forward, backward, then all weights updated by gradient descent, as frameworks
/// write it down. Updating each weight as soon as its gradient is there needs less.
fn mlp_train() -> Result<Graph, GraphError> {
    const BATCH: u64 = 256;
    let widths = [784u64, 2048, 2048, 1024, 1024, 512, 10];
    let mut net = Net::new("mlp-train-sgd");
    let (x, labels) = (net.input("x", &[BATCH, widths[0]]), net.input("labels", &[BATCH]));
    let n = widths.len() - 1;
    let (mut acts, mut weights) = (vec![x], Vec::new());
    for layer in 0..n {
        let w = net.weight(&format!("w{layer}"), &[widths[layer + 1], widths[layer]]);
        let shape = [BATCH, widths[layer + 1]];
        let y = net.op(&format!("linear{layer}"), "matmul", &[acts[layer], w], &shape);
        let y = if layer + 1 < n { net.in_place(&format!("relu{layer}"), "relu", &[y], &shape) } else { y };
        acts.push(y);
        weights.push(w);
    }
    let loss = net.op("loss", "cross_entropy", &[acts[n], labels], &[1]);
    let mut grad = net.op("loss_grad", "cross_entropy_backward", &[acts[n], labels], &[BATCH, widths[n]]);
    let mut grads = Vec::new();
    for layer in (0..n).rev() {
        if layer + 1 < n {
            let shape = [BATCH, widths[layer + 1]];
            grad = net.in_place(&format!("relu{layer}_grad"), "relu_backward", &[grad, acts[layer + 1]], &shape);
        }
        let shape = [widths[layer + 1], widths[layer]];
        let of_weight = net.op(&format!("w{layer}_grad"), "matmul", &[grad, acts[layer]], &shape);
        net.0.kind(of_weight, memsched::graph::TensorKind::Gradient);
        grads.push((layer, of_weight));
        if layer > 0 {
            grad = net.op(&format!("x{layer}_grad"), "matmul", &[grad, weights[layer]], &[BATCH, widths[layer]]);
        }
    }
    for (layer, gradient) in grads {
        let old = weights[layer];
        let new = net.tensor(&format!("w{layer}.new"), &[widths[layer + 1], widths[layer]]);
        net.0.op(format!("sgd{layer}")).kind("sgd").reads([old, gradient]).writes([new]).update(new, old);
        net.0.output(new);
    }
    net.0.output(loss);
    net.build()
}

/// A residual network of eight blocks in four stages, batch 8.
fn resnet() -> Result<Graph, GraphError> {
    let mut net = Net::new("resnet");
    let image = net.input("image", &[8, 3, 128, 128]);
    let mut x = net.conv("stem", image, (3, 64), 7, &[8, 64, 64, 64]);
    x = net.in_place("stem.norm", "batch_norm", &[x], &[8, 64, 64, 64]);
    x = net.in_place("stem.relu", "relu", &[x], &[8, 64, 64, 64]);
    x = net.op("stem.pool", "max_pool", &[x], &[8, 64, 32, 32]);
    let mut from = 64;
    for (stage, (channels, side)) in [(64, 32), (128, 16), (256, 8), (512, 4)].into_iter().enumerate() {
        for block in 0..2 {
            let name = |what: &str| format!("stage{stage}.block{block}.{what}");
            let shape = [8, channels, side, side];
            let mut y = net.conv(&name("conv1"), x, (from, channels), 3, &shape);
            y = net.in_place(&name("norm1"), "batch_norm", &[y], &shape);
            y = net.in_place(&name("relu1"), "relu", &[y], &shape);
            y = net.conv(&name("conv2"), y, (channels, channels), 3, &shape);
            y = net.in_place(&name("norm2"), "batch_norm", &[y], &shape);
            let skip = if from == channels { x } else { net.conv(&name("skip"), x, (from, channels), 1, &shape) };
            y = net.in_place(&name("add"), "add", &[y, skip], &shape);
            x = net.in_place(&name("relu2"), "relu", &[y], &shape);
            from = channels;
        }
    }
    let pooled = net.op("pool", "global_average", &[x], &[8, 512]);
    let flat = net.view("flatten", pooled, &[8, 512]);
    let w = net.weight("classifier.weight", &[100, 512]);
    let logits = net.op("classifier", "matmul", &[flat, w], &[8, 100]);
    net.0.output(logits);
    net.build()
}

/// One decoding step of a transformer of four layers: each writes the new key and value into its cache, a graph input
/// that is overwritten, and reads it through views.
fn decoder_step() -> Result<Graph, GraphError> {
    const HIDDEN: u64 = 512;
    const HEADS: u64 = 8;
    const PAST: u64 = 1024;
    const INNER: u64 = 2048;
    let mut net = Net::new("decoder-step");
    let token = net.input("token", &[1]);
    let table = net.weight("embedding", &[8000, HIDDEN]);
    let mut x = net.op("embed", "gather", &[token, table], &[1, HIDDEN]);
    let (row, heads, cache) = ([1, HIDDEN], [HEADS, 1, HIDDEN / HEADS], [PAST, HIDDEN]);
    let mut caches = Vec::new();
    let mut last: Option<OpId> = None;
    for layer in 0..4 {
        let name = |what: &str| format!("layer{layer}.{what}");
        let scale = net.weight(&name("norm1.weight"), &[HIDDEN]);
        let normed = net.op(&name("norm1"), "rms_norm", &[x, scale], &row);
        let project = |net: &mut Net, what: &str| {
            let w = net.weight(&format!("{}.weight", name(what)), &[HIDDEN, HIDDEN]);
            net.op(&name(what), "matmul", &[normed, w], &row)
        };
        let [q, k, v] = ["q", "k", "v"].map(|what| project(&mut net, what));
        let q = net.view(&name("q.heads"), q, &heads);
        let mut filled = Vec::new();
        for (what, new) in [("k", k), ("v", v)] {
            let old = net.input(&name(&format!("{what}_cache")), &cache);
            let now = net.tensor(&name(&format!("{what}_cache.new")), &cache);
            let op = net.0.op(name(&format!("{what}_cache.write"))).kind("index_put");
            // The runtime writes the caches one after the other.
            last = Some(op.reads([old, new]).writes([now]).update(now, old).after(last).id());
            filled.push(net.view(&name(&format!("{what}_cache.heads")), now, &[HEADS, PAST, HIDDEN / HEADS]));
            caches.push(now);
        }
        let scores = net.op(&name("scores"), "matmul", &[q, filled[0]], &[HEADS, 1, PAST]);
        let weights = net.in_place(&name("softmax"), "softmax", &[scores], &[HEADS, 1, PAST]);
        let mixed = net.op(&name("mix"), "matmul", &[weights, filled[1]], &heads);
        let mixed = net.view(&name("mix.row"), mixed, &row);
        let w = net.weight(&name("out.weight"), &[HIDDEN, HIDDEN]);
        let attended = net.op(&name("out"), "matmul", &[mixed, w], &row);
        let middle = net.in_place(&name("add1"), "add", &[attended, x], &row);
        let scale = net.weight(&name("norm2.weight"), &[HIDDEN]);
        let normed = net.op(&name("norm2"), "rms_norm", &[middle, scale], &row);
        let (gate, up) =
            (net.weight(&name("gate.weight"), &[INNER, HIDDEN]), net.weight(&name("up.weight"), &[INNER, HIDDEN]));
        let gate = net.op(&name("gate"), "matmul", &[normed, gate], &[1, INNER]);
        let up = net.op(&name("up"), "matmul", &[normed, up], &[1, INNER]);
        let inner = net.in_place(&name("silu_mul"), "silu_mul", &[gate, up], &[1, INNER]);
        let w = net.weight(&name("down.weight"), &[HIDDEN, INNER]);
        let down = net.op(&name("down"), "matmul", &[inner, w], &row);
        x = net.in_place(&name("add2"), "add", &[down, middle], &row);
    }
    let head = net.weight("head", &[8000, HIDDEN]);
    let logits = net.op("logits", "matmul", &[x, head], &[1, 8000]);
    net.0.output(logits);
    caches.into_iter().for_each(|cache| {
        net.0.output(cache);
    });
    net.build()
}
