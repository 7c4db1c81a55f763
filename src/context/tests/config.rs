//! What `check-config` says of the section.

use super::*;

fn problems(section: &Value) -> Vec<String> {
    let config: ContextConfig = serde_json::from_value(section.clone()).unwrap();
    config.problems().into_iter().map(|problem| problem.pointer).collect()
}

fn api(more: &Value) -> Value {
    let mut api = json!({"url": "https://api.example.test/users/{sub}"});
    merge(&mut api, more);
    json!({"user_api": api})
}

#[test]
fn what_is_sound_has_no_problems() {
    let key = json!({"header": "apikey", "value": "k"});
    let owner = json!({"profile": "/user-name", "claim": "preferred_username"});
    let sound = [
        json!({}),
        json!({"source": "claims", "mapping": "data.a.user"}),
        json!({"anonymous": {"id": "anonymous"}}),
        api(&json!({})),
        api(&json!({"url": "http://127.0.0.1:8080/me"})),
        api(&json!({"on_failure": "stale", "stale_for": "10m"})),
        api(&json!({"credential": "api_key", "api_key": key, "owner": owner})),
        api(&json!({
            "url": "http://api.example.test/me",
            "insecure_urls": [{
                "url": "http://api.example.test/me", "insecure": true, "reason": "one host"
            }],
        })),
    ];
    for section in sound {
        assert_eq!(problems(&section), Vec::<String>::new(), "{section}");
    }
}

#[test]
fn s5_5_a_look_up_by_our_own_key_needs_the_owners_pair() {
    let key = json!({"header": "apikey", "value": "k"});
    let section = api(&json!({"credential": "api_key", "api_key": key}));
    assert_eq!(problems(&section), ["/user_api/owner"]);
}

#[test]
fn every_impossible_combination_is_named_where_it_stands() {
    let (owner, key) = (json!({"profile": "/n", "claim": "c"}), json!({"value": "k"}));
    let by_key =
        |key: Value| api(&json!({"credential": "api_key", "owner": owner.clone(), "api_key": key}));
    let both = |mut section: Value, name: &str, value: Value| {
        section[name] = value;
        section
    };
    let cases = [
        (json!({"source": "user_api"}), vec!["/source"]),
        (both(api(&json!({})), "source", json!("claims")), vec!["/user_api"]),
        (both(api(&json!({})), "source", json!("none")), vec!["/user_api"]),
        (json!({"mapping": "data.a.user"}), vec!["/mapping"]),
        (json!({"source": "claims", "mapping": "a.user"}), vec!["/mapping"]),
        (json!({"anonymous": {}}), vec!["/anonymous"]),
        (json!({"ttl": "0s"}), vec!["/ttl"]),
        (json!({"ttl": "60s", "refresh_ahead": "60s"}), vec!["/refresh_ahead"]),
        (json!({"cache": "64KiB"}), vec!["/cache"]),
        (both(api(&json!({"max_response": "512KiB"})), "cache", json!("1MiB")), vec!["/cache"]),
        (api(&json!({"max_response": "513KiB"})), vec!["/user_api/max_response"]),
        (api(&json!({"api_key": key})), vec!["/user_api/api_key"]),
        (by_key(json!(null)), vec!["/user_api/api_key"]),
        (by_key(json!({})), vec!["/user_api/api_key/value"]),
        (by_key(json!({"value": " \n"})), vec!["/user_api/api_key/value"]),
        (by_key(json!({"value": "a\nb"})), vec!["/user_api/api_key/value"]),
        (by_key(json!({"value": "k", "header": "a b"})), vec!["/user_api/api_key/header"]),
        (by_key(json!({"value": "k", "header": "Host"})), vec!["/user_api/api_key/header"]),
        (
            api(&json!({"owner": {"profile": "user-name", "claim": ""}})),
            vec!["/user_api/owner/profile", "/user_api/owner/claim"],
        ),
        (api(&json!({"on_failure": "stale"})), vec!["/user_api/stale_for"]),
        (api(&json!({"on_failure": "stale", "stale_for": "0s"})), vec!["/user_api/stale_for"]),
        (api(&json!({"stale_for": "10m"})), vec!["/user_api/stale_for"]),
        (
            api(&json!({"timeout": "0s", "max_response": "0B", "max_in_flight": 0})),
            vec!["/user_api/timeout", "/user_api/max_response", "/user_api/max_in_flight"],
        ),
    ];
    for (section, pointers) in cases {
        assert_eq!(problems(&section), pointers, "{section}");
    }
}

