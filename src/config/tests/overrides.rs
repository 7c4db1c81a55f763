//! `PORTCULLIS__…` variables.

use std::time::Duration;

use super::sample::{Access, Address, Sample, load_text};

const FILE: &str = "
listen: {check: [127.0.0.1:9191], admin: [127.0.0.1:9190]}
strict: false
routes:
  - {name: a, access: public, headers: {X-Kind: a}}
";

fn with(name: &str, variables: &[(&str, &str)]) -> Result<Sample, Vec<String>> {
    load_text(&format!("override-{name}"), FILE, variables)
}

#[test]
fn values_keys_and_elements_are_overridden() {
    let sample = with(
        "values",
        &[
            ("PORTCULLIS__LISTEN__ADMIN", "127.0.0.1:1, 127.0.0.1:2"),
            ("PORTCULLIS__LISTEN__CHECK__0", "unix:/run/check.sock"),
            ("PORTCULLIS__LISTEN__CHECK__1", "{address: '0.0.0.0:9191', plaintext: lab}"),
            ("PORTCULLIS__timeout", "5s"),
            ("PORTCULLIS__STRICT", "true"),
            ("PORTCULLIS__THREADS", "3"),
            ("PORTCULLIS__CLIENTS", "[web, batch]"),
            ("PORTCULLIS__ROUTES__0__ACCESS", "optional"),
            ("PORTCULLIS__ROUTES__1", "{name: b, access: authenticated}"),
            ("PORTCULLIS__ROUTES__0__HEADERS__X-KIND", "b"),
            ("PORTCULLIS__API__URL", "https://api.test"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    let plain = |text: &str| Address::Plain(text.to_owned());
    assert_eq!(sample.listen.admin, [plain("127.0.0.1:1"), plain("127.0.0.1:2")]);
    assert_eq!(sample.listen.check.first(), Some(&plain("unix:/run/check.sock")));
    assert!(
        matches!(&sample.listen.check[1], Address::Full(full) if full.address == "0.0.0.0:9191")
    );
    assert_eq!(sample.timeout.unwrap().0, Duration::from_secs(5));
    assert_eq!(sample.strict, Some(true));
    assert_eq!(sample.threads, Some(3));
    assert_eq!(sample.clients.unwrap(), ["web", "batch"]);
    assert_eq!(sample.routes[0].access, Some(Access::Optional));
    assert_eq!(sample.routes[0].headers.get("X-Kind").map(String::as_str), Some("b"));
    assert_eq!(sample.routes[1].name, "b");
    assert_eq!(sample.api.unwrap().url.as_deref(), Some("https://api.test"));
}

#[test]
fn text_is_taken_as_it_is() {
    let sample = with(
        "text",
        &[
            ("PORTCULLIS__VERSION", "1.40"),
            ("PORTCULLIS__API__KEY", "{not: yaml, *a] # no comment"),
            ("PORTCULLIS__ROUTES__0__NAME", "007"),
            ("PORTCULLIS__LISTEN__CHECK__0", "9191"),
        ],
    )
    .unwrap();
    assert_eq!(sample.version.as_deref(), Some("1.40"));
    assert_eq!(sample.api.unwrap().key.unwrap().expose(), "{not: yaml, *a] # no comment");
    assert_eq!(sample.routes[0].name, "007");
    assert_eq!(sample.listen.check, [Address::Plain("9191".to_owned())]);
}

#[test]
fn a_longer_name_refines_a_shorter_one() {
    let variables = [
        ("PORTCULLIS__API__URL", "https://b.test"),
        ("PORTCULLIS__API", "{url: 'https://a.test', key: k}"),
    ];
    let api = with("refine", &variables).unwrap().api.unwrap();
    assert_eq!(api.url.as_deref(), Some("https://b.test"));
    assert_eq!(api.key.unwrap().expose(), "k");
}

#[test]
fn a_secret_from_the_environment_replaces_the_other_way_to_give_it() {
    let name = "override-twin";
    let text = "listen: {check: [a]}\napi: {key_file: /does/not/exist}\n";
    let sample = load_text(name, text, &[("PORTCULLIS__API__KEY", "k")]).unwrap();
    assert_eq!(sample.api.unwrap().key.unwrap().expose(), "k");
    let text = "listen: {check: [a]}\napi: {key: hunter2}\n";
    let said = load_text(name, text, &[("PORTCULLIS__API__KEY_FILE", "/does/not/exist")]);
    assert!(said.unwrap_err()[0].starts_with(
        "environment PORTCULLIS__API__KEY_FILE: api.key_file: the file \"/does/not/exist\" cannot"
    ));
    let both = [("PORTCULLIS__API__KEY", "k"), ("PORTCULLIS__API__KEY_FILE", "f")];
    let said = load_text(name, text, &both).unwrap_err();
    assert!(said[0].contains("both `key` and `key_file` are given"), "{said:?}");
}

#[test]
fn list_elements_are_added_in_order() {
    let names: Vec<String> = (1..12).map(|i| format!("PORTCULLIS__ROUTES__{i}__NAME")).collect();
    let variables: Vec<(&str, &str)> = names.iter().rev().map(|n| (n.as_str(), "x")).collect();
    assert_eq!(with("order", &variables).unwrap().routes.len(), 12);
}

#[test]
fn what_a_variable_does_wrong_is_said_with_its_name() {
    let cases = [
        (
            ("PORTCULLIS__LISTN__ADMIN", "a"),
            "environment PORTCULLIS__LISTN__ADMIN: no key of the configuration has the name \
             `LISTN` here — did you mean PORTCULLIS__LISTEN__ADMIN?",
        ),
        (
            ("PORTCULLIS__STRICT", "yes"),
            "environment PORTCULLIS__STRICT: strict: \"yes\" is not true or false — write true",
        ),
        (
            ("PORTCULLIS__TIMEOUT", "5"),
            "environment PORTCULLIS__TIMEOUT: timeout: \"5\" is not a duration — write a whole \
             number with a unit: `250ms`, `30s`, `5m`, `24h` or `7d`",
        ),
        (
            ("PORTCULLIS__ROUTES__3__NAME", "x"),
            "environment PORTCULLIS__ROUTES__3__NAME: routes: the list has 1 elements — write a \
             number up to 1, which adds one",
        ),
        (
            ("PORTCULLIS__ROUTES__FIRST__NAME", "x"),
            "environment PORTCULLIS__ROUTES__FIRST__NAME: routes: no key of the configuration has \
             the name `FIRST` here — write the number of a list element, from 0",
        ),
        (
            ("PORTCULLIS__THREADS", ""),
            "environment PORTCULLIS__THREADS: threads: it is empty — unset it, or give it a value",
        ),
        (
            ("PORTCULLIS__ROUTES__0", "{name: a, acess: public}"),
            "environment PORTCULLIS__ROUTES__0: routes[0].acess: unknown key `acess` — did you \
             mean `access`?",
        ),
        (
            ("PORTCULLIS__ROUTES__0", "{name: a, name: b}"),
            "environment PORTCULLIS__ROUTES__0: routes[0]: the key `name` is given twice, first \
             on line 1 — write it once",
        ),
        (
            ("PORTCULLIS__VERSION__MAJOR", "1"),
            "environment PORTCULLIS__VERSION__MAJOR: version: no key of the configuration has the \
             name `MAJOR` here — unset it",
        ),
        (
            ("PORTCULLIS__", "1"),
            "environment PORTCULLIS__: no key of the configuration has the name `` here — unset \
             it; known here: `api`, `cache`, `clients`, `listen`, `routes`, `strict`, `threads`, \
             `timeout`, `version`",
        ),
    ];
    for (variable, expected) in cases {
        let said = with("wrong", &[variable]).err().unwrap_or_default();
        assert_eq!(said, [expected], "{variable:?}");
    }
}

#[test]
fn a05_a_secret_in_the_environment_is_not_shown() {
    let variables = [("PORTCULLIS__API", "{key: {hunter2: hunter2}}")];
    let said = with("secret", &variables).unwrap_err().join("\n");
    assert!(!said.contains("hunter2"), "{said}");
    let environment: crate::config::Environment =
        [("PORTCULLIS__API__KEY".into(), "hunter2".into())].into_iter().collect();
    assert!(!format!("{environment:?}").contains("hunter2"));
}

#[test]
fn one_key_set_by_two_variables_is_refused() {
    let said = with("twice", &[("PORTCULLIS__STRICT", "true"), ("PORTCULLIS__Strict", "false")]);
    assert_eq!(
        said.unwrap_err(),
        ["environment PORTCULLIS__Strict: sets the same key as PORTCULLIS__STRICT — keep one of \
          the two"]
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt;

    use crate::config::document::Document;
    use crate::config::schema::Schema;

    let folder = super::sample::Folder::new("override-utf8");
    let file = folder.write("portcullis.yaml", FILE);
    let value = std::ffi::OsString::from_vec(vec![0xff]);
    let environment = [("PORTCULLIS__VERSION".into(), value)].into_iter().collect();
    let schema = Schema::of::<Sample>().unwrap();
    let document = Document::read(&file, &environment, &schema).unwrap();
    let said = document.report().to_string();
    assert_eq!(said, "environment PORTCULLIS__VERSION: not UTF-8 — write it in UTF-8");
}
