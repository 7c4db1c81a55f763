//! The service with Redis and an issuer that is asked for its keys.

use std::fs;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use super::super::bounded::flood;
use super::super::exposed::Seen;
use super::issuer::Issuer;
use super::watched::Watched;
use super::{OWN, POLICY, calls};
use crate::harness::redis::Server;
use crate::harness::{Ask, Folder, Setup, Token, grpc, records, tokens};

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
    let stale = "timeout: 1s\n    max_in_flight: 1\n    max_waiting: 1\n    on_failure: stale\n    \
                 stale_for: 10m\n";
    Setup::quickstart()
        .envoy("timeout: 0.5s", "timeout: 10s")
        .portcullis("budget: 400ms", "budget: 5s")
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

pub(super) fn service() -> Seen {
    let mut redis = Server::start(&[]);
    let folder = Folder::new();
    tokens::write_keys(folder.path());
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
    let key = || records(&redis).into_iter().next();
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
    let open = Mutex::new(Vec::new());
    it.until(
        &["portcullis_accept_errors_total", "portcullis_connections", "process_open_fds"],
        |_| {
            // Open while they are looked at.
            let new = (0..24).map(|_| TcpStream::connect(("127.0.0.1", port))).collect();
            *open.lock().unwrap() = new;
        },
    );
    drop(open);
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
    ];
    it.until(&taken, |_| {});
}

fn audit_lost(it: &mut Watched) {
    let port = it.world.ports.check;
    it.until(&["portcullis_audit_events_dropped_total"], |_| {
        flood(port, 64, (0..512).map(|_| grpc::get("/elsewhere", &[])));
    });
    let folder = it.world.folder().join("audit");
    fs::rename(&folder, it.world.folder().join("moved")).unwrap();
    fs::write(&folder, "no folder").unwrap();
    it.until(&["portcullis_audit_events_failed_total"], |it| _ = it.ask("/elsewhere", ""));
}
