//! Random valid graphs and orders, and an oracle by brute force: for tests of this crate, and of yours.
//!
//! [`random_graph`] makes a graph from a seed and a [`GraphShape`]; whatever the shape, the graph is valid.
//! [`random_order`] draws one of its orders, [`permuted`] renumbers it, and [`brute_force_peak`] tries all of its
//! orders. They need no further crate. With the feature `proptest`, strategies make the same graphs and
//! shrink them: `graphs`, `orders` and `graph_and_order`.
//!
//! A seed gives the same graph on every machine, within one minor version of this crate.
//!
//! ```
//! use memsched::testing::{self, Family, GraphShape};
//! use memsched::{Strategy, schedule};
//!
//! let shape = GraphShape::new(Family::Arbitrary, 7).with_everything();
//! for seed in 0..20 {
//!     let graph = testing::random_graph(seed, &shape);
//!     let found = schedule(&graph, Strategy::Greedy)?;
//!     let least = testing::brute_force_peak(&graph);
//!     assert!(found.lower_bound_bytes() <= least && least <= found.peak_bytes());
//! }
//! # Ok::<(), memsched::ScheduleError>(())
//! ```

mod asserts;
mod orders;
mod recipe;
#[cfg(any(test, feature = "proptest"))]
mod strategies;

pub use asserts::{assert_valid_plan, assert_valid_schedule};
pub use orders::{all_orders, brute_force_peak, random_order};
#[cfg(any(test, feature = "proptest"))]
#[cfg_attr(docsrs, doc(cfg(feature = "proptest")))]
pub use strategies::{graph_and_order, graphs, orders};

use crate::graph::Graph;
use crate::id::{OpId, TensorId};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How the ops of a random graph hang together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Layers of about √n ops; an op reads tensors of the layer before its own, sometimes of the one before that.
    Layered,
    /// Chains, forks and joins, properly nested, from one source to one sink.
    SeriesParallel,
    /// A forward chain with skips, then the backward pass that reads the activations in reverse.
    Training,
    /// Any op may read any tensor that was made before it; near ones more often.
    #[default]
    Arbitrary,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 4] = [Self::Layered, Self::SeriesParallel, Self::Training, Self::Arbitrary];
}

/// What random graphs look like: their size, their family, and which features of the memory model they use.
///
/// All features are off until asked for, so that a test can add them one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct GraphShape {
    /// How the ops hang together.
    pub family: Family,
    /// The number of ops; for strategies the most ops.
    pub n_ops: usize,
    /// Whether some outputs are views: of an operand, of a view, or of a sibling output.
    pub views: bool,
    /// Whether some outputs are updates of an operand's storage.
    pub updates: bool,
    /// Whether some outputs may take over an operand's bytes.
    pub in_place: bool,
    /// Whether some ops need workspace.
    pub workspace: bool,
    /// Whether some ops must run after others for reasons that no tensor shows.
    pub control: bool,
    /// Whether some tensors have 0 bytes.
    pub zero_bytes: bool,
    /// Whether most sizes are 1, 2³³ or 2⁴⁰ bytes, or near one of these.
    pub adversarial_sizes: bool,
    /// Whether an op may write several tensors, or (in the arbitrary family) none.
    pub several_outputs: bool,
    /// Whether some inputs are outputs too.
    pub outputs_that_are_inputs: bool,
    /// Whether there are inputs and weights that nobody reads.
    pub unused_inputs: bool,
    /// Whether ops read weights, which are persistent.
    pub weights: bool,
}

impl GraphShape {
    /// `n_ops` ops of a family, and none of the features.
    #[must_use]
    pub fn new(family: Family, n_ops: usize) -> Self {
        Self { family, n_ops, ..Self::default() }
    }

    /// All features on.
    #[must_use]
    pub fn with_everything(self) -> Self {
        self.with_views(true)
            .with_updates(true)
            .with_in_place(true)
            .with_workspace(true)
            .with_control(true)
            .with_zero_bytes(true)
            .with_adversarial_sizes(true)
            .with_several_outputs(true)
            .with_outputs_that_are_inputs(true)
            .with_unused_inputs(true)
            .with_weights(true)
    }

    /// Sets [`views`](Self::views).
    #[must_use]
    pub fn with_views(mut self, on: bool) -> Self {
        self.views = on;
        self
    }

    /// Sets [`updates`](Self::updates).
    #[must_use]
    pub fn with_updates(mut self, on: bool) -> Self {
        self.updates = on;
        self
    }

    /// Sets [`in_place`](Self::in_place).
    #[must_use]
    pub fn with_in_place(mut self, on: bool) -> Self {
        self.in_place = on;
        self
    }

    /// Sets [`workspace`](Self::workspace).
    #[must_use]
    pub fn with_workspace(mut self, on: bool) -> Self {
        self.workspace = on;
        self
    }

