use serde_json::{Value, json};

use super::{get, one, with_headers};
use crate::model::Strip;
use crate::model::{Code, Request};

fn strip(route: Value, request: &Request, verified: bool) -> Result<Strip, Code> {
    let table = one(route);
    table.find(request).unwrap().strip(verified).map_err(|refusal| refusal.code)
}

fn removes(strip: &Strip, name: &str) -> bool {
    strip.headers.iter().chain(&strip.spellings).any(|header| **header == *name)
}

const FIXED: [&str; 11] = [
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-uri",
    "x-forwarded-method",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

#[test]
fn s1_6_misleading_headers_are_removed_unless_kept_by_name() {
    let all = strip(json!({}), &get("/"), false).unwrap();
    let kept =
        strip(json!({"keep_headers": ["Forwarded", "x-http-method"]}), &get("/"), false).unwrap();
    for name in FIXED {
        assert!(removes(&all, name), "{name}");
        assert_eq!(removes(&kept, name), !["forwarded", "x-http-method"].contains(&name), "{name}");
    }
    for name in ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-client-cert"] {
        assert!(!removes(&all, name), "{name}");
    }
}

#[test]
fn s1_6_other_spellings_of_them_go_too() {
    let names = ["x_original_url", "x-http_method-override", "x_other", "x_http_method"];
    let request = with_headers("/", &names.map(|name| (name, "v")));
    let strip = strip(json!({"keep_headers": ["x-http-method"]}), &request, false).unwrap();
    let spellings: Vec<&str> = strip.spellings.iter().map(|name| &**name).collect();
    assert_eq!(spellings, ["x_original_url", "x-http_method-override"]);
}

#[test]
fn s3_3_an_unverified_credential_is_removed_unless_forwarded_by_name() {
    let bearer = with_headers("/", &[("authorization", "Bearer a")]);
    let basic = with_headers("/", &[("authorization", "Basic eDp5")]);
    let optional = json!({"access": "optional"});
    let forwarding = json!({"access": "optional", "forward_credentials": ["authorization"]});
    let removed = |route: &Value, request: &Request, verified| {
        removes(&strip(route.clone(), request, verified).unwrap(), "authorization")
    };
    assert!(!removed(&optional, &bearer, true), "a verified bearer is the backend's too");
    assert!(removed(&optional, &bearer, false));
    assert!(removed(&optional, &basic, false));
    assert!(removed(&optional, &basic, true), "what was verified is not this");
    assert!(removed(&optional, &get("/"), false), "Envoy may have hidden it from the Check");
    assert!(removed(&json!({"access": "public"}), &bearer, false));
    assert!(!removed(&forwarding, &basic, false));
}

#[test]
fn s3_3_configured_cookies_go_with_their_header() {
    let route = json!({"credential_cookies": ["sid"]});
    let removed = |route: &Value, value: &str| {
        let request = with_headers("/", &[("cookie", value)]);
        removes(&strip(route.clone(), &request, false).unwrap(), "cookie")
    };
    for value in ["sid=1", "a=b; sid=1", "a=b;sid=1", "a=b, sid=1", "sid"] {
        assert!(removed(&route, value), "{value}");
    }
    for value in ["a=sid", "xsid=1", "SID=1", ""] {
        assert!(!removed(&route, value), "{value}");
    }
    let forwarding = json!({"credential_cookies": ["sid"], "forward_credentials": ["cookie"]});
    assert!(!removed(&forwarding, "sid=1"));
    assert!(!removed(&json!({}), "sid=1"));
}

#[test]
fn s1_7_an_access_token_leaves_the_query_or_the_request_is_refused() {
    let query = |target: &str| strip(json!({}), &get(target), false).map(|s| s.query);
    let token: Vec<Box<str>> = vec!["access_token".into()];
    assert_eq!(query("/?a=1&access_token=x&b=2"), Ok(token));
    assert_eq!(query("/?a=1&a=2"), Ok(Vec::new()), "nothing to rewrite, so nothing is lost");
    assert_eq!(query("/?x_access_token=1"), Ok(Vec::new()));
    for target in [
        "/?access_token=x&access_token=y",
        "/?a=1&access_token=x&a=2",
        "/?a=1&access_token=x&%61=2",
        "/?access%5Ftoken=x",
        "/?a=1;access_token=x",
        "/?access_token=y&a=1;access_token=x",
    ] {
        assert_eq!(query(target), Err(Code::AmbiguousParameter), "{target}");
    }
    let forwarding = json!({"forward_credentials": ["access_token"]});
    assert!(strip(forwarding, &get("/?a=1&a=2&access_token=x"), false).unwrap().query.is_empty());
}

#[test]
fn s7_3_a_connection_header_that_names_others_matches_no_route() {
    let table = crate::route::tests::one(json!({}));
    let named = with_headers("/", &[("connection", "upgrade, x-auth-context")]);
    let code = table.find(&named).map(drop).map_err(|refusal| refusal.code);
    assert_eq!(code, Err(crate::model::Code::ConnectionOptions));
    assert!(table.find(&with_headers("/", &[("connection", "upgrade")])).is_ok());
}