#[test]
fn s8_5_a_url_that_may_not_be_called_is_refused() {
    let urls = [
        "http://api.example.test/me",
        "ftp://api.example.test/me",
        "/me",
        "https://user:pass@api.example.test/me",
        "https://api.example.test/me#x",
        "https://{claim:host}/me",
        "https://api.example.test/{user}",
        "https://api.example.test/{claim:}",
        "https://api.example.test/{sub",
        "https://api.example.test/a/../{sub}",
    ];
    for url in urls {
        assert_eq!(problems(&api(&json!({"url": url}))), ["/user_api/url"], "{url}");
    }
    let reasonless = json!({
        "url": "http://api.example.test/me",
        "insecure_urls": [{"url": "http://api.example.test/me", "insecure": true, "reason": ""}],
    });
    assert_eq!(problems(&api(&reasonless)), ["/user_api/url"]);
}

#[test]
fn s5_1_a_look_up_by_key_must_tell_the_users_of_two_issuers_apart() {
    let by_key = |url: &str| {
        let section = api(&json!({
            "url": url, "credential": "api_key", "api_key": {"value": "k"},
            "owner": {"profile": "/n", "claim": "c"},
        }));
        serde_json::from_value::<ContextConfig>(section).unwrap()
    };
    let apart = by_key("https://api.example.test/{issuer}/{sub}");
    let mixed = by_key("https://api.example.test/{sub}");
    assert!(apart.problems_among(2).is_empty());
    assert!(mixed.problems_among(1).is_empty());
    assert_eq!(mixed.problems_among(2).len(), 1);
}

#[test]
fn s5_1_a_key_template_without_the_issuer_is_refused_where_two_issuers_reach_it() {
    let with = |key: &str| -> ContextConfig {
        let mut section = api(&json!({}));
        section["key"] = json!(key);
        serde_json::from_value(section).unwrap()
    };
    assert!(with("{issuer}:{sub}").problems_among(2).is_empty());
    assert!(with("{sub}").problems_among(1).is_empty());
    let found = with("{sub}").problems_among(2);
    assert_eq!(found.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/key"]);
    let wrong = with("{issuer}{sub}").problems();
    assert_eq!(wrong.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/key"]);
}

#[test]
fn a05_neither_debug_nor_a_problem_shows_the_key() {
    let section = api(&json!({"credential": "api_key", "api_key": {"value": "hunter2\u{7f}"}}));
    let config: ContextConfig = serde_json::from_value(section).unwrap();
    let shown = format!("{config:?} {:?}", config.problems());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn a_mapping_without_a_rule_to_run_is_refused() {
    let world = World::new().await;
    let config = world.config("/me", &json!({}), &json!({"mapping": "data.a.user"}));
    let (shared, metrics) = (Arc::clone(&world.shared), Arc::clone(&world.metrics));
    let problems = Resolver::new(&config, None, shared, metrics, Path::new(".")).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].pointer, "/mapping");
}

#[test]
fn the_schema_names_every_key_and_the_twin_of_every_secret() {
    let schema = schemars::schema_for!(ContextConfig).to_value();
    let text = schema.to_string();
    for name in ["user_api", "refresh_ahead", "value_file", "stale_for", "insecure_urls"] {
        assert!(text.contains(&format!("\"{name}\"")), "{name} not in {text}");
    }
    assert_eq!(schema["additionalProperties"], false);
    let unknown = json!({"user_api": {"url": "https://a.test", "retries": 3}});
    assert!(serde_json::from_value::<ContextConfig>(unknown).is_err());
}
