//! What is known of an ended Check, and the spans that are made of it, off the Check's path.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::SpanData;

use super::Trace;
use super::live::{Call, Noted};
use super::tracer::{Ended, mix};
use crate::clock::{Now, system_time};
use crate::model::{CacheState, Decision, Passed, Reason};

/// What waits for the exporter.
#[derive(Debug)]
pub(super) enum Item {
    Check(Box<CheckSpans>),
    /// A call that ended after its Check.
    Late(Box<(Trace, Now, Call)>),
}

/// One Check, ended. It holds no identity, no credential and no request text but the bounded
/// request id.
#[derive(Debug)]
pub(super) struct CheckSpans {
    trace: Trace,
    at: Now,
    took: Duration,
    check: bool,
    outcome: &'static str,
    reason: Reason,
    status: u16,
    detail: &'static str,
    check_id: Box<str>,
    request_id: Option<Box<str>>,
    route: Option<Arc<str>>,
    decision: Option<Arc<Decision>>,
    caches: [CacheState; 3],
    stages: Vec<Passed>,
    noted: Noted,
}

/// The id of a stage's span, which its calls name before it has ended.
pub(super) fn stage_id(check: u64, stage: &str) -> u64 {
    let number = match stage {
        "route" => 1,
        "authn" => 2,
        "context" => 3,
        "policy" => 4,
        "respond" => 5,
        _ => 6,
    };
    mix(check.wrapping_add(number)).max(1)
}

impl CheckSpans {
    pub(super) fn new(trace: &Trace, ended: &Ended<'_>, noted: Noted) -> Self {
        let record = ended.record;
        let timeline = record.timeline.as_deref();
        let stages = timeline.map(|timeline| timeline.passed(ended.cut()).collect());
        Self {
            trace: trace.clone(),
            at: ended.at,
            took: ended.took,
            check: ended.is_check(),
            outcome: ended.outcome,
            reason: ended.reason.clone(),
            status: ended.status,
            detail: record.detail,
            check_id: record.check_id.clone(),
            request_id: record.request_id.clone(),
            route: record.route.clone(),
            decision: record.decision.clone(),
            caches: [record.token_cache, record.context_cache, record.decision_cache],
            stages: stages.unwrap_or_default(),
            noted,
        }
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let text = |name: &'static str, value: &str| KeyValue::new(name, value.to_owned());
        let mut all = if self.check {
            vec![
                text("rpc.system", "grpc"),
                text("rpc.service", "envoy.service.auth.v3.Authorization"),
                text("rpc.method", "Check"),
                KeyValue::new("rpc.grpc.status_code", 0_i64),
            ]
        } else {
            vec![
                text("http.request.method", "POST"),
                KeyValue::new("http.response.status_code", i64::from(self.status)),
            ]
        };
        all.push(text("portcullis.outcome", self.outcome));
        all.push(text("portcullis.reason", self.reason.as_str()));
        all.push(KeyValue::new("portcullis.status", i64::from(self.status)));
        all.push(text("portcullis.check_id", &self.check_id));
        let decision = self.decision.as_deref();
        for (name, value) in [
            ("portcullis.request_id", self.request_id.as_deref()),
            ("portcullis.route", self.route.as_deref()),
            ("portcullis.decision_id", decision.map(|decision| &*decision.id)),
            ("portcullis.policy_revision", decision.map(|decision| &*decision.revision)),
            ("portcullis.detail", Some(self.detail).filter(|detail| !detail.is_empty())),
        ] {
            all.extend(value.map(|value| text(name, value)));
        }
        let names = ["token_cache", "context_cache", "decision_cache"];
        for (name, state) in names.into_iter().zip(self.caches) {
            if state != CacheState::None {
                all.push(KeyValue::new(format!("portcullis.{name}"), state.as_str()));
            }
        }
        all
    }

