//! To and from [petgraph]: convert a graph of yours, or run petgraph's algorithms on a [`Graph`].
//!
//! In petgraph's words an op is a node. [`Graph::from_petgraph`] makes a [`Graph`] from any directed graph of
//! petgraph's; [`Graph::to_petgraph`] copies a graph back; [`Graph::as_petgraph`] copies nothing, and lets petgraph's
//! algorithms walk the dependencies of the graph itself.

use super::Graph;
use super::builder::{GraphBuilder, TensorKind};
use crate::error::{GraphError, TensorLabel};
use crate::id::{OpId, TensorId};
use ::petgraph::graph::{DiGraph, NodeIndex};
use ::petgraph::visit::{
    Data, EdgeRef, GraphBase, GraphProp, GraphRef, IntoEdgeReferences, IntoEdges, IntoEdgesDirected, IntoNeighbors,
    IntoNeighborsDirected, IntoNodeIdentifiers, IntoNodeReferences, NodeCompactIndexable, NodeCount, NodeIndexable,
    NodeRef, VisitMap, Visitable,
};
use ::petgraph::{Directed, Direction};
use indexmap::IndexMap;
use std::hash::Hash;
use std::iter::{Copied, Map, Zip};
use std::ops::Range;
use std::slice;

/// What a node of a petgraph graph is: an op and the tensors it writes, or tensors that the graph is given.
///
/// ```
/// use memsched::graph::petgraph::NodeOp;
///
/// let conv = NodeOp::new("conv", [4096]).with_kind("aten.convolution").with_workspace(1 << 20);
/// assert_eq!(conv.output_bytes, [4096]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NodeOp {
    /// The op's name; may be empty.
    pub name: String,
    /// What the op computes; free text.
    pub kind: Option<String>,
    /// The sizes in bytes of the tensors it writes, by slot. An edge reads one slot.
    pub output_bytes: Vec<u64>,
    /// Bytes that the op needs while it runs, and only then.
    pub workspace_bytes: u64,
    /// Floating-point operations of the op.
    pub flops: Option<u64>,
    /// Run time of the op, in a unit that the graph uses throughout.
    pub seconds: Option<f64>,
    /// Whether its tensors are graph outputs although edges read them.
    pub is_output: bool,
    /// Set where the node is no op: its tensors are given to the graph, and of this kind.
    /// A node that an edge leads to is an op all the same.
    pub given: Option<TensorKind>,
}

impl NodeOp {
    /// An op that writes tensors of these sizes, in bytes.
    #[must_use]
    pub fn new(name: impl Into<String>, output_bytes: impl Into<Vec<u64>>) -> Self {
        Self { name: name.into(), output_bytes: output_bytes.into(), ..Self::default() }
    }

    /// A graph input of this size, in bytes: no op, but a tensor that lies in the arena from step 0 on.
    #[must_use]
    pub fn input(name: impl Into<String>, bytes: u64) -> Self {
        Self { given: Some(TensorKind::Input), ..Self::new(name, [bytes]) }
    }

    /// A weight of this size, in bytes: no op, but a persistent tensor outside the arena.
    #[must_use]
    pub fn weight(name: impl Into<String>, bytes: u64) -> Self {
        Self { given: Some(TensorKind::Weight), ..Self::new(name, [bytes]) }
    }

    /// Sets [`kind`](Self::kind).
    #[must_use]
    pub fn with_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Sets [`workspace_bytes`](Self::workspace_bytes).
    #[must_use]
    pub fn with_workspace(mut self, bytes: u64) -> Self {
        self.workspace_bytes = bytes;
        self
    }

    /// Sets [`flops`](Self::flops).
    #[must_use]
    pub fn with_flops(mut self, flops: u64) -> Self {
        self.flops = Some(flops);
        self
    }

    /// Sets [`seconds`](Self::seconds).
    #[must_use]
    pub fn with_seconds(mut self, seconds: f64) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// Sets [`is_output`](Self::is_output).
    #[must_use]
    pub fn with_output(mut self, on: bool) -> Self {
        self.is_output = on;
        self
    }
}

/// Which op and which tensors each node became, and back.
#[derive(Clone, Debug)]
pub struct NodeMap<N> {
    nodes: IndexMap<N, NodeEntry>,
    /// For each op the position of its node in `nodes`.
    node_of: Vec<usize>,
}

#[derive(Clone, Debug)]
struct NodeEntry {
    op: Option<OpId>,
    /// The ids of its tensors, which follow one another.
    tensors: Range<usize>,
}

impl<N: Copy + Hash + Eq> NodeMap<N> {
    /// The op that a node became; `None` for what the graph is given, and for unknown nodes.
    #[must_use]
    pub fn op(&self, node: N) -> Option<OpId> {
        self.nodes.get(&node)?.op
    }

