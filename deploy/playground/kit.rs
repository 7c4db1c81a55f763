//! Parts that the quickstart, the tests and the load figures share: keys, tokens and a backend.

pub(crate) mod backend;
pub(crate) mod draw;
pub(crate) mod echo;
pub(crate) mod keys;
pub(crate) mod spans;
pub(crate) mod token;
pub(crate) mod users;

/// Anything that went wrong, for people to read.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
