//! Matching a request against 10 and 1,000 routes, and what a match yields.
//!
//! The budget: 1,000 routes cost at most twice 10.

use std::collections::BTreeMap;

use divan::{Bencher, black_box};
use portcullis::model::{Headers, Request};
use portcullis::route::{
    Access, ActionConfig, AttributeConfig, MatchConfig, Names, PathConfig, RouteConfig, Table,
};

fn main() {
    divan::main();
}

const HEADERS: [(&str, &str); 12] = [
    (":authority", "api.example.test"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, br"),
    ("accept-language", "en"),
    ("authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1In0.c2lnbmF0dXJl"),
    ("cache-control", "no-cache"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("user-agent", "client/1.0"),
    ("x-envoy-internal", "true"),
    ("x-forwarded-for", "203.0.113.9"),
    ("x-forwarded-proto", "https"),
    ("x-request-id", "7f9c5a7e-6a0e-4c53-9d8f-8e1f2a3b4c5d"),
];

fn route(number: usize) -> RouteConfig {
    let path = format!("/service{number}/{{resource}}/{{**rest}}");
    let config = serde_json::json!({"name": format!("r{number}"), "access": "authenticated"});
    let office = AttributeConfig {
        query: Some(Names::Many(vec!["office".to_owned(), "office-id".to_owned()])),
        ..AttributeConfig::default()
    };
    let base: Result<RouteConfig, _> = serde_json::from_value(config);
    let Ok(base) = base else { std::process::abort() };
    RouteConfig {
        access: Access::Authenticated,
        matches: MatchConfig {
            hosts: Some(vec!["api.example.test".to_owned()]),
            path: Some(path),
            methods: Some(vec!["GET".to_owned(), "POST".to_owned()]),
            ..MatchConfig::default()
        },
        resource: Some("{resource}".to_owned()),
        action: Some(ActionConfig::ByMethod(BTreeMap::from([
            ("GET".to_owned(), "read".to_owned()),
            ("POST".to_owned(), "create".to_owned()),
        ]))),
        attributes: BTreeMap::from([("office".to_owned(), office)]),
        ..base
    }
}

fn table(count: usize) -> Table {
    let routes: Vec<RouteConfig> = (0..count).map(route).collect();
    let Ok(table) = Table::new(&routes, &PathConfig::default()) else { std::process::abort() };
    table
}

fn request(number: usize) -> Request {
    Request {
        method: "GET".into(),
        target: format!("/service{number}/lakes/a/b?office=NORTH&page=2").into(),
        host: b"api.example.test".to_vec().into(),
        scheme: "https".into(),
        headers: Headers::from_pairs(HEADERS.map(|(name, value)| (name, value.as_bytes()))),
        ..Request::default()
    }
}

#[divan::bench(args = [10, 1000])]
fn find(bencher: Bencher<'_, '_>, routes: usize) {
    let (table, request) = (table(routes), request(routes - 1));
    bencher.bench_local(|| table.find(black_box(&request)).is_ok());
}

#[divan::bench]
fn find_and_read(bencher: Bencher<'_, '_>) {
    let (table, request) = (table(1000), request(999));
    bencher.bench_local(|| {
        let matched = table.find(black_box(&request)).ok()?;
        let credential = matched.credential().ok()?;
        let facts = matched.facts(None).ok()?;
        let strip = matched.strip(credential.is_some()).ok()?;
        Some((facts, strip))
    });
}

#[divan::bench]
fn build_1000(bencher: Bencher<'_, '_>) {
    let routes: Vec<RouteConfig> = (0..1000).map(route).collect();
    bencher.bench_local(|| Table::new(black_box(&routes), &PathConfig::default()).is_ok());
}