    /// The tensor in a slot of a node.
    #[must_use]
    pub fn tensor(&self, node: N, slot: usize) -> Option<TensorId> {
        self.nodes.get(&node)?.tensors.clone().nth(slot).map(TensorId::new)
    }

    /// The node that became an op.
    #[must_use]
    pub fn node(&self, op: OpId) -> Option<N> {
        let (node, _) = self.nodes.get_index(*self.node_of.get(op.index())?)?;
        Some(*node)
    }
}

impl Graph {
    /// Makes a graph from a directed graph of petgraph's: a `Graph`, a `StableGraph`, a `GraphMap`, and so on.
    ///
    /// `node_op` says what each node is. `slot` says which of its source's tensors an edge reads, and `None` for an
    /// edge that only says which op comes first; for nodes with one output each it is `|_| Some(0)`. All edges that
    /// read one slot of a node share one tensor. An op's inputs stand in the order of the edges. The tensors of an op
    /// that no edge reads from are graph outputs.
    ///
    /// O(n + m) for n nodes and m edges, n log n where the nodes do not stand in a valid order.
    ///
    /// ```
    /// use memsched::Graph;
    /// use memsched::graph::petgraph::NodeOp;
    /// use petgraph::graph::DiGraph;
    ///
    /// // x ──▶ relu ──▶ add
    /// //  └─────────────▶
    /// let mut nodes = DiGraph::<&str, ()>::new();
    /// let [x, relu, add] = ["x", "relu", "add"].map(|name| nodes.add_node(name));
    /// nodes.extend_with_edges([(x, relu), (relu, add), (x, add)]);
    ///
    /// let (graph, map) = Graph::from_petgraph(
    ///     &nodes,
    ///     |node| match nodes[node] {
    ///         "x" => NodeOp::input("x", 4096),
    ///         name => NodeOp::new(name, [4096]),
    ///     },
    ///     |_| Some(0),
    /// )?;
    /// assert_eq!(graph.n_ops(), 2);
    /// assert_eq!(graph.outputs(), [map.tensor(add, 0).unwrap()]);
    /// assert_eq!(map.node(map.op(relu).unwrap()), Some(relu));
    /// # Ok::<(), memsched::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// [`GraphError`]: a cycle, a slot that the source does not have ([`GraphError::UnknownTensor`]), too many bytes.
    pub fn from_petgraph<G>(
        graph: G,
        mut node_op: impl FnMut(G::NodeId) -> NodeOp,
        mut slot: impl FnMut(G::EdgeRef) -> Option<usize>,
    ) -> Result<(Self, NodeMap<G::NodeId>), GraphError>
    where
        G: IntoNodeReferences + IntoEdgeReferences + GraphProp<EdgeType = Directed>,
        G::NodeId: Hash + Eq,
    {
        let mut places: IndexMap<G::NodeId, NodeOp> = IndexMap::new();
        for node in graph.node_references() {
            places.insert(node.id(), node_op(node.id()));
        }
        let place = |node: G::NodeId| places.get_index_of(&node);
        // Edges as (source, target, slot), by target.
        let edges: Vec<(usize, usize, Option<usize>)> = graph
            .edge_references()
            .filter_map(|edge| Some((place(edge.source())?, place(edge.target())?, slot(edge))))
            .collect();
        let edges_to = crate::id::Adjacency::group(places.len(), || {
            edges.iter().map(|(source, target, slot)| (*target, (*source, *slot)))
        });
        let mut is_read = vec![false; places.len()];
        edges.iter().filter(|(_, _, slot)| slot.is_some()).for_each(|(source, ..)| is_read[*source] = true);

        let mut builder = Self::builder();
        let mut map = NodeMap { nodes: IndexMap::with_capacity(places.len()), node_of: Vec::new() };
        for (k, (&node, spec)) in places.iter().enumerate() {
            let given = spec.given.filter(|_| edges_to.list(k).is_empty());
            let op = given.is_none().then(|| OpId::new(map.node_of.len()));
            map.node_of.extend(op.map(|_| k));
            let tensors = add_tensors(&mut builder, spec, given, spec.is_output || (op.is_some() && !is_read[k]));
            map.nodes.insert(node, NodeEntry { op, tensors });
        }
        for &k in &map.node_of {
            let spec = &places[k];
            let mut op = builder.op(spec.name.as_str()).workspace(spec.workspace_bytes);
            op = spec.kind.iter().fold(op, |op, kind| op.kind(kind));
            op = spec.flops.into_iter().fold(op, |op, flops| op.flops(flops));
            op = spec.seconds.into_iter().fold(op, |op, seconds| op.seconds(seconds));
            op = op.writes(map.nodes[k].tensors.clone().map(TensorId::new));
            for &(source, slot) in edges_to.list(k) {
                let entry = &map.nodes[source];
                op = match slot {
                    Some(slot) => match entry.tensors.clone().nth(slot) {
                        Some(tensor) => op.reads([TensorId::new(tensor)]),
                        None => {
                            let op = op.id();
                            let name = format!("slot {slot} of {}", places[source].name);
                            let tensor = TensorLabel { id: TensorId::new(usize::MAX), name };
                            return Err(GraphError::UnknownTensor { op: builder.op_label(op), role: "reads", tensor });
                        }
                    },
                    None => op.after(entry.op),
                };
            }
            op.id();
        }
        Ok((builder.build()?, map))
    }

