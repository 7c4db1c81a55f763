//! What is said of a section that cannot work.

use serde_json::json;

use super::config;
use crate::model::Problem;

fn pointers(members: &serde_json::Value) -> Vec<String> {
    let problems: Vec<Problem> = config(members).problems();
    assert!(!format!("{problems:?}").contains("marker"), "{problems:?}");
    problems.into_iter().map(|problem| problem.pointer).collect()
}

#[test]
fn good_sections_have_no_problems() {
    for members in [
        json!({"url": "redis://cache.example.test"}),
        json!({"url": "rediss://cache.example.test:6380/3", "ca_file": "ca.pem"}),
        json!({"url": "redis://[::1]:6379", "username": "pdp", "password": "marker"}),
        json!({"cluster": ["a.example.test:6379", "[::1]:6380"], "tls": true, "ca_file": "ca.pem"}),
        json!({"sentinels": {"addresses": ["a.example.test:26379"], "master": "main"}}),
    ] {
        assert_eq!(pointers(&members), Vec::<String>::new(), "{members}");
    }
}

#[test]
fn s5_7_values_are_signed_unless_a_reason_says_why_not() {
    let url = "redis://cache.example.test";
    let at = |members: serde_json::Value| pointers(&members);
    assert_eq!(at(json!({"url": url, "key": null})), ["/key"]);
    assert_eq!(at(json!({"url": url, "key": "marker"})), ["/key"]);
    assert_eq!(at(json!({"url": url, "unsigned": true})), ["/unsigned"]);
    assert_eq!(at(json!({"url": url, "key": null, "unsigned": true})), ["/unsigned_reason"]);
    let reason = json!({"url": url, "key": null, "unsigned": true, "unsigned_reason": "alone"});
    assert_eq!(at(reason), Vec::<String>::new());
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    assert_eq!(pointers(&json!({})), [""]);
    assert_eq!(pointers(&json!({"url": "redis://a.test", "cluster": ["a.test"]})), [""]);
    for url in [
        "redis://:marker@a.test",
        "redis://user@a.test",
        "http://a.test",
        "redis://",
        "redis://a.test/x",
        "redis://a.test?password=marker",
        "marker",
    ] {
        assert_eq!(pointers(&json!({"url": url})), ["/url"], "{url}");
    }
    let many = json!({
        "sentinels": {"addresses": ["a.test:1", "no address"], "master": ""},
        "username": "pdp", "timeout": "1m", "connect_timeout": "0s", "max_in_flight": 0,
        "max_value": "1B", "prefix": "a\nb", "ca_file": "ca.pem",
        "breaker": {"failures": 0},
    });
    let expected = [
        "/sentinels/addresses/1",
        "/sentinels/master",
        "/ca_file",
        "/breaker/failures",
        "/username",
        "/timeout",
        "/connect_timeout",
        "/max_in_flight",
        "/max_value",
        "/prefix",
    ];
    assert_eq!(pointers(&many), expected);
    assert_eq!(pointers(&json!({"cluster": []})), ["/cluster"]);
    assert_eq!(pointers(&json!({"url": "redis://a.test", "ca_file": "ca.pem"})), ["/ca_file"]);
    assert_eq!(pointers(&json!({"url": "redis://a.test", "tls": true})), ["/tls"]);
}
