//! Portcullis: an Envoy external-authorization service.
//!
//! One request's journey, and the module that owns each step:
//!
//! ```text
//! client ──▶ Envoy ──Check──▶ serve      wire → Request
//!                               │
//!                             check      the journey on one page; deadline; one audit event
//!                               ├─ route     which rules apply        (pure)
//!                               ├─ authn     credential → Identity
//!                               ├─ context   Identity → UserContext
//!                               ├─ policy    Input → Decision
//!                               └─ respond   Decision → Outcome       (pure, fail closed)
//!                               │
//!              Envoy ◀────── serve       Outcome → CheckResponse
//! ```
//!
//! Stages never import one another; [`app`] is the one place that names concrete types together.

pub mod app;
pub mod audit;
pub mod authn;
pub mod check;
pub mod cli;
pub mod clock;
pub mod config;
pub mod context;
pub mod dependency;
pub mod model;
pub mod policy;
pub mod rego;
pub mod respond;
pub mod route;
pub mod serve;
pub mod store;
pub mod telemetry;

/// The service's own allocator: what tests measure is what it takes there.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
