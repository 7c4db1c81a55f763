//! Reload: the real binary behind a real Envoy, its files changed under it.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{Answer, Ask, Process, Setup, Token, World};
use crate::kit::token::Signer;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
/// Asked with a token; the policy sets a header of what it is and whom it saw.
const ROUTE: &str = "routes:
- name: rev
  match: { path: /rev, methods: [GET] }
  access: optional
  policy: rev
  resource: rev
  action: read
";

fn policy(version: &str) -> String {
    format!(
        "package rev\n\ndecision := {{\"allow\": true, \"reason\": \"rev_{version}\", \
         \"headers\": {{\"x-rev\": concat(\"-\", [\"{version}\", input.user.id])}}}}\n"
    )
}

fn mapping(name: &str) -> String {
    format!("package rev\n\nuser := {{\"id\": \"{name}\"}}\n")
}

/// The quickstart with a policy of the test's own, in a folder as Kubernetes mounts it.
fn setup(interval: &str) -> Setup {
    let setup = Setup::quickstart()
        .portcullis("routes:\n", &format!("reload: {{ interval: {interval} }}\n{ROUTE}"))
        .portcullis("paths: [../../policies/cwms]", "paths: [../../policies/cwms, FOLDER/p]")
        .portcullis(
            "  entry_points:\n",
            "  entry_points:\n  - { name: rev, rule: data.rev.decision }\n",
        )
        .portcullis("mapping: data.cwms.profile.user", "mapping: data.rev.user")
        .portcullis("managed: [x-cwms-auth-context]", "managed: [x-cwms-auth-context, x-rev]");
    setup.file("p/rev.rego", &policy("one")).file("p/map.rego", &mapping("ann"))
}

