//! The warm path.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test]
async fn c07_a_context_ends_with_its_profile_for_every_token() {
    let world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let resolver = world.plain();
    let (one, two) = (world.token("ann", "t1"), world.token("ann", "t2"));
    world.user(&resolver, &one, "b").await.unwrap();
    world.pass(10);
    assert_eq!(world.user(&resolver, &two, "b").await.unwrap().1, "hit");
    world.knows(&json!({"rights": 0}));
    // The second token's context was made later, but ends with the profile.
    world.pass(30 * 60 - 10);
    for token in [&two, &one] {
        assert!(resolver.peek(token, &world.clock.now()).is_none());
        assert_eq!(world.user(&resolver, token, "b").await.unwrap().0, json!({"rights": 0}));
    }
    assert_eq!(world.api.calls(), 2);
}

#[tokio::test]
async fn c07_a_newer_profile_ends_every_context_made_of_the_older() {
    let world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let resolver = world.plain();
    let (one, two) = (world.token("ann", "t1"), world.token("ann", "t2"));
    world.user(&resolver, &one, "b").await.unwrap();
    world.user(&resolver, &two, "b").await.unwrap();
    world.knows(&json!({"rights": 0}));
    world.pass(25 * 60);
    // Past four fifths of its life: this Check starts the refresh and is served meanwhile.
    let user = world.user(&resolver, &one, "b").await;
    assert_eq!(user, Ok((json!({"rights": 1}), "hit")));
    world.settle().await;
    for token in [&one, &two] {
        let user = world.user(&resolver, token, "b").await;
        assert_eq!(user, Ok((json!({"rights": 0}), "hit")));
    }
    assert_eq!(world.api.calls(), 2);
}

#[tokio::test]
async fn c07_a_context_never_outlives_a_profile_that_was_put_out() {
    let world = World::new().await;
    let large = "x".repeat(200 << 10);
    world.answers(move |got| {
        let body = json!({"target": got.target, "large": large}).to_string();
        Reply::json(200, body)
    });
    let rule = Rule::new("r1", |input| Ok(json!({"target": input["profile"]["target"]})));
    let more = json!({"mapping": "data.a.user"});
    let resolver = world.resolver(&world.config("/{sub}", &json!({}), &more), Some(rule));
    let tokens: Vec<_> = (0..60).map(|n| world.token(&n.to_string(), &n.to_string())).collect();
    for token in &tokens {
        world.user(&resolver, token, "b").await.unwrap();
    }
    let now = world.clock.now();
    let served = tokens.iter().filter(|token| resolver.peek(token, &now).is_some()).count();
    // 4 MiB hold some twenty such profiles; the small contexts would all have fitted.
    assert!((5..=20).contains(&served), "{served}");
}

#[tokio::test]
async fn a_warm_check_is_one_counted_hit() {
    let world = World::new().await;
    world.knows(&json!({"rights": 1}));
    let resolver = world.plain();
    let token = world.token("ann", "t1");
    world.user(&resolver, &token, "b").await.unwrap();
    for _ in 0..100 {
        assert!(resolver.peek(&token, &world.clock.now()).is_some());
    }
    let shown = world.metrics.render().unwrap();
    for line in [
        "cache_requests_total{cache=\"context\",result=\"hit\"} 100",
        "cache_requests_total{cache=\"context\",result=\"miss\"} 1",
        "dependency_calls_total{dependency=\"user_api\",outcome=\"ok\"} 1",
        "cache_entries{cache=\"profile\"} 1",
        // The profile, and the list of invalidations.
        "cache_entries{cache=\"store\"} 2",
    ] {
        assert!(shown.contains(line), "{line} not in\n{shown}");
    }
}

/// A user API that answers every read of a connection; returns its origin and how many
/// connections came.
async fn counting_connections() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
                let answer = format!("{head}\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}");
                let mut request = [0; 4096];
                while stream.read(&mut request).await.unwrap_or(0) > 0 {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (origin, connections)
}

#[tokio::test]
async fn s9_1_connections_and_contexts_outlive_a_configuration() {
    let world = World::new().await;
    let (origin, connections) = counting_connections().await;
    let config = world.config("", &json!({"url": origin}), &json!({}));
    for subject in ["ann", "bob", "cid"] {
        let resolver = world.resolver(&config, None);
        let token = world.token(subject, subject);
        assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "miss");
        let ann = world.token("ann", "ann");
        assert_eq!(world.user(&resolver, &ann, "b").await.unwrap().1, "hit");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    let longer = world.config("", &json!({"url": origin, "timeout": "6s"}), &json!({}));
    let resolver = world.resolver(&longer, None);
    world.user(&resolver, &world.token("dee", "dee"), "b").await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}
