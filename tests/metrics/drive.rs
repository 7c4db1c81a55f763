//! Real binaries behind a real Envoy, driven until every metric has moved: with Redis, with TLS,
//! with an OPA server; and each of these broken.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::exposed::Seen;
use crate::harness::redis::Server;
use crate::harness::{Ask, Folder, Opa, Setup, Token, World, port};
use crate::kit::token::Signer;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const POLICY: &str = "package more\n\ndecision := {\"allow\": true, \"reason\": \"REASON\"}\n";

/// What all of them served together; made once.
pub(super) fn all() -> &'static Seen {
    static ALL: LazyLock<Seen> = LazyLock::new(|| {
        std::thread::scope(|scope| {
            let parts = [scope.spawn(service), scope.spawn(doors), scope.spawn(opa)];
            let mut all = Seen::default();
            for part in parts {
                all.join(part.join().unwrap());
            }
            all
        })
    });
    &ALL
}

/// A world that is looked at.
struct Watched {
    world: World,
    seen: Seen,
    users: AtomicU32,
}

impl Watched {
    fn new(world: World) -> Self {
        let mut watched = Self { world, seen: Seen::default(), users: AtomicU32::new(0) };
        watched.look();
        watched
    }

    fn look(&mut self) {
        self.seen.look(self.world.metrics());
    }

    /// A token of a user that nobody asked for before.
    fn stranger(&self) -> String {
        let n = self.users.fetch_add(1, Ordering::Relaxed);
        Token::of(&format!("stranger.{n}")).signer(Signer::Ec).sign()
    }

    /// Acts until each of `wanted` moved or, where it is `name{label="value"}`, is there.
    fn until(&mut self, wanted: &[&str], act: impl Fn(&Self)) {
        let start = Instant::now();
        let missing = |seen: &Seen| -> Vec<String> {
            let done = |wanted: &str| match wanted.split_once('{') {
                None => seen.moved.contains(wanted),
                Some((_, labels)) => seen.text.lines().any(|line| {
                    line.starts_with(wanted.trim_end_matches('}'))
                        && !line.contains(&format!("{labels} 0"))
                }),
            };
            wanted.iter().filter(|wanted| !done(wanted)).map(|w| (*w).to_owned()).collect()
        };
        loop {
            act(self);
            self.look();
            let missing = missing(&self.seen);
            if missing.is_empty() {
                return;
            }
            let text = &self.seen.text;
            assert!(start.elapsed() < Duration::from_mins(1), "never: {missing:?}\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, target: &str, token: &str) -> u16 {
        let ask = Ask::get(target);
        let ask = if token.is_empty() { ask } else { ask.bearer(token) };
        self.world.ask(ask).status
    }

    /// Several strangers at once.
    fn crowd(&self, size: usize) {
        std::thread::scope(|scope| {
            for _ in 0..size {
                scope.spawn(|| self.ask(OWN, &self.stranger()));
            }
        });
    }

    fn put(&self, name: &str, text: &str) {
        let (new, path) = (self.world.folder().join("new"), self.world.folder().join(name));
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn configuration(&self) -> String {
        fs::read_to_string(self.world.folder().join("portcullis.yaml")).unwrap()
    }

    fn breaks(&self, status: u16, delay: u64, cut: bool) {
        self.world.backend.user_status.store(status, Ordering::SeqCst);
        self.world.backend.user_delay.store(delay, Ordering::SeqCst);
        self.world.backend.user_cut.store(cut, Ordering::SeqCst);
    }
}

fn calls(dependency: &str, outcome: &str) -> String {
    format!(
        "portcullis_dependency_calls_total{{dependency=\"{dependency}\",outcome=\"{outcome}\"}}"
    )
}

/// An issuer's server with its key set; it ends with the process.
struct Issuer {
    port: u16,
    keys: Mutex<Value>,
    broken: AtomicBool,
}

impl Issuer {
    fn start(keys: Value) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let issuer = Arc::new(Self { port, keys: Mutex::new(keys), broken: AtomicBool::default() });
        let ours = Arc::clone(&issuer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let ours = Arc::clone(&ours);
                std::thread::spawn(move || drop(ours.answer(stream.unwrap())));
            }
        });
        issuer
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer)? > 0 {
            let broken = self.broken.load(Ordering::SeqCst);
            let (status, body) = match self.keys.lock().unwrap().to_string() {
                _ if broken => ("500 Broken", String::new()),
                keys => ("200 OK", keys),
            };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes())?;
        }
        Ok(())
    }
}

