//! The decision API: the real binary, asked by HTTP.

mod batch;
mod callers;
mod decisions;
mod hidden;
mod schema;
pub(crate) mod world;
