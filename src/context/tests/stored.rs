//! What the store may bring, and what it may not.

use bytes::Bytes;

use super::*;
use crate::context::record::KeyTemplate;
use crate::model::BoxFuture;
use crate::store::{StoreError, Storing, Subscriber};

const LONG: Duration = Duration::from_hours(1);

fn key(subject: &str) -> String {
    KeyTemplate::default().key(ISSUER, subject)
}

/// The record of a load, as a value.
async fn primed(world: &mut World) -> Value {
    world.knows(&json!({"name": "ann"}));
    let token = world.token("ann", "t1");
    world.user(&world.plain(), &token, "b").await.unwrap();
    let bytes = world.store.get(&key("ann")).await.unwrap().unwrap();
    world.restart();
    world.knows(&json!({"name": "loaded"}));
    serde_json::from_slice(&bytes).unwrap()
}

async fn outcome(world: &World, stored: Bytes) -> (Value, &'static str) {
    world.store.set(&key("ann"), stored, LONG).await.unwrap();
    let token = world.token("ann", "t1");
    world.user(&world.plain(), &token, "b").await.unwrap()
}

#[tokio::test]
async fn s5_7_a_process_that_starts_finds_what_another_loaded() {
    let mut world = World::new().await;
    let record = primed(&mut world).await;
    assert_eq!(record["issuer"], ISSUER);
    assert_eq!(record["subject"], "ann");
    world.pass(60);
    let (resolver, token) = (world.plain(), world.token("ann", "t2"));
    let (context, state) = world.check(&resolver, &token, "b").await.unwrap();
    assert_eq!((parse(&context.fragment), state.as_str()), (json!({"name": "ann"}), "store"));
    // Its end is the first process's.
    let left = context.expires.unwrap().left(&world.clock.now());
    assert_eq!(left, Duration::from_mins(29));
    assert_eq!(world.api.calls(), 1);
}

#[tokio::test]
async fn n04_s5_7_what_does_not_verify_is_a_miss_and_is_rewritten() {
    let mut base = World::new().await;
    let good = primed(&mut base).await;
    let with = |name: &str, value: Value| {
        let mut record = good.clone();
        record[name] = value;
        record.to_string().into_bytes()
    };
    let without = |name: &str| {
        let mut record = good.clone();
        record.as_object_mut().unwrap().remove(name);
        record.to_string().into_bytes()
    };
    let text = good.to_string();
    let twice = text.replace(r#"{"name":"ann"}"#, r#"{"name":"ann","name":"root"}"#);
    assert_ne!(twice, text);
    let bad: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("null", b"null".to_vec()),
        ("empty object", b"{}".to_vec()),
        ("list", b"[]".to_vec()),
        ("other version", with("v", json!(999))),
        ("version as text", with("v", json!("1"))),
        ("truncated", text.as_bytes()[..text.len() - 5].to_vec()),
        ("another user's", with("subject", json!("bob"))),
        ("folded subject", with("subject", json!("ANN"))),
        ("another issuer's", with("issuer", json!("https://other.test"))),
        ("another question's", with("asked", json!("00"))),
        ("profile a list", with("profile", json!([]))),
        ("profile null", with("profile", json!(null))),
        ("profile with a member twice", twice.into_bytes()),
        ("known without profile", without("profile")),
        ("unknown with profile", with("known", json!(false))),
        ("without its end", without("expires")),
        ("without its start", without("fetched")),
        ("ended", with("expires", good["fetched"].clone())),
        ("ended before it began", with("expires", json!(0))),
        ("from the future", {
            let mut record = good.clone();
            record["fetched"] = json!(good["fetched"].as_i64().unwrap() + 3_600_000_000_000);
            record["expires"] = json!(good["expires"].as_i64().unwrap() + 3_600_000_000_000);
            record.to_string().into_bytes()
        }),
        ("too large", with("profile", json!({"x": "y".repeat(600 << 10)}))),
        ("not UTF-8", b"\xff\xfe{}".to_vec()),
    ];
    for (what, bytes) in bad {
        let mut world = World::new().await;
        // Another server's port is another question: take the record's own.
        world.api = base.api.clone();
        world.script = Arc::clone(&base.script);
        let got = outcome(&world, bytes.into()).await;
        assert_eq!(got, (json!({"name": "loaded"}), "miss"), "{what}");
        let bytes = world.store.get(&key("ann")).await.unwrap().unwrap();
        let rewritten: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(rewritten["profile"], json!({"name": "loaded"}), "{what}");
    }
    // The unspoilt one and one with a field more serve.
    for (what, bytes) in [("good", text.into_bytes()), ("extra", with("extra", json!([1])))] {
        let mut world = World::new().await;
        world.api = base.api.clone();
        let got = outcome(&world, bytes.into()).await;
        assert_eq!(got, (json!({"name": "ann"}), "store"), "{what}");
    }
}

