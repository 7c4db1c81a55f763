use serde_json::json;

use super::*;
use crate::model::{Class, Headers};

fn reader() -> Reader {
    let config = json!({
        "policy": "p", "path": "/api/{resource}",
        "fields": { "office": { "use": "selects" }, "made_ns": { "use": "vouches" } },
    });
    let config: ApiConfig = serde_json::from_value(config).unwrap();
    assert_eq!(config.problems(), []);
    Reader::new(&config)
}

fn request(body: impl Into<String>) -> Request {
    let mut request = Request {
        headers: Headers::from_pairs([("content-type", b"application/json".as_slice())]),
        ..Request::default()
    };
    request.body.bytes = body.into().into();
    request
}

fn read(body: &Value) -> Result<Ask, Refusal> {
    reader().one(&request(body.to_string()))
}

fn status(refusal: &Refusal) -> u16 {
    match refusal.code.class() {
        Class::Deny(status) => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_context_is_that_of_a_request_with_the_fields_beside_it() {
    let ask = read(&json!({
        "resource": "gates", "action": "update", "context": { "office": "A", "none": null },
    }));
    let ask = ask.unwrap();
    let context: Value = serde_json::from_str(&ask.context).unwrap();
    let expected = json!({
        "method": "PUT", "path": "/api/gates", "segments": ["api", "gates"], "office": "A",
    });
    assert_eq!(context, expected);
    assert!(!ask.vouches && ask.user.is_none() && ask.jwt_token.is_none());
}

#[test]
fn s2_1_a_field_that_vouches_is_told_apart_and_so_is_one_that_nobody_declared() {
    for (field, vouches) in [("office", false), ("made_ns", true), ("approved", true)] {
        let ask = read(&json!({ "resource": "r", "action": "read", "context": { field: 1 } }));
        assert_eq!(ask.unwrap().vouches, vouches, "{field}");
    }
}

#[test]
fn s2_3_no_field_takes_the_name_of_a_member_of_the_cores() {
    for name in CORE_MEMBERS {
        for value in [json!("x"), json!(null)] {
            let asked = json!({ "resource": "r", "action": "read", "context": { name: value } });
            assert_eq!(read(&asked).unwrap_err().code, Code::FieldReserved, "{name}");
        }
    }
}

#[test]
fn s1_5_numbers_keep_every_digit() {
    let body = r#"{"resource":"r","action":"read","context":{"made_ns":1764517554000000001.50}}"#;
    let ask = reader().one(&request(body)).unwrap();
    assert!(ask.context.contains("1764517554000000001.50"), "{}", &ask.context);
}

#[test]
fn what_is_not_of_the_form_is_400() {
    let good = json!({ "resource": "r", "action": "read" });
    for (name, value) in [
        ("resource", json!("../admin")),
        ("resource", json!("a/b")),
        ("resource", json!("")),
        ("resource", json!(7)),
        ("action", json!("approve")),
        ("action", json!("READ")),
        ("user", json!(null)),
        ("user", json!([])),
        ("jwt_token", json!({})),
        ("jwt_token", json!(null)),
        ("context", json!("x")),
        ("jwtToken", json!("x")),
        ("identity", json!({})),
    ] {
        let mut asked = good.clone();
        asked[name] = value;
        assert_eq!(read(&asked).map(|_| ()).map_err(|r| status(&r)), Err(400), "{asked}");
    }
    for body in
        ["", "{}", "[]", "null", "{", "{\"resource\":\"r\",\"resource\":\"r\",\"action\":\"read\"}"]
    {
        assert_eq!(status(&reader().one(&request(body)).unwrap_err()), 400, "{body}");
    }
    let untyped = Request { headers: Headers::default(), ..request(good.to_string()) };
    assert_eq!(status(&reader().one(&untyped).unwrap_err()), 400);
}

#[test]
fn s1_5_what_is_too_much_is_413() {
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    for (name, value) in [
        ("context", json!({ "office": nested(40) })),
        ("user", json!({ "roles": nested(40) })),
        ("context", json!({ "office": vec![0; 5000] })),
        ("context", json!({ "office": "a".repeat(70_000) })),
        ("user", json!({ "a".repeat(65_537): 1 })),
    ] {
        let mut asked = json!({ "resource": "r", "action": "read" });
        asked[name] = value;
        let mut reader = reader();
        assert_eq!(status(&reader.one(&request(asked.to_string())).unwrap_err()), 413, "{name}");
        reader.max_body = 1 << 20;
        assert_eq!(status(&reader.one(&request(asked.to_string())).unwrap_err()), 413, "{name}");
    }
    // JSON inside JSON is no way around the depth.
    let inner = nested(40).to_string();
    let asked = json!({ "$serde_json::private::RawValue": inner });
    let asked = json!({ "resource": "r", "action": "read", "context": { "office": asked } });
    if let Ok(ask) = read(&asked) {
        assert!(ask.context.contains("private"), "{}", &ask.context);
    }
}

#[test]
fn a_batch_says_which_question_is_wrong() {
    let good = json!({ "resource": "r", "action": "read" });
    let batch = |list: Vec<Value>| {
        reader().batch(&request(json!({ "requests": list }).to_string())).map(|asks| asks.len())
    };
    assert_eq!(batch(vec![good.clone(); MAX_BATCH]), Ok(MAX_BATCH));
    let wrong = batch(vec![good.clone(), json!({ "resource": "r" })]).unwrap_err();
    assert_eq!((wrong.at, status(&wrong.refusal)), (Some(1), 400));
    for count in [0, MAX_BATCH + 1] {
        let wrong = batch(vec![good.clone(); count]).unwrap_err();
        assert_eq!((wrong.at, status(&wrong.refusal)), (None, 400), "{count}");
    }
}

#[test]
fn the_description_says_the_same() {
    let text = include_str!("../../serve/http/openapi.json");
    let document: Value = serde_json::from_str(text).unwrap();
    let at = |pointer: &str| document.pointer(&format!("/components/schemas/{pointer}")).unwrap();
    let reserved = at("Question/properties/context/propertyNames/not/enum");
    assert_eq!(reserved, &json!(CORE_MEMBERS));
    assert_eq!(at("Questions/properties/requests/maxItems"), &json!(MAX_BATCH));
    assert_eq!(at("Answers/properties/results/maxItems"), &json!(MAX_BATCH));
}
