//! Forgetting a user.

use std::sync::OnceLock;

use bytes::Bytes;

use super::*;
use crate::model::BoxFuture;
use crate::store::{Storing, Subscriber, Target};

#[tokio::test]
async fn s5_8_an_invalidated_user_is_loaded_again_and_others_are_not_harmed() {
    let mut world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let resolver = world.plain();
    let (ann, bob) = (world.token("ann", "t1"), world.token("bob", "t2"));
    world.user(&resolver, &ann, "b").await.unwrap();
    world.user(&resolver, &bob, "b").await.unwrap();
    world.knows(&json!({"rights": 0}));
    world.shared.invalidate(ISSUER, "ann").await.unwrap();
    world.restart();
    let resolver = world.plain();
    assert_eq!(world.user(&resolver, &ann, "b").await, Ok((json!({"rights": 0}), "miss")));
    assert_eq!(world.user(&resolver, &bob, "b").await, Ok((json!({"rights": 1}), "store")));
}

#[tokio::test]
async fn s5_8_a_load_that_was_under_way_keeps_nothing_and_newcomers_do_not_wait_for_it() {
    let mut world = World::new().await;
    let slow = || Reply::json(200, r#"{"rights":1}"#).after(Duration::from_millis(200));
    world.answers(move |_| slow());
    let resolver = Arc::new(world.plain());
    let (one, two) = (world.token("ann", "t1"), world.token("ann", "t2"));
    let early = {
        let (resolver, token, now) = (Arc::clone(&resolver), one.clone(), world.clock.now());
        tokio::spawn(async move {
            resolver.resolve(&token, &Secret::new("b".to_owned()), now).await.map(|_| ())
        })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.shared.invalidate(ISSUER, "ann").await.unwrap();
    world.knows(&json!({"rights": 0}));
    let late = world.user(&resolver, &two, "b").await;
    assert_eq!(late, Ok((json!({"rights": 0}), "miss")));
    assert!(early.await.unwrap().is_ok());
    world.settle().await;
    for token in [&one, &two] {
        let user = world.user(&resolver, token, "b").await;
        assert_eq!(user, Ok((json!({"rights": 0}), "hit")));
    }
    world.restart();
    let user = world.user(&world.plain(), &one, "b").await;
    assert_eq!(user.unwrap().0, json!({"rights": 0}));
}

#[tokio::test]
async fn c05_s5_8_fifty_checks_while_the_user_is_invalidated_again_and_again() {
    let world = Arc::new(World::new().await);
    world.answers(|_| Reply::json(200, r#"{"rights":0}"#).after(Duration::from_millis(20)));
    let resolver = Arc::new(world.plain());
    let checks: Vec<_> = (0..50)
        .map(|n: u64| {
            let (world, resolver) = (Arc::clone(&world), Arc::clone(&resolver));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(n * 3)).await;
                let token = world.token("ann", &n.to_string());
                world.user(&resolver, &token, "b").await
            })
        })
        .collect();
    for _ in 0..40 {
        world.shared.invalidate(ISSUER, "ann").await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for check in checks {
        assert!(check.await.unwrap().is_ok());
    }
    world.settle().await;
    assert!(world.user(&resolver, &world.token("ann", "last"), "b").await.is_ok());
}

/// A store under which the user is invalidated just before a record is written.
struct Racing(Arc<Memory>, OnceLock<Arc<Shared>>);

impl Store for Racing {
    fn get<'a>(&'a self, key: &'a str) -> Storing<'a, Option<Bytes>> {
        self.0.get(key)
    }

    fn set<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, ()> {
        Box::pin(async move {
            if key.starts_with("profile:") {
                self.1.get().unwrap().invalidate(ISSUER, "ann").await.unwrap();
            }
            self.0.set(key, value, ttl).await
        })
    }

    fn set_if_absent<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, bool> {
        self.0.set_if_absent(key, value, ttl)
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Bytes,
        ttl: Duration,
    ) -> Storing<'a, bool> {
        self.0.compare_and_swap(key, expected, value, ttl)
    }

    fn delete<'a>(&'a self, key: &'a str) -> Storing<'a, ()> {
        self.0.delete(key)
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Bytes) -> Storing<'a, ()> {
        self.0.publish(channel, message)
    }

    fn subscribe<'a>(
        &'a self,
        channel: &'a str,
        subscriber: Arc<dyn Subscriber>,
    ) -> BoxFuture<'a, ()> {
        self.0.subscribe(channel, subscriber)
    }
}

