//! Files that are large, missing, no files, or written in odd but valid YAML.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::sample::{Failure, Folder, Keys, load, load_text};

#[test]
fn every_kind_of_value_is_read() {
    let text = "
listen: {check: [a]}
timeout: 250ms
cache: 64KiB
threads: 2
routes:
  - {name: a, keys: {discovery: true}, failure: {mode: stale, stale_for: 5m}}
  - {name: b, keys: {jwks_uri: 'https://a.test/keys'}, failure: {mode: closed}}
  - {name: c, keys: {file: keys.json}}
";
    let sample = load_text("reading-good", text, &[]).unwrap();
    assert_eq!(sample.cache.unwrap().0, 64 << 10);
    let [a, b, c] = sample.routes.as_slice() else { panic!("three routes") };
    assert!(matches!(a.keys, Some(Keys::Discovery(true))));
    assert!(
        matches!(a.failure, Some(Failure::Stale { stale_for }) if stale_for.0.as_secs() == 300)
    );
    assert!(matches!(&b.keys, Some(Keys::JwksUri(uri)) if uri == "https://a.test/keys"));
    assert!(matches!(b.failure, Some(Failure::Closed)));
    assert!(matches!(&c.keys, Some(Keys::File(path)) if path.ends_with("keys.json")));
}

#[test]
fn a_missing_file_and_a_folder_are_said_by_name() {
    let folder = Folder::new("reading-missing");
    let said = load(&folder.path().join("none.yaml"), &[]).unwrap_err().to_string();
    assert!(said.contains("/none.yaml: the configuration file cannot be read: No such file"));
    assert!(said.ends_with("name a readable file with --config"), "{said}");
    let said = load(folder.path(), &[]).unwrap_err().to_string();
    assert!(said.ends_with(": this is a directory — name a file in it with --config"), "{said}");
}

#[test]
fn a_megabyte_is_read_and_every_fault_in_it_found() {
    let mut text = "listen: {check: [a]}\nroutes:\n".to_owned();
    let mut routes = 0;
    while text.len() < 1 << 20 {
        writeln!(text, "  - {{name: route-{routes}, access: public, headers: {{x-kind: a}}}}")
            .unwrap();
        routes += 1;
    }
    let started = Instant::now();
    assert_eq!(load_text("reading-mega", &text, &[]).unwrap().routes.len(), routes);
    let broken = text.replace("access: public", "access: publik");
    assert_eq!(load_text("reading-mega", broken, &[]).unwrap_err().len(), routes);
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
}

#[test]
fn too_large_a_file_is_refused_unread() {
    let text = format!("version: {}\n", "x".repeat(4 << 20));
    let said = load_text("reading-large", text, &[]).unwrap_err();
    assert_eq!(said, ["portcullis.yaml: the file is larger than 4 MiB — make it smaller"]);
}

#[test]
fn no_and_its_kin_are_text() {
    let text = "listen: {check: [no, on, y, 1_000, 12:30]}\nversion: off\n";
    let sample = load_text("reading-norway", text, &[]).unwrap();
    assert_eq!(sample.listen.check.len(), 5);
    assert_eq!(sample.version.as_deref(), Some("off"));
}

#[test]
fn block_scalars_quotes_comments_and_flow_are_read() {
    let text = "# c\n---\nlisten:\n  check: # d\n  - 'it''s'\n  - \"\\u0041\"\nversion: |\n  a\n  b\n\
                clients:\n- {\"a\": 1}.x\n...\n";
    let said = load_text("reading-forms", text, &[]);
    assert!(said.is_err(), "a flow map may not be followed by text");
    let text = text.replace("{\"a\": 1}.x", ">-\n  a\n  b");
    let sample = load_text("reading-forms", text, &[]).unwrap();
    assert_eq!(sample.version.as_deref(), Some("a\nb\n"));
    assert_eq!(sample.clients.unwrap(), ["a b"]);
}

#[test]
fn a_cr_lf_file_with_a_byte_order_mark_is_read() {
    let text = "\u{feff}listen:\r\n  check: [a]\r\nversion: b\r\n";
    let sample = load_text("reading-crlf", text, &[]).unwrap();
    assert_eq!(sample.version.as_deref(), Some("b"));
}
