//! OPA killed, paused and restarted; policies replaced under it; who may ask it.

use std::time::{Duration, Instant};

use portcullis::clock::Expiry;
use portcullis::model::{CacheState, Code};
use portcullis::policy::Question;
use serde_json::json;

use super::{Bench, POLICY, bundle, start, url, write};
use crate::harness::{Folder, Opa, Process, port};

fn unavailable(bench: &Bench, case: &str) {
    let began = Instant::now();
    let refusal = bench.ask(case).unwrap_err();
    assert_eq!(refusal.code, Code::PolicyUnavailable, "{refusal:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Asks until it is decided, without a restart of anything of ours.
fn recovers(bench: &Bench, case: &str) {
    let began = Instant::now();
    while bench.ask(case).is_err() {
        assert!(began.elapsed() < Duration::from_secs(8), "it does not recover");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn s8_1_killed_and_started_again() {
    let folder = bundle(POLICY, "one");
    let mut opa = start(&folder, port());
    let bench = Bench::opa(&url(&opa), &json!({}));
    bench.ask("yes").unwrap();
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(5));
    unavailable(&bench, "never");
    unavailable(&bench, "no");
    assert_eq!(bench.ask("yes").unwrap().1, CacheState::Hit, "what is kept serves on");
    let _opa = start(&folder, opa.port);
    recovers(&bench, "never");
    assert!(!bench.ask("no").unwrap().0.allow, "no failure was kept");
}

#[test]
fn s8_1_paused_is_a_failure_within_the_time_out() {
    let folder = bundle(POLICY, "one");
    let opa = start(&folder, port());
    let bench = Bench::opa(&url(&opa), &json!({"timeout": "1500ms"}));
    bench.ask("never").unwrap();
    opa.process.signal("STOP");
    unavailable(&bench, "never");
    opa.process.signal("CONT");
    recovers(&bench, "never");
}

#[test]
fn s8_1_stale_is_bounded_and_marked() {
    let folder = bundle(POLICY, "one");
    let mut opa = start(&folder, port());
    let settings = json!({"pure": true, "on_failure": "stale", "stale_for": "10m"});
    let bench = Bench::opa(&url(&opa), &settings);
    for case in ["pure", "yes", "never"] {
        bench.ask(case).unwrap();
    }
    let cap = Expiry::after(&bench.now(), Duration::from_secs(400));
    let capped = |question| Question { cap: Some(cap), ..question };
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(5));
    assert_eq!(bench.ask("pure").unwrap().1, CacheState::Hit);
    bench.clock.advance(Duration::from_secs(301));
    let (decision, state) = bench.ask("pure").unwrap();
    assert_eq!((decision.allow, state), (true, CacheState::Stale));
    let (_, state) = bench.put(capped(bench.question("pure"))).unwrap();
    assert_eq!(state, CacheState::Stale);
    // A decision's own `ttl` is its end, whoever fails.
    unavailable(&bench, "yes");
    unavailable(&bench, "never");
    let uncached = Question { uncached: true, ..bench.question("pure") };
    assert_eq!(bench.put(uncached).unwrap_err().code, Code::PolicyUnavailable);
    bench.clock.advance(Duration::from_secs(100));
    let ended = bench.put(capped(bench.question("pure"))).unwrap_err();
    assert_eq!(ended.code, Code::PolicyUnavailable, "the token has ended");
    bench.clock.advance(Duration::from_secs(500));
    unavailable(&bench, "pure");
    let _opa = start(&folder, opa.port);
    recovers(&bench, "pure");
    assert_eq!(bench.ask("pure").unwrap().1, CacheState::Hit, "fresh and kept again");
}

#[test]
fn s6_7_policies_that_were_replaced_are_noticed() {
    let folder = bundle(POLICY, "one");
    let mut opa = start(&folder, port());
    let bench = Bench::opa(&url(&opa), &json!({}));
    assert!(bench.ask("yes").unwrap().0.allow);
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(5));
    let other = POLICY.replace("\"yes\": {\"allow\": true", "\"yes\": {\"allow\": false");
    assert_ne!(other, POLICY);
    write(&folder, &other, "two");
    let _opa = start(&folder, opa.port);
    assert_eq!(bench.ask("yes").unwrap().1, CacheState::Hit, "not noticed before `clock_ttl`");
    let began = Instant::now();
    loop {
        bench.clock.advance(Duration::from_millis(1100));
        let (decision, _) = bench.ask("yes").unwrap();
        if !decision.allow {
            assert!(decision.revision.ends_with("=two"), "{}", decision.revision);
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "the old decision serves on");
        assert!(bench.now().unix_secs() < 1_700_000_050, "it ended by its own `ttl`");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_unix_socket_and_a_bearer() {
    const AUTHZ: &str = "package system.authz\n\ndefault allow := false\n
allow if input.identity == \"sesame\"\n\nallow if input.path == [\"health\"]\n";
    let folder = bundle(POLICY, "one");
    let (socket, authz) = (folder.path().join("s"), folder.write("authz.rego", AUTHZ));
    let mut command = Opa::command(&format!("unix://{}", socket.display()));
    command.args(["--authentication=token", "--authorization=basic"]);
    command.args([&authz, &folder.path().join("bundle/p.rego")]);
    let mut process = Process::start("opa", folder.path(), &mut command);
    process.wait_for(|| socket.exists());
    let url = format!("unix:{}", socket.display());
    let bench = Bench::opa(&url, &json!({"token": "sesame"}));
    recovers(&bench, "yes");
    assert!(bench.ask("yes").unwrap().0.allow);
    unavailable(&Bench::opa(&url, &json!({"token": "wrong"})), "yes");
    unavailable(&Bench::opa(&url, &json!({})), "yes");
    let nowhere = Folder::new();
    unavailable(&Bench::opa(&format!("unix:{}/s", nowhere.path().display()), &json!({})), "yes");
}

#[test]
fn answers_beyond_the_limit_are_failures() {
    let folder = bundle(POLICY, "one");
    let opa = start(&folder, port());
    unavailable(&Bench::opa(&url(&opa), &json!({"max_response": "50B"})), "yes");
}

/// A server with a certificate for `localhost` that asks its callers for one of the same issuer.
fn server_with_tls(folder: &Folder) -> (Process, u16) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    for name in ["localhost", "caller"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        folder.write(&format!("{name}.pem"), &params.signed_by(&key, &issuer).unwrap().pem());
        folder.write(&format!("{name}.key"), &key.serialize_pem());
    }
    folder.write("ca.pem", &issuer.pem());
    let (port, file) = (port(), |name: &str| folder.path().join(name).display().to_string());
    let mut command = Opa::command(&format!("localhost:{port}"));
    command.arg("--authentication=tls").arg(folder.path().join("bundle/p.rego"));
    command.args(["--tls-cert-file", &file("localhost.pem")]);
    command.args(["--tls-private-key-file", &file("localhost.key")]);
    command.args(["--tls-ca-cert-file", &file("ca.pem")]);
    let mut process = Process::start("opa", folder.path(), &mut command);
    process.wait_for(|| std::net::TcpStream::connect(("localhost", port)).is_ok());
    (process, port)
}

#[test]
fn a_client_certificate_is_shown_and_the_servers_is_verified() {
    let folder = bundle(POLICY, "one");
    let (_opa, port) = server_with_tls(&folder);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let url = format!("https://localhost:{port}");
    let certificate =
        json!({"certificate_file": file("caller.pem"), "key_file": file("caller.key")});
    let trusted = json!({"ca_file": file("ca.pem"), "client_certificate": certificate});
    let bench = Bench::opa(&url, &trusted);
    recovers(&bench, "yes");
    assert!(bench.ask("yes").unwrap().0.allow);
    unavailable(&Bench::opa(&url, &json!({"ca_file": file("ca.pem")})), "yes");
    unavailable(&Bench::opa(&url, &json!({"client_certificate": certificate})), "yes");
}
