use bytes::Bytes;
use serde_json::{Value, json};

use super::{context, get, one, post, refused, with_headers};
use crate::model::{Body, Code, Headers, Request};
use crate::route::Table;

fn office() -> Table {
    one(json!({"attributes": {
        "office": {"query": ["office", "office-id"]},
        "tags": {"query": "tag", "list": true},
        "limit": {"query": "limit", "type": "number"},
    }}))
}

#[test]
fn s1_3_only_declared_parameters_enter_by_exact_name_decoded_once() {
    let context = |target: &str| context(&office(), &get(target)).unwrap();
    let found = context("/?office-id=S%57T+1%2B&other=x&Office=y&limit=9007199254740993.10");
    assert_eq!(found["office"], "SWT 1+");
    assert_eq!(found["query"], json!({"office-id": "SWT 1+", "limit": "9007199254740993.10"}));
    assert_eq!(found.get("tags"), None);
    assert_eq!(context("/?%6Fffice=a%2541")["office"], "a%41");
    assert_eq!(context("/?tag=b&tag=a,c")["tags"], json!(["b", "a,c"]));
    assert_eq!(context("/?office=")["office"], "", "given, but empty");
    assert_eq!(context("/?office")["office"], "");
}

#[test]
fn s1_3_what_is_not_declared_changes_nothing() {
    let table = office();
    let json = |target: &str| {
        let request = get(target);
        let facts = table.find(&request).unwrap().facts(None).unwrap();
        facts.context.to_string()
    };
    let plain = json("/a?office=SWT");
    for target in
        ["/a?x=1&office=SWT&x=2", "/a?office=SWT&", "/a?office=S%57T&%zz=1", "/a?&&office=SWT&y=;"]
    {
        assert_eq!(json(target), plain, "{target}");
    }
    assert_ne!(json("/a?office=SPK"), plain);
    assert_eq!(json("/a"), json("/a?"));
}

#[test]
fn s1_3_a_declared_parameter_that_reads_in_two_ways_is_refused() {
    for target in [
        "/?office=a&office=a",
        "/?office=a&%6Fffice=b",
        "/?office=a&office-id=a",
        "/?office=a;b",
        "/?x=1;office=a",
        "/?office;x=a",
    ] {
        assert_eq!(refused(&office(), &get(target)), Code::AmbiguousParameter, "{target}");
    }
    for target in
        ["/?office=%zz", "/?office=%ff", "/?office=%4", "/?limit=5x", "/?limit=", "/?limit=+5"]
    {
        assert_eq!(refused(&office(), &get(target)), Code::AttributeInvalid, "{target}");
    }
}

fn body_route(rule: &str) -> Table {
    one(json!({"body": rule, "attributes": {
        "office": {"query": "office", "body": "/office/id"},
        "whole": {"body": "/whole"},
        "second": {"body": "/list/1"},
        "offices": {"body": "/offices", "list": true, "type": "string"},
    }}))
}

