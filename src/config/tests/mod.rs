//! Tests of the loader. Its reports are a corpus: `bad/NAME.yaml` (for a small configuration of
//! the tests' own) and `cross/NAME.yaml` (for the real one) with what must be said about each.

mod corpus;
mod generated;
mod mutations;
mod overrides;
mod reading;
mod sample;
mod secret_files;
mod whole;
