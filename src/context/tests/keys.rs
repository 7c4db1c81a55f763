//! Whose context it is, and what it was made of.

use super::*;
use crate::context::record::KeyTemplate;

/// The API names the user by his bearer.
fn echo(world: &World) {
    world.answers(|got| {
        let text = json!({"name": bearer_of(got), "target": got.target}).to_string();
        Reply::json(200, text)
    });
}

#[tokio::test]
async fn s5_1_c03_two_identities_never_share_a_context() {
    let world = World::new().await;
    echo(&world);
    let resolver = world.plain();
    let pairs = [
        ("https://a.test", "b:c"),
        ("https://a.test:b", "c"),
        ("https://a.test", "B:c"),
        ("https://A.test", "b:c"),
        ("https://a.test", "b:c "),
        ("https://a.testb", ":c"),
        ("https://a.test", "ﬁ"),
        ("https://a.test", "fi"),
        ("https://a.test", "İ"),
        ("https://a.test", "i"),
    ];
    for round in 0..2 {
        for (n, (issuer, subject)) in pairs.into_iter().enumerate() {
            let token = world.token_of(issuer, subject, &format!("{n} {round}"), &json!({}));
            let (user, _) = world.user(&resolver, &token, &n.to_string()).await.unwrap();
            assert_eq!(user["name"], format!("Bearer {n}"), "{issuer} {subject}");
        }
    }
    assert_eq!(world.api.calls(), pairs.len());
}

