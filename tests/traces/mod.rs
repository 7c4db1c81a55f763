//! One tree from Envoy through Portcullis to the backend, as a real Jaeger shows it.

mod dependencies;

use std::sync::atomic::Ordering;

use crate::harness::jaeger::{Jaeger, Span, Trace};
use crate::harness::{Ask, Setup, Token, World};
use crate::kit::spans::Spans;

/// Envoy's name for the Check call.
const ASYNC: &str = "async envoy.service.auth.v3.Authorization.Check egress";
const CHECK: &str = "envoy.service.auth.v3.Authorization/Check";

/// A world whose parts send their spans to `jaeger`; `more` is of the section `tracing`.
fn world(jaeger: &Jaeger, more: &str) -> World {
    let tracing = format!(
        "tracing: {{ endpoint: \"http://127.0.0.1:{}\", delay: 50ms, {more} }}\n",
        jaeger.grpc
    );
    traced(Setup::of("envoy/tracing.yaml").unhurried(), jaeger, &tracing)
}

fn traced(setup: Setup, jaeger: &Jaeger, tracing: &str) -> World {
    let world = setup
        .envoy("port_value: 4317", &format!("port_value: {}", jaeger.grpc))
        .portcullis("\nheaders:\n", &format!("\n{tracing}\nheaders:\n"))
        .start();
    world.backend.spans.set(Spans::new(&format!("127.0.0.1:{}", jaeger.http))).unwrap();
    world
}

fn own(name: &str) -> String {
    format!("/cwms-data/timeseries?office=SPK&name={name}")
}

/// The trace of the request whose target ends so, once it has a span with that name.
fn of(jaeger: &Jaeger, name: &str, last: (&str, &str)) -> Trace {
    let is = |span: &Span| span.service == "envoy" && span.tag("http.url").ends_with(name);
    jaeger.trace("envoy", |trace| trace.spans.iter().any(is) && trace.has(last.0, last.1))
}

/// The span's parent is the other.
#[track_caller]
fn below(trace: &Trace, child: &Span, parent: &Span) {
    let names = trace.names();
    assert_eq!(child.parent.as_ref(), Some(&parent.id), "{} in {names:#?}", child.name);
}

/// Envoy's own part: the request, and the Check call below it; returns Portcullis' Check.
#[track_caller]
fn check<'t>(trace: &'t Trace, outcome: &str, reason: &str) -> &'t Span {
    let request = trace.one("envoy", "ingress");
    assert_eq!(request.parent, None, "{:#?}", trace.names());
    let call = trace.one("envoy", ASYNC);
    below(trace, call, request);
    let check = trace.one("portcullis", CHECK);
    below(trace, check, call);
    assert_eq!(check.tag("span.kind"), "server");
    assert_eq!(check.tag("portcullis.outcome"), outcome);
    assert_eq!(check.tag("portcullis.reason"), reason);
    assert_eq!(check.tag("rpc.system"), "grpc");
    assert_eq!(check.tag("portcullis.check_id").len(), 32);
    check
}

/// The stages, each below the Check; returns them in order.
#[track_caller]
fn stages<'t>(trace: &'t Trace, check: &Span, names: &[&str]) -> Vec<&'t Span> {
    let mut found: Vec<_> =
        trace.spans.iter().filter(|span| span.name.starts_with("portcullis ")).collect();
    found.sort_by_key(|span| span.raw["startTime"].as_u64().unwrap());
    let mut seen: Vec<_> =
        found.iter().map(|span| span.name.trim_start_matches("portcullis ")).collect();
    let mut expected = names.to_vec();
    // Two that begin in the same microsecond come in any order.
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    for span in &found {
        below(trace, span, check);
    }
    found
}

#[track_caller]
fn backend(trace: &Trace) {
    let egress = trace.one("envoy", "router backend egress");
    below(trace, egress, trace.one("envoy", "ingress"));
    below(trace, trace.one("backend", "GET"), egress);
}

