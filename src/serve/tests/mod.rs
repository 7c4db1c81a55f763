//! The doors with real sockets and a real HTTP/2 client; deciding is faked.

mod accept;
mod admin;
mod checks;
mod drain;
mod gate;
mod limits;
mod resets;
mod secrets;
mod sockets;
mod turns;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Request as Wire};
use envoy_types::pb::envoy::service::auth::v3::authorization_client::AuthorizationClient;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse,
};
use serde_json::Value;
use tonic::transport::{Channel, Endpoint as Peer};

use super::config::{CheckBudget, Drain, Endpoint, Envoy, Limits, Listen};
use super::{
    Arrival, Decide, Doors, Drained, EventLoops, Gate, Part, Readiness, Ready, Shutdown, Step,
    bind, run,
};
use crate::audit::Audit;
use crate::clock::Clock;
use crate::model::{Allow, Code, HumanDuration, Outcome, Record, Request, Strip, VerifiedToken};
use crate::telemetry::Metrics;

/// Decides by what the path says.
struct Fake;

fn allow() -> Outcome {
    let reason = Code::PublicRoute.into();
    let (strip, remove, spellings) = (Strip::default(), Vec::new(), Arc::default());
    Outcome::Allow(Allow { reason, decision: None, strip, remove, spellings })
}

impl Decide for Fake {
    fn decide<'a>(&'a self, request: &'a Request, _: Arrival, record: &'a mut Record) -> Step<'a> {
        record.route = Some("r".into());
        record.token = Some(VerifiedToken::about("u-alice", None, &serde_json::json!({})));
        let text = String::from_utf8_lossy(&request.target);
        let (path, wait) = text.split_once('?').unwrap_or((&text, "0"));
        let wait = Duration::from_millis(wait.parse().unwrap_or(0));
        match path {
            "/panic" => panic!("planted"),
            "/panic-later" => Step::Pending(Box::pin(async {
                tokio::task::yield_now().await;
                panic!("planted later")
            })),
            "/thread" => Step::Pending(Box::pin(async move {
                tokio::task::yield_now().await;
                record.resource = std::thread::current().name().map(Into::into);
                allow()
            })),
            "/slow" => Step::Pending(Box::pin(async move {
                record.resource = Some("learned".into());
                tokio::time::sleep(wait).await;
                allow()
            })),
            _ => Step::Ready(allow()),
        }
    }
}

struct Here;

impl Readiness for Here {
    fn parts(&self) -> Vec<Part> {
        let part = |name: &str, required, ready| Part {
            name: name.into(),
            required,
            ready,
            state: "as told".to_owned(),
        };
        vec![part("policies", true, true), part("issuer:other", false, false)]
    }
}

/// Keeps what audit writes.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a test may set.
struct Setup {
    limits: Limits,
    budget: CheckBudget,
    drain: Drain,
    envoy: Envoy,
    sockets: Vec<String>,
    /// Threads that serve connections; without any, the test's own does.
    threads: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            budget: CheckBudget { budget: HumanDuration::secs(5), ..CheckBudget::default() },
            drain: Drain { grace: HumanDuration::millis(1500), ..Drain::default() },
            envoy: Envoy::default(),
            sockets: Vec::new(),
            threads: 2,
        }
    }
}

/// A running server.
struct Server {
    check: Vec<Endpoint>,
    admin: Endpoint,
    metrics: Arc<Metrics>,
    audit: Audit,
    kept: Kept,
    shutdown: Shutdown,
    ended: tokio::task::JoinHandle<Drained>,
}

impl Server {
    fn start(setup: Setup) -> Self {
        let kept = Kept::default();
        let server = Self::start_with(setup, Box::new(kept.clone()));
        Self { kept, ..server }
    }

    fn start_with(setup: Setup, sink: Box<dyn Write + Send>) -> Self {
        let mut check = vec!["127.0.0.1:0".to_owned()];
        check.extend(setup.sockets);
        let listen = serde_json::json!({ "check": check, "admin": ["127.0.0.1:0"] });
        let bounds = bind(&serde_json::from_value::<Listen>(listen).unwrap()).unwrap();
        let check = bounds.check.iter().map(|bound| bound.endpoint.clone()).collect();
        let admin = bounds.admin[0].endpoint.clone();
        let metrics = Arc::new(Metrics::new());
        let audit = Audit::to_stream(sink, 8192, metrics.clone()).unwrap();
        let gate = Arc::new(Gate::new(
            Arc::new(Fake),
            Clock::system(),
            metrics.clone(),
            audit.clone(),
            &setup.limits,
            &setup.budget,
            [],
        ));
        let doors = Doors {
            bounds,
            loops: EventLoops::start(setup.threads, 1 << 20, || {}).unwrap(),
            gate,
            asks: None,
            operate: None,
            limits: setup.limits,
            drain: setup.drain,
            envoy: setup.envoy,
            ready: Arc::new(Ready::new(Arc::new(Here))),
            metrics: metrics.clone(),
            audit: audit.clone(),
            traces: None,
        };
        let shutdown = Shutdown::manual();
        let ended = tokio::spawn(run(doors, shutdown.clone()));
        let kept = Kept::default();
        Self { check, admin, metrics, audit, kept, shutdown, ended }
    }

    fn address(&self) -> String {
        self.check[0].to_string()
    }

    async fn channel(&self) -> Channel {
        let peer = Peer::try_from(format!("http://{}", self.address())).unwrap();
        peer.connect().await.unwrap()
    }

    async fn client(&self) -> AuthorizationClient<Channel> {
        AuthorizationClient::new(self.channel().await)
    }

    /// The audit events so far, after everything emitted is written.
    fn events(&self) -> Vec<Value> {
        assert!(self.audit.flush(Instant::now() + Duration::from_secs(5)));
        let text = String::from_utf8(self.kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events once there are `count`; a cancelled Check ends a moment after its caller.
    async fn events_when(&self, count: usize) -> Vec<Value> {
        for _ in 0..100 {
            let events = self.events();
            if events.len() >= count {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.events()
    }

    /// Drains and says how it ended and how long it took.
    async fn end(self) -> (Drained, Duration, Vec<Value>) {
        let start = Instant::now();
        self.shutdown.begin();
        let drained = self.ended.await.unwrap();
        let text = String::from_utf8(self.kept.0.lock().unwrap().clone()).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (drained, start.elapsed(), events)
    }
}

fn get(path: &str) -> CheckRequest {
    let http = HttpRequest {
        id: "req-1".to_owned(),
        method: "GET".to_owned(),
        path: path.to_owned(),
        host: "api.example.test".to_owned(),
        size: -1,
        ..HttpRequest::default()
    };
    of(http)
}

fn of(http: HttpRequest) -> CheckRequest {
    let request = Some(Wire { http: Some(http), time: None });
    CheckRequest { attributes: Some(AttributeContext { request, ..AttributeContext::default() }) }
}

fn code(response: &CheckResponse) -> i32 {
    response.status.as_ref().unwrap().code
}

/// Status and body's reason of a denial or an error.
fn refusal(response: &CheckResponse) -> (i32, String) {
    let inner = match response.http_response.as_ref().unwrap() {
        HttpResponse::DeniedResponse(inner) | HttpResponse::ErrorResponse(inner) => inner,
        HttpResponse::OkResponse(_) => panic!("an allow"),
    };
    let DeniedHttpResponse { status, body, .. } = inner;
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (status.as_ref().unwrap().code, body["reason"].as_str().unwrap_or_default().to_owned())
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("serve-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
