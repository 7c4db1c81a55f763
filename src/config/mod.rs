//! The whole configuration, parsed and validated before anything starts.
//!
//! ```text
//! file ─ yaml ─▶ tree ◀─ environment      places of every key and value
//!                 │
//!              validate (schema)          every error at once, in words of `explain`
//!                 │
//!              secrets (`x_file` → `x`)
//!                 │
//!              root::Config ─ each section's `problems`, then `cross` ─▶ Loaded or Report
//! ```
//!
//! Two decisions about YAML: text that YAML takes for a number or for true/false is refused with
//! the quotes it needs, never converted; and null is no value anywhere, so that `clients:` with
//! nothing behind it cannot mean "no restriction".

mod alternatives;
mod cross;
mod document;
mod environment;
mod explain;
mod inputs;
mod load;
mod otel;
mod process;
mod reference;
mod report;
mod root;
mod scalar;
mod scene;
mod schema;
mod secrets;
mod suggest;
mod tree;
mod validate;
mod yaml;

#[cfg(test)]
mod tests;

pub use environment::Environment;
pub use load::{Loaded, files, load, load_with, reference_markdown, schema_json, yaml_value};
pub use process::{ReloadConfig, RuntimeConfig};
pub use report::{Fault, Origin, Report, key_path};
pub use root::{Config, Parts};
