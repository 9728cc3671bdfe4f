//! Tests from outside the crate.

mod strategies;
