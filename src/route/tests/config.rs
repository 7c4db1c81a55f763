use serde_json::{Value, json};

use super::{members, problems};
use crate::route::{PathConfig, RouteConfig, Table};

/// The pointers of what is wrong with one route.
fn pointers(route: impl Into<Value>) -> Vec<String> {
    let mut whole = json!({"name": "one", "access": "authenticated"});
    whole.as_object_mut().unwrap().extend(members(route.into()));
    problems(json!([whole])).into_iter().map(|problem| problem.pointer).collect()
}

fn attribute(attribute: impl Into<Value>) -> Vec<String> {
    pointers(json!({"attributes": {"a": attribute.into()}}))
}

#[test]
fn a_full_route_has_no_problem() {
    assert_eq!(
        pointers(json!({
            "match": {
                "hosts": ["api.example.test", "*.example.test", "[::1]"],
                "path": "/data/{resource}/{**rest}", "methods": ["GET", "POST"],
                "headers": {"x-kind": "a"}, "context_extensions": {"tier": "gold"},
            },
            "issuers": ["main"], "scopes": ["read"], "realm": "api", "policy": "main",
            "resource": "{resource}", "action": {"GET": "read", "POST": "create"},
            "attributes": {"office": {"query": ["office", "office-id"], "body": "/office", "use": "selects"}},
            "body": "required", "max_body": "64KiB", "require_headers": ["x-auth-context"],
            "keep_headers": ["forwarded"], "forward_credentials": ["cookie"],
            "accept_spellings": ["encoded_slash", "semicolon"], "errors": "oauth",
            "open_while_opa_fails": {"until": "2027-01-31T00:00:00Z", "reason": "read-only data"},
        })),
        Vec::<String>::new()
    );
}

#[test]
fn the_schema_has_the_keys_that_people_write() {
    let schema = schemars::schema_for!(crate::route::RoutesConfig).to_value().to_string();
    for key in ["match", "use", "type", "attributes", "encoded_slash", "authenticated"] {
        assert!(schema.contains(&format!("\"{key}\"")), "{key}");
    }
}

#[test]
fn an_unknown_key_is_refused() {
    let typo = json!({"name": "one", "acess": "public"});
    assert!(serde_json::from_value::<RouteConfig>(typo).is_err());
    let typo = json!({"name": "one", "access": "public", "match": {"pth": "/"}});
    assert!(serde_json::from_value::<RouteConfig>(typo).is_err());
}

#[test]
fn s2_1_evidence_is_never_the_clients() {
    for source in [json!({"query": "q"}), json!({"header": "x-a"}), json!({"body": "/b"})] {
        let mut vouching = source.clone();
        vouching["use"] = json!("vouches");
        assert!(attribute(vouching).contains(&"/0/attributes/a/use".to_owned()), "{source}");
    }
    assert!(attribute(json!({"claim": "c", "use": "vouches"})).is_empty());
    assert!(attribute(json!({"extension": "e", "use": "vouches"})).is_empty());
}

#[test]
fn s2_3_no_attribute_takes_a_name_of_the_cores() {
    for name in [
        "method",
        "path",
        "segments",
        "query",
        "host",
        "scheme",
        "time",
        "time_ns",
        "body_state",
        "a-b",
        "",
        "1a",
        "é",
    ] {
        let found = pointers(json!({"attributes": {name: {"extension": "e"}}}));
        assert_eq!(found, [format!("/0/attributes/{name}")]);
    }
}

#[test]
fn impossible_matches_are_named() {
    for (matches, place) in [
        (json!({"path": "a"}), "path"),
        (json!({"path": "/a//b"}), "path"),
        (json!({"path": "/a/../b"}), "path"),
        (json!({"path": "/a;b"}), "path"),
        (json!({"path": "/a%2Fb"}), "path"),
        (json!({"path": "/a%b"}), "path"),
        (json!({"path": "/a?b=c"}), "path"),
        (json!({"path": "/{**rest}/b"}), "path"),
        (json!({"path": "/{a}/{a}"}), "path"),
        (json!({"path": "/x{a}"}), "path"),
        (json!({"path": "/*"}), "path"),
        (json!({"path": "/{}"}), "path"),
        (json!({"path_prefix": "/a/"}), "path_prefix"),
        (json!({"path_prefix": "/{a}"}), "path_prefix"),
        (json!({"path": "/a", "path_prefix": "/a"}), "path_prefix"),
        (json!({"hosts": []}), "hosts"),
        (json!({"hosts": ["https://a.test"]}), "hosts/0"),
        (json!({"hosts": ["a.test", "b.test:80"]}), "hosts/1"),
        (json!({"hosts": ["*"]}), "hosts/0"),
        (json!({"methods": []}), "methods"),
        (json!({"methods": ["GET", "post"]}), "methods/1"),
        (json!({"methods": ["G T"]}), "methods/0"),
        (json!({"headers": {"x y": "a"}}), "headers/x y"),
        (json!({"headers": {"X-Forwarded-Host": "a"}}), "headers/X-Forwarded-Host"),
        (json!({"headers": {"authorization": "a"}}), "headers/authorization"),
        (json!({"headers": {"x-a": " a"}}), "headers/x-a"),
        (json!({"headers": {"X-A": "a", "x-a": "b"}}), "headers/x-a"),
    ] {
        assert_eq!(pointers(json!({"match": matches})), [format!("/0/match/{place}")], "{matches}");
    }
}

