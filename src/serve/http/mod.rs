//! HTTP doors. Today there is one: health, readiness and metrics.

pub(super) mod admin;
mod metrics_json;