    fn spans(self, scope: &InstrumentationScope, out: &mut Vec<SpanData>) {
        let maker = Maker { trace: &self.trace, at: &self.at, scope };
        let own = self.trace.span_id;
        let name = match (self.check, self.route.as_deref()) {
            (true, _) => "envoy.service.auth.v3.Authorization/Check".to_owned(),
            (false, route) => format!("POST {}", route.unwrap_or("decision API")),
        };
        let to = self.at.mono.checked_add(self.took).unwrap_or(self.at.mono);
        let mut root = maker.span(own, self.trace.parent.unwrap_or(0), name, (self.at.mono, to));
        root.parent_span_is_remote = self.trace.parent.is_some();
        root.span_kind = SpanKind::Server;
        root.attributes = self.attributes();
        if self.outcome == "unavailable" {
            root.attributes.push(KeyValue::new("error.type", self.reason.as_str().to_owned()));
            root.status = Status::error(self.reason.as_str().to_owned());
        }
        out.push(root);
        let [token, context, decision] = self.caches;
        for Passed { stage, from, to } in self.stages {
            let name = format!("portcullis {stage}");
            let mut span = maker.span(stage_id(own, stage), own, name, (from, to));
            let cache = match stage {
                "authn" => token,
                "context" => context,
                "policy" => decision,
                _ => CacheState::None,
            };
            if cache != CacheState::None {
                span.attributes.push(KeyValue::new("portcullis.cache", cache.as_str()));
            }
            for link in self.noted.links.iter().filter(|link| link.within == stage_id(own, stage)) {
                span.links.links.push(linked(link.trace_id, link.span_id));
            }
            out.push(span);
        }
        out.extend(self.noted.calls.into_iter().map(|call| maker.call(call)));
    }
}

/// A link to a load that another Check started.
fn linked(trace_id: u128, span_id: u64) -> Link {
    let (trace_id, span_id) = (TraceId::from(trace_id), SpanId::from(span_id));
    let state = TraceState::default();
    Link::with_context(SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, state))
}

/// Makes spans of one Check.
struct Maker<'a> {
    trace: &'a Trace,
    at: &'a Now,
    scope: &'a InstrumentationScope,
}

impl Maker<'_> {
    fn wall(&self, at: Instant) -> i64 {
        let nanos = |by: Duration| i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let after = nanos(at.saturating_duration_since(self.at.mono));
        let before = nanos(self.at.mono.saturating_duration_since(at));
        self.at.unix_nanos.saturating_add(after).saturating_sub(before)
    }

    fn span(&self, id: u64, parent: u64, name: String, (from, to): (Instant, Instant)) -> SpanData {
        let state = self.trace.state.as_ref().and_then(|state| state.to_str().ok()?.parse().ok());
        let state: TraceState = state.unwrap_or_default();
        let ids = (TraceId::from(self.trace.trace_id), SpanId::from(id));
        SpanData {
            span_context: SpanContext::new(ids.0, ids.1, TraceFlags::SAMPLED, false, state),
            parent_span_id: SpanId::from(parent),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: system_time(self.wall(from)),
            end_time: system_time(self.wall(to)),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: opentelemetry_sdk::trace::SpanEvents::default(),
            links: opentelemetry_sdk::trace::SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }

    fn call(&self, call: Call) -> SpanData {
        let mut span = self.span(call.span_id, call.parent, call.name, (call.from, call.to));
        span.span_kind = SpanKind::Client;
        span.attributes = call.attributes;
        if let Some(error) = call.error {
            span.attributes.push(KeyValue::new("error.type", error));
            span.status = Status::error(error);
        }
        span
    }
}

impl Item {
    /// How many spans it becomes.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Check(check) => 1 + check.stages.len() + check.noted.calls.len(),
            Self::Late(_) => 1,
        }
    }

    /// Adds its spans to `out`.
    pub(super) fn spans(self, scope: &InstrumentationScope, out: &mut Vec<SpanData>) {
        match self {
            Self::Check(check) => check.spans(scope, out),
            Self::Late(late) => {
                let (trace, at, call) = *late;
                out.push(Maker { trace: &trace, at: &at, scope }.call(call));
            }
        }
    }
}