#[test]
fn what_cannot_be_filled_or_read_is_named() {
    let some = |place: &str| vec![format!("/0/{place}")];
    assert_eq!(pointers(json!({"resource": "{x}"})), some("resource"));
    assert_eq!(pointers(json!({"resource": "a}"})), some("resource"));
    assert_eq!(pointers(json!({"resource": ""})), some("resource"));
    assert_eq!(pointers(json!({"action": {"GET": "{"}})), some("action/GET"));
    let unmatched = json!({"match": {"methods": ["GET"]}, "action": {"POST": "create"}});
    assert_eq!(pointers(unmatched), some("action/POST"));
    assert_eq!(attribute(json!({})), some("attributes/a"));
    assert_eq!(attribute(json!({"claim": "c", "header": "x-a"})), some("attributes/a"));
    assert_eq!(attribute(json!({"path": "x"})), some("attributes/a/path"));
    assert_eq!(attribute(json!({"query": []})), some("attributes/a/query"));
    assert_eq!(attribute(json!({"query": "access_token"})), some("attributes/a/query"));
    assert_eq!(attribute(json!({"header": "cookie"})), some("attributes/a/header"));
    assert_eq!(attribute(json!({"header": "x-original-url"})), some("attributes/a/header"));
    assert_eq!(attribute(json!({"claim": "c", "type": "number"})), some("attributes/a/type"));
    assert_eq!(attribute(json!({"peer": "address", "list": true})), some("attributes/a/list"));
    assert_eq!(attribute(json!({"body": "/x"})), some("body"));
    assert_eq!(pointers(json!({"body": "required"})), some("body"));
    let broken = json!({"body": "required", "attributes": {"a": {"body": "x"}}});
    assert_eq!(pointers(broken), some("attributes/a/body"));
    let never = json!({
        "match": {"methods": ["GET"]}, "body": "required", "attributes": {"a": {"body": "/x"}},
    });
    assert_eq!(pointers(never), some("match/methods"));
    let twice = json!({"attributes": {"a": {"query": "q"}, "b": {"query": ["p", "q"]}}});
    assert_eq!(pointers(twice), some("attributes/b/query"));
    assert_eq!(pointers(json!({"keep_headers": ["x-forwarded-for"]})), some("keep_headers/0"));
    assert_eq!(pointers(json!({"require_headers": ["a b"]})), some("require_headers/0"));
    assert_eq!(pointers(json!({"realm": "a\"b"})), some("realm"));
    assert_eq!(pointers(json!({"scopes": ["a b"]})), some("scopes/0"));
    assert_eq!(pointers(json!({"access": "public", "scopes": ["a"]})), some("scopes"));
    let claims = json!({"access": "public", "attributes": {"a": {"claim": "c"}}});
    assert_eq!(pointers(claims), some("attributes/a/claim"));
    assert_eq!(pointers(json!({"name": "a b"})), some("name"));
}

#[test]
fn a_route_that_can_never_match_is_named() {
    let shadowed = |routes: Value| -> Vec<String> {
        let mut routes = routes;
        for (at, route) in routes.as_array_mut().unwrap().iter_mut().enumerate() {
            *route = json!({"name": format!("r{at}"), "access": "public", "match": route});
        }
        problems(routes).into_iter().map(|problem| problem.pointer).collect()
    };
    for routes in [
        json!([{}, {"path": "/a"}]),
        json!([{"path": "/a"}, {"path": "/%61"}]),
        json!([{"path_prefix": "/a"}, {"path": "/a/{x}/b"}]),
        json!([{"path": "/{x}"}, {"path": "/a", "methods": ["GET"]}]),
        json!([{"hosts": ["*.test"]}, {"hosts": ["*.a.test", "b.test"]}]),
        json!([{"headers": {"x-a": "1"}}, {"headers": {"X-A": "1", "x-b": "2"}}]),
    ] {
        assert_eq!(shadowed(routes.clone()), ["/1/match"], "{routes}");
    }
    let together = json!([
        {"methods": ["GET"]}, {"methods": ["POST"], "hosts": ["a.test"]},
        {"methods": ["GET", "POST"], "hosts": ["a.test"], "path": "/x"},
    ]);
    assert_eq!(shadowed(together), ["/2/match"]);
    for routes in [
        json!([{"path": "/a"}, {}]),
        json!([{"path": "/a"}, {"path": "/a/"}]),
        json!([{"path": "/a/{x}"}, {"path": "/{x}/a"}]),
        json!([{"methods": ["GET"]}, {"methods": ["GET", "POST"]}]),
        json!([{"hosts": ["a.test"]}, {"hosts": ["*.test"]}]),
        json!([{"hosts": ["*.test"]}, {"hosts": ["test"]}]),
        json!([{"headers": {"x-a": "1"}}, {"headers": {"x-a": "2"}}]),
        json!([{"context_extensions": {"x-a": "1"}}, {"headers": {"x-a": "1"}}]),
    ] {
        assert_eq!(shadowed(routes.clone()), Vec::<String>::new(), "{routes}");
    }
}

#[test]
fn all_problems_come_at_once_and_build_no_table() {
    let routes: Vec<RouteConfig> = serde_json::from_value(json!([
        {"name": "a", "access": "public", "match": {"path": "x"}},
        {"name": "a", "access": "public", "match": {"methods": []}, "resource": "{y}"},
    ]))
    .unwrap();
    let problems = Table::new(&routes, &PathConfig::default()).unwrap_err();
    let pointers: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(pointers, ["/0/match/path", "/1/name", "/1/match/methods", "/1/resource"]);
    assert!(problems.iter().all(|p| !p.message.is_empty() && !p.fix.is_empty()));
}
