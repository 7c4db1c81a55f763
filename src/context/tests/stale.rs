//! What may serve while the user API fails.

use super::*;

async fn primed(world: &World, resolver: &Resolver) -> Arc<VerifiedToken> {
    world.knows(&json!({"name": "ann"}));
    let token = world.token("ann", "t1");
    world.user(resolver, &token, "b").await.unwrap();
    world.answers(|_| Reply::json(500, ""));
    token
}

#[tokio::test]
async fn s5_6_a_stale_context_is_marked_and_bounded() {
    let world = World::new().await;
    let resolver = world.stale();
    let token = primed(&world, &resolver).await;
    world.pass(61);
    let (context, state) = world.check(&resolver, &token, "b").await.unwrap();
    assert_eq!((context.stale, state.as_str()), (true, "stale"));
    assert_eq!(parse(&context.fragment), json!({"name": "ann"}));
    // Warm, without a call, until the next attempt.
    let (context, state) = resolver.peek(&token, &world.clock.now()).unwrap().unwrap();
    assert_eq!((context.stale, state.as_str()), (true, "stale"));
    assert_eq!(world.api.calls(), 2);
    // Another token of the user's is served too.
    let other = world.token("ann", "t2");
    assert_eq!(world.user(&resolver, &other, "b").await.unwrap().1, "stale");
    for _ in 0..59 {
        world.pass(9);
        let user = world.user(&resolver, &token, "b").await;
        assert_eq!(user.unwrap().1, "stale");
        world.settle().await;
    }
    world.pass(10 * 60 - 1 - 59 * 9);
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::UserApiUnavailable));
}

#[tokio::test]
async fn s5_6_a_stale_context_is_replaced_as_soon_as_the_api_is_back() {
    let world = World::new().await;
    let resolver = world.stale();
    let token = primed(&world, &resolver).await;
    world.pass(61);
    world.user(&resolver, &token, "b").await.unwrap();
    world.knows(&json!({"name": "new"}));
    world.pass(2);
    // This Check finds out for the next.
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "stale");
    world.settle().await;
    assert_eq!(world.user(&resolver, &token, "b").await, Ok((json!({"name": "new"}), "hit")));
}

#[tokio::test]
async fn s5_6_closed_serves_nothing_past_its_end() {
    let world = World::new().await;
    let config = world.config("/me", &json!({}), &json!({"ttl": "60s"}));
    let resolver = world.resolver(&config, None);
    let token = primed(&world, &resolver).await;
    world.pass(60);
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::UserApiUnavailable));
}

#[tokio::test]
async fn s5_6_stale_is_for_failures_not_for_refusals() {
    let world = World::new().await;
    let resolver = world.stale();
    let token = primed(&world, &resolver).await;
    world.pass(61);
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "stale");
    world.answers(|_| Reply::json(401, ""));
    world.pass(2);
    world.user(&resolver, &token, "b").await.unwrap();
    world.settle().await;
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::UserRefused));
    world.answers(|_| Reply::json(404, ""));
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::UnknownUser));
}

#[tokio::test]
async fn s5_6_stale_never_outlives_the_token() {
    let world = World::new().await;
    let api = json!({"on_failure": "stale", "stale_for": "7d"});
    let config = world.config("/me", &api, &json!({"ttl": "3599s"}));
    let resolver = world.resolver(&config, None);
    let token = primed(&world, &resolver).await;
    world.pass(3599);
    let (context, _) = world.check(&resolver, &token, "b").await.unwrap();
    assert!(context.stale);
    assert_eq!(context.expires.unwrap().left(&world.clock.now()), Duration::from_secs(1));
    world.pass(1);
    assert!(resolver.peek(&token, &world.clock.now()).is_none());
}

#[tokio::test]
async fn s5_6_a_token_that_expires_while_it_waits_is_not_served_stale() {
    let world = World::new().await;
    let api = json!({"on_failure": "stale", "stale_for": "7d"});
    let config = world.config("/me", &api, &json!({"ttl": "3599s"}));
    let resolver = world.resolver(&config, None);
    let token = primed(&world, &resolver).await;
    world.pass(3599);
    let clock = world.clock.clone();
    world.answers(move |_| {
        clock.advance(Duration::from_secs(2));
        Reply::json(500, "")
    });
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::TokenExpired));
}

#[tokio::test]
async fn s5_6_stale_never_outlives_an_invalidation() {
    let mut world = World::new().await;
    let resolver = world.stale();
    let token = primed(&world, &resolver).await;
    world.pass(61);
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "stale");
    world.shared.invalidate(ISSUER, "ann").await.unwrap();
    assert!(resolver.peek(&token, &world.clock.now()).is_none());
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::UserApiUnavailable));
    world.restart();
    assert_eq!(world.user(&world.stale(), &token, "b").await, Err(Code::UserApiUnavailable));
}

#[tokio::test]
async fn s5_6_stale_is_never_written_back() {
    let mut world = World::new().await;
    let resolver = world.stale();
    let token = primed(&world, &resolver).await;
    world.pass(61);
    for _ in 0..10 {
        world.user(&resolver, &token, "b").await.unwrap();
        world.settle().await;
        world.pass(59);
    }
    // Another process finds what was stored at the start: 651 s of its 660 have passed.
    world.restart();
    let resolver = world.stale();
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "stale");
    world.pass(10);
    world.restart();
    let resolver = world.stale();
    assert_eq!(world.user(&resolver, &token, "b").await, Err(Code::UserApiUnavailable));
}

#[tokio::test]
async fn s5_6_a_failure_long_ago_is_not_taken_to_last() {
    let world = World::new().await;
    let resolver = world.stale();
    let token = primed(&world, &resolver).await;
    world.pass(61);
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "stale");
    world.knows(&json!({"name": "new"}));
    world.pass(120);
    assert_eq!(world.user(&resolver, &token, "b").await, Ok((json!({"name": "new"}), "miss")));
}

#[tokio::test]
async fn s5_5_a_mapping_that_cannot_use_the_new_profile_leaves_the_last_good_one_stale() {
    let world = World::new().await;
    let api = json!({"on_failure": "stale", "stale_for": "10m"});
    let more = json!({"ttl": "60s", "mapping": "data.a.user"});
    let rule = Rule::new("r1", |input| match input["profile"]["name"].as_str() {
        Some(name) => Ok(json!({"is": name})),
        None => Err(MapError::Undefined),
    });
    let resolver = world.resolver(&world.config("/me", &api, &more), Some(rule));
    let token = primed(&world, &resolver).await;
    world.knows(&json!({"nom": "ann"}));
    world.pass(61);
    assert_eq!(world.user(&resolver, &token, "b").await, Ok((json!({"is": "ann"}), "stale")));
}
