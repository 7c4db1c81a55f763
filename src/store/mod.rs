//! State that Checks share: bounded in-process caches, one load per key, and (behind a small
//! port) the store that replicas share.

mod cache;
#[cfg(test)]
mod contract;
mod flight;
mod memory;
mod port;

pub use cache::{Cache, Cached};
pub use flight::Flight;
pub use memory::Memory;
pub use port::{Store, StoreError};
