//! HTTP doors: health, readiness and metrics; and the decision API.

pub(super) mod admin;
pub(super) mod api;
mod api_answer;
mod metrics_json;
mod metrics_text;
