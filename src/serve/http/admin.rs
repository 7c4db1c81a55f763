//! The admin door: `/health`, `/ready`, `/metrics` and `/metrics/json`; nothing else.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{metrics_json, metrics_text};
use crate::serve::ready::{Part, Ready};
use crate::telemetry::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone)]
struct Admin {
    ready: Arc<Ready>,
    metrics: Arc<Metrics>,
}

/// The door's routes.
pub(crate) fn router(ready: Arc<Ready>, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/ready", get(readiness))
        .route("/metrics", get(open_metrics))
        .route("/metrics/json", get(json_metrics))
        .fallback(async || problem(StatusCode::NOT_FOUND, "There is nothing at this path."))
        .method_not_allowed_fallback(async || {
            problem(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are answered here.")
        })
        .with_state(Admin { ready, metrics })
}

fn problem(status: StatusCode, message: &str) -> Response {
    let error = status.canonical_reason().unwrap_or_default();
    (status, Json(json!({ "error": error, "message": message }))).into_response()
}

/// The process lives and its runtime answers.
async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

async fn readiness(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let ready = admin.ready.is_ready();
    let mut names = query.as_deref().unwrap_or_default().split('&');
    let draining = admin.ready.is_draining();
    let body = if names.any(|pair| pair == "verbose" || pair.starts_with("verbose=")) {
        let parts: Vec<_> = admin.ready.parts().iter().map(part).collect();
        json!({ "ready": ready, "draining": draining, "parts": parts })
    } else {
        json!({ "ready": ready, "draining": draining })
    };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

fn part(part: &Part) -> Value {
    json!({
        "name": &*part.name, "required": part.required, "ready": part.ready, "state": part.state,
    })
}

async fn open_metrics(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let classic = headers
        .get(header::ACCEPT)
        .is_some_and(|accept| metrics_text::wants_classic(accept.as_bytes()));
    match admin.metrics.render() {
        Ok(text) if classic => {
            let text = metrics_text::from_open_metrics(&text);
            ([(header::CONTENT_TYPE, CLASSIC), (header::VARY, "accept")], text).into_response()
        }
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "The metrics cannot be written."),
    }
}

async fn json_metrics(State(admin): State<Admin>) -> Response {
    match admin.metrics.render() {
        Ok(text) => Json(metrics_json::from_open_metrics(&text)).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "The metrics cannot be written."),
    }
}
