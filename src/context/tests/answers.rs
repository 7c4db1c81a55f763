//! What each answer of the user API comes to.

use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::model::Class;

async fn refusal(world: &World, resolver: &Resolver) -> Refusal {
    world.check(resolver, &world.token("ann", "t1"), "b").await.unwrap_err()
}

#[tokio::test]
async fn s5_5_a_profile_becomes_the_user() {
    let world = World::new().await;
    world.answers(|got| {
        assert_eq!(bearer_of(got), "Bearer secret-1");
        assert_eq!(got.headers["accept"], "application/json");
        Reply::json(200, r#"{ "name": "ann", "n": 12345678901234567890.10 }"#)
    });
    let resolver = world.plain();
    let token = world.token("ann", "t1");
    let (context, state) = world.check(&resolver, &token, "secret-1").await.unwrap();
    assert_eq!(context.fragment.json(), r#"{"name":"ann","n":12345678901234567890.10}"#);
    assert_eq!((state.as_str(), context.stale), ("miss", false));
    let lives = context.expires.unwrap().left(&world.clock.now());
    assert_eq!(lives, Duration::from_mins(30));
    assert_eq!(world.user(&resolver, &token, "secret-1").await.unwrap().1, "hit");
    assert_eq!(world.api.calls(), 1);
}

#[tokio::test]
async fn s5_5_unknown_users_are_refused_and_remembered_briefly() {
    for status in [404, 410] {
        let world = World::new().await;
        world.answers(move |_| Reply::json(status, "{}"));
        let resolver = world.plain();
        for _ in 0..3 {
            assert_eq!(refusal(&world, &resolver).await.code, Code::UnknownUser);
        }
        assert_eq!(world.api.calls(), 1);
        world.knows(&json!({"name": "ann"}));
        world.pass(29);
        assert_eq!(refusal(&world, &resolver).await.code, Code::UnknownUser);
        world.pass(1);
        let user = world.user(&resolver, &world.token("ann", "t1"), "b").await;
        assert_eq!(user, Ok((json!({"name": "ann"}), "miss")));
    }
}

#[tokio::test]
async fn s5_5_unknown_replaces_the_last_good_value_in_memory_and_store_at_once() {
    let mut world = World::new().await;
    world.knows(&json!({"name": "ann"}));
    let resolver = world.stale();
    let (one, two) = (world.token("ann", "t1"), world.token("ann", "t2"));
    assert!(world.user(&resolver, &one, "b").await.is_ok());
    assert!(world.user(&resolver, &two, "b").await.is_ok());
    world.answers(|_| Reply::json(404, ""));
    world.pass(50);
    // The refresh that this Check starts finds out.
    assert!(world.user(&resolver, &one, "b").await.is_ok());
    world.settle().await;
    world.answers(|_| Reply::json(500, ""));
    for token in [&one, &two] {
        assert_eq!(world.user(&resolver, token, "b").await, Err(Code::UnknownUser));
    }
    world.restart();
    let resolver = world.stale();
    assert_eq!(world.user(&resolver, &two, "b").await, Err(Code::UnknownUser));
    // And no stale value comes back once that is forgotten.
    world.pass(31);
    assert_eq!(world.user(&resolver, &two, "b").await, Err(Code::UserApiUnavailable));
}

#[tokio::test]
async fn s5_5_a_refused_bearer_is_401_and_not_remembered() {
    for status in [401, 403] {
        let world = World::new().await;
        world.answers(move |got| match bearer_of(got).as_str() {
            "Bearer good" => Reply::json(200, r#"{"name":"ann"}"#),
            _ => Reply::json(status, "{}"),
        });
        let resolver = world.plain();
        let token = world.token("ann", "t1");
        assert_eq!(world.user(&resolver, &token, "bad").await, Err(Code::UserRefused));
        assert_eq!(Code::UserRefused.class(), Class::Deny(401));
        assert!(world.user(&resolver, &token, "good").await.is_ok());
    }
}

#[tokio::test]
async fn s5_5_failures_are_unavailable_and_never_remembered() {
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(300 << 10));
    let failures = [
        ("too many", Reply::json(429, "").header("retry-after", "7"), Some(7)),
        ("too many", Reply::json(429, "").header("retry-after", "999999999"), Some(3600)),
        ("server error", Reply::json(500, "{}"), None),
        ("server error", Reply::json(503, "{}").header("retry-after", "30"), Some(30)),
        ("redirects", Reply::json(302, "").header("location", "http://127.0.0.1:9/"), None),
        ("says nothing", Reply::json(204, ""), None),
        ("too large", Reply::json(200, long), None),
        ("JSON type", Reply::json(200, "{}").header("content-type", "text/html"), None),
        ("no sound JSON", Reply::json(200, r#"{"a":1,"a":2}"#), None),
        ("no sound JSON", Reply::json(200, r#"{"a":"#), None),
        ("no JSON object", Reply::json(200, "[]"), None),
        ("no JSON object", Reply::json(200, "null"), None),
    ];
    let world = World::new().await;
    let patient = json!({"breaker": {"failures": 1000}});
    let resolver = world.resolver(&world.config("/me", &patient, &json!({})), None);
    for (detail, reply, retry_after) in failures {
        let shown = format!("{} {detail}", reply.status);
        let calls = world.api.calls();
        world.answers(move |_| reply.clone());
        for n in 1..=2 {
            let refusal = refusal(&world, &resolver).await;
            assert_eq!(refusal.code, Code::UserApiUnavailable, "{shown}");
            assert!(refusal.detail.contains(detail), "{shown}: {}", refusal.detail);
            assert_eq!(refusal.retry_after, retry_after, "{shown}");
            assert_eq!(world.api.calls(), calls + n, "{shown}");
        }
    }
    world.knows(&json!({"name": "ann"}));
    assert!(world.user(&resolver, &world.token("ann", "t1"), "b").await.is_ok());
}

#[tokio::test]
async fn s5_5_an_api_that_hangs_costs_no_more_than_its_time() {
    let world = World::new().await;
    world.answers(|_| Reply::json(200, "{}").after(Duration::from_mins(1)));
    let config = world.config("/me", &json!({"timeout": "100ms"}), &json!({}));
    let resolver = world.resolver(&config, None);
    let started = std::time::Instant::now();
    let refused = refusal(&world, &resolver).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(refused.code, Code::UserApiUnavailable);
    assert!(refused.detail.contains("in time"), "{}", refused.detail);
    // Healed, it answers at once.
    world.knows(&json!({"name": "ann"}));
    assert!(world.user(&resolver, &world.token("ann", "t1"), "b").await.is_ok());
}

#[tokio::test]
async fn s5_5_a_truncated_answer_and_one_that_never_comes_are_failures() {
    let world = World::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"a\"";
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let resolver = world.resolver(&world.config("", &json!({"url": origin}), &json!({})), None);
    let refused = refusal(&world, &resolver).await;
    assert_eq!(refused.code, Code::UserApiUnavailable);
    assert!(refused.detail.contains("broke off"), "{}", refused.detail);

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let resolver = world.resolver(&world.config("", &json!({"url": origin}), &json!({})), None);
    let refused = refusal(&world, &resolver).await;
    assert_eq!(refused.code, Code::UserApiUnavailable);
    assert!(refused.detail.contains("cannot be reached"), "{}", refused.detail);
}

fn api_key(world: &World) -> Resolver {
    let api = json!({
        "credential": "api_key",
        "api_key": {"header": "authorization", "scheme": "apikey", "value": "k-1"},
        "owner": {"profile": "/user-name", "claim": "preferred_username", "fold": "ascii"},
    });
    world.resolver(&world.config("/users/{sub}?of={claim:tenant}", &api, &json!({})), None)
}

#[tokio::test]
async fn s5_5_a_refusal_of_our_own_key_is_a_failure() {
    for status in [401, 403] {
        let world = World::new().await;
        world.answers(move |_| Reply::json(status, ""));
        let claims = json!({"preferred_username": "ann", "tenant": "x"});
        let token = world.token_of(ISSUER, "ann", "t1", &claims);
        let user = world.user(&api_key(&world), &token, "b").await;
        assert_eq!(user, Err(Code::UserApiUnavailable));
    }
}

#[tokio::test]
async fn s5_5_whose_profile_it_is_is_decided_by_the_pair() {
    let world = World::new().await;
    let resolver = api_key(&world);
    world.answers(|got| {
        assert_eq!(bearer_of(got), "apikey k-1");
        assert_eq!(got.target, "/users/a%2Fb?of=x%26y");
        Reply::json(200, r#"{"user-name":"ANN"}"#)
    });
    let token = |name: &str, seed: &str| {
        let claims = json!({"preferred_username": name, "tenant": "x&y"});
        world.token_of(ISSUER, "a/b", seed, &claims)
    };
    assert!(world.user(&resolver, &token("ann", "t1"), "b").await.is_ok());
    // Same subject, another name: neither the kept profile nor a new one is his.
    assert_eq!(
        world.user(&resolver, &token("bob", "t2"), "b").await,
        Err(Code::UserApiUnavailable)
    );
    assert_eq!(
        world.user(&resolver, &token("änn", "t3"), "b").await,
        Err(Code::UserApiUnavailable)
    );
    assert_eq!(world.user(&resolver, &token("ann", "t1"), "b").await.unwrap().1, "hit");
    assert_eq!(world.api.calls(), 3);
}

#[tokio::test]
async fn s8_5_a_token_that_lacks_what_the_question_needs_is_denied_without_a_call() {
    let world = World::new().await;
    let resolver = api_key(&world);
    let ask = |subject: &'static str, claims: Value| {
        let (world, resolver) = (&world, &resolver);
        async move {
            let seed = format!("{subject}{claims}");
            let token = world.token_of(ISSUER, subject, &seed, &claims);
            world.user(resolver, &token, "b").await
        }
    };
    let refused = [
        ("ann", json!({"tenant": "x"})),
        ("ann", json!({"preferred_username": "", "tenant": "x"})),
        ("ann", json!({"preferred_username": 7, "tenant": "x"})),
        ("ann", json!({"preferred_username": "ann"})),
        ("ann", json!({"preferred_username": "ann", "tenant": ["x"]})),
        ("..", json!({"preferred_username": "ann", "tenant": "x"})),
        (".", json!({"preferred_username": "ann", "tenant": "x"})),
        ("", json!({"preferred_username": "ann", "tenant": "x"})),
    ];
    for (subject, claims) in refused {
        assert_eq!(ask(subject, claims.clone()).await, Err(Code::TokenClaims), "{claims}");
    }
    assert_eq!(world.api.calls(), 0);
}

#[tokio::test]
async fn s3_6_a_4xx_about_one_user_is_a_denial() {
    for status in [400, 414, 422, 431] {
        let world = World::new().await;
        world.answers(move |_| Reply::json(status, ""));
        assert_eq!(refusal(&world, &world.plain()).await.code, Code::UnknownUser);
        world.knows(&json!({"name": "ann"}));
        let user = world.user(&world.plain(), &world.token("ann", "t1"), "b").await;
        assert!(user.is_ok(), "{status}");
    }
}

#[tokio::test]
async fn s5_5_a_profile_that_the_mapping_cannot_use_is_a_failure() {
    for error in [MapError::Undefined, MapError::Failed, MapError::Limit, MapError::Starved] {
        let world = World::new().await;
        world.knows(&json!({"name": "ann"}));
        let config = world.config("/me", &json!({}), &json!({"mapping": "data.a.user"}));
        let resolver = world.resolver(&config, Some(Rule::new("r1", move |_| Err(error))));
        let refused = refusal(&world, &resolver).await;
        assert_eq!((refused.code, refused.detail), (Code::UserApiUnavailable, error.as_str()));
        // It is not kept for a mapping that can.
        let list = Rule::new("r2", |_| Ok(json!(["not an object"])));
        assert_eq!(
            refusal(&world, &world.resolver(&config, Some(list))).await.code,
            Code::UserApiUnavailable
        );
        assert_eq!(world.api.calls(), 2);
    }
}

#[tokio::test]
async fn s5_5_a_mapping_that_panics_harms_nobody_else() {
    let world = World::new().await;
    world.knows(&json!({"name": "ann"}));
    let config = world.config("/me", &json!({}), &json!({"mapping": "data.a.user"}));
    let rule = Rule::new("r1", |input| {
        assert_ne!(input["identity"]["subject"], "ann", "planted");
        Ok(json!({"ok": true}))
    });
    let resolver = world.resolver(&config, Some(rule));
    assert_eq!(refusal(&world, &resolver).await.code, Code::UserApiUnavailable);
    assert!(world.user(&resolver, &world.token("bob", "t2"), "b").await.is_ok());
}
