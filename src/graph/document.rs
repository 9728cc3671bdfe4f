//! A graph as plain data, in the shape of the file format `memsched-graph/1`; it may be wrong in every way.

use super::{Graph, TensorKind};
use crate::error::GraphError;
use crate::id::{OpId, TensorId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The format of graph files.
pub(crate) const GRAPH_FORMAT: &str = "memsched-graph/1";

/// Why plain data is no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    /// A tensor's bytes depend on symbolic dimensions.
    #[error("tensor {index} ({name}): its size {expression:?} depends on symbolic dimensions, which are not bound")]
    Symbolic { index: usize, name: String, expression: String },
    /// A value is no whole number of 64 bits where one is expected.
    #[error("{what}: {value} is no whole number of 64 bits")]
    BadNumber { what: String, value: String },
    /// The graph breaks a rule.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A scalar where a whole number is expected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Whole(u64),
    Float(f64),
    /// An expression over symbolic dimensions.
    Text(String),
    /// Anything else, as it is shown in an error.
    Other(String),
}

impl Default for Scalar {
    fn default() -> Self {
        Self::Whole(0)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Float(float) => float.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Other(shown) => shown.fmt(f),
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(whole) => serializer.serialize_u64(*whole),
            Self::Float(float) => serializer.serialize_f64(*float),
            Self::Text(text) | Self::Other(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Whole(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(u64::try_from(value).map_or_else(|_| Scalar::Other(value.to_string()), Scalar::Whole))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.to_owned()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Other(value.to_string()))
            }
            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other("null".to_owned()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Scalar {
    fn whole(self, what: impl Fn() -> String) -> Result<u64, DocumentError> {
        match self {
            Self::Whole(whole) => Ok(whole),
            other => Err(DocumentError::BadNumber { what: what(), value: other.to_string() }),
        }
    }

    /// An estimate: floats are rounded, and at most what 64 bits hold; an expression is left out.
    fn rounded(self, what: impl Fn() -> String) -> Result<Option<u64>, DocumentError> {
        match self {
            Self::Text(_) => Ok(None),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            Self::Float(float) if float >= 0.0 => Ok(Some(float.round() as u64)),
            other => other.whole(what).map(Some),
        }
    }

    fn is_zero(&self) -> bool {
        *self == Self::Whole(0)
    }
}

#[derive(Serialize, Deserialize)]
struct TensorDocument {
    #[serde(default)]
    name: String,
    bytes: Scalar,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<Scalar>>,
    #[serde(default)]
    kind: Option<TensorKind>,
}

type Pairs = Vec<(usize, usize)>;

#[derive(Serialize, Deserialize)]
struct OpDocument {
    #[serde(default)]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    #[serde(default, skip_serializing_if = "Scalar::is_zero")]
    workspace: Scalar,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flops: Option<Scalar>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alias: Pairs,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    updates: Pairs,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inplace: Pairs,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<usize>,
}

/// A graph as plain data. Ops and tensors have the same numbers as in the [`Graph`]; unknown fields are ignored.
#[derive(Serialize, Deserialize)]
pub(crate) struct GraphDocument {
    #[serde(default)]
    pub(crate) format: String,
    #[serde(default)]
    name: String,
    tensors: Vec<TensorDocument>,
    ops: Vec<OpDocument>,
    #[serde(default)]
    outputs: Vec<usize>,
}

impl TryFrom<GraphDocument> for Graph {
    type Error = DocumentError;

    fn try_from(document: GraphDocument) -> Result<Self, DocumentError> {
        let mut b = Self::builder();
        b.name(document.name);
        for (index, tensor) in document.tensors.into_iter().enumerate() {
            let TensorDocument { name, bytes, dtype, shape, kind } = tensor;
            let label = label("tensor", index, &name);
            let bytes = match bytes {
                Scalar::Text(expression) => return Err(DocumentError::Symbolic { index, name, expression }),
                number => number.whole(|| format!("bytes of {}", label()))?,
            };
            // A symbolic dimension of a tensor with a known size is a label that cannot be kept as a number.
            let dimension = |size| match size {
                Scalar::Text(_) => Ok(None),
                number => number.whole(|| format!("shape of {}", label())).map(Some),
            };
            let shape = shape.map(|s| s.into_iter().map(dimension).collect::<Result<Option<Vec<u64>>, _>>());
            let shape = shape.transpose()?.flatten();
            let id = b.tensor(name, bytes);
            if let Some(shape) = shape {
                b.shape(id, shape);
            }
            if let Some(dtype) = dtype {
                b.dtype(id, &dtype);
            }
            b.kind(id, kind.unwrap_or_default());
        }
        let pair = |(a, b): (usize, usize)| (TensorId::new(a), TensorId::new(b));
        for (index, op) in document.ops.into_iter().enumerate() {
            let label = label("op", index, &op.name);
            let workspace = op.workspace.whole(|| format!("workspace of {}", label()))?;
            let flops = op.flops.map(|flops| flops.rounded(|| format!("flops of {}", label())));
            let flops = flops.transpose()?.flatten();
            let mut built = b
                .op(op.name)
                .reads(op.inputs.into_iter().map(TensorId::new))
                .writes(op.outputs.into_iter().map(TensorId::new))
                .after(op.after.into_iter().map(OpId::new))
                .workspace(workspace);
            for (view, of) in op.alias.into_iter().map(pair) {
                built = built.view(view, of);
            }
            for (new, old) in op.updates.into_iter().map(pair) {
                built = built.update(new, old);
            }
            for (out, operand) in op.inplace.into_iter().map(pair) {
                built = built.in_place(out, operand);
            }
            if let Some(kind) = op.kind {
                built = built.kind(&kind);
            }
            if let Some(flops) = flops {
                built = built.flops(flops);
            }
            if let Some(seconds) = op.seconds {
                built.seconds(seconds);
            }
        }
        for output in document.outputs {
            b.output(TensorId::new(output));
        }
        Ok(b.build()?)
    }
}

/// How an op or tensor is called in an error.
fn label(word: &'static str, index: usize, name: &str) -> impl Fn() -> String + use<> {
    // Made only for an error, but needed after the name has moved into the graph.
    let name: Box<str> = name.into();
    move || if name.is_empty() { format!("{word} {index}") } else { format!("{word} {index} ({name})") }
}

impl From<&Graph> for GraphDocument {
    fn from(graph: &Graph) -> Self {
        let pairs = |pairs: &[(TensorId, TensorId)]| pairs.iter().map(|(a, b)| (a.index(), b.index())).collect();
        let numbers = |list: &[TensorId]| list.iter().map(|t| t.index()).collect();
        let tensors = graph.tensors().map(|t| TensorDocument {
            name: graph.tensor_name(t).to_owned(),
            bytes: Scalar::Whole(graph.tensor_bytes(t)),
            dtype: graph.dtype(t).map(str::to_owned),
            shape: graph.shape(t).map(|shape| shape.iter().map(|d| Scalar::Whole(*d)).collect()),
            kind: Some(graph.tensor_kind(t)),
        });
        let ops = graph.ops().map(|op| OpDocument {
            name: graph.op_name(op).to_owned(),
            kind: graph.op_kind(op).map(str::to_owned),
            inputs: numbers(graph.inputs(op)),
            outputs: numbers(graph.op_outputs(op)),
            workspace: Scalar::Whole(graph.workspace_bytes(op)),
            flops: graph.flops(op).map(Scalar::Whole),
            seconds: graph.seconds(op),
            alias: pairs(graph.views(op)),
            updates: pairs(graph.updates(op)),
            inplace: pairs(graph.in_place_pairs(op)),
            after: graph.after(op).iter().map(|op| op.index()).collect(),
        });
        Self {
            format: GRAPH_FORMAT.to_owned(),
            name: graph.name().to_owned(),
            tensors: tensors.collect(),
            ops: ops.collect(),
            outputs: numbers(graph.outputs()),
        }
    }
}

#[cfg(feature = "serde")]
impl From<Graph> for GraphDocument {
    fn from(graph: Graph) -> Self {
        Self::from(&graph)
    }
}