#[tokio::test]
async fn s5_8_an_invalidation_between_the_look_and_the_write_leaves_nothing_in_the_store() {
    let mut world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let racing = Arc::new(Racing(Arc::clone(&world.store), OnceLock::new()));
    let store: Arc<dyn Store> = Arc::<Racing>::clone(&racing);
    world.shared = over(store, &world.clock, &world.metrics);
    racing.1.set(Arc::clone(&world.shared)).unwrap();
    let token = world.token("ann", "t1");
    world.user(&world.plain(), &token, "b").await.unwrap();
    world.knows(&json!({"rights": 0}));
    for _ in 0..2 {
        let user = world.user(&world.plain(), &token, "b").await;
        assert_eq!(user, Ok((json!({"rights": 0}), "miss")));
        world.restart();
    }
}

/// Another replica over the same store, which listens.
async fn replica(world: &World) -> Arc<Shared> {
    let shared = share(&world.store, &world.clock, &world.metrics);
    tokio::spawn(Arc::clone(&shared.invalidations).listen());
    while !shared.invalidations.standing().subscribed {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    shared
}

#[tokio::test]
async fn s5_8_another_replica_forgets_what_its_memory_holds() {
    let mut world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let (ann, bob) = (world.token("ann", "t1"), world.token("bob", "t2"));
    let (one, two) = (Arc::clone(&world.shared), replica(&world).await);
    world.shared = Arc::clone(&two);
    let resolver = world.plain();
    for token in [&ann, &bob] {
        world.user(&resolver, token, "b").await.unwrap();
        assert_eq!(world.user(&resolver, token, "b").await.unwrap().1, "hit");
    }
    world.knows(&json!({"rights": 0}));
    let before = two.invalidations.generations().epoch();
    one.invalidate(ISSUER, "ann").await.unwrap();
    while two.invalidations.generations().epoch() == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(world.user(&resolver, &ann, "b").await, Ok((json!({"rights": 0}), "miss")));
    assert_eq!(world.user(&resolver, &bob, "b").await, Ok((json!({"rights": 1}), "hit")));
}

#[tokio::test]
async fn s5_8_a_replica_that_hears_nothing_writes_nothing_that_others_believe() {
    let mut world = World::new().await;
    let slow = || Reply::json(200, r#"{"rights":1}"#).after(Duration::from_millis(200));
    world.answers(move |_| slow());
    let resolver = Arc::new(world.plain());
    let token = world.token("ann", "t1");
    let deaf = {
        let (resolver, token, now) = (Arc::clone(&resolver), token.clone(), world.clock.now());
        tokio::spawn(async move { resolver.resolve(&token, &Secret::new("b".into()), now).await })
    };
    while world.api.calls() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Another replica invalidates while the load is under way here, and no message arrives.
    let other = share(&world.store, &world.clock, &world.metrics);
    other.invalidate(ISSUER, "ann").await.unwrap();
    assert!(deaf.await.unwrap().is_ok());
    world.settle().await;
    world.knows(&json!({"rights": 0}));
    world.restart();
    let user = world.user(&world.plain(), &token, "b").await;
    assert_eq!(user, Ok((json!({"rights": 0}), "miss")), "its record verifies nowhere");
}

#[tokio::test]
async fn s5_8_everything_and_an_issuer_end_records_that_nobody_deletes() {
    let mut world = World::new().await;
    for target in [Target::Everything, Target::Issuer(ISSUER.to_owned())] {
        world.knows(&json!({"rights": 1}));
        let token = world.token("ann", "t1");
        world.shared.invalidate(ISSUER, "ann").await.unwrap();
        world.user(&world.plain(), &token, "b").await.unwrap();
        world.knows(&json!({"rights": 0}));
        world.restart();
        assert_eq!(world.user(&world.plain(), &token, "b").await.unwrap().1, "store");
        world.shared.invalidations.invalidate(&target, &[]).await.unwrap();
        world.restart();
        let user = world.user(&world.plain(), &token, "b").await;
        assert_eq!(user, Ok((json!({"rights": 0}), "miss")), "{target:?}");
    }
}

#[tokio::test]
async fn s5_8_an_invalidated_token_takes_what_was_mapped_for_it_along() {
    let world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let resolver = world.plain();
    let (one, two) = (world.token("ann", "t1"), world.token("ann", "t2"));
    for token in [&one, &two] {
        world.user(&resolver, token, "b").await.unwrap();
    }
    let target = Target::Token(Digest::plain(b"t1"));
    world.shared.invalidations.invalidate(&target, &[]).await.unwrap();
    // The user's profile stays: what was made of it for this token does not.
    let now = world.clock.now();
    assert!(resolver.peek(&one, &now).is_none());
    assert!(resolver.peek(&two, &now).is_some());
}
