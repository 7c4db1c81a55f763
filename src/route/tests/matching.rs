use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{configs, get, name, table, with_headers};
use crate::model::{Code, Request};
use crate::route::{PathConfig, Table};

#[test]
fn p01_the_query_takes_no_part_in_matching() {
    let table = table(json!([
        {"name": "admin", "match": {"path": "/admin"}, "access": "authenticated"},
        {"name": "health", "match": {"path": "/health"}, "access": "public"},
        {"name": "rest", "access": "authenticated"},
    ]));
    for (target, expected) in [
        ("/admin?x=1", "admin"),
        ("/admin/users?next=/health", "rest"),
        ("/health?verbose=1", "health"),
        ("/health?a=b?c=d", "health"),
        ("/health/", "rest"),
    ] {
        assert_eq!(name(&table, &get(target)).unwrap(), expected, "{target}");
    }
}

#[test]
fn the_first_match_of_the_file_wins_and_no_match_is_a_denial() {
    let table = table(json!([
        {"name": "exact", "match": {"path": "/a/b"}, "access": "public"},
        {"name": "write", "match": {"path": "/a/{x}", "methods": ["POST"]}, "access": "public"},
        {"name": "any", "match": {"path": "/a/{x}"}, "access": "public"},
        {"name": "slash", "match": {"path": "/a/{x}/"}, "access": "public"},
        {"name": "deep", "match": {"path": "/a/{x}/c/{**rest}"}, "access": "public"},
        {"name": "late", "match": {"path_prefix": "/a"}, "access": "public"},
        {"name": "root", "match": {"path": "/"}, "access": "public"},
    ]));
    for (target, expected) in [
        ("/a/b", "exact"),
        ("/a/%62", "exact"),
        ("/a/z", "any"),
        ("/a/z/", "slash"),
        ("/a/b/", "slash"),
        ("/a/b/c", "deep"),
        ("/a/b/c/", "deep"),
        ("/a/b/c/d/e", "deep"),
        ("/a", "late"),
        ("/a/", "late"),
        ("/a/b/d", "late"),
        ("/", "root"),
    ] {
        assert_eq!(name(&table, &get(target)).unwrap(), expected, "{target}");
    }
    let post = Request { method: "POST".into(), ..get("/a/z") };
    assert_eq!(name(&table, &post).unwrap(), "write");
    for target in ["/ab", "/A", "/b", "/aa/b"] {
        assert_eq!(name(&table, &get(target)), Err(Code::NoRoute), "{target}");
    }
}

#[test]
fn hosts_match_exactly_or_below_a_wildcard() {
    let table = table(json!([
        {"name": "api", "match": {"hosts": ["API.test"]}, "access": "public"},
        {"name": "below", "match": {"hosts": ["*.test"]}, "access": "public"},
        {"name": "other", "match": {"hosts": ["[::1]", "test"]}, "access": "public"},
    ]));
    for (host, expected) in [
        ("api.test:443", Ok("api")),
        ("x.test", Ok("below")),
        ("x.api.test", Ok("below")),
        ("test", Ok("other")),
        ("[::1]:80", Ok("other")),
        ("api.test.evil", Err(Code::NoRoute)),
        ("apitest", Err(Code::NoRoute)),
    ] {
        let request = Request { host: host.as_bytes().to_vec().into(), ..get("/") };
        assert_eq!(name(&table, &request), expected.map(str::to_owned), "{host}");
    }
}

#[test]
fn headers_and_context_extensions_match_exactly() {
    let table = table(json!([
        {"name": "both", "match": {"headers": {"X-Kind": "a"}, "context_extensions": {"tier": "gold"}},
         "access": "public"},
        {"name": "gold", "match": {"context_extensions": {"tier": "gold"}}, "access": "public"},
        {"name": "kind", "match": {"headers": {"x-kind": "a"}}, "access": "public"},
    ]));
    let request = |headers: &[(&str, &str)], tier: &str| Request {
        context_extensions: vec![("tier".to_owned(), tier.to_owned())],
        ..with_headers("/", headers)
    };
    assert_eq!(name(&table, &request(&[("x-kind", "a")], "gold")).unwrap(), "both");
    assert_eq!(name(&table, &request(&[], "gold")).unwrap(), "gold");
    assert_eq!(name(&table, &request(&[("x-kind", "a")], "tin")).unwrap(), "kind");
    assert_eq!(name(&table, &request(&[("x-kind", "A")], "tin")), Err(Code::NoRoute));
    // Two entries are what Envoy would have joined by a comma, never one of them.
    let twice = request(&[("x-kind", "a"), ("x-kind", "a")], "tin");
    assert_eq!(name(&table, &twice), Err(Code::NoRoute));
}

#[test]
fn p05_what_a_client_writes_about_the_target_chooses_nothing() {
    let table = table(json!([
        {"name": "admin", "match": {"path": "/admin", "hosts": ["api.test"]}, "access": "authenticated"},
        {"name": "public", "access": "public"},
    ]));
    let request = with_headers(
        "/admin",
        &[
            ("x-forwarded-uri", "/public"),
            ("x-original-url", "/public"),
            ("x-envoy-original-path", "/public"),
            ("x-forwarded-host", "evil.example.test"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-http-method-override", "POST"),
        ],
    );
    assert_eq!(name(&table, &request).unwrap(), "admin");
    let context = super::context(&table, &request).unwrap();
    let expected = json!({
        "host": "api.test", "method": "GET", "path": "/admin", "scheme": "https",
        "segments": ["admin"],
    });
    assert_eq!(context, expected);
}

/// `count` routes of every shape, the last of which is asked for.
fn many(count: usize, route: impl Fn(usize) -> Value) -> Table {
    let routes: Vec<Value> = (0..count).map(route).collect();
    Table::new(&configs(Value::Array(routes)), &PathConfig::default()).unwrap()
}

fn fastest(table: &Table, request: &Request) -> Duration {
    let round = || {
        let start = Instant::now();
        for _ in 0..200 {
            assert!(table.find(std::hint::black_box(request)).is_ok());
        }
        start.elapsed()
    };
    (0..15).map(|_| round()).min().unwrap()
}

#[test]
fn matching_does_not_grow_linearly() {
    type Shape = (&'static str, fn(usize) -> Value, fn(usize) -> Request);
    let shapes: [Shape; 4] = [
        ("path", |n| json!({"path": format!("/r{n}/{{id}}")}), |n| get(&format!("/r{n}/x"))),
        (
            "host",
            |n| json!({"hosts": [format!("h{n}.test")]}),
            |n| Request { host: format!("h{n}.test").into(), ..get("/") },
        ),
        (
            "extension",
            |n| json!({"context_extensions": {"t": format!("{n}")}}),
            |n| Request { context_extensions: vec![("t".to_owned(), n.to_string())], ..get("/") },
        ),
        (
            "header",
            |n| json!({"headers": {"x-t": format!("{n}")}}),
            |n| with_headers("/", &[("x-t", &n.to_string())]),
        ),
    ];
    for (shape, route, request) in shapes {
        let build =
            |n: usize| json!({"name": format!("r{n}"), "match": route(n), "access": "public"});
        let (few, lots) = (many(10, build), many(1000, build));
        assert_eq!(name(&lots, &request(999)).unwrap(), "r999");
        // Linear growth would be a hundredfold; the benchmark holds the factor of two.
        let ratio =
            fastest(&lots, &request(999)).as_secs_f64() / fastest(&few, &request(9)).as_secs_f64();
        assert!(ratio < 4.0, "{shape}: 1,000 routes cost {ratio:.1} times 10");
    }
}
