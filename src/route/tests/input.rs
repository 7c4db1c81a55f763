use std::sync::Arc;

use serde_json::{Value, json};

use super::{context, get, one, refused, with_headers};
use crate::model::{Code, Headers, Peer, Request, VerifiedToken};

fn token(claims: &Value) -> Arc<VerifiedToken> {
    VerifiedToken::about("u-1", None, claims)
}

#[test]
fn resource_and_action_come_from_the_route() {
    let table = one(json!({
        "match": {"path": "/data/{resource}/{**rest}"},
        "resource": "data:{resource}/{rest}",
        "action": {"GET": "read", "DELETE": "delete:{resource}"},
    }));
    let facts = |method: &str, target: &str| {
        let request = Request { method: method.to_owned().into(), ..get(target) };
        let facts = table.find(&request).unwrap().facts(None).unwrap();
        (facts.resource.map(String::from), facts.action.map(String::from))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(facts("GET", "/data/l%61kes/a/b/"), (some("data:lakes/a/b"), some("read")));
    assert_eq!(facts("DELETE", "/data/lakes/a").1, some("delete:lakes"));
    assert_eq!(facts("HEAD", "/data/lakes"), (None, None), "what has no value is absent");
    let constant = one(json!({"action": "read"}));
    let request = get("/");
    let facts = constant.find(&request).unwrap().facts(None).unwrap();
    assert_eq!((facts.action.as_deref(), facts.resource), (Some("read"), None));
}

#[test]
fn s2_1_attributes_come_from_their_source() {
    let table = one(json!({
        "access": "optional",
        "match": {"path": "/{area}/{**rest}"},
        "attributes": {
            "area": {"path": "area"},
            "kinds": {"header": "X-Kind", "list": true},
            "kind": {"header": "x-kind"},
            "approved": {"claim": "approved", "use": "vouches"},
            "groups": {"claim": "/realm~1x/groups", "list": true},
            "peer": {"peer": "principal"},
            "address": {"peer": "address"},
            "tier": {"extension": "tier"},
            "zone": {"extension": "zone"},
            "flag": {"header": "x-flag", "type": "boolean"},
        },
    }));
    let request = Request {
        source: Peer { address: "203.0.113.9".to_owned(), ..Peer::default() },
        context_extensions: vec![("tier".to_owned(), "gold".to_owned())],
        ..with_headers("/north/x", &[("x-kind", "a, b"), ("x-kind", "c"), ("x-flag", "true")])
    };
    let verified = token(&json!({"approved": true, "realm/x": {"groups": "g1"}}));
    let facts = table.find(&request).unwrap().facts(Some(&verified)).unwrap();
    let found: Value = serde_json::from_str(&facts.context).unwrap();
    let expected = json!({
        "address": "203.0.113.9", "approved": true, "area": "north", "flag": true,
        "groups": ["g1"], "host": "api.test", "kind": "a, b,c", "kinds": ["a", "b", "c"],
        "method": "GET", "path": "/north/x", "scheme": "https", "segments": ["north", "x"],
        "tier": "gold",
    });
    assert_eq!(found, expected);
    // Sorted and compact: exactly what serialising the value gives.
    assert_eq!(*facts.context, *expected.to_string());
    let anonymous = context(&table, &request).unwrap();
    assert_eq!(anonymous.get("approved"), None);
    let bad = with_headers("/north", &[("x-flag", "yes")]);
    assert_eq!(refused(&table, &bad), Code::AttributeInvalid);
}

#[test]
fn c03_absent_and_empty_differ_and_o04_raw_bytes_are_no_text() {
    let table = one(json!({"attributes": {"kind": {"header": "x-kind"}}}));
    let absent = context(&table, &get("/")).unwrap();
    let empty = context(&table, &with_headers("/", &[("x-kind", "")])).unwrap();
    assert_eq!(absent.get("kind"), None);
    assert_eq!(empty["kind"], "");
    let headers = Headers::from_pairs([("x-kind", b"a\xff".as_slice())]);
    assert_eq!(refused(&table, &Request { headers, ..get("/") }), Code::AttributeInvalid);
    let long = format!("{}€", "a".repeat(255));
    let found = context(&table, &with_headers("/", &[("x-kind", &long)])).unwrap();
    assert_eq!(found["kind"], long);
}

#[test]
fn s6_5_what_a_policy_may_read_changes_the_fragment() {
    let table = one(json!({}));
    let fragment = |request: &Request| table.find(request).unwrap().facts(None).unwrap().context;
    let base = fragment(&get("/a"));
    assert_eq!(fragment(&get("/%61?x=1")), base, "another spelling of the same request");
    for other in [
        get("/b"),
        get("/a/"),
        Request { method: "DELETE".into(), ..get("/a") },
        Request { host: b"other.test".to_vec().into(), ..get("/a") },
        Request { scheme: "http".into(), ..get("/a") },
    ] {
        assert_ne!(fragment(&other), base, "{other:?}");
    }
    let odd = Request { scheme: "gopher".into(), ..get("/a\"%22%5f") };
    let found = context(&table, &odd).unwrap();
    assert_eq!(found["path"], "/a\"\"_");
    assert_eq!(found.get("scheme"), None);
}
