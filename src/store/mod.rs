//! State that Checks share: bounded in-process caches, one load per key, and (behind a small
//! port) the store that replicas share, with the invalidations that replicas tell one another.

mod alike;
mod cache;
mod config;
#[cfg(test)]
mod contract;
mod flight;
mod generations;
mod head;
pub mod heap;
mod invalidations;
#[cfg(test)]
pub(crate) mod measured;
mod memory;
mod port;
mod redis;

pub use self::redis::Redis;
pub use crate::model::Places;
pub use alike::Alike;
pub use cache::{Cache, Cached};
pub use config::{RedisConfig, SentinelConfig, StoreConfig};
pub use flight::Flight;
pub use generations::{Generations, Life, Target};
pub use invalidations::{Invalidations, Standing};
pub use memory::Memory;
pub use port::{Store, StoreError, Storing, Subscriber};
