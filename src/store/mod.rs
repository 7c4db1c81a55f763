//! State that Checks share: bounded in-process caches, one load per key, and (behind a small
//! port) the store that replicas share.

mod cache;
mod flight;

pub use cache::{Cache, Cached};
pub use flight::Flight;