#[test]
fn envoy_portcullis_and_the_backend_are_one_tree_for_allow_deny_cold_and_warm() {
    let jaeger = Jaeger::start();
    let world = world(&jaeger, "");
    let token = Token::of("dam.operator").sign();
    let ask = |target: &str| world.ask(Ask::get(target).bearer(&token)).status;

    assert_eq!(ask(&own("cold")), 200);
    let cold = of(&jaeger, "cold", ("portcullis", CHECK));
    let root = check(&cold, "allow", "dam_operator");
    assert_eq!(root.tag("portcullis.route"), "collection");
    assert_eq!(root.tag("portcullis.token_cache"), "miss");
    assert!(!root.tag("portcullis.decision_id").is_empty());
    assert!(!root.tag("portcullis.policy_revision").is_empty());
    stages(&cold, root, &["route", "authn", "context", "policy", "respond"]);
    let call = cold.one("portcullis", "GET user_api");
    below(&cold, call, cold.one("portcullis", "portcullis context"));
    assert_eq!(call.tag("span.kind"), "client");
    assert_eq!(call.tag("http.request.method"), "GET");
    assert_eq!(call.tag("http.response.status_code"), "200");
    assert_eq!(call.tag("server.address"), "127.0.0.1");
    below(&cold, cold.one("user-api", "GET"), call);
    backend(&of(&jaeger, "cold", ("backend", "GET")));

    assert_eq!(ask(&own("cold")), 200);
    assert_eq!(ask(&format!("{}&w=warm", own("cold"))), 200);
    let warm = of(&jaeger, "w=warm", ("portcullis", CHECK));
    let root = check(&warm, "allow", "dam_operator");
    stages(&warm, root, &["route", "authn", "context", "policy", "respond"]);
    assert_eq!(warm.one("portcullis", "portcullis authn").tag("portcullis.cache"), "hit");
    assert!(!warm.has("portcullis", "GET user_api"));
    backend(&of(&jaeger, "w=warm", ("backend", "GET")));

    assert_eq!(ask("/cwms-data/timeseries?office=SWT&name=denied"), 403);
    let denied = of(&jaeger, "name=denied", ("portcullis", CHECK));
    let root = check(&denied, "deny", &denied.one("portcullis", CHECK).tag("portcullis.reason"));
    stages(&denied, root, &["route", "authn", "context", "policy", "respond"]);
    assert!(!denied.has("backend", "GET"), "{:#?}", denied.names());
    assert_eq!(root.tag("portcullis.status"), "403");

    assert_eq!(ask("/elsewhere?nowhere"), 403);
    let nowhere = of(&jaeger, "nowhere", ("portcullis", CHECK));
    stages(&nowhere, check(&nowhere, "deny", "no_route"), &["route", "respond"]);

    world.backend.user_status.store(500, Ordering::SeqCst);
    let viewer = Token::of("viewer").sign();
    assert_eq!(world.ask(Ask::get(&own("failed")).bearer(&viewer)).status, 503);
    let failed = of(&jaeger, "name=failed", ("portcullis", CHECK));
    let root = check(&failed, "unavailable", "user_api_unavailable");
    assert_eq!(root.tag("error.type"), "user_api_unavailable");
    assert_eq!(root.tag("error"), "true");
    assert_eq!(failed.one("portcullis", "GET user_api").tag("error.type"), "http_status");

    // No identity and no secret, whatever is looked at.
    let all = [&cold, &warm, &denied, &failed].map(|trace| {
        let ours = trace.spans.iter().filter(|span| span.service == "portcullis");
        ours.map(|span| span.raw.to_string()).collect::<String>()
    });
    for secret in [&token, &viewer, "dam.operator", "DAM.OPERATOR", "viewer", "SPK"] {
        assert!(!all.iter().any(|text| text.contains(secret)), "{secret}");
    }
}

/// The rows of a picture: service, name and depth.
fn rows(svg: &str) -> Vec<String> {
    let row = |line: &str| {
        let (start, rest) = line.strip_prefix("<text x=\"")?.split_once('"')?;
        let (_, rest) = rest.split_once("<tspan")?;
        let (service, name) = rest.split_once('>')?.1.split_once("</tspan>")?;
        Some(format!("{start} {service}{}", name.trim_end_matches("</text>")))
    };
    let mut rows: Vec<_> = svg.lines().filter_map(row).collect();
    rows.sort();
    rows
}

#[test]
fn the_picture_in_the_documentation_is_what_jaeger_shows() {
    let jaeger = Jaeger::start();
    let world = world(&jaeger, "");
    let token = Token::of("dam.operator").sign();
    assert_eq!(world.ask(Ask::get(&own("drawn")).bearer(&token)).status, 200);
    let trace = jaeger.trace("user-api", |trace| {
        let ends = [("portcullis", CHECK), ("backend", "GET"), ("envoy", "router backend egress")];
        ends.iter().all(|(service, name)| trace.has(service, name))
    });
    let drawn = crate::kit::draw::svg(&serde_json::json!({ "data": [trace.raw] })).unwrap();
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace.svg");
    std::fs::write(&kept, &drawn).unwrap();
    let committed = crate::harness::files::shipped("deploy/trace.svg");
    assert_eq!(rows(&committed), rows(&drawn), "draw it again: deploy/quickstart --trace --once");
    assert!(rows(&drawn).len() >= 11, "{drawn}");
}