    /// A copy for petgraph: node k is op k. There is an edge for every operand that an op makes for another, which
    /// bears the tensor, and one that bears `None` for every other dependency. O(n + m log m).
    ///
    /// ```
    /// use memsched::Graph;
    ///
    /// let mut b = Graph::builder();
    /// let x = b.tensor("x", 8);
    /// let first = b.op("first").writes([x]).id();
    /// b.op("second").reads([x]);
    /// b.op("third").after([first]);
    /// let copy = b.build()?.to_petgraph();
    /// let edges: Vec<_> = copy.edge_weights().copied().collect();
    /// assert_eq!(edges, [Some(x), None]);
    /// # Ok::<(), memsched::GraphError>(())
    /// ```
    #[must_use]
    pub fn to_petgraph(&self) -> DiGraph<OpId, Option<TensorId>> {
        let mut copy = DiGraph::with_capacity(self.n_ops(), self.n_tensors());
        for op in self.ops() {
            copy.add_node(op);
        }
        let node = |op: OpId| NodeIndex::new(op.index());
        for op in self.ops() {
            let mut makers: Vec<OpId> = Vec::new();
            for &tensor in self.inputs(op) {
                if let Some(maker) = self.producer(tensor) {
                    makers.push(maker);
                    copy.add_edge(node(maker), node(op), Some(tensor));
                }
            }
            makers.sort_unstable();
            for &before in self.predecessors(op).iter().filter(|before| makers.binary_search(before).is_err()) {
                copy.add_edge(node(before), node(op), None);
            }
        }
        copy
    }

    /// The graph's ops and their dependencies, as petgraph's algorithms see a graph; nothing is copied.
    ///
    /// ```
    /// use memsched::Graph;
    ///
    /// let mut b = Graph::builder();
    /// let first = b.op("first").id();
    /// let second = b.op("second").after([first]).id();
    /// let graph = b.build()?;
    /// assert!(petgraph::algo::has_path_connecting(graph.as_petgraph(), first, second, None));
    /// # Ok::<(), memsched::GraphError>(())
    /// ```
    #[must_use]
    pub fn as_petgraph(&self) -> AsPetgraph<'_> {
        AsPetgraph(self)
    }
}

/// Adds the tensors of a node; their ids follow one another.
fn add_tensors(builder: &mut GraphBuilder, spec: &NodeOp, given: Option<TensorKind>, output: bool) -> Range<usize> {
    let start = builder.tensors.len();
    for (slot, &bytes) in spec.output_bytes.iter().enumerate() {
        let name = if slot == 0 { spec.name.clone() } else { format!("{}.{slot}", spec.name) };
        let tensor = builder.tensor(name, bytes);
        builder.kind(tensor, given.unwrap_or_default());
        if output {
            builder.output(tensor);
        }
    }
    start..builder.tensors.len()
}

/// A graph as petgraph's algorithms see it: a node is an op, an edge leads from an op to one that must run after it.
///
/// There is at most one edge between two ops. Its methods panic, as indexing does, when a node is not one of the
/// graph.
#[derive(Clone, Copy, Debug)]
pub struct AsPetgraph<'g>(&'g Graph);

/// An edge of [`AsPetgraph`].
type Edge = (OpId, OpId, &'static ());
/// Neighbours, each with the node whose neighbour it is.
type Pairs<'g> = Zip<std::iter::Repeat<OpId>, Copied<slice::Iter<'g, OpId>>>;

impl<'g> AsPetgraph<'g> {
    fn neighbours(self, op: OpId, direction: Direction) -> &'g [OpId] {
        match direction {
            Direction::Outgoing => self.0.successors(op),
            Direction::Incoming => self.0.predecessors(op),
        }
    }

    fn pairs(self, op: OpId, direction: Direction) -> Pairs<'g> {
        std::iter::repeat(op).zip(self.neighbours(op, direction).iter().copied())
    }
}

impl GraphBase for AsPetgraph<'_> {
    type EdgeId = (OpId, OpId);
    type NodeId = OpId;
}

impl GraphRef for AsPetgraph<'_> {}

impl Data for AsPetgraph<'_> {
    type NodeWeight = ();
    type EdgeWeight = ();
}

