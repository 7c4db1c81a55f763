//! The embedded Rego engine: policies and data are loaded whole, compiled, checked, and
//! evaluated within limits of time and memory.
//!
//! Policies are trusted to be benign, not to be careful: what a caller puts into the input must
//! not make an evaluation run on, take memory without bound, overflow the stack or end the
//! process. Where the interpreter differs from OPA, ours follows OPA.

mod builtins;
mod engine;
mod eval;
mod graph;
mod json;
mod load;
mod meter;
mod negation;
mod opa;
mod rules;
mod shape;
mod spare;

#[cfg(test)]
mod tests;

pub use engine::{Bundle, Rule};
pub use eval::{EvalError, Limits};
pub use spare::has_room;
