//! One load per user however many wait for it.

use super::*;

type Answer = Result<(Value, &'static str), Code>;

/// Starts `n` Checks of one user at once; each has its own token and bearer `0`, `1`, ….
fn crowd(
    world: &Arc<World>,
    resolver: &Arc<Resolver>,
    n: usize,
) -> Vec<tokio::task::JoinHandle<Answer>> {
    let check = |n: usize| {
        let (world, resolver) = (Arc::clone(world), Arc::clone(resolver));
        tokio::spawn(async move {
            let token = world.token("ann", &n.to_string());
            world.user(&resolver, &token, &n.to_string()).await
        })
    };
    (0..n).map(check).collect()
}

async fn all(checks: Vec<tokio::task::JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for check in checks {
        answers.push(check.await.unwrap());
    }
    answers
}

fn slow(status: u16) -> Reply {
    Reply::json(status, r#"{"name":"ann"}"#).after(Duration::from_millis(150))
}

async fn world() -> (Arc<World>, Arc<Resolver>) {
    let world = Arc::new(World::new().await);
    let resolver = Arc::new(world.plain());
    (world, resolver)
}

#[tokio::test]
async fn c05_s5_4_one_load_serves_all_and_a_cancelled_leader_harms_nobody() {
    let (world, resolver) = world().await;
    world.answers(|_| slow(200));
    let mut checks = crowd(&world, &resolver, 50);
    tokio::time::sleep(Duration::from_millis(50)).await;
    checks.remove(0).abort();
    for answer in all(checks).await {
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert_eq!(world.api.calls(), 1);
    assert_eq!(world.shared.loads.under_way(), 0);
}

#[tokio::test]
async fn c05_s5_4_a_thousand_waiting_checks_are_one_load_and_one_mapping_each() {
    let world = Arc::new(World::new().await);
    world.answers(|_| slow(200));
    let rule = Rule::role("r1");
    let config = world.config("/me", &json!({}), &json!({"mapping": "data.a.user"}));
    let resolver = Arc::new(world.resolver(&config, Some(rule.clone())));
    let token = world.token("ann", "t");
    let checks: Vec<_> = (0..1_000)
        .map(|_| {
            let (world, resolver, token) = (world.clone(), resolver.clone(), token.clone());
            tokio::spawn(async move { world.user(&resolver, &token, "b").await })
        })
        .collect();
    assert!(all(checks).await.iter().all(Result::is_ok));
    assert_eq!((world.api.calls(), rule.runs()), (1, 1));
}

#[tokio::test]
async fn c05_s5_4_a_failed_load_answers_all_its_waiters_and_is_not_kept() {
    let (world, resolver) = world().await;
    world.answers(|_| slow(500));
    let started = std::time::Instant::now();
    for answer in all(crowd(&world, &resolver, 50)).await {
        assert_eq!(answer, Err(Code::UserApiUnavailable));
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(world.api.calls(), 1);
    world.answers(|_| slow(200));
    for answer in all(crowd(&world, &resolver, 50)).await {
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert_eq!(world.api.calls(), 2);
}

#[tokio::test]
async fn c05_s5_4_a_load_goes_on_when_every_waiter_has_left() {
    let (world, resolver) = world().await;
    world.answers(|_| slow(200));
    for check in crowd(&world, &resolver, 5) {
        tokio::time::sleep(Duration::from_millis(2)).await;
        check.abort();
    }
    world.settle().await;
    let token = world.token("ann", "late");
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "hit");
    assert_eq!(world.api.calls(), 1);
}

#[tokio::test]
async fn s5_4_a_refused_bearer_concerns_the_leader_alone() {
    let (world, resolver) = world().await;
    world.answers(|got| slow(if bearer_of(got) == "Bearer 0" { 401 } else { 200 }));
    let answers = all(crowd(&world, &resolver, 20)).await;
    assert_eq!(answers[0], Err(Code::UserRefused));
    assert!(answers[1..].iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.api.calls(), 2);
}

#[tokio::test]
async fn s5_4_each_waiter_asks_with_its_own_bearer_however_many_are_refused() {
    let (world, resolver) = world().await;
    world.answers(|got| slow(if bearer_of(got) == "Bearer 7" { 200 } else { 403 }));
    let answers = all(crowd(&world, &resolver, 8)).await;
    assert!(answers[7].is_ok());
    assert_eq!(answers.iter().filter(|a| **a == Err(Code::UserRefused)).count(), 7);
    assert!(world.api.calls() <= 8, "{}", world.api.calls());
}

#[tokio::test]
async fn s5_4_checks_with_one_refused_token_make_one_call() {
    let (world, resolver) = world().await;
    world.answers(|_| slow(401));
    let token = world.token("ann", "t");
    let checks: Vec<_> = (0..20)
        .map(|_| {
            let (world, resolver, token) = (world.clone(), resolver.clone(), token.clone());
            tokio::spawn(async move { world.user(&resolver, &token, "b").await })
        })
        .collect();
    assert!(all(checks).await.iter().all(|answer| *answer == Err(Code::UserRefused)));
    assert_eq!(world.api.calls(), 1);
}

#[tokio::test]
async fn s5_4_a_refresh_starts_once_and_a_failed_one_waits_before_the_next() {
    let (world, resolver) = world().await;
    world.knows(&json!({"name": "ann"}));
    let token = world.token("ann", "t");
    world.user(&resolver, &token, "b").await.unwrap();
    world.answers(|_| Reply::json(500, ""));
    world.pass(24 * 60 - 1);
    assert!(resolver.peek(&token, &world.clock.now()).is_some());
    world.pass(1);
    for _ in 0..20 {
        assert_eq!(world.user(&resolver, &token, "b").await.unwrap().1, "hit");
    }
    world.settle().await;
    assert_eq!(world.api.calls(), 2);
    assert!(resolver.peek(&token, &world.clock.now()).is_some());
    world.pass(3);
    world.knows(&json!({"name": "new"}));
    assert_eq!(world.user(&resolver, &token, "b").await.unwrap().0["name"], "ann");
    world.settle().await;
    let user = world.user(&resolver, &token, "b").await;
    assert_eq!(user, Ok((json!({"name": "new"}), "hit")));
    assert_eq!(world.api.calls(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c05_s5_4_a_check_that_comes_as_a_load_ends_starts_no_other() {
    let world = Arc::new(World::new().await);
    world.answers(|_| Reply::json(200, r#"{"name":"ann"}"#).after(Duration::from_millis(3)));
    let resolver = Arc::new(world.plain());
    for round in 0..20_usize {
        let checks: Vec<_> = (0..64_u64)
            .map(|n| {
                let (world, resolver) = (Arc::clone(&world), Arc::clone(&resolver));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_micros(n * 120)).await;
                    let token = world.token(&round.to_string(), &format!("{round} {n}"));
                    world.user(&resolver, &token, "b").await
                })
            })
            .collect();
        assert!(all(checks).await.iter().all(Result::is_ok));
        assert_eq!(world.api.calls(), round + 1);
    }
}
