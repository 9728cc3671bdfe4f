//! Tests from outside the crate.

#[cfg(feature = "json")]
mod cli;
#[cfg(feature = "json")]
mod corpus;
mod layering;
mod strategies;
mod traps;