/// The quickstart with all that reloads in its folder, and little room.
fn tight(redis: u16, issuer: u16) -> Setup {
    let store = format!(
        "store:\n  redis:\n    url: redis://127.0.0.1:{redis}\n    key: {}\n\
         \naudit: {{ directory: FOLDER/audit, queue: 16 }}\nreload: {{ interval: 100ms }}\n\
         tokens: {{ cache: 8KiB }}\nlimits: {{ max_in_flight: 4, max_connections: 12 }}\n\
         \nuser_context:\n  ttl: 1s\n  refresh_ahead: 0s\n",
        "marker-".repeat(5)
    );
    let second = format!(
        "issuers:\n- name: second\n  issuer: https://second.example.test\n  audiences: [water-data]\n\
         \x20 keys: {{ jwks_uri: \"http://127.0.0.1:{issuer}/jwks\", refresh: 1s, refresh_min: 1s }}\n\
         \x20 algorithms: [RS256, ES256]\n  claims: [preferred_username]\n"
    );
    let stale = "timeout: 350ms\n    max_in_flight: 1\n    max_waiting: 1\n    on_failure: stale\n    \
                 stale_for: 10m\n";
    Setup::quickstart()
        .portcullis("issuers:\n", &second)
        .portcullis("\nuser_context:\n", &format!("\n{store}"))
        .portcullis("timeout: 350ms\n", stale)
        .portcullis("paths: [../../policies/cwms]", "paths: [../../policies/cwms, FOLDER/p]")
        .portcullis(
            "  entry_points:\n",
            "  entry_points:\n  - { name: more, rule: data.more.decision }\n",
        )
        .file("p/more.rego", &POLICY.replace("REASON", "one"))
}

fn service() -> Seen {
    let mut redis = Server::start(&[]);
    let folder = Folder::new();
    crate::harness::tokens::write_keys(folder.path());
    let keys = fs::read_to_string(folder.path().join("jwks.json")).unwrap();
    let issuer = Issuer::start(serde_json::from_str(&keys).unwrap());
    let mut it = Watched::new(tight(redis.port, issuer.port).start());
    let token = Token::of("dam.operator").sign();

    // Every outcome.
    let stage =
        |stage: &str| format!("portcullis_stage_duration_seconds_count{{stage=\"{stage}\"}}");
    it.until(
        &[
            "portcullis_checks_total{outcome=\"allow\",reason=\"dam_operator\",route=\"collection\"}",
            "portcullis_checks_total{outcome=\"deny\",reason=\"no_route\",route=\"none\"}",
            "portcullis_cache_requests_total{cache=\"context\",result=\"hit\"}",
            "portcullis_cache_requests_total{cache=\"decision\",result=\"hit\"}",
            &stage("route"), &stage("authn"), &stage("context"), &stage("policy"),
            &calls("user_api", "ok"), &calls("user_api", "refused"), &calls("redis", "ok"),
            "portcullis_check_duration_seconds", "portcullis_dependency_call_duration_seconds",
            "portcullis_cache_entries", "portcullis_cache_size_bytes",
            "portcullis_cache_evictions_total", "portcullis_audit_events_written_total",
            "portcullis_issuer_keys_fresh_until_timestamp_seconds",
            "portcullis_issuer_keys_expiry_timestamp_seconds",
            "portcullis_issuer_keys_loaded_timestamp_seconds",
            "process_cpu_seconds_total", "process_resident_memory_bytes",
        ],
        |it| {
            (0..5).for_each(|_| _ = it.ask(OWN, &token));
            it.ask("/elsewhere", "");
            it.ask(OWN, &it.stranger());
        },
    );
    failing(&mut it, &token);
    crowded(&mut it);
    keys_come_and_go(&mut it, &issuer);
    reloaded(&mut it);
    audit_lost(&mut it);

    // Redis holds what it should not, and is gone. The one key is his who alone asks.
    redis.say("FLUSHALL");
    let key = || redis.say("RANDOMKEY").lines().nth(1).map(str::to_owned);
    it.until(&["portcullis_store_values_rejected_total"], |it| {
        it.ask(OWN, &token);
        if let Some(key) = key() {
            redis.say(&format!("SET {key} null"));
        }
    });
    redis.kill();
    it.until(&[&calls("redis", "unreachable")], |it| _ = it.ask(OWN, &it.stranger()));
    it.seen
}