#[test]
fn a_client_cannot_have_itself_sampled_and_the_callers_decision_is_followed() {
    let jaeger = Jaeger::start();
    let client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let tracing =
        format!("tracing: {{ endpoint: \"http://127.0.0.1:{}\", delay: 50ms }}\n", jaeger.grpc);
    let setup = Setup::of("envoy/tracing.yaml").unhurried();
    let setup = setup.envoy("random_sampling: { value: 100 }", "random_sampling: { value: 0 }");
    let world = traced(setup, &jaeger, &tracing);
    let token = Token::of("dam.operator").sign();
    for (name, value) in
        [("traceparent", client), ("b3", client.trim_start_matches("00-")), ("x-b3-sampled", "1")]
    {
        let ask = Ask::get(&own("forced")).bearer(&token).header(name, value);
        assert_eq!(world.ask(ask).status, 200);
    }
    assert!(world.metric("portcullis_checks_total", &["outcome=\"allow\""]) > 2.5);
    // The end sends what there is.
    let mut world = world;
    world.end_portcullis();
    assert_eq!(jaeger.traces("portcullis").len(), 0);
    assert_eq!(jaeger.traces("envoy").len(), 0);
    assert_eq!(jaeger.traces("backend").len(), 0);
    // Where Envoy does sample, the trace is its own and not the client's.
    let world = self::world(&jaeger, "");
    let ask = Ask::get(&own("unforced")).bearer(&token).header("traceparent", client);
    assert_eq!(world.ask(ask).status, 200);
    let trace = of(&jaeger, "unforced", ("portcullis", CHECK));
    assert!(!client.contains(trace.raw["traceID"].as_str().unwrap()), "{:#?}", trace.names());
    check(&trace, "allow", "dam_operator");
}

#[test]
fn an_exemplar_names_a_trace_that_jaeger_has() {
    let jaeger = Jaeger::start();
    let world = world(&jaeger, "protocol: grpc");
    let token = Token::of("dam.operator").sign();
    assert_eq!(world.ask(Ask::get(&own("exemplar")).bearer(&token)).status, 200);
    let trace = of(&jaeger, "exemplar", ("portcullis", CHECK));
    let id = trace.raw["traceID"].as_str().unwrap();
    let text = world.metrics();
    let with = |series: &str| {
        text.lines()
            .any(|line| line.starts_with(series) && line.contains(&format!("trace_id=\"{id}\"")))
    };
    assert!(with("portcullis_check_duration_seconds_bucket{"), "{text}");
    assert!(with("portcullis_stage_duration_seconds_bucket{"), "{text}");
}

#[test]
fn o02_the_process_decides_and_ends_in_time_whatever_the_collector_does() {
    // Nobody ever accepts; the system takes connections all the same.
    let hole = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hole = hole.local_addr().unwrap();
    for endpoint in [format!("http://{hole}"), "http://127.0.0.1:1".to_owned()] {
        let tracing = format!(
            "runtime: {{ threads: 1 }}\ntracing: {{ endpoint: \"{endpoint}\", delay: 10ms, queue: 64, \
             batch: 16, timeout: 30s }}\n\nheaders:\n"
        );
        let setup = Setup::quickstart().unhurried();
        let mut world = setup.portcullis("\nheaders:\n", &format!("\n{tracing}")).start();
        let token = Token::of("dam.operator").sign();
        for _ in 0..60 {
            assert_eq!(world.ask(Ask::get(&own("x")).bearer(&token)).status, 200);
        }
        assert!(world.metric("portcullis_trace_spans_dropped_total", &[]) > 0.5, "{endpoint}");
        assert!(world.metric("portcullis_trace_spans_exported_total", &[]) < 0.5, "{endpoint}");
        if endpoint.ends_with(":1") {
            let start = std::time::Instant::now();
            while world.metric("portcullis_trace_spans_failed_total", &[]) < 0.5 {
                assert!(start.elapsed() < std::time::Duration::from_mins(1), "refused, not failed");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        // Within 15 s, though a batch may take 30.
        world.end_portcullis();
    }
}