#[tokio::test]
async fn s5_2_c07_a_context_belongs_to_its_token_and_the_profile_to_the_user() {
    let world = World::new().await;
    echo(&world);
    let rule = Rule::role("r1");
    let config = world.config("/me", &json!({}), &json!({"mapping": "data.a.user"}));
    let resolver = world.resolver(&config, Some(rule.clone()));
    let admin = world.token_of(ISSUER, "ann", "t1", &json!({"role": "admin"}));
    let plain = world.token_of(ISSUER, "ann", "t2", &json!({"role": "viewer"}));
    let user = |role: &str| json!({"name": "Bearer x", "role": role, "made_by": "r1"});
    for _ in 0..2 {
        assert_eq!(world.user(&resolver, &admin, "x").await.unwrap().0, user("admin"));
        assert_eq!(world.user(&resolver, &plain, "x").await.unwrap().0, user("viewer"));
    }
    world.settle().await;
    assert_eq!((world.api.calls(), rule.runs()), (1, 2));
    let input = rule.runs.lock().unwrap()[0].clone();
    assert_eq!(input["identity"]["subject"], "ann");
    assert_eq!(input["profile"]["target"], "/me");
    assert_eq!(input.as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn s5_2_another_revision_of_the_mapping_maps_again_without_a_load() {
    let world = World::new().await;
    echo(&world);
    let config = world.config("/me", &json!({}), &json!({"mapping": "data.a.user"}));
    let token = world.token("ann", "t1");
    for revision in ["r1", "r2"] {
        let resolver = world.resolver(&config, Some(Rule::role(revision)));
        assert!(resolver.peek(&token, &world.clock.now()).is_none());
        let (user, _) = world.user(&resolver, &token, "x").await.unwrap();
        assert_eq!(user["made_by"], revision);
    }
    // Without a mapping the profile itself.
    let (user, _) = world.user(&world.plain(), &token, "x").await.unwrap();
    assert_eq!(user, json!({"name": "Bearer x", "target": "/me"}));
    assert_eq!(world.api.calls(), 1);
}

#[tokio::test]
async fn s5_2_another_url_or_credential_is_another_question() {
    let world = World::new().await;
    echo(&world);
    let token = world.token_of(ISSUER, "ann", "t1", &json!({"office": "a"}));
    let other = world.token_of(ISSUER, "ann", "t2", &json!({"office": "b"}));
    let by_claim =
        world.resolver(&world.config("/me/{claim:office}", &json!({}), &json!({})), None);
    let target = |user: Result<(Value, &'static str), Code>| user.unwrap().0["target"].clone();
    assert_eq!(target(world.user(&world.plain(), &token, "x").await), "/me");
    assert_eq!(target(world.user(&by_claim, &token, "x").await), "/me/a");
    assert_eq!(target(world.user(&by_claim, &other, "x").await), "/me/b");
    assert_eq!(target(world.user(&by_claim, &token, "x").await), "/me/a");
}

#[tokio::test]
async fn s5_2_where_the_answer_depends_on_the_token_it_serves_that_token_alone() {
    let mut world = World::new().await;
    echo(&world);
    let config = world.config("/me", &json!({"per_token": true}), &json!({}));
    let (one, two) = (world.token("ann", "t1"), world.token("ann", "t2"));
    let resolver = world.resolver(&config, None);
    for _ in 0..2 {
        for (token, bearer) in [(&one, "1"), (&two, "2")] {
            let (user, _) = world.user(&resolver, token, bearer).await.unwrap();
            assert_eq!(user["name"], format!("Bearer {bearer}"));
        }
    }
    assert_eq!(world.api.calls(), 2);
    world.shared.invalidate(ISSUER, "ann").await.unwrap();
    assert_eq!(world.user(&resolver, &one, "1").await.unwrap().1, "miss");
    world.restart();
    let resolver = world.resolver(&config, None);
    assert_eq!(world.user(&resolver, &one, "1").await.unwrap().1, "miss");
}

#[tokio::test]
async fn s5_2_claims_make_the_context_where_there_is_no_user_api() {
    let world = World::new().await;
    let claims = json!({"role": "admin"});
    let one = world.token_of(ISSUER, "ann", "t1", &claims);
    let two = world.token_of(ISSUER, "ann", "t2", &json!({"role": "viewer"}));
    let config: ContextConfig = serde_json::from_value(json!({"source": "claims"})).unwrap();
    let resolver = world.resolver(&config, None);
    assert_eq!(world.user(&resolver, &one, "x").await, Ok((claims, "miss")));
    assert_eq!(world.user(&resolver, &two, "x").await, Ok((json!({"role": "viewer"}), "miss")));
    assert_eq!(world.user(&resolver, &one, "x").await.unwrap().1, "hit");

    let config = json!({"source": "claims", "mapping": "data.a.user", "ttl": "60s"});
    let config: ContextConfig = serde_json::from_value(config).unwrap();
    let rule = Rule::new("r1", |input| match &input["token"]["role"] {
        Value::String(role) if role == "admin" => Ok(json!({"is": "admin"})),
        Value::String(role) if role == "starved" => Err(MapError::Starved),
        Value::String(_) => Err(MapError::Limit),
        _ => Err(MapError::Undefined),
    });
    let resolver = world.resolver(&config, Some(rule.clone()));
    assert_eq!(world.user(&resolver, &one, "x").await, Ok((json!({"is": "admin"}), "miss")));
    // What a caller's claims alone can cause is a denial.
    assert_eq!(world.user(&resolver, &two, "x").await, Err(Code::EvaluationLimit));
    // What the machine has no time for is not.
    let starved = world.token_of(ISSUER, "ann", "t4", &json!({"role": "starved"}));
    assert_eq!(world.user(&resolver, &starved, "x").await, Err(Code::Overloaded));
    let none = world.token("ann", "t3");
    assert_eq!(world.user(&resolver, &none, "x").await, Err(Code::UnknownUser));
    assert_eq!(rule.runs.lock().unwrap().last().unwrap().as_object().unwrap().len(), 1);
    world.pass(60);
    assert_eq!(world.user(&resolver, &one, "x").await.unwrap().1, "miss");
}

#[tokio::test]
async fn anonymous_is_a_constant_and_without_a_source_nobody_has_a_context() {
    let world = World::new().await;
    let config = json!({"anonymous": {"id": "anonymous", "roles": []}});
    let config: ContextConfig = serde_json::from_value(config).unwrap();
    let resolver = world.resolver(&config, None);
    let anonymous = resolver.anonymous().unwrap();
    assert_eq!(parse(&anonymous.fragment), json!({"id": "anonymous", "roles": []}));
    assert!(!anonymous.stale && anonymous.expires.is_none());
    assert!(!resolver.has_users());
    assert!(world.plain().anonymous().is_none());
}

#[test]
fn s5_1_key_templates_escape_fold_ascii_alone_and_keep_users_apart() {
    let key = |template: &str, issuer: &str, subject: &str| {
        KeyTemplate::parse(template).unwrap().key(issuer, subject)
    };
    let plain = "{issuer}:{sub}";
    assert_eq!(key(plain, "https://i.test", "a b"), "profile:v2:https%3A%2F%2Fi%2Etest:a%20b");
    let names = ["a", "b", "a:b", "b:a", ":", "", "%3A", "A", "\u{212a}", "k", "K", "a|b", "é"];
    for template in ["{issuer}:{sub}", "u/{sub}@{issuer}!", "{sub}::{issuer}"] {
        let mut seen = std::collections::HashSet::new();
        for issuer in names {
            for subject in names {
                assert!(seen.insert(key(template, issuer, subject)), "{issuer} {subject}");
            }
        }
    }
    let folded = "{issuer}:{sub|lower}";
    assert_eq!(key(folded, "i", "ANN"), key(folded, "i", "ann"));
    // The Kelvin sign is no ASCII letter.
    assert_ne!(key(folded, "i", "\u{212a}"), key(folded, "i", "k"));
    for wrong in [
        "{sub",
        "sub}",
        "{issuer}",
        "{name}",
        "{sub|upper}",
        "{issuer}{sub}",
        "{issuer}-{sub}",
        "{issuer}a1_{sub}",
        "{issuer} {sub}",
        "{issuer}:{sub}\n",
        "",
    ] {
        assert!(KeyTemplate::parse(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn s5_1_users_who_share_a_folded_key_do_not_share_a_profile() {
    let mut world = World::new().await;
    world.answers(|got| Reply::json(200, format!(r#"{{"name":"{}"}}"#, bearer_of(got))));
    let folded = json!({"key": "{issuer}:{sub|lower}"});
    for (subject, bearer) in [("ann", "b-1"), ("ANN", "b-2"), ("ann", "b-3")] {
        let resolver = world.resolver(&world.config("/me", &json!({}), &folded), None);
        let user = world.user(&resolver, &world.token(subject, bearer), bearer).await.unwrap();
        assert_eq!(user, (json!({"name": format!("Bearer {bearer}")}), "miss"), "{subject}");
        world.restart();
    }
    // The key is the configured one, and what is invalidated is deleted there.
    let key = KeyTemplate::parse("{issuer}:{sub|lower}").unwrap().key(ISSUER, "ann");
    assert!(world.store.get(&key).await.unwrap().is_some());
    let _resolver = world.resolver(&world.config("/me", &json!({}), &folded), None);
    world.shared.invalidate(ISSUER, "ann").await.unwrap();
    assert!(world.store.get(&key).await.unwrap().is_none());
}
