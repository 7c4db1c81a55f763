//! The room's behaviour, through its port, with a real HTTP server as the user API.

mod answers;
mod config;
mod invalidation;
mod keys;
mod loads;
mod memory;
mod peek;
mod stale;
mod stored;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{ContextConfig, Contexts as _, MapError, Mapper, Resolved, Resolver, Shared};
use crate::clock::{Clock, Expiry, Now};
use crate::dependency::stub::{Got, Reply, Stub};
use crate::model::{Code, Digest, Fragment, Grant, Refusal, Secret, VerifiedToken};
use crate::store::{Invalidations, Memory, Store};
use crate::telemetry::Metrics;

const START: i64 = 1_700_000_000;
const ISSUER: &str = "https://idp.example.test";

type Script = Arc<Mutex<Box<dyn Fn(&Got) -> Reply + Send>>>;

/// A user API, and all that a resolver needs.
struct World {
    clock: Clock,
    metrics: Arc<Metrics>,
    store: Arc<Memory>,
    shared: Arc<Shared>,
    api: Stub,
    script: Script,
}

impl World {
    async fn new() -> Self {
        let script: Script = Arc::new(Mutex::new(Box::new(|_| Reply::json(500, ""))));
        let scripted = Arc::clone(&script);
        let api = Stub::start(move |got| scripted.lock().unwrap()(&got)).await;
        let (clock, metrics) = (Clock::manual(START), Arc::new(Metrics::new()));
        let store = Arc::new(Memory::new(16 << 20, clock.clone(), &metrics));
        let shared = share(&store, &clock, &metrics);
        Self { clock, metrics, store, shared, api, script }
    }

    /// What the user API answers from now on.
    fn answers(&self, answer: impl Fn(&Got) -> Reply + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(answer);
    }

    /// It answers with this profile.
    fn knows(&self, profile: &Value) {
        let text = profile.to_string();
        self.answers(move |_| Reply::json(200, text.clone()));
    }

    /// The section with `url` (a path) and `api` and `more` merged in.
    fn config(&self, path: &str, api: &Value, more: &Value) -> ContextConfig {
        let mut section = json!({"url": format!("{}{path}", self.api.origin), "timeout": "5s"});
        merge(&mut section, api);
        let mut config = json!({"source": "user_api", "user_api": section});
        merge(&mut config, more);
        serde_json::from_value(config).unwrap()
    }

    fn resolver(&self, config: &ContextConfig, mapper: Option<Arc<dyn Mapper>>) -> Resolver {
        let (shared, metrics) = (Arc::clone(&self.shared), Arc::clone(&self.metrics));
        Resolver::new(config, mapper, shared, metrics, Path::new(".")).unwrap()
    }

    /// A resolver with the caller's bearer and no mapping.
    fn plain(&self) -> Resolver {
        self.resolver(&self.config("/me", &json!({}), &json!({})), None)
    }

    fn stale(&self) -> Resolver {
        let api = json!({"on_failure": "stale", "stale_for": "10m"});
        self.resolver(&self.config("/me", &api, &json!({"ttl": "60s"})), None)
    }

    /// Another process on the same store.
    fn restart(&mut self) {
        self.shared = share(&self.store, &self.clock, &self.metrics);
    }

    fn token(&self, subject: &str, seed: &str) -> Arc<VerifiedToken> {
        self.token_of(ISSUER, subject, seed, &json!({}))
    }

    /// A token of one hour.
    fn token_of(
        &self,
        issuer: &str,
        subject: &str,
        seed: &str,
        claims: &Value,
    ) -> Arc<VerifiedToken> {
        let grant = Grant {
            issuer: issuer.into(),
            issuer_name: "main".into(),
            client_id: None,
            audiences: [].into(),
            scopes: [].into(),
        };
        let (claims, end) =
            (Fragment::new(claims), Expiry::after(&self.clock.now(), Duration::from_hours(1)));
        let names = (Digest::of("test token", seed.as_bytes()), Digest::plain(seed.as_bytes()));
        VerifiedToken::new(grant.into(), subject.into(), claims, (end, None), names).into()
    }

    /// Asks as a Check does: from memory, else by loading. The bearer is `bearer`.
    async fn check(
        &self,
        resolver: &Resolver,
        token: &Arc<VerifiedToken>,
        bearer: &str,
    ) -> Result<Resolved, Refusal> {
        let now = self.clock.now();
        match resolver.peek(token, &now) {
            Some(known) => known,
            None => resolver.resolve(token, &Secret::new(bearer.to_owned()), now).await,
        }
    }

    /// The user that a Check gets, and where it came from.
    async fn user(
        &self,
        resolver: &Resolver,
        token: &Arc<VerifiedToken>,
        bearer: &str,
    ) -> Result<(Value, &'static str), Code> {
        let answer = self.check(resolver, token, bearer).await;
        answer.map(|(context, state)| (parse(&context.fragment), state.as_str())).map_err(code)
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Waits until no load is under way.
    async fn settle(&self) {
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if self.shared.loads.under_way() == 0 {
                return;
            }
        }
        panic!("a load stays under way");
    }
}

fn share(store: &Arc<Memory>, clock: &Clock, metrics: &Metrics) -> Arc<Shared> {
    over(Arc::<Memory>::clone(store), clock, metrics)
}

fn over(store: Arc<dyn Store>, clock: &Clock, metrics: &Metrics) -> Arc<Shared> {
    over_all(store, 8 << 20, clock, metrics)
}

fn over_all(store: Arc<dyn Store>, bytes: u64, clock: &Clock, metrics: &Metrics) -> Arc<Shared> {
    let invalidations = Invalidations::new(store, clock.clone(), metrics);
    Shared::new(bytes, invalidations, clock.clone(), metrics)
}

fn merge(into: &mut Value, from: &Value) {
    for (name, value) in from.as_object().unwrap() {
        into[name] = value.clone();
    }
}

fn parse(fragment: &Fragment) -> Value {
    serde_json::from_str(&fragment.json()).unwrap()
}

fn code(refusal: Refusal) -> Code {
    refusal.code
}

fn bearer_of(got: &Got) -> String {
    got.headers["authorization"].to_str().unwrap().to_owned()
}

type Make = Box<dyn Fn(&Value) -> Result<Value, MapError> + Send + Sync>;

/// A mapping rule in Rust.
struct Rule {
    revision: &'static str,
    make: Make,
    runs: Mutex<Vec<Value>>,
}

impl Rule {
    fn new(
        revision: &'static str,
        rule: impl Fn(&Value) -> Result<Value, MapError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { revision, make: Box::new(rule), runs: Mutex::default() })
    }

    /// Takes the profile and the claim `role`.
    fn role(revision: &'static str) -> Arc<Self> {
        Self::new(revision, move |input| {
            let mut user = Map::new();
            user.insert("name".into(), input["profile"]["name"].clone());
            user.insert("role".into(), input["token"]["role"].clone());
            user.insert("made_by".into(), revision.into());
            Ok(Value::Object(user))
        })
    }

    fn runs(&self) -> usize {
        self.runs.lock().unwrap().len()
    }
}

impl Mapper for Rule {
    fn map(&self, input_json: &str, _: &Now) -> Result<Value, MapError> {
        let input: Value = serde_json::from_str(input_json).unwrap();
        self.runs.lock().unwrap().push(input.clone());
        (self.make)(&input)
    }

    fn revision(&self) -> &str {
        self.revision
    }
}
