//! Graphs and plans from files.

#[cfg(feature = "json")]
pub mod json;

use crate::error::GraphError;
use std::path::PathBuf;

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be opened, read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The text is not JSON, or does not have the shape of the format; the message says where.
    #[error("not a valid file: {0}")]
    Syntax(String),
    /// The file says that it is of another format.
    #[error("the format is {found:?}, not {expected:?}")]
    Format {
        /// The format that was expected.
        expected: &'static str,
        /// What the file says.
        found: String,
    },
    /// A tensor's bytes depend on symbolic dimensions, which are not bound.
    #[error("tensor {index} ({name}): its size {expression:?} depends on symbolic dimensions, which are not bound")]
    Symbolic {
        /// The tensor's position in the file.
        index: usize,
        /// Its name.
        name: String,
        /// Its size.
        expression: String,
    },
    /// A number is negative, fractional or too large where bytes or a dimension are expected.
    #[error("{what}: {value} is no whole number of 64 bits")]
    BadNumber {
        /// The op or tensor, and the field.
        what: String,
        /// The value, as text.
        value: String,
    },
    /// A plan names a storage by a tensor, or an op, that the graph does not have.
    #[error("{what} {index}: the graph does not have it")]
    UnknownId {
        /// `"tensor"` or `"op"`.
        what: &'static str,
        /// Its number.
        index: u64,
    },
    /// The graph breaks a rule of [`GraphBuilder::build`](crate::graph::GraphBuilder::build).
    #[error(transparent)]
    Graph(#[from] GraphError),
}

#[cfg(feature = "json")]
impl From<crate::graph::document::DocumentError> for ImportError {
    fn from(error: crate::graph::document::DocumentError) -> Self {
        use crate::graph::document::DocumentError;
        match error {
            DocumentError::Symbolic { index, name, expression } => Self::Symbolic { index, name, expression },
            DocumentError::BadNumber { what, value } => Self::BadNumber { what, value },
            DocumentError::Graph(error) => Self::Graph(error),
        }
    }
}