/// Writes beside and renames into place, as a careful editor does.
fn put(world: &World, name: &str, text: &str) {
    let (new, path) = (world.folder().join("new"), world.folder().join(name));
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

fn config(world: &World, from: &str, to: &str) {
    let text = fs::read_to_string(world.folder().join("portcullis.yaml")).unwrap();
    assert!(text.contains(from), "{from} not in {text}");
    put(world, "portcullis.yaml", &text.replace(from, to));
}

fn until(world: &World, what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        let log = || world.portcullis.as_ref().map(Process::output).unwrap_or_default();
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn reloads(world: &World, outcome: &str) -> f64 {
    let label = format!("outcome=\"{outcome}\"");
    world.metric("portcullis_config_reloads_total", &[&label])
}

fn ask(world: &World, token: &str) -> Answer {
    world.ask(Ask::get("/rev").bearer(token))
}

fn seen(world: &World, token: &str) -> Vec<String> {
    let answer = ask(world, token);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.seen("x-rev")
}

fn verbose(world: &World) -> String {
    Ask::get("/ready?verbose").send(world.ports.admin).text()
}

#[test]
fn c03_the_same_request_before_and_after_a_reload_has_each_its_own_answer() {
    let world = setup("100ms").start();
    let token = Token::of("dam.operator").sign();
    for _ in 0..3 {
        assert_eq!(seen(&world, &token), ["one-ann"]);
    }
    let revision = |world: &World| {
        let text = world.metrics();
        let line = text.lines().find(|l| l.starts_with("portcullis_policy_revision_info"));
        line.unwrap_or_default().to_owned()
    };
    let before = revision(&world);
    put(&world, "p/rev.rego", &policy("two"));
    until(&world, "a new policy", || reloads(&world, "ok") >= 1.0);
    assert_eq!(seen(&world, &token), ["two-ann"], "the decision of old policies");
    assert_ne!(revision(&world), before);
    let labels = ["reason=\"rev_two\"", "route=\"rev\""];
    until(&world, "a new reason's label", || {
        world.metric("portcullis_checks_total", &labels) >= 1.0
    });

    put(&world, "p/map.rego", &mapping("bob"));
    until(&world, "a new mapping", || reloads(&world, "ok") >= 2.0);
    assert_eq!(seen(&world, &token), ["two-bob"], "the user context of an old mapping");
    assert_eq!(world.backend.user_calls(), 1, "the user's profile outlives a reload");
    let tokens = ["cache=\"token\"", "result=\"miss\""];
    let missed = world.metric("portcullis_cache_requests_total", &tokens);

    config(&world, "managed: [x-cwms-auth-context, x-rev]", "managed: [x-cwms-auth-context]");
    until(&world, "other managed headers", || reloads(&world, "ok") >= 3.0);
    let answer = ask(&world, &token);
    assert_eq!(answer.reason(), "header_not_declared", "finished by old rules: {answer:?}");
    let now = world.metric("portcullis_cache_requests_total", &tokens);
    assert!((now - missed).abs() < 0.5, "the verified token outlives a reload: {missed} {now}");

    config(&world, "audiences: [water-data]", "audiences: [another]");
    until(&world, "another audience", || reloads(&world, "ok") >= 4.0);
    assert_eq!(ask(&world, &token).reason(), "token_audience", "verified by old rules");
}

#[test]
fn inv8_a_bad_reload_changes_nothing_and_says_why() {
    let mut world = setup("100ms").start();
    let token = Token::of("dam.operator").sign();
    assert_eq!(seen(&world, &token), ["one-ann"]);
    let at = world.metric("portcullis_config_last_reload_success_timestamp_seconds", &[]);
    assert!(at > 1_700_000_000.0, "{at}");
    put(&world, "p/rev.rego", "package rev\n\ndecision := {\n");
    until(&world, "the fault is met", || reloads(&world, "failed") >= 1.0);
    assert_eq!(seen(&world, &token), ["one-ann"]);
    let told = verbose(&world);
    assert!(told.contains("failed") && told.contains("rev.rego"), "{told}");
    // Good policies beside a bad route: nothing of it is taken.
    put(&world, "p/rev.rego", &policy("two"));
    until(&world, "the good one", || reloads(&world, "ok") >= 1.0);
    assert!(!verbose(&world).contains("failed"), "{}", verbose(&world));
    config(&world, "match: { path: /rev,", "match: { path: rev,");
    put(&world, "p/rev.rego", &policy("three"));
    until(&world, "the route's fault", || verbose(&world).contains("failed"));
    assert_eq!(seen(&world, &token), ["two-ann"]);
    assert!(Ask::get("/ready").send(world.ports.admin).status == 200);
    let log = world.portcullis.as_ref().unwrap().output();
    assert!(log.contains("the last good configuration stays"), "{log}");
    assert!(log.contains("portcullis.yaml:"), "the place of the fault: {log}");
    config(&world, "match: { path: rev,", "match: { path: /rev,");
    until(&world, "mended", || seen(&world, &token) == ["three-ann"]);
    world.end_portcullis();
}

#[test]
fn s9_1_reloads_in_traffic_fail_no_request() {
    let world = Arc::new(setup("100ms").start());
    let token = Token::of("dam.operator").sign();
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let traffic = |target: &'static str| {
        let (stop, asked, token) = (Arc::clone(&stop), Arc::clone(&asked), token.clone());
        let port = world.ports.envoy;
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let answer = Ask::get(target).bearer(&token).send(port);
                assert_eq!(answer.status, 200, "{answer:?}");
                asked.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let threads = ["/rev", "/rev", "/cwms-data/offices"].map(traffic);
    for round in 0..4_u32 {
        let before = asked.load(Ordering::SeqCst);
        put(&world, "p/rev.rego", &policy(&format!("r{round}")));
        until(&world, "a reload", || reloads(&world, "ok") >= f64::from(round + 1));
        let wanted = [format!("r{round}-ann")];
        assert_eq!(seen(&world, &token), wanted);
        until(&world, "traffic", || asked.load(Ordering::SeqCst) > before + 5);
    }
    stop.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.counted("error"), 0);
}

#[test]
fn a_kubernetes_swap_of_links_is_one_reload() {
    let setup = setup("100ms").portcullis("FOLDER/p]", "FOLDER/k]");
    let setup =
        setup.file("k/..1/rev.rego", &policy("one")).file("k/..1/map.rego", &mapping("ann"));
    let setup =
        setup.file("k/..2/rev.rego", &policy("two")).file("k/..2/map.rego", &mapping("bob"));
    // Until the links are there the files stand in their place.
    let setup = setup.file("k/rev.rego", &policy("zero")).file("k/map.rego", &mapping("nul"));
    let world = setup.start();
    let k = world.folder().join("k");
    symlink("..1", k.join("..data")).unwrap();
    for name in ["rev.rego", "map.rego"] {
        symlink(format!("..data/{name}"), k.join("..link")).unwrap();
        fs::rename(k.join("..link"), k.join(name)).unwrap();
    }
    let token = Token::of("dam.operator").sign();
    until(&world, "the links", || seen(&world, &token) == ["one-ann"]);
    let before = reloads(&world, "ok");
    symlink("..2", k.join("..tmp")).unwrap();
    fs::rename(k.join("..tmp"), k.join("..data")).unwrap();
    until(&world, "the swap", || reloads(&world, "ok") > before);
    assert_eq!(seen(&world, &token), ["two-bob"]);
}

#[test]
fn a_key_that_left_the_file_verifies_nothing_any_more() {
    let world = setup("100ms").start();
    let (rsa, ec) = (Token::of("dam.operator"), Token::of("dam.operator").signer(Signer::Ec));
    let (rsa, ec) = (rsa.sign(), ec.sign());
    assert_eq!((ask(&world, &rsa).status, ask(&world, &ec).status), (200, 200));
    let text = fs::read_to_string(world.folder().join("jwks.json")).unwrap();
    let mut keys: serde_json::Value = serde_json::from_str(&text).unwrap();
    keys["keys"].as_array_mut().unwrap().retain(|key| key["kty"] == "EC");
    put(&world, "jwks.json", &keys.to_string());
    until(&world, "the key is gone", || reloads(&world, "ok") >= 1.0);
    assert_eq!(ask(&world, &rsa).status, 401);
    assert_eq!(ask(&world, &ec).status, 200);
    assert!((world.metric("portcullis_issuer_keys", &[]) - 1.0).abs() < 0.1);
    put(&world, "jwks.json", &text);
    until(&world, "the key is back", || reloads(&world, "ok") >= 2.0);
    assert_eq!(ask(&world, &rsa).status, 200);
}

#[test]
fn sighup_reloads_where_nothing_is_watched_and_names_what_cannot_change() {
    let mut world = setup("0s").start();
    let token = Token::of("dam.operator").sign();
    assert_eq!(seen(&world, &token), ["one-ann"]);
    put(&world, "p/rev.rego", &policy("two"));
    config(
        &world,
        "check: { budget: 9s, reserve: 10ms }",
        "check: { budget: 8s, reserve: 10ms }
runtime: { threads: 3 }
limits: { max_in_flight: 77 }",
    );
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(seen(&world, &token), ["one-ann"], "nobody asked for a reload");
    world.portcullis.as_ref().unwrap().signal("HUP");
    until(&world, "the reload", || seen(&world, &token) == ["two-ann"]);
    let log = || world.portcullis.as_ref().unwrap().output();
    until(&world, "the warning", || log().contains("process starts again"));
    for name in ["check.budget", "runtime.threads", "limits.max_in_flight"] {
        assert!(log().contains(name), "{name} not in {}", log());
    }
    assert!(!log().contains("check.reserve"), "{}", log());
    assert!(verbose(&world).contains("configuration"), "{}", verbose(&world));
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    world.end_portcullis();
}