#[tokio::test]
async fn s5_7_no_record_serves_longer_than_the_configured_lifetime() {
    let mut world = World::new().await;
    let mut record = primed(&mut world).await;
    record["expires"] = json!(i64::MAX);
    world.store.set(&key("ann"), record.to_string().into(), LONG).await.unwrap();
    let (resolver, token) = (world.plain(), world.token("ann", "t1"));
    let (context, _) = world.check(&resolver, &token, "b").await.unwrap();
    let left = context.expires.unwrap().left(&world.clock.now());
    assert_eq!(left, Duration::from_mins(30));
}

/// A store that always has the same to say.
struct Always(Result<Option<Bytes>, StoreError>);

impl Always {
    fn done<'a, T: Send + 'a>(&self, value: T) -> Storing<'a, T> {
        let said = self.0.clone().map(|_| value);
        Box::pin(async { said })
    }
}

impl Store for Always {
    fn get<'a>(&'a self, key: &'a str) -> Storing<'a, Option<Bytes>> {
        let record = key.starts_with("profile:");
        Box::pin(async move { self.0.clone().map(|said| said.filter(|_| record)) })
    }

    fn set<'a>(&'a self, _: &'a str, _: Bytes, _: Duration) -> Storing<'a, ()> {
        self.done(())
    }

    fn set_if_absent<'a>(&'a self, _: &'a str, _: Bytes, _: Duration) -> Storing<'a, bool> {
        self.done(true)
    }

    fn compare_and_swap<'a>(
        &'a self,
        _: &'a str,
        _: &'a [u8],
        _: Bytes,
        _: Duration,
    ) -> Storing<'a, bool> {
        self.done(true)
    }

    fn delete<'a>(&'a self, _: &'a str) -> Storing<'a, ()> {
        self.done(())
    }

    fn publish<'a>(&'a self, _: &'a str, _: Bytes) -> Storing<'a, ()> {
        self.done(())
    }

    fn subscribe<'a>(&'a self, _: &'a str, _: Arc<dyn Subscriber>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn n04_s5_7_fifty_mebibytes_are_a_miss_and_not_read() {
    let mut world = World::new().await;
    let record = primed(&mut world).await;
    let padded = record.to_string() + &" ".repeat(50 << 20);
    let store = Arc::new(Always(Ok(Some(padded.into()))));
    world.shared = over(store, &world.clock, &world.metrics);
    let user = world.user(&world.plain(), &world.token("ann", "t1"), "b").await;
    assert_eq!(user, Ok((json!({"name": "loaded"}), "miss")));
}

#[tokio::test]
async fn s8_1_a_store_that_fails_is_a_miss() {
    let mut world = World::new().await;
    let down = Arc::new(Always(Err(StoreError("down"))));
    world.shared = over(down, &world.clock, &world.metrics);
    world.knows(&json!({"name": "ann"}));
    let (resolver, token) = (world.plain(), world.token("ann", "t1"));
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "miss");
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "hit");
    assert!(world.shared.invalidate(ISSUER, "ann").await.is_err(), "others were not told");
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "miss");
}
