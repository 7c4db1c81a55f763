//! The real configuration, as far as it is the loader's.

use std::path::Path;

use super::sample::Folder;
use crate::config::{Environment, Loaded, Report, load_with};

fn load(name: &str, text: &str) -> Result<Loaded, Report> {
    let folder = Folder::new(&format!("whole-{name}"));
    load_with(&folder.write("portcullis.yaml", text), &Environment::default(), |_, _| Vec::new())
}

#[test]
fn the_minimal_configuration_is_sound_and_short() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/config/minimal.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() < 20);
    assert!(text.starts_with("# yaml-language-server: $schema="));
    let loaded = load_with(&file, &Environment::default(), |_, _| Vec::new()).unwrap();
    assert_eq!(loaded.config.routes.len(), 2);
    assert_eq!(loaded.base(), file.parent().unwrap());
    assert_eq!(loaded.notes().faults(), []);
}

#[test]
fn a05_debug_shows_no_secret() {
    let text = "routes: [{name: a, match: {path: /a}, access: public}]\n\
                audit: {subject_key: 0123456789abcdef0123456789abcdef}\n";
    let loaded = load("debug", text).unwrap();
    let shown = format!("{loaded:?} {:#?}", loaded.config);
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
    assert!(shown.contains("[secret]"), "{shown}");
}

#[test]
fn a_fault_in_one_section_hides_none_in_another() {
    let text = "routes:\n  - {name: a, match: {path: /a}, access: publik}\n\
                listen: {check: [0.0.0.0:9191]}\nruntime: {threads: 0}\ndrain: {grace: 5}\n";
    let report = load("sections", text).unwrap_err();
    let keys: Vec<&str> = report.faults().iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(keys, ["/routes/0/access", "/listen/check/0", "/runtime/threads", "/drain/grace"]);
}

#[test]
fn problems_found_later_get_their_places() {
    let loaded = load("later", "routes:\n  - name: a\n    access: public\n    match: {path: /a}\n");
    let loaded = loaded.unwrap();
    let problem = crate::model::Problem::new("/routes/0/match/path", "clashes", "move it");
    let report = loaded.report([problem]).to_string();
    assert!(report.ends_with(":4:19: routes[0].match.path: clashes — move it"), "{report}");
    let absent = crate::model::Problem::new("/routes/0/policy", "is missing", "");
    let report = loaded.report([absent]).to_string();
    assert!(report.ends_with(":2:5: routes[0].policy: is missing"), "{report}");
}

#[test]
fn what_is_odd_is_noted() {
    let text = "routes: [{name: a, match: {path: /a}, access: public}]\n\
                policy: {paths: [p], entry_points: [{name: idle, rule: data.a.b}]}\n";
    let notes = load("notes", text).unwrap().notes().to_string();
    assert!(
        notes.contains("entry_points[0].name: no route asks the entry point `idle`"),
        "{notes}"
    );
}

#[test]
fn what_needs_more_than_the_file_is_said_with_the_rest() {
    let folder = Folder::new("whole-probe");
    let text = "policy: {paths: [p], entry_points: [{name: a, rule: data.a.b}]}\nroutes: [{name: a, match: {path: /a}, access: publik}]\n";
    let file = folder.write("portcullis.yaml", text);
    let probe = |parts: &crate::config::Parts, base: &Path| {
        assert_eq!(base, folder.path());
        assert!(parts.routes.is_none(), "a section with faults is not to be built");
        let policy = parts.policy.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(policy.paths.len(), 1);
        vec![crate::model::Problem::new("/policy/paths/0", "does not compile", "mend it")]
    };
    let report = load_with(&file, &Environment::default(), probe).unwrap_err();
    let keys: Vec<&str> = report.faults().iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(keys, ["/policy/paths/0", "/routes/0/access"]);
}

#[test]
fn what_the_sections_refuse_is_refused() {
    let text = "
issuers:
  - {name: a, issuer: https://a.example.test, audiences: [api], keys: {discovery: true}}
  - {name: a, issuer: https://b.example.test, audiences: [api], keys: {discovery: true}}
routes:
  - {name: all, match: {path: '/{**rest}'}, access: authenticated}
  - {name: never, match: {path: /a}, access: authenticated}
";
    let report = load("rooms", text).unwrap_err();
    let keys: Vec<&str> = report.faults().iter().map(|fault| fault.pointer.as_str()).collect();
    assert!(keys.contains(&"/issuers/1/name"), "{report}");
    assert!(keys.iter().any(|key| key.starts_with("/routes/1")), "{report}");
}

fn traced(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Report> {
    let folder = Folder::new(&format!("traced-{}-{}", text.len(), variables.len()));
    let pairs = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let environment: Environment = pairs.collect();
    let file = folder.write("portcullis.yaml", format!("routes: []\n{text}"));
    load_with(&file, &environment, |_, _| Vec::new())
}

#[test]
fn standard_variables_set_the_section_tracing_and_ours_go_before() {
    let file = "tracing: { ratio: 0.5, service_name: mine, batch: 7 }\n";
    let all = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/base/"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20marker,x-a=1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_SERVICE_NAME", "theirs"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a%20b,service.name=no"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_PROPAGATORS", "tracecontext,baggage,b3multi,b3"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4096"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("PORTCULLIS__TRACING__RATIO", "0.01"),
    ];
    let loaded = traced(file, &all).unwrap_or_else(|report| panic!("{report}"));
    let tracing = &loaded.config.tracing;
    assert_eq!(tracing.endpoint.as_deref(), Some("http://127.0.0.1:4318/base/v1/traces"));
    let said = format!("{tracing:?}");
    for part in [
        "protocol: HttpProtobuf",
        "headers: Some([secret])",
        "timeout: HumanDuration(2.5s)",
        "service_name: \"theirs\"",
        "{\"deployment.environment.name\": \"a b\"}",
        "sampler: ParentbasedTraceidratio",
        "ratio: 0.01",
        "propagation: [W3c, B3]",
        "queue: 4096, batch: 7",
        "delay: HumanDuration(100ms)",
    ] {
        assert!(said.contains(part), "{part} not in {said}");
    }
    let off = traced(file, &[all[0], ("OTEL_SDK_DISABLED", "TRUE")]).unwrap();
    assert_eq!(off.config.tracing.collector(), None);
    let empty = traced("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap();
    assert_eq!(empty.config.tracing.collector(), None);
}

#[test]
fn a_standard_variable_that_cannot_be_followed_is_named() {
    let wrong = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"), ("OTEL_TRACES_SAMPLER", "xray")];
    let said = traced("", &wrong).unwrap_err().to_string();
    assert!(wrong.iter().all(|(name, _)| said.contains(name)), "{said}");
}
