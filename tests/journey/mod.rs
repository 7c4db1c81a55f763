//! Whole journeys inside this process: the configuration, the policies and every room are the
//! real ones, the user API is called over the wire, and the time is the test's own.

mod access;
mod identity;
mod open;
mod rights;
mod warm;

use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis::app::{self, Prepared};
use portcullis::check;
use portcullis::clock::Now;
use portcullis::config;
use portcullis::model::{Decision, Headers, Outcome, Record, Request};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::harness::files::{self, Folder, Ports};
use crate::harness::tokens;
use crate::kit::backend::{self, Backend};

/// Portcullis without a door.
struct House {
    prepared: Prepared,
    backend: Arc<Backend>,
    runtime: Runtime,
    _folder: Folder,
}

/// One Check that has ended.
struct Ended {
    outcome: Outcome,
    record: Record,
}

impl House {
    /// With the quickstart's configuration and policies.
    fn quickstart() -> Self {
        Self::start(&files::shipped("deploy/config/quickstart.yaml"), "")
    }

    /// With that configuration; `rego` is in `test.rego` beside it.
    fn start(config: &str, rego: &str) -> Self {
        let folder = Folder::new();
        tokens::write_keys(folder.path());
        folder.write("test.rego", rego);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(4 << 20)
            .enable_all()
            .build()
            .unwrap();
        let backend = Backend::new(false, None);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(backend::serve(listener, Arc::clone(&backend)));
        // Doors are configured and never opened.
        let ports = Ports { envoy: 1, envoy_admin: 1, check: 1, admin: 2, backend: port };
        let text = if config.contains("../../") {
            files::portcullis(config, ports, folder.path())
        } else {
            config.to_owned()
        };
        let text = text.replace("timeout: 350ms", "timeout: 8s");
        let file = folder.write("portcullis.yaml", &text);
        // An unoptimised interpreter takes more CPU time than the limit allows for.
        let slow = text.contains("\npolicy:") && !text.contains("limits: { time");
        let limit = ("PORTCULLIS__POLICY__LIMITS__TIME".into(), "5s".into());
        let environment: config::Environment = Some(limit).filter(|_| slow).into_iter().collect();
        let loaded = config::load_with(&file, &environment, |_, _| Vec::new());
        let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
        let prepared = runtime.block_on(async { app::prepare(&loaded.config, loaded.base()) });
        let prepared = prepared.unwrap_or_else(|problems| panic!("{problems:?}"));
        Self { prepared, backend, runtime, _folder: folder }
    }

    fn now(&self) -> Now {
        self.prepared.clock.now()
    }

    /// From memory alone, outside of any runtime.
    fn warm(&self, request: &Request, now: Now) -> Option<Ended> {
        let mut record = Record::default();
        let outcome = check::try_now(request, &self.prepared.snapshot, &now, &mut record)?;
        Some(Ended { outcome, record })
    }

    /// Loading what is missing.
    fn cold(&self, request: &Request, now: Now) -> Ended {
        let mut record = Record::default();
        let deadline = Instant::now() + Duration::from_secs(20);
        let snapshot = &self.prepared.snapshot;
        let deciding = check::decide(request, snapshot, now, deadline, &mut record);
        let outcome = self.runtime.block_on(deciding);
        Ended { outcome, record }
    }

    /// As the service does: from memory, else loading.
    fn check(&self, request: &Request, now: Now) -> Ended {
        self.warm(request, now).unwrap_or_else(|| self.cold(request, now))
    }

    /// The document that the policy sees.
    fn input(&self, request: &Request) -> Value {
        let explained = self.prepared.explain(request, Duration::from_secs(20));
        let explained = self.runtime.block_on(explained);
        let input = explained.input.as_ref().unwrap_or_else(|| panic!("no input: {explained:?}"));
        serde_json::from_str(input).unwrap()
    }
}

impl Ended {
    /// `allow`, `deny 403` or `unavailable`, and the reason.
    fn told(&self) -> (String, &str) {
        match &self.outcome {
            Outcome::Allow(allow) => ("allow".to_owned(), allow.reason.as_str()),
            Outcome::Deny(deny) => (format!("deny {}", deny.status), deny.reason.as_str()),
            Outcome::Unavailable(answer) => ("unavailable".to_owned(), answer.reason.as_str()),
        }
    }

    #[track_caller]
    fn is(&self, outcome: &str, reason: &str) {
        assert_eq!(self.told(), (outcome.to_owned(), reason), "{:?}", self.outcome);
    }

    fn decision(&self) -> &Decision {
        let decision = match &self.outcome {
            Outcome::Allow(allow) => allow.decision.as_deref(),
            Outcome::Deny(deny) => deny.decision.as_deref(),
            Outcome::Unavailable(_) => None,
        };
        decision.unwrap_or_else(|| panic!("no decision: {:?}", self.outcome))
    }
}

/// A request as Envoy would tell of it.
fn get(target: &str, headers: &[(&str, &str)]) -> Request {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    Request {
        method: "GET".into(),
        target: target.as_bytes().to_vec().into(),
        host: b"api.example.test".to_vec().into(),
        scheme: "https".into(),
        headers: Headers::from_pairs(headers),
        ..Request::default()
    }
}

/// The same with a bearer token.
fn get_as(target: &str, token: &str) -> Request {
    get(target, &[("authorization", &format!("Bearer {token}"))])
}