/// The user API refuses, is slow, breaks off.
fn failing(it: &mut Watched, token: &str) {
    it.breaks(0, 0, true);
    it.until(&["portcullis_dependency_retries_total"], |it| _ = it.ask(OWN, &it.stranger()));
    it.breaks(500, 0, false);
    it.until(
        &[
            "portcullis_checks_total{outcome=\"unavailable\",reason=\"user_api_unavailable\",route=\"collection\"}",
            "portcullis_degraded_answers_total{mark=\"stale\",part=\"context\"}",
            "portcullis_dependency_breaker_state",
            &calls("user_api", "failed"), &calls("user_api", "open"),
        ],
        |it| {
            it.ask(OWN, token);
            it.ask(OWN, &it.stranger());
        },
    );
    it.breaks(0, 3_000, false);
    it.until(&[&calls("user_api", "timeout")], |it| _ = it.ask(OWN, &it.stranger()));
}

/// More than there is room for.
fn crowded(it: &mut Watched) {
    it.breaks(0, 200, false);
    it.until(&[&calls("user_api", "shed")], |it| it.crowd(4));
    it.breaks(0, 300, false);
    it.until(&["portcullis_checks_shed_total"], |it| it.crowd(12));
    let port = it.world.ports.check;
    it.until(
        &["portcullis_accept_errors_total", "portcullis_connections", "process_open_fds"],
        |_| {
            drop((0..24).map(|_| TcpStream::connect(("127.0.0.1", port))).collect::<Vec<_>>());
        },
    );
    // Each is looked at while it waits.
    let (envoy, waiting) = (it.world.ports.envoy, Mutex::new(Vec::new()));
    it.until(&["portcullis_checks_in_flight"], |it| {
        let slow = Ask::get(OWN).bearer(&it.stranger());
        waiting.lock().unwrap().push(std::thread::spawn(move || slow.send(envoy)));
        std::thread::sleep(Duration::from_millis(30));
    });
    waiting.into_inner().unwrap().into_iter().for_each(|ask| _ = ask.join().unwrap());
    it.breaks(0, 0, false);
}

/// The second issuer's keys change, and then cannot be fetched.
fn keys_come_and_go(it: &mut Watched, issuer: &Issuer) {
    let token = Token::of("dam.operator").claim("iss", "https://second.example.test").sign();
    issuer.keys.lock().unwrap()["keys"].as_array_mut().unwrap().push(json!({"kty": "odd"}));
    it.until(&["portcullis_issuer_keys_skipped_total"], |_| {});
    issuer.keys.lock().unwrap()["keys"].as_array_mut().unwrap().truncate(1);
    it.until(&["portcullis_issuer_keys"], |_| {});
    issuer.broken.store(true, Ordering::SeqCst);
    it.until(
        &[
            "portcullis_degraded_answers_total{mark=\"stale\",part=\"token\"}",
            &calls("jwks:second", "failed"),
        ],
        |it| _ = it.ask(OWN, &token),
    );
    issuer.broken.store(false, Ordering::SeqCst);
}

