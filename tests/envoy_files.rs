//! The files in `envoy/`: each is valid, starts, fails closed and drops what is not a client's.

use std::process::Command;

use crate::harness::certs::Authority;
use crate::harness::{Ask, Folder, Setup, World, envoy, root};

/// Every file of the folder and a target that it forwards.
const FILES: [(&str, &str); 5] = [
    ("envoy/mtls.yaml", "/cwms-data/offices"),
    ("envoy/quickstart.yaml", "/cwms-data/offices"),
    ("envoy/sidecar.yaml", "/cwms-data/offices"),
    ("envoy/tracing.yaml", "/cwms-data/offices"),
    ("envoy/water-data.yaml", "/cwms-data/offices"),
];

/// A spelling of the managed header, and whether Envoy takes the request at all.
fn spellings() -> Vec<(String, bool)> {
    let mut all = Vec::new();
    for separators in ["---", "___", "-__", "_-_", "__-", "--_", "-_-", "_--", "...", ".-."] {
        let mut words = ["cwms", "auth", "context"].iter();
        let name = separators.chars().fold("x".to_owned(), |name, separator| {
            name + &separator.to_string() + words.next().unwrap()
        });
        let taken = !name.contains('_');
        all.push((name.to_ascii_uppercase(), taken));
        all.push((name, taken));
    }
    all
}

#[test]
fn the_list_of_files_is_whole() {
    let folder = std::fs::read_dir(root().join("envoy")).unwrap();
    let mut found: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        .map(|path| path.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    found.sort();
    assert_eq!(found, FILES.map(|(file, _)| file));
}

#[test]
fn every_file_is_valid_as_it_is() {
    let folder = Folder::new();
    Authority::new().write(folder.path());
    let tls = folder.path().display().to_string();
    for file in FILES.map(|(file, _)| file).iter().chain(&["tests/data/envoy-bare.yaml"]) {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let copy = folder.write("envoy.yaml", &text.replace("/etc/envoy/tls", &tls));
        let mut command = Command::new(envoy());
        command.args(["--mode", "validate", "-c"]).arg(copy);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(!said.contains("deprecated"), "{file}: {said}");
    }
}

#[test]
fn a_file_that_is_not_valid_is_noticed() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(root().join(FILES[0].0)).unwrap();
    let file = folder.write("bad.yaml", &text.replace("pack_as_bytes", "pack_as_byte"));
    let mut command = Command::new(envoy());
    command.args(["--mode", "validate", "-c"]).arg(file);
    assert!(!command.output().unwrap().status.success());
}

#[test]
fn s8_2_without_portcullis_every_file_answers_503_and_forwards_nothing() {
    for (file, target) in FILES {
        let world = Setup::of(file).without_portcullis().start();
        let answer = world.ask(Ask::get(target));
        assert_eq!(answer.status, 503, "{file}: {answer:?}");
        assert_eq!(world.backend.requests(), 0, "{file}");
        assert_eq!(world.counts(), [0, 0, 1], "{file}");
    }
}

#[test]
fn s7_3_every_file_drops_managed_headers_where_the_filter_is_disabled() {
    for (file, target) in FILES {
        let world = disabled(Setup::of(file)).start();
        nothing_leaks(&world, file, target);
        assert_eq!(world.counts(), [0, 0, 0], "the filter was to be disabled");
    }
}

#[test]
fn s7_3_every_file_drops_managed_headers_where_a_failure_lets_requests_through() {
    for (file, target) in FILES {
        let setup = Setup::of(file).without_portcullis();
        let world = setup.envoy("failure_mode_allow: false", "failure_mode_allow: true").start();
        nothing_leaks(&world, file, target);
        assert!(world.counted("failure_mode_allowed") > 0, "{file}");
    }
}

fn nothing_leaks(world: &World, file: &str, target: &str) {
    for (name, taken) in spellings() {
        let answer = world.ask(Ask::get(target).header(&name, "mine").header("x-else", "kept"));
        if !taken {
            assert_eq!(answer.status, 400, "{file}: {name}: {answer:?}");
            continue;
        }
        assert_eq!(answer.status, 200, "{file}: {name}: {answer:?}");
        assert_eq!(answer.seen("x-cwms-auth-context"), [""; 0], "{file}: {name}");
        assert_eq!(answer.seen("x-else"), ["kept"], "{file}: {name}");
    }
}

#[test]
fn s10_3_the_backend_sees_a_spoofed_header_where_nothing_drops_it() {
    let world = disabled(Setup::bare()).start();
    for (name, _) in spellings() {
        let answer = world.ask(Ask::get("/cwms-data/offices").header(&name, "mine"));
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        assert_eq!(answer.seen("x-cwms-auth-context"), ["mine"], "{name}");
    }
}

/// With the authorization filter off, as a route or a runtime switch could have it.
fn disabled(setup: Setup) -> Setup {
    let on = "transport_api_version: V3\n";
    let off = "transport_api_version: V3\n              filter_enabled: { default_value: { numerator: 0 } }\n";
    setup.without_portcullis().envoy(on, off)
}
