use super::*;
use crate::context::profile::{Answer, Span};
use crate::context::view::View;
use crate::store::Places;
use crate::store::measured::{ENTRIES, apart, resident, truthful};

#[test]
fn a_cached_user_takes_what_is_accounted() {
    apart("context::tests::memory::measured");
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn measured() {
    let (clock, metrics) = (Clock::manual(START), Arc::new(Metrics::new()));
    let store = Arc::new(Memory::new(256 << 20, clock.clone(), &metrics));
    let world = World::new().await;
    let tokens: Vec<_> =
        (0..ENTRIES).map(|n| world.token(&format!("u-{n:08}"), &n.to_string())).collect();
    let shared = over_all(store, 512 << 20, &clock, &metrics);
    let now = clock.now();
    let after = |seconds| Expiry::after(&now, Duration::from_secs(seconds));
    let span = Span {
        fetched: now,
        expires: after(60),
        stale_until: after(60),
        refresh_ahead: Duration::ZERO,
    };
    let before = resident();
    let mut profiles = Vec::with_capacity(ENTRIES);
    for (n, token) in tokens.iter().enumerate() {
        let json = json!({"user_id": format!("u-{n:08}"), "roles": ["Data Users", "TS ID Creator"],
            "offices": ["SPK"], "email": format!("user.{n:08}@example.test")});
        let answer = Answer::Known { json: json.to_string().into(), owner: None };
        let life = shared.life(Places::of_user(&token.user(), ISSUER));
        let profile = shared.profile(answer, token.user(), span, life);
        shared.install(token.user(), &profile);
        profiles.push(profile);
    }
    let middle = resident();
    truthful("profile", &shared.profiles, middle - before);
    let view = View::new(&shared, &Digest::plain(b""), Some(Arc::new(Same)));
    for (token, profile) in tokens.iter().zip(&profiles) {
        view.of_profile(&shared, token, profile, false).await.unwrap().unwrap();
    }
    truthful("context", &shared.contexts, resident() - middle);
}

struct Same;

impl Mapper for Same {
    fn map(&self, input_json: &str, _: &Now) -> Result<Value, MapError> {
        let mut input: Value = serde_json::from_str(input_json).unwrap();
        Ok(input["profile"].take())
    }

    fn revision(&self) -> &'static str {
        "1"
    }
}