fn reloaded(it: &mut Watched) {
    let good = it.configuration();
    it.put("portcullis.yaml", &format!("{good}\nnonsense: 1\n"));
    let failed = [
        "portcullis_config_reloads_total{outcome=\"failed\"}",
        "portcullis_config_last_reload_successful",
    ];
    it.until(&failed, |_| {});
    it.put("portcullis.yaml", &good.replace("refresh_ahead: 0s", "refresh_ahead: 1ms"));
    it.put("p/more.rego", &POLICY.replace("REASON", "two"));
    let taken = [
        "portcullis_config_reloads_total{outcome=\"ok\"}",
        "portcullis_config_revision_info",
        "portcullis_config_last_reload_success_timestamp_seconds",
        "portcullis_policy_revision_info",
        "portcullis_policy_loaded_timestamp_seconds",
        "process_threads",
    ];
    it.until(&taken, |_| {});
}

fn audit_lost(it: &mut Watched) {
    let port = it.world.ports.check;
    it.until(&["portcullis_audit_events_dropped_total"], |_| {
        super::bounded::flood(
            port,
            64,
            (0..512).map(|_| crate::harness::grpc::get("/elsewhere", &[])),
        );
    });
    let folder = it.world.folder().join("audit");
    fs::rename(&folder, it.world.folder().join("moved")).unwrap();
    fs::write(&folder, "no folder").unwrap();
    it.until(&["portcullis_audit_events_failed_total"], |it| _ = it.ask("/elsewhere", ""));
}

/// What only a door with TLS shows.
fn doors() -> Seen {
    let mut it = Watched::new(crate::tls::setup().start());
    let send = |it: &Watched, bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", it.world.ports.check)).unwrap();
        stream.write_all(bytes).unwrap();
        // Until it is closed; what it says before that is TLS's business.
        drop(stream.read_to_end(&mut Vec::new()));
    };
    it.until(&["portcullis_tls_refused_total{door=\"check\",why=\"handshake\"}"], |it| {
        send(it, b"GET / HTTP/1.1\r\n\r\n");
    });
    it.until(&["portcullis_tls_refused_total{door=\"check\",why=\"timeout\"}"], |it| send(it, b""));
    let pair = it.world.authority.ending("portcullis", 2090);
    it.put("tls/server.key", &pair.key);
    it.put("tls/server.crt", &pair.certificate);
    it.until(&["portcullis_certificate_expiry_timestamp_seconds"], |_| {});
    it.seen
}

/// What only a world with an OPA server shows.
fn opa() -> Seen {
    let folder = Folder::new();
    folder.write("more.rego", &POLICY.replace("REASON", "one"));
    let path = folder.path().join("more.rego");
    let mut opa = Opa::start(port(), folder.path(), &[&path]);
    let section = format!(
        "engine: opa\n  ttl: 1s\n  opa: {{ url: \"http://127.0.0.1:{}\", pure: true, on_failure: stale, \
         stale_for: 10m, timeout: 2s }}\n  paths: [",
        opa.port
    );
    let route = "routes:\n- { name: more, match: { path: /more }, access: public, policy: more, \
                 resource: more, action: read }\n";
    let more = "  entry_points:\n  - { name: more, rule: data.more.decision }\n";
    let world = Setup::quickstart()
        .portcullis("paths: [", &section)
        .portcullis("  entry_points:\n", more)
        .portcullis("routes:\n", route)
        .portcullis("budget: 400ms", "budget: 5s")
        .start();
    let mut it = Watched::new(world);
    it.until(&[&calls("opa", "ok")], |it| _ = it.ask("/more", ""));
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(15));
    let stale = "portcullis_degraded_answers_total{mark=\"stale\",part=\"decision\"}";
    it.until(&[stale, &calls("opa", "unreachable")], |it| _ = it.ask("/more", ""));
    it.seen
}