impl GraphProp for AsPetgraph<'_> {
    type EdgeType = Directed;
}

impl<'g> IntoNeighbors for AsPetgraph<'g> {
    type Neighbors = Copied<slice::Iter<'g, OpId>>;

    fn neighbors(self, op: OpId) -> Self::Neighbors {
        self.neighbors_directed(op, Direction::Outgoing)
    }
}

impl<'g> IntoNeighborsDirected for AsPetgraph<'g> {
    type NeighborsDirected = Copied<slice::Iter<'g, OpId>>;

    fn neighbors_directed(self, op: OpId, direction: Direction) -> Self::NeighborsDirected {
        self.neighbours(op, direction).iter().copied()
    }
}

impl IntoNodeIdentifiers for AsPetgraph<'_> {
    type NodeIdentifiers = Map<Range<usize>, fn(usize) -> OpId>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        (0..self.0.n_ops()).map(OpId::new)
    }
}

impl IntoNodeReferences for AsPetgraph<'_> {
    type NodeRef = (OpId, &'static ());
    type NodeReferences = Map<Range<usize>, fn(usize) -> (OpId, &'static ())>;

    fn node_references(self) -> Self::NodeReferences {
        (0..self.0.n_ops()).map(|op| (OpId::new(op), &()))
    }
}

impl<'g> IntoEdgeReferences for AsPetgraph<'g> {
    type EdgeRef = Edge;
    type EdgeReferences = AllEdges<'g>;

    fn edge_references(self) -> Self::EdgeReferences {
        AllEdges { graph: self, next_op: 0, edges: [].iter() }
    }
}

impl<'g> IntoEdges for AsPetgraph<'g> {
    type Edges = Map<Pairs<'g>, fn((OpId, OpId)) -> Edge>;

    fn edges(self, op: OpId) -> Self::Edges {
        self.edges_directed(op, Direction::Outgoing)
    }
}

impl<'g> IntoEdgesDirected for AsPetgraph<'g> {
    type EdgesDirected = Map<Pairs<'g>, fn((OpId, OpId)) -> Edge>;

    fn edges_directed(self, op: OpId, direction: Direction) -> Self::EdgesDirected {
        let edge: fn((OpId, OpId)) -> Edge = match direction {
            Direction::Outgoing => |(op, next)| (op, next, &()),
            Direction::Incoming => |(op, before)| (before, op, &()),
        };
        self.pairs(op, direction).map(edge)
    }
}

impl NodeCount for AsPetgraph<'_> {
    fn node_count(&self) -> usize {
        self.0.n_ops()
    }
}

impl NodeIndexable for AsPetgraph<'_> {
    fn node_bound(&self) -> usize {
        self.0.n_ops()
    }

    fn to_index(&self, op: OpId) -> usize {
        op.index()
    }

    fn from_index(&self, index: usize) -> OpId {
        OpId::new(index)
    }
}

impl NodeCompactIndexable for AsPetgraph<'_> {}

impl Visitable for AsPetgraph<'_> {
    type Map = VisitedOps;

    fn visit_map(&self) -> VisitedOps {
        VisitedOps(vec![false; self.0.n_ops()])
    }

    fn reset_map(&self, map: &mut VisitedOps) {
        map.0.clear();
        map.0.resize(self.0.n_ops(), false);
    }
}

/// All edges of [`AsPetgraph`], by their sources.
#[derive(Clone, Debug)]
pub struct AllEdges<'g> {
    graph: AsPetgraph<'g>,
    /// The first op whose edges were not started.
    next_op: usize,
    /// What is left of the edges of the op before it.
    edges: slice::Iter<'g, OpId>,
}

impl Iterator for AllEdges<'_> {
    type Item = Edge;

    fn next(&mut self) -> Option<Edge> {
        loop {
            if let Some(&target) = self.edges.next() {
                return Some((OpId::new(self.next_op - 1), target, &()));
            }
            if self.next_op == self.graph.0.n_ops() {
                return None;
            }
            self.edges = self.graph.0.successors(OpId::new(self.next_op)).iter();
            self.next_op += 1;
        }
    }
}

/// The ops that one of petgraph's algorithms has visited.
#[derive(Clone, Debug, Default)]
pub struct VisitedOps(Vec<bool>);

impl VisitMap<OpId> for VisitedOps {
    fn visit(&mut self, op: OpId) -> bool {
        !std::mem::replace(&mut self.0[op.index()], true)
    }

    fn is_visited(&self, op: &OpId) -> bool {
        self.0.get(op.index()).copied().unwrap_or(false)
    }

    fn unvisit(&mut self, op: OpId) -> bool {
        self.0.get_mut(op.index()).is_some_and(|visited| std::mem::replace(visited, false))
    }
}

#[cfg(test)]
mod tests;
