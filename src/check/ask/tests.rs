//! What the API asks of the stages; the stages are fakes that keep what they were asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::caller::Rights;
use super::*;
use crate::clock::Clock;
use crate::context::Resolved;
use crate::model::{Asker, BoxFuture, CacheState, Digest, Headers, Parts};
use crate::respond::HeadersConfig;

/// Every stage at once: nothing verifies, no user is found, nothing is decided.
#[derive(Default)]
struct Fake {
    loads: AtomicUsize,
    asked: Mutex<Vec<Question>>,
}

const DOWN: Refusal = Refusal::new(Code::UserApiUnavailable, "as told");

impl Authenticator for Fake {
    fn peek(&self, _: &str, _: &Demand, _: &Now) -> Option<Result<Verified, Refusal>> {
        Some(Err(Code::TokenMalformed.into()))
    }

    fn resolve<'a>(
        &'a self,
        _: &'a Secret<String>,
        _: &'a Demand,
        _: Now,
    ) -> BoxFuture<'a, Result<Verified, Refusal>> {
        Box::pin(async { Err(Code::TokenMalformed.into()) })
    }
}

impl Contexts for Fake {
    fn anonymous(&self) -> Option<Arc<UserContext>> {
        None
    }

    fn has_users(&self) -> bool {
        true
    }

    fn peek(&self, _: &Arc<VerifiedToken>, _: &Now) -> Option<Result<Resolved, Refusal>> {
        None
    }

    fn resolve<'a>(
        &'a self,
        _: &'a Arc<VerifiedToken>,
        _: &'a Secret<String>,
        _: Now,
    ) -> BoxFuture<'a, Result<Resolved, Refusal>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(DOWN) })
    }
}

impl Decider for Fake {
    fn key_of(&self, _: &str, _: Door, _: &Parts<'_>) -> Digest {
        Digest::of("test", b"")
    }

    fn key(&self, question: &Question) -> Digest {
        self.asked.lock().unwrap().push(question.clone());
        Digest::of("test", b"")
    }

    fn peek(&self, _: &Digest, _: &Now, _: Asker<'_>) -> Option<Decided> {
        None
    }

    fn resolve(
        &self,
        _: Digest,
        _: Question,
        _: Asker<'_>,
    ) -> BoxFuture<'_, Result<Decided, Refusal>> {
        Box::pin(async { Err(Code::PolicyUnavailable.into()) })
    }
}

fn desk() -> (Desk, Arc<Fake>) {
    let config = json!({ "policy": "p", "fields": { "office": { "use": "selects" } } });
    let config: ApiConfig = serde_json::from_value(config).unwrap();
    let fake = Arc::new(Fake::default());
    let responder = Responder::new(&HeadersConfig::default(), 1);
    (Desk::new(&config, fake.clone(), fake.clone(), fake.clone(), responder), fake)
}

fn when() -> When {
    let now = Clock::system().now();
    When { now, deadline: now.mono + Duration::from_mins(1) }
}

fn question(desk: &Desk, body: &Value) -> Ask {
    let headers = Headers::from_pairs([("content-type", b"application/json".as_slice())]);
    let mut request = Request { headers, ..Request::default() };
    request.body.bytes = body.to_string().into();
    desk.read(&request).unwrap()
}

fn caller(may: Rights) -> Caller {
    Caller { token: None, name: None, may }
}

#[tokio::test]
async fn c03_its_questions_are_of_its_own_door_and_an_asserted_user_is_asked_for_nowhere() {
    let (desk, fake) = desk();
    let ask =
        question(&desk, &json!({ "resource": "r", "action": "read", "user": { "id": "u-1" } }));
    let may = Rights { assert_user: true, ..Rights::default() };
    let mut record = Record::default();
    let answer = desk.answer(&caller(may), &ask, &Users::default(), when(), &mut record).await;
    assert!(matches!(answer, (Outcome::Unavailable(_), None)), "{answer:?}");
    let asked = fake.asked.lock().unwrap();
    assert_eq!(asked[0].door, Door::Api);
    let input: Value = serde_json::from_str(&asked[0].input.to_json(None)).unwrap();
    let expected = json!({
        "identity": { "method": "asserted" }, "user": { "id": "u-1" },
        "resource": "r", "action": "read",
        "context": { "method": "GET", "path": "/r", "segments": ["r"] },
    });
    assert_eq!(input, expected);
    assert_eq!(fake.loads.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn without_the_right_the_policy_is_not_asked() {
    let (desk, fake) = desk();
    for body in [
        json!({ "resource": "r", "action": "read", "user": {} }),
        json!({ "resource": "r", "action": "read", "context": { "undeclared": 1 } }),
    ] {
        let ask = question(&desk, &body);
        let (users, mut record) = (Users::default(), Record::default());
        let by = caller(Rights::default());
        match desk.answer(&by, &ask, &users, when(), &mut record).await {
            (Outcome::Deny(deny), None) => assert_eq!(deny.status, 403, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    assert!(fake.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_user_of_a_batch_is_asked_for_once_also_when_that_fails() {
    let (_, fake) = desk();
    let token = VerifiedToken::about("u", None, &json!({}));
    let (users, bearer) = (Users::default(), Secret::new(String::new()));
    for _ in 0..3 {
        let found: Result<(Arc<UserContext>, CacheState), Refusal> =
            users.of(&*fake, &token, &bearer, when().now).await;
        assert_eq!(found.map(|_| ()), Err(DOWN));
    }
    assert_eq!(fake.loads.load(Ordering::SeqCst), 1);
}