    /// Sets [`control`](Self::control).
    #[must_use]
    pub fn with_control(mut self, on: bool) -> Self {
        self.control = on;
        self
    }

    /// Sets [`zero_bytes`](Self::zero_bytes).
    #[must_use]
    pub fn with_zero_bytes(mut self, on: bool) -> Self {
        self.zero_bytes = on;
        self
    }

    /// Sets [`adversarial_sizes`](Self::adversarial_sizes).
    #[must_use]
    pub fn with_adversarial_sizes(mut self, on: bool) -> Self {
        self.adversarial_sizes = on;
        self
    }

    /// Sets [`several_outputs`](Self::several_outputs).
    #[must_use]
    pub fn with_several_outputs(mut self, on: bool) -> Self {
        self.several_outputs = on;
        self
    }

    /// Sets [`outputs_that_are_inputs`](Self::outputs_that_are_inputs).
    #[must_use]
    pub fn with_outputs_that_are_inputs(mut self, on: bool) -> Self {
        self.outputs_that_are_inputs = on;
        self
    }

    /// Sets [`unused_inputs`](Self::unused_inputs).
    #[must_use]
    pub fn with_unused_inputs(mut self, on: bool) -> Self {
        self.unused_inputs = on;
        self
    }

    /// Sets [`weights`](Self::weights).
    #[must_use]
    pub fn with_weights(mut self, on: bool) -> Self {
        self.weights = on;
        self
    }
}

/// A random graph with exactly `shape.n_ops` ops; always valid. O(n) time for n ops.
///
/// Its ops are numbered in a valid order; [`permuted`] changes that.
#[must_use]
pub fn random_graph(seed: u64, shape: &GraphShape) -> Graph {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let records: Vec<_> = (0..shape.n_ops).map(|_| recipe::Record::random(&mut rng)).collect();
    recipe::grow(shape, &records)
}

/// The same graph with its ops and tensors renumbered at random, and for each op of `graph` its new id.
///
/// Every figure of a schedule stays the same when its ops are renumbered along. O(n + m) for n ops and m operands.
#[must_use]
pub fn permuted(graph: &Graph, seed: u64) -> (Graph, Vec<OpId>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let old_ops = shuffled(graph.n_ops(), &mut rng);
    let old_tensors = shuffled(graph.n_tensors(), &mut rng);
    let new_op: Vec<OpId> = inverse(&old_ops).into_iter().map(OpId::new).collect();
    let new_tensor: Vec<TensorId> = inverse(&old_tensors).into_iter().map(TensorId::new).collect();

    let mut b = Graph::builder();
    b.name(graph.name());
    for t in old_tensors.into_iter().map(TensorId::new) {
        let new = b.tensor(graph.tensor_name(t), graph.tensor_bytes(t));
        b.kind(new, graph.tensor_kind(t));
        if let Some(dtype) = graph.dtype(t) {
            b.dtype(new, dtype);
        }
        if let Some(shape) = graph.shape(t) {
            b.shape(new, shape);
        }
    }
    let tensor = |t: &TensorId| new_tensor[t.index()];
    for op in old_ops.into_iter().map(OpId::new) {
        let mut new = b.op(graph.op_name(op)).workspace(graph.workspace_bytes(op));
        new = new.reads(graph.inputs(op).iter().map(tensor)).writes(graph.op_outputs(op).iter().map(tensor));
        new = new.after(graph.after(op).iter().map(|o| new_op[o.index()]));
        new = graph.views(op).iter().fold(new, |new, (out, of)| new.view(tensor(out), tensor(of)));
        new = graph.updates(op).iter().fold(new, |new, (out, old)| new.update(tensor(out), tensor(old)));
        new = graph.in_place_pairs(op).iter().fold(new, |new, (out, of)| new.in_place(tensor(out), tensor(of)));
        new = graph.op_kind(op).into_iter().fold(new, |new, kind| new.kind(kind));
        new = graph.flops(op).into_iter().fold(new, |new, flops| new.flops(flops));
        new = graph.seconds(op).into_iter().fold(new, |new, seconds| new.seconds(seconds));
        new.id();
    }
    graph.outputs().iter().for_each(|t| {
        b.output(tensor(t));
    });
    (b.build().expect("no rule depends on the numbers of ops and tensors"), new_op)
}

/// The numbers below `n` in random order (Fisher and Yates).
fn shuffled(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut list: Vec<usize> = (0..n).collect();
    for k in (1..n).rev() {
        list.swap(k, rng.random_range(0..=k));
    }
    list
}

fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (k, &p) in permutation.iter().enumerate() {
        inverse[p] = k;
    }
    inverse
}

#[cfg(test)]
mod tests;