#[test]
fn s1_3_query_and_body_must_agree() {
    let table = body_route("required");
    let body = r#"{"office": {"id": "S\u0057T"}}"#;
    assert_eq!(context(&table, &post("/?office=SWT", body)).unwrap()["office"], "SWT");
    assert_eq!(context(&table, &post("/", body)).unwrap()["office"], "SWT");
    assert_eq!(context(&table, &post("/?office=SWT", "{}")).unwrap()["office"], "SWT");
    assert_eq!(refused(&table, &post("/?office=SPK", body)), Code::AmbiguousParameter);
    assert_eq!(refused(&table, &post("/", r#"{"office": {"id": 5}}"#)), Code::AttributeInvalid);
}

#[test]
fn s1_5_numbers_keep_every_digit_and_members_are_sorted() {
    let table = body_route("required");
    let body = r#" { "whole" : { "b" : 12345678901234567890123.4500 , "a" : [ 1e2, "é\n" , null ] } ,
                     "list" : [ 0 , -0.10 ] } "#;
    let request = post("/", body);
    let facts = table.find(&request).unwrap().facts(None).unwrap();
    let json = &facts.context;
    assert!(json.contains(r#""second":-0.10"#), "{json}");
    assert!(
        json.contains(r#""whole":{"a":[1e2,"é\n",null],"b":12345678901234567890123.4500}"#),
        "{json}"
    );
    let same = post(
        "/",
        r#"{"list":[0,-0.10],"whole":{"a":[1e2,"\u00e9\u000a",null],"b":12345678901234567890123.4500}}"#,
    );
    assert_eq!(table.find(&same).unwrap().facts(None).unwrap().context, facts.context);
}

#[test]
fn s1_5_null_and_an_empty_list_are_absent() {
    let table = body_route("required");
    let found =
        context(&table, &post("/", r#"{"whole": null, "offices": [], "list": [1]}"#)).unwrap();
    for name in ["whole", "offices", "second", "office", "query", "body_state"] {
        assert_eq!(found.get(name), None, "{name}");
    }
    let found = context(&table, &post("/", r#"{"offices": ["a,b"]}"#)).unwrap();
    assert_eq!(found["offices"], json!(["a,b"]));
    assert_eq!(refused(&table, &post("/", r#"{"offices": ["a", 1]}"#)), Code::AttributeInvalid);
}

fn broken_bodies() -> Vec<(&'static str, Request)> {
    let whole = |text: &str| post("/", text);
    let typed = |headers: &[(&str, &str)]| Request {
        headers: with_headers("/", headers).headers,
        ..post("/", "{}")
    };
    let mut partial = whole(r#"{"whole": 1}"#);
    partial.body.partial = true;
    let raw = Body { bytes: Bytes::from_static(b"{\"whole\":\"\xff\"}"), ..Body::default() };
    vec![
        ("absent", whole("")),
        ("partial", partial),
        ("broken", whole("pizza")),
        ("broken", whole(r#"{"whole": 1"#)),
        ("broken", whole(r#"{"whole": 1} {}"#)),
        ("broken", whole(r#"{"whole": 1, "whole": 1}"#)),
        ("broken", whole(r#"{"x": [{"a": 1, "\u0061": 2}]}"#)),
        ("broken", whole(r#"{"x": "\ud800"}"#)),
        ("broken", Request { body: raw, ..whole("") }),
        ("broken", typed(&[])),
        ("broken", typed(&[("content-type", "text/plain")])),
        ("broken", typed(&[("content-type", "application/json; charset=latin1")])),
        ("broken", typed(&[("content-type", "application/json"), ("content-type", "text/plain")])),
        ("encoded", typed(&[("content-type", "application/json"), ("content-encoding", "gzip")])),
    ]
}

#[test]
fn s1_4_a_required_body_is_whole_unencoded_json_without_duplicate_keys() {
    let table = body_route("required");
    for (state, request) in broken_bodies() {
        assert_eq!(refused(&table, &request), Code::BodyInvalid, "{state}: {:?}", request.body);
    }
}

#[test]
fn s1_4_an_optional_body_says_why_it_was_not_read() {
    let table = body_route("optional");
    for (state, request) in broken_bodies() {
        let found = context(&table, &request).unwrap();
        assert_eq!(found["body_state"], state, "{:?}", request.body);
        assert_eq!(found.get("whole"), None);
    }
    assert_eq!(context(&table, &post("/", "{}")).unwrap().get("body_state"), None);
}

#[test]
fn p13_bytes_count_and_parameters_of_the_type_do_no_harm() {
    let table = one(json!({"body": "required", "attributes": {"n": {"body": "/n"}}}));
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=\"UTF-8\"",
        "application/problem+json",
    ] {
        let mut request = post("/", r#"{"n":"Ø"}"#);
        request.body.size = 10;
        request.headers = Headers::from_pairs([
            ("content-type", kind.as_bytes()),
            ("content-length", b"10".as_slice()),
        ]);
        assert_eq!(context(&table, &request).unwrap()["n"], "Ø", "{kind}");
    }
    let unread = one(json!({}));
    for (_, request) in broken_bodies() {
        assert!(context(&unread, &request).is_ok(), "a route that reads no body is unaffected");
    }
}

#[test]
fn s1_4_other_methods_carry_no_body_fields() {
    let table = body_route("required");
    for method in ["GET", "DELETE", "post", "HEAD"] {
        let request = Request { method: method.to_owned().into(), ..post("/", r#"{"whole": 1}"#) };
        let found = context(&table, &request).unwrap();
        assert_eq!(found.get("whole"), None, "{method}");
        assert_eq!(found.get("body_state"), None, "{method}");
    }
    for method in ["POST", "PUT", "PATCH"] {
        let request = Request { method: method.to_owned().into(), ..post("/", r#"{"whole": 1}"#) };
        assert_eq!(context(&table, &request).unwrap()["whole"], 1, "{method}");
    }
}

#[test]
fn s1_5_input_is_bounded() {
    let table = body_route("optional");
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let of = |value: &str| post("/", &format!("{{\"whole\":{value}}}"));
    let text = |length: usize| format!("\"{}\"", "a".repeat(length));
    let members = |count: usize| Value::from(vec![1; count]).to_string();
    for fits in [nested(31), text(65_536), members(4_000)] {
        assert!(context(&table, &of(&fits)).is_ok());
    }
    for beyond in [nested(32), nested(100_000), text(65_537), members(5_000), text(2 << 20)] {
        assert_eq!(refused(&table, &of(&beyond)), Code::InputTooLarge);
    }
    let spaces = format!("[{}1]", " ".repeat(300 << 10));
    assert_eq!(refused(&table, &of(&spaces)), Code::InputTooLarge);
    let strings = Value::from(vec!["a".repeat(60_000); 6]).to_string();
    assert_eq!(refused(&table, &of(&strings)), Code::InputTooLarge);
    let long = format!("/?office={}", "a".repeat(65_537));
    assert_eq!(refused(&table, &get(&long)), Code::InputTooLarge);
    assert_eq!(refused(&table, &get(&"/a".repeat(5_000))), Code::InputTooLarge);
}
